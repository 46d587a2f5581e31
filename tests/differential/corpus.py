"""The objects, the expressions written by hand and the malformed policies of the differential tests."""

import copy
from collections.abc import Iterator
from typing import Any

import yaml

from tests.differential.judging import NAMESPACE, policy

_OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {team: vision, tier: ""}, annotations: {}}
data: {text: abcabc, number: "42", list: "c,a,b", empty: "", quantity: 1Gi, time: "2024-02-29T12:30:00Z", url: "https://a/b"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: abc}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {}}
spec:
  securityContext: {}
  volumes:
    - {name: config, configMap: {name: settings}}
    - {name: scratch, emptyDir: {}}
    - {name: host, hostPath: {path: /data}}
  containers:
    - name: main
      image: registry.example.com/trainer:1.2
      args: []
      ports: [{containerPort: 80}]
      env: [{name: A, value: ""}, {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
      resources: {limits: {cpu: 0.5, memory: 1024Mi, nvidia.com/gpu: 8}}
      readinessProbe: {httpGet: {path: /, port: 80}}
    - {name: side, image: busybox}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "trainer:latest", resources: {requests: {cpu: "1000m"}, limits: {nvidia.com/gpu: "8"}}}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template: {spec: {restartPolicy: OnFailure, containers: [{name: main, image: a@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: []
      containers: [{name: web, image: web, livenessProbe: {tcpSocket: {port: 80}}, securityContext: {}}]
      volumes: [{name: key, secret: {secretName: keys}}, {name: all, projected: {sources: [{serviceAccountToken: {path: t}}]}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {containers: [{name: store, image: "store:1"}]}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {hostNetwork: true, containers: [{name: agent, image: agent, ports: [{containerPort: 9100}]}]}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec: {type: LoadBalancer, selector: {app: web}, sessionAffinity: ClientIP, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: "1073741824"}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: queue}
spec: {clusterQueue: team-a}
"""

OBJECTS: tuple[dict[str, Any], ...] = tuple(
    {**body, "metadata": {**body["metadata"], "namespace": NAMESPACE}}
    for body in yaml.load_all(_OBJECTS, Loader=yaml.CSafeLoader)
)

HOSTILE = r"""
object.metadata.name.split('').map(x, x.size()).sum() == 0
'1,2'.split(',').map(x, uint(x)).sum() == 3u
'1.5,2'.split(',').map(x, dyn(double(x))).sum() == 3.5
quantity('9223372036854775807').isInteger() && !quantity('9223372036854775808').isInteger()
quantity('0.5').isInteger()
quantity('1e3').isInteger() && quantity('1e3').asInteger() == 1000
quantity('1500m').asInteger() == 2
int(' 42 ') == 42
int('+42') == 42
int('1_0') == 10
uint('+1') == 1u
double('1e400') > 1.0
double('nan') == double('nan')
double('0x1p4') == 16.0
bool('yes')
bool('T')
string(1e21) == '1e+21' && string(100000.0) == '100000' && string(1e20) == '1e+20'
string(1.0) == '1' && string(0.1) == '0.1' && string(-0.0) == '-0'
string(bytes('a')) == 'a'
string(b'\xff') == ''
timestamp('2024-02-30T00:00:00Z') > timestamp('2024-01-01T00:00:00Z')
timestamp(object.metadata.name) > timestamp('2024-01-01T00:00:00Z')
timestamp('2024-01-01 00:00:00Z') == timestamp('2024-01-01T00:00:00Z')
timestamp('2024-01-01T00:00:00.123456789Z').getMilliseconds() == 123
timestamp('2024-01-01T00:00:00Z').getHours('Europe/Paris') == 1
timestamp('2024-01-01T00:00:00Z').getHours('-01:30') == 22
timestamp('2024-01-01T00:00:00Z').getHours('Mars/Base') == 1
timestamp('9999-12-31T23:59:59Z') + duration('1s') > timestamp('2024-01-01T00:00:00Z')
timestamp('2024-01-01T00:00:00Z') - timestamp('0001-01-01T00:00:00Z') > duration('1h')
duration('2562048h') > duration('1h')
duration('1d') == duration('24h')
duration('') == duration('0')
duration('.5s') == duration('500ms') && duration('1h1m1s1ms1us1ns') > duration('1h')
string(duration('90m')) == '5400s'
duration('1h').getMinutes() == 60 && duration('-1.5s').getSeconds() == -1
9223372036854775807 + 1 > 0
-9223372036854775808 / -1 > 0
-(-9223372036854775808) > 0
9223372036854775807 * 2 > 0
5 % 0 == 1
-7 / 2 == -3 && -7 % 2 == -1
1.0 / 0.0 > 1.0
0u - 1u == 0u
18446744073709551615u + 1u == 0u
'abc'.matches('\\C')
object.metadata.name.matches('\\C')
object.metadata.name.matches('(')
'abc'.matches('(')
'a\nb'.matches('^a.b$')
'abc'.matches('(?i)ABC') && 'abc'.matches('[[:alpha:]]+') && 'abc'.matches(r'\pL+')
'aaa'.find('a{1001}') == ''
'abc'.findAll('x*').size() == 4
'abc'.find('(') == ''
'abcabc'.lastIndexOf('') == 6
'abcabc'.lastIndexOf('c', 4) == 2
'abc'.lastIndexOf('c', 3) == -1
'abc'.indexOf('', 2) == 2 && 'abc'.indexOf('c', 5) == -1
'abc'.indexOf('c', -1) == -1
'abc'.charAt(3) == ''
'abc'.charAt(4) == ''
'abc'.substring(2, 1) == ''
'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c'] && ''.split(',') == ['']
'a,b'.split(',', 0).size() == 0
'aaa'.replace('a', 'b', 2) == 'bba' && 'abc'.replace('', '-') == '-a-b-c-'
['a', 'b'].join() == 'ab'
[dyn('a'), dyn(1)].join(',') == 'a,1'
'%s'.format([1, 'a']) == '1'
'%d'.format(['a']) == 'a'
'%d'.format([dyn('a')]) == 'a'
'%s %s'.format(['a']) == 'a'
'%5d'.format([1]) == '1'
'%.2f'.format([1234.567]) == '1,234.57' && '%e'.format([1052.032911275]).size() > 0
'%x %X %o %b'.format([255, 'a', 8, true]) == 'ff 61 10 1'
'%s'.format([{'b': 1, 'a': [1.5, null]}]) == '{"a":[1.500000, null], "b":1}'
'%s'.format([duration('1h')]) == '3600s' && '%s'.format([timestamp('2024-01-01T00:00:00Z')]) == '2024-01-01T00:00:00Z'
strings.quote('a"b\tc') == '"a\\"b\\tc"'
isURL('https://a:99999/') && isURL('http://') && isURL('a:b') && isURL('/')
isURL('https://exa mple/') || isURL('https://a/%zz') || isURL('//host/p') || isURL('')
url('https://a/b?x=1;y=2').getQuery().size() == 0
url('https://[fe80::1%25eth0]:80/').getHostname() == 'fe80::1%eth0'
url('https://[fe80::1%25eth0]:80/').getHost() == '[fe80::1%eth0]:80' && url('https://[fe80::1%25eth0]:80/').getPort() == '80'
google.protobuf.Timestamp{seconds: 1} == timestamp('1970-01-01T00:00:01Z') && google.protobuf.Duration{} == duration('0s')
google.protobuf.Duration{seconds: 1, nanos: 500000000} == duration('1500ms') && google.protobuf.Duration{seconds: -1} < duration('0s')
google.protobuf.Duration{hours: 1} == duration('1h')
google.protobuf.Duration{seconds: 'a'} == duration('1h')
google.protobuf.Timestamp{seconds: 999999999999} > timestamp('1970-01-01T00:00:01Z')
isURL('https://[fe80::1%eth0]/') || isURL('https://[fe80::1%25]/') || isURL('https://[1.2.3.4]/') || isURL('https://[::1]a/')
isURL('https://[fe80::1%25a%20b]/') && isURL('https://[fe80::1%25a%25b]/') && isURL('https://[::ffff:1.2.3.4]/')
isURL('https://[fe80::1%25a/b]/') || isURL('https://[fe80::1%25a%2Fb]/') || isURL('https://[fe80::1%25%41]:x/')
isURL('https://a%41/') || isURL('https://a%zz/') || isURL('https://[::1%41]/')
url('https://a%C3%A9%25:80/').getHostname() == 'a\u00e9%' && url('https://a%C3%A9/').getHost() == 'a\u00e9'
isIP('1.2.3') || isIP('::ffff:1.2.3.4') || isIP('fe80::1%eth0') || isIP('01.2.3.4')
cidr('10.0.0.0/8').containsIP('x')
isCIDR('10.0.0.0/08') || isCIDR('10.0.0.0/+8') || isCIDR('10.0.0.0/33')
ip.isCanonical('x')
semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('1.2.3+b').compareTo(semver('1.2.3')) == 0
semver('1.2') == semver('1.2.0')
isSemver('01.2.3') || isSemver('1.2.3-01') || isSemver('1.2.3-')
isSemver('v1.2', true) && semver('1', true).minor() == 0
[1, 'a'].size() == 2
[1, 2.0].size() == 2
[dyn(1), 2].size() == 2
[1, null].size() == 2
{'a': 1, 'b': 'x'}.size() == 2
{'a': dyn(1), 'b': dyn('x')}.size() == 2
{1: 'a', 1: 'b'}.size() == 1
{1.5: 'a'}.size() == 1
[[], [1]].size() == 2 && [[1], ['a']].size() == 2
[object.metadata, {}].size() == 2
true ? 1 : 'a'
(true ? dyn(1) : dyn('a')) == 1
1 == '1'
dyn(1) == '1'
dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) in [1.0]
null == object.metadata.name
object.metadata == null
type(object.metadata.name) == string && type(object.metadata) == map && type(1u) == uint && type(null) == null_type
type(type(1)) == type
object.metadata.name == 1
object.metadata.name < 1
object.metadata.name && true
!object.metadata.name
object.nothing || true
object.nothing && false
object.nothing && true
false || object.nothing
has(object.nothing.at)
has(object.metadata.name.x)
has(object['metadata'].name)
has(dyn([1]).x)
dyn([1]).?x.hasValue()
dyn([1])[?'x'].hasValue()
dyn('abc')[?'x'].hasValue() || dyn(1)[?0].hasValue() || dyn('abc').?x.hasValue() || has(dyn('abc').x)
optional.of(dyn([1])).x.hasValue()
has(object)
has(object.metadata)
object.metadata.?nothing.?at.orValue('x') == 'x'
object.?metadata.name.orValue('') != ''
object.?nothing.name.orValue('') == ''
object.metadata.name.?x.hasValue()
oldObject.?x.hasValue()
oldObject.x == 1
has(oldObject.x)
oldObject == null
optional.of(1) == optional.of(1) && optional.none() == optional.none() && optional.of(1) != optional.none()
optional.of(optional.of(1)).value().value() == 1
optional.none().value() == 1
optional.ofNonZeroValue(0).hasValue() || optional.ofNonZeroValue([]).hasValue()
[optional.of(1)].size() == 1
[?optional.of(1), ?optional.none()].size() == 1
[?1].size() == 1
optional.of([1])[?0].value() == 1 && optional.of({'a': 1}).a.value() == 1
optional.of(1).optMap(x, x + 1).value() == 2 && optional.of(1).optFlatMap(x, optional.of(x)).value() == 1
optional.of(1).optFlatMap(x, x) == 1
{?'a': optional.none()}.size() == 0
[1, 2, 3].transformMap(i, v, v * 2)[1] == 4 && {'a': 1}.transformMapEntry(k, v, {v: k})[1] == 'a'
[1, 1].transformMapEntry(i, v, {v: i}).size() == 1
{'a': 1}.transformList(k, v, k + string(v)) == ['a1']
[1, 2].all(i, i, true)
[1, 2].all(x.y, true)
[1].exists(x, y, z, true)
[1, 2].map(x, x > 1, x * 2) == [4] && [1, 2].existsOne(x, x == 1) && [1, 2].exists_one(x, x > 0) == false
'abc'.map(c, c).size() == 3
dyn('abc').map(c, c).size() == 3
1.map(x, x).size() == 0
[3, 1, 2].sort() == [1, 2, 3] && [dyn(1), dyn('a')].sort().size() == 2
[{'a': 2}, {'a': 1}].sortBy(x, x.a)[0].a == 1
[[1], [2]].sort().size() == 2
[1, [2]].flatten().size() == 2
[[1, [2]]].flatten(2).size() == 2
[[1], [2]].flatten() == [1, 2] && [[[1]]].flatten(2) == [dyn(1)]
[1, 2, 3].slice(1, 5).size() == 2
lists.range(-1).size() == 0
lists.range(100000).size() == 100000
lists.range(20000).all(x, x >= 0)
lists.range(90000).all(x, x >= 0)
lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))
lists.range(10).map(a, lists.range(10).map(b, a * b).sum()).sum() == 2025
lists.range(300).all(a, lists.range(300).exists(b, a == b))
[].sum() == 0
[].map(x, double(x)).sum() == 0.0
[].max() == 1
[dyn(1), dyn('a')].min() == 1 && [dyn('a'), dyn(1)].max() == 'a' && [dyn(1), dyn('a'), dyn(0)].min() == 0
[dyn(1), dyn('a')].isSorted() && ![dyn(3), dyn('a'), dyn(4), dyn(1)].isSorted() && ![dyn(3), dyn(1), dyn([2])].isSorted()
[dyn(1), dyn([2])].min() == 1
[dyn([1])].isSorted()
[dyn({}), dyn(1)].max() == 1
[0.0 / 0.0, 1.0].min() == 1.0
[1.0, 0.0 / 0.0].min() == 1.0
[1.0, 0.0 / 0.0].max() == 1.0
0.0 / 0.0 == 1.0
[0.0 / 0.0, 1.0].isSorted()
[1.0, 0.0 / 0.0].isSorted()
[0.0 / 0.0].min() > 0.0
['a', 'b'].max() == 'b' && [true, false].min() == false
[1, 2].indexOf(1.0) == 0
[1, 2].reverse() == [2, 1] && [1, 1.0].size() == 2
[dyn(1), dyn(1.0), dyn(1u)].distinct().size() == 1
sets.contains([1, 2], [1]) && sets.equivalent([], []) && !sets.intersects([], [1])
sets.contains([1], ['a'])
math.abs(-1) == 1
cel.bind(a, 1, a) == 1
base64.encode(b'a') == 'YQ=='
'abc'.reverse() == 'cba'
size(object.metadata.name) > 0 && object.metadata.name.size() > 0
size(1) == 1
object.metadata.labels.size() >= 0
object.metadata.annotations.size() == 0
object.spec.replicas == 1
object.kind in ['Pod', 'Job'] || object.kind.startsWith('C')
object.apiVersion.contains('/') || object.apiVersion == 'v1'
'name' in object.metadata && !('x' in object.metadata)
'a' in 'abc'
1 in {1: 2} && 1.0 in {1: 2} && !(2 in {1: 2})
object.metadata['name'] == object.metadata.name && object['kind'] == object.kind
object.metadata[0] == 1
[1, 2][1u] == 2
dyn([1, 2])[dyn(1u)] == 2 && dyn([1, 2])[dyn(1.0)] == 2
[1, 2][2] == 1
[1, 2][-1] == 1
request.operation == 'CREATE' && request.kind.kind == object.kind && request.name == object.metadata.name
request.nothing == 'x'
request.namespace == object.metadata.namespace && request.resource.resource.size() > 1
request.resource.resource == request.requestResource.resource && request.kind.version == request.requestKind.version
has(request.subResource)
request.dryRun == true || request.dryRun == false
namespaceObject.metadata.name == object.metadata.namespace
namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == object.metadata.namespace
namespaceObject.metadata.uid == ''
has(namespaceObject.metadata.annotations)
namespaceObject.status.phase == 'Active'
params == null
variables.x == 1
namespace == 'x'
package == 1
object.metadata.namespace != ''
object.metadata.package == 'x'
object.as == 1
object.in == 1
object.metadata.`name` == 'x'
true && (false || !true) || 1 < 2 && 2.5 >= 2 && 1u < 2
1 < 2 < 3
1 = 1
'a' 'b' == 'ab'
"\u00e9" == 'é' && '\x41' == 'A' && '\101' == 'A' && r'\d' == '\\d'
'\d' == 'd'
'\ud800' == ''
b'\u00e9' == b'x'
0x == 0
1.e3 == 1000.0
1e3 == 1000.0 && .5 == 0.5 && 0xff == 255
9223372036854775808 > 0
-9223372036854775808 < 0 && - 1 < 0 && --1 == 1 && !!true
18446744073709551616u > 0u
1e400 > 0.0
[1, 2,].size() == 2 && {'a': 1,}.size() == 1
[,].size() == 0
size([1], [2]) == 1
size() == 0
unknown(1) == 1
object.unknown() == 1
int{} == 0
Object{spec: 1} == 1
google.protobuf.Timestamp == type(timestamp('2024-01-01T00:00:00Z'))
google.protobuf.Duration{seconds: 1} == duration('1s')
__result__ == 1
[1].map(__result__, 1).size() == 1
[1, 2].map(object, object * 2) == [2, 4]
[1].map(size, size(size)) == [1]
[object].map(o, o.metadata.name).size() == 1
.object.kind == object.kind
format.named('uuid').value().validate('x').hasValue() && !format.named('x').hasValue()
format.dns1123Label().validate('A').value().size() > 0 && !format.uri().validate('https://a').hasValue()
format.datetime().validate('2024-01-01T00:00:00Z').hasValue() || format.date().validate('2024-13-01').hasValue()
format.byte().validate('YQ').hasValue() || format.labelValue().validate('').hasValue()
format.qualifiedName().validate('a/b/c').hasValue() && format.uuid().validate('x').hasValue()
format.nothing().validate('x').hasValue()
""".strip().splitlines()
"""Expressions that engines disagree on."""


def malformed() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield policies that break one rule of an API server, or just keep it, with what was changed."""
    changes: list[tuple[str, Any]] = [
        ("metadata.name", "Upper"),
        ("metadata.name", "a_b"),
        ("metadata.name", "a" * 254),
        ("metadata.name", "a.b-c"),
        *((f"spec.{field}", value) for field, value in _SPEC_CHANGES),
        *((f"spec.matchConstraints.resourceRules.0.{field}", value) for field, value in _RULE_CHANGES),
        *((f"spec.matchConstraints.{field}", value) for field, value in _MATCH_CHANGES),
        *((f"spec.validations.0.{field}", value) for field, value in _VALIDATION_CHANGES),
    ]
    for path, value in changes:
        body = copy.deepcopy(policy("malformed", ["true"]))
        node: Any = body
        *parents, last = path.split(".")
        for part in parents:
            node = node[int(part)] if part.isdigit() else node[part]
        node[last] = value
        yield f"{path}={str(value)[:60]}", body


def _named(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "expression": "true"} for name in names]


_RESERVED = ("true", "null", "in", "as", "namespace", "loop", "while", "a-b", "1a", "a.b", "", "_", "a", "é", "type")
_SPEC_CHANGES: list[tuple[str, Any]] = [
    ("failurePolicy", "Maybe"),
    ("failurePolicy", "Ignore"),
    ("failurePolicy", None),
    ("validations", []),
    ("validations", [{"expression": "true"}] * 100),
    ("auditAnnotations", [{"key": f"k{n}", "valueExpression": "'x'"} for n in range(20)]),
    ("auditAnnotations", [{"key": f"k{n}", "valueExpression": "'x'"} for n in range(21)]),
    ("auditAnnotations", [{"key": "k", "valueExpression": "'x'"}] * 2),
    *(
        ("auditAnnotations", [{"key": key, "valueExpression": "'x'"}])
        for key in ("", "a b", "a/b", "-a", "a" * 64, "A.b")
    ),
    ("auditAnnotations", [{"key": "k", "valueExpression": "'" + "x" * 5000 + "'"}]),
    ("auditAnnotations", [{"key": "k", "valueExpression": "'" + "x" * 5200 + "'"}]),
    ("auditAnnotations", [{"key": "k", "valueExpression": "1"}]),
    ("auditAnnotations", [{"key": "k", "valueExpression": "object.metadata.name"}]),
    ("auditAnnotations", [{"key": "k", "valueExpression": "null"}]),
    ("matchConditions", _named(*(f"c{n}" for n in range(64)))),
    ("matchConditions", _named(*(f"c{n}" for n in range(65)))),
    ("matchConditions", _named("c", "c")),
    *(("matchConditions", _named(name)) for name in ("", "a b", "example.com/a", "a/b/c", "-a", "A_b.c")),
    ("matchConditions", [{"name": "c", "expression": "  "}]),
    ("matchConditions", [{"name": "c", "expression": "object.kind"}]),
    ("matchConditions", [{"name": "c", "expression": "variables.a"}]),
    ("matchConditions", [{"name": "c", "expression": "params == null"}]),
    *(("variables", _named(name)) for name in _RESERVED),
    ("variables", _named("a", "a")),
    ("variables", [{"name": "a", "expression": ""}]),
    ("variables", [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]),
    ("variables", [{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.a + 1"}]),
    ("variables", [{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.a + 'x'"}]),
    (
        "variables",
        [{"name": "a", "expression": "optional.of(1)"}, {"name": "b", "expression": "variables.a.value() + 1"}],
    ),
    (
        "variables",
        [
            {"name": "a", "expression": "timestamp('2024-01-01T00:00:00Z')"},
            {"name": "b", "expression": "variables.a + 1"},
        ],
    ),
    *(
        ("paramKind", {"apiVersion": version, "kind": "ConfigMap"})
        for version in ("v1", "", "a/b/c", "A/v1", "g/V1", "g/", "example.com/v1")
    ),
    *(("paramKind", {"apiVersion": "v1", "kind": kind}) for kind in ("", "configMap", "1a", "a_b", "A-b")),
    ("unknown", 1),
]
_RULE_CHANGES: list[tuple[str, Any]] = [
    *(("apiGroups", value) for value in ([], ["*", "apps"], [""], ["apps", "apps"], ["A_b"])),
    *(("apiVersions", value) for value in ([], ["*", "v1"], [""], ["v1", ""])),
    *(("operations", value) for value in ([], ["*", "CREATE"], ["create"], ["CONNECT", "DELETE"], ["CREATE", "CREATE"])),
    *(("resources", value) for value in ([], ["*", "pods"], ["pods", "*"], ["*", "pods/status"], ["*/*", "pods"], ["pods/*", "pods/log"],
                                         ["*/scale", "deployments/scale"], [""], ["pods", "pods"], ["a/b/c"])),
    *(("scope", value) for value in ("Cluster", "namespaced", "", None)),
    *(("resourceNames", value) for value in (["a", "a"], ["a/b"], ["."], ["a%b"], ["ok"], [""])),
]  # fmt: skip
_MATCH_CHANGES: list[tuple[str, Any]] = [
    ("resourceRules", []),
    ("matchPolicy", "Strict"),
    ("matchPolicy", "Exact"),
    ("namespaceSelector", {"matchLabels": {"a b": "c"}}),
    ("namespaceSelector", {"matchLabels": {"a": "b c"}}),
    ("objectSelector", {"matchExpressions": [{"key": "a", "operator": "In"}]}),
    ("objectSelector", {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
    ("objectSelector", {"matchExpressions": [{"key": "", "operator": "Exists"}]}),
    ("objectSelector", {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b c"]}]}),
    ("objectSelector", {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}),
    ("excludeResourceRules", [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": []}]),
]
_VALIDATION_CHANGES: list[tuple[str, Any]] = [
    ("expression", ""),
    ("expression", "  "),
    ("message", " "),
    ("message", "a\nb"),
    ("message", "a\n"),
    ("messageExpression", " "),
    ("messageExpression", "'a' + object.metadata.name"),
    ("messageExpression", "object.metadata.name"),
    ("messageExpression", "1"),
    ("messageExpression", "authorizer.path('/').check('get').reason()"),
    *(("reason", value) for value in ("Forbidden", "Invalid", "NotFound", "Unauthorized", "RequestEntityTooLarge")),
    ("expression", "authorizer.requestResource.check('get').allowed()"),
    ("expression", "(" * 240 + "true" + ")" * 240),
    ("expression", "(" * 260 + "true" + ")" * 260),
    ("expression", "&&".join(["true"] * 2000)),
    ("expression", "+".join(["1"] * 240) + " > 0"),
    ("expression", "+".join(["1"] * 270) + " > 0"),
    ("expression", "'" + "x" * 100_100 + "' != ''"),
]

"""The objects, the expressions written by hand and the malformed policies of the differential tests."""

import copy
from collections.abc import Iterator
from pathlib import Path
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

_TEXT = (Path(__file__).parent / "hostile.cel").read_text(encoding="utf-8")
HOSTILE = [line for line in _TEXT.split("\n") if line and not line.startswith("//")]
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

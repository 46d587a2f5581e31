"""Expressions with what an API server of Kubernetes 1.37 makes of them: `test_cel_server.py` asks a real one."""

OBJECT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "probe", "namespace": "cel-cases", "labels": {"team": "vision", "tier": ""}},
    "data": {"text": "abcabc", "number": "42", "list": "c,a,b", "empty": ""},
}

TRUE = """\
object.kind == 'ConfigMap' && object.metadata.name == "probe"
has(object.data) && !has(object.data.nothing)
object.?data.?nothing.orValue('none') == 'none'
object.metadata.labels[?'team'].orValue('') == 'vision'
object.metadata.?labels['team'].hasValue()
!has(dyn('abc').x) && !dyn('abc')[?'x'].hasValue() && !dyn('abc').?x.hasValue() && !dyn(1)[?0].hasValue()
'team' in object.metadata.labels && !('x' in object.metadata.labels)
object.data.list.split(',').size() == 3
object.data.list.split(',').map(x, x.upperAscii()).join('-') == 'C-A-B'
object.data.list.split(',').exists_one(x, x == 'a')
object.data.list.split(',').filter(x, x > 'a').size() == 2
[object.data.text].all(t, ['x', 'b'].exists(p, t.contains(p)) && ![].exists(p, t.contains(p)) && {'b': 1}.exists(p, t.contains(p)))
['abc'].all(t, !['x', 'y'].exists(p, t.contains(p)) && [dyn(1), dyn('b')].exists(p, t.contains(p)))
object.data.text.indexOf('c') == 2 && object.data.text.lastIndexOf('c') == 5
object.data.text.indexOf('c', 3) == 5
object.data.text.substring(1, 3) == 'bc' && object.data.text.charAt(0) == 'a'
object.data.text.replace('b', '') == 'acac' && '  x '.trim() == 'x'
'%s has %d of %.1f'.format(['a', 2, 3.0]) == 'a has 2 of 3.0'
strings.quote('a"b') == '"a\\\\"b"'
int(object.data.number) + 1 == 43 && double(object.data.number) == 42.0
1 < 2.5 && 2.5 > 1 && 1u <= 2 && 3.0 >= 3u
dyn(1) != dyn('1') && type(object.data.text) == string
quantity('1Gi') == quantity('1024Mi') && quantity('0.5') == quantity('500m')
quantity('1Gi').isLessThan(quantity('2Gi')) && quantity('2Gi').isGreaterThan(quantity('1Gi'))
quantity('1').compareTo(quantity('2')) == -1 && quantity('1').compareTo(quantity('1000m')) == 0
quantity('50k').isInteger() && quantity('50k').asInteger() == 50000
quantity('9999999999999999999G').isInteger() == false
quantity('1').add(2) == quantity('3') && quantity('1').sub(quantity('250m')) == quantity('750m')
sign(quantity('-1')) == -1 && sign(quantity('0')) == 0 && quantity('1.5').asApproximateFloat() == 1.5
isQuantity('1Gi') && !isQuantity('1 Gi') && !isQuantity('1GiB') && !isQuantity('')
ip('10.0.0.1').family() == 4 && ip('::1').family() == 6 && isIP('fe80::1') && !isIP('10.0.0.256')
!isIP('10.0.0.01') && !isIP('fe80::1%eth0') && !isIP('::ffff:10.0.0.1')
string(ip('2001:DB8::0:1')) == '2001:db8::1' && ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')
ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast()
ip('169.254.0.1').isLinkLocalUnicast() && ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()
ip('::1') == ip('0:0:0:0:0:0:0:1')
cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))
cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')
cidr('::/0').prefixLength() == 0 && isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33')
string(cidr('10.1.2.3/8')) == '10.1.2.3/8'
url('https://u:p@example.com:8443/a/b?x=1&x=2&y=%20#f').getScheme() == 'https'
url('https://u:p@example.com:8443/a/b').getHost() == 'example.com:8443'
url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'
url('https://[fe80::1%25eth0]:80/').getHostname() == 'fe80::1%eth0' && !isURL('https://[fe80::1%eth0]/') && !isURL('https://a%41/')
url('https://example.com/a b/').getEscapedPath() == '/a%20b/'
url('https://e.com/?x=1&x=2&y=%20').getQuery() == {'x': ['1', '2'], 'y': [' ']}
url('/only/a/path').getScheme() == '' && isURL('/path') && !isURL('path') && !isURL('../up') && !isURL('https://a b/')
isURL('mailto:a@example.com') && !isURL('://x') && !isURL('https://a:b/')
object.data.text.find('b.') == 'bc' && object.data.text.find('x') == ''
object.data.text.findAll('a(b)c') == ['abc', 'abc'] && object.data.text.findAll('[a-b]', 3) == ['a', 'b', 'a']
'1(2)'.find('[(](?P<n>[0-9])[)]') == '(2)' && 'a]b'.find('[]]b') == ']b' && 'x(y'.find('\\\\(y') == '(y'
object.data.text.matches('^(abc)+$') && !object.data.text.matches('^b')
[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [].map(x, int(x)).isSorted()
[dyn(1), dyn('a')].min() == 1 && [dyn('a'), dyn(1)].max() == 'a' && [dyn(1), dyn('a')].isSorted()
[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0 && [].map(x, int(x)).sum() == 0 && [7].sum() == 7
[[1, 2].sum(), [3].sum()].sum() == 6 && ['b', 'a'].min() == 'a' && [1, 3, 2].max() == 3
[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && ['a'].indexOf('z') == -1
[3, 1, 2].sort() == [1, 2, 3] && [1, 1, 2].distinct() == [1, 2] && [[1], [2, 3]].flatten() == [1, 2, 3]
[1, 2, 3].slice(1, 3) == [2, 3] && lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1]
[{'n': 2}, {'n': 1}].sortBy(x, x.n)[0].n == 1 && [1, 2].first().value() == 1 && [1, 2].last().value() == 2
sets.contains([1, 2, 3], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])
semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))
semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.0.0').compareTo(semver('1.0.0')) == 0
semver('v1.2', true) == semver('1.2.0') && semver('01.02', true).minor() == 2 && semver('1.2.3').patch() == 3
isSemver('1.2.3-a+b') && !isSemver('v1.2.3') && !isSemver('1.2') && isSemver('v1', true) && !isSemver('01.2.3')
!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('ABC').hasValue()
format.dns1123Subdomain().validate('a.b').orValue([]).size() == 0
format.named('labelValue').hasValue() && !format.named('nothing').hasValue()
!format.qualifiedName().validate('example.com/name').hasValue() && format.qualifiedName().validate('/x').hasValue()
!format.date().validate('2024-02-29').hasValue() && format.date().validate('2023-02-29').hasValue()
!format.datetime().validate('2024-01-01T00:00:00Z').hasValue() && format.datetime().validate('2024-01-01').hasValue()
!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue() && format.uuid().validate('x').hasValue()
!format.byte().validate('YWJj').hasValue() && !format.uri().validate('https://a/b').hasValue()
!format.dns1123LabelPrefix().validate('abc-').hasValue() && format.dns1123Label().validate('abc-').hasValue()
duration('1h') < duration('61m') && duration('90s').getMinutes() == 1
timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')
timestamp('2024-03-05T06:07:08Z').getFullYear() == 2024 && timestamp('2024-03-05T06:07:08Z').getMonth() == 2
optional.of(1).optMap(x, x + 1).value() == 2 && optional.none().orValue(3) == 3 && optional.of(1).or(optional.of(2)).value() == 1
optional.ofNonZeroValue('').hasValue() == false && [?object.data.?nothing].size() == 0
{?'a': object.data.?text} == {'a': 'abcabc'} && {'a': 1}.all(k, v, v == 1) && [5].all(i, v, i == 0 && v == 5)
{'a': 1, 'b': 2}.transformList(k, v, v).sum() == 3 && [1, 2].exists(i, v, i == 1 && v == 2)
'a' + 'b' == 'ab' && [1] + [2] == [1, 2] && size('abc') == 3 && b'a' != b'b'
request.operation == 'CREATE' && request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'
request.name == 'probe' && request.namespace == 'cel-cases' && !has(request.subResource)
oldObject == null && namespaceObject.metadata.name == 'cel-cases'
namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'cel-cases'
!(object.nothing.at in []) && dyn(1) in [1.0, 2.0] && !(dyn([1]) in ['a'])
has(has(object.metadata)) && {,}.size() == 0 && [,].size() == 0
[1].all(object, object == 1 && .object.kind == 'ConfigMap') && .lists.range(2).size() == 2
matches('a', 'a') && !matches(object.kind, '^b')
optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.none(), optional.of(2)].unwrapOpt() == [2]
optional.of(1).optMap(__result__, __result__ + 1).value() == 2 && dyn(optional.of(1)).orValue(2) == 1
(true ? optional.of(optional.none()) : optional.none()).value() == optional.none()
optional.of(1).optMap(x, optional.none()).value() != null && optional.of(optional.none()).value() != null
optional.of(1).optFlatMap(x, optional.of(optional.of(x))).value().value() == 1
type(ip('10.0.0.1')) == net.IP && type(cidr('10.0.0.0/8')) == net.CIDR
semver('18446744073709551615.0.0').major() == -1 && !isSemver('18446744073709551616.0.0')
!isURL('https://u[@a') && !isURL('https://u%zz@a') && isURL('https://u:p@a<b')
format.dns1123LabelPrefix().validate('-').hasValue() && format.byte().validate('').hasValue()
'%e'.format(['NaN']) == '   NaN' && '%f'.format(['NaN']) == 'NaN'
isQuantity('Ki') && quantity('.') == quantity('0') && !isQuantity('')
true || object.nothing.at.all == 1
.5 + 1.5 == 2.0 && 0x1F == 31 && 1e3 == 1000.0 && -1 < 0 // a comment
object.data.empty.size() == 0 ? true : object.data.nothing == 'x'""".splitlines()

REFUSED = """\
object.kind ==
object.kind = 'x'
nothing.kind == 'x'
variables.nothing == 1
params.data == {}
object.kind.reverseAll() == 'x'
'abc'.reverse() == 'cba'
math.greatest(1, 2) == 2
cel.bind(x, 1, x) == 1
base64.encode(b'a') == 'YQ=='
regex.extract('a', 'a').hasValue()
quantity('1') + quantity('2') == quantity('3')
quantity('1') == 1
quantity('1').isLessThan('2')
'1' == 1
1 + '1' == 2
1 == 1.0
ip('10.0.0.1').nothing()
object.kind
'text'
1
object.metadata.name ? true : 'no'
[1, 2].sum('x') == 3
int(dyn('x')) == 1
int(null) == 0
string(dyn([1])) == '[1]'
'a'.matches(string('('))
matches(object.kind, '(')
'a'.find(dyn('(')) == ''
object.metadata[null] == 1
object[dyn(b'a')] == 1
'%.999999999999999999999f'.format([1.0]) == '1'
{'b': 1}.sortBy(k, k) == ['b']
(true ? {'b': 1} : {}).sortBy(k, k) == ['b']
--9223372036854775808 == 1
[1].all(x, .x == 1)
[1].all(.x, x == 1)
"unclosed""".splitlines()
"""Expressions that an API server refuses as a validation, by syntax, names or types."""

NESTED = (
    ("(", ")", 248),
    ("(1 + ", ")", 124),
    ("1 + 1 * (", ")", 82),
    ("(", " + 1)", 247),
    ("([", "][0])", 124),
    ("({'a': ", "}.a)", 124),
    ("false ? 0 : ", "", 248),
)
"""What is put around `1` how often at most, within `dyn() != 0`."""

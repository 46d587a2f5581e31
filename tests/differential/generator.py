"""Generated CEL expressions: calls of every function that is declared, with right and wrong arguments."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kube.cel.library import OVERLOADS, Signature
from reconciler.kube.cel.types import BOOL, CelType, type_of

_LITERALS: dict[str, tuple[str, ...]] = {
    "bool": ("true", "false"),
    "int": ("0", "1", "-1", "7", "42", "0x1F", "9223372036854775807", "-9223372036854775808", "9223372036854775808"),
    "uint": ("0u", "1u", "42u", "18446744073709551615u", "0xFFu"),
    "double": ("0.0", "-0.5", "1.5", ".5", "1e3", "1e308", "1e400", "-2.25e-3"),
    "string": ("''", "'a'", "'abc'", "'42'", "' 42 '", "'-7'", "'1.5'", "'true'", "'x,y,z'", "'ABC é'", '"q\\"t"',
               "r'\\d+'", "'a.b-c'", "'1Gi'", "'500m'", "'1.2.3'", "'v1.2'", "'10.0.0.1'", "'10.0.0.0/8'", "'::1'",
               "'https://a.example:80/p?q=1#f'", "'/path'", "'1h30m'", "'2024-02-29T12:30:00Z'", "'[a-c]+'", "'('",
               "'\\\\C'", "'x*'", "'%s'", "'%d of %.2f'", "'Europe/Paris'", "'UTC'", "'+01:30'", "'dns1123Label'",
               "'1e3'", "'0x10'", "'+5'", "'1_000'"),
    "bytes": ("b''", "b'abc'", "b'\\xff'"),
    "null_type": ("null",),
    "duration": ("duration('1h')", "duration('-90s')", "duration('1.5ms')", "duration('2562047h')", "duration('x')"),
    "timestamp": ("timestamp('2024-02-29T12:30:00Z')", "timestamp('1999-12-31T23:59:59.999999999+02:00')",
                  "timestamp('0001-01-01T00:00:00Z')", "timestamp(0)", "timestamp('2023-02-29T00:00:00Z')"),
    "quantity": ("quantity('1Gi')", "quantity('500m')", "quantity('8')", "quantity('9223372036854775808')"),
    "ip": ("ip('10.0.0.1')", "ip('2001:db8::1')", "ip('127.0.0.1')"),
    "cidr": ("cidr('10.1.2.3/8')", "cidr('::/0')"),
    "url": ("url('https://a.example:8443/p/q?x=1&x=2')", "url('/only/path')"),
    "semver": ("semver('1.2.3')", "semver('1.0.0-rc.1')", "semver('v1', true)"),
    "format": ("format.dns1123Label()", "format.uuid()", "format.date()"),
}  # fmt: skip
_PLAIN = tuple(type_of(name) for name in ("int", "string", "bool", "double", "uint"))
_LIVE = {"authorizer", "path-check", "group-check", "resource-check", "decision"}
_OPERATORS = {"_?_:_": "({0} ? {1} : {2})", "_[_]": "{0}[{1}]", "_[?_]": "{0}[?{1}]", "!_": "!{0}", "-_": "-({0})"}
_FOLDS = ("{0}.all(x, {1})", "{0}.exists(x, {1})", "{0}.exists_one(x, {1})", "{0}.map(x, {2}).size() > 1",
          "{0}.filter(x, {1}).size() > 0", "{0}.all(i, x, {1})", "{0}.transformList(i, x, {2}).size() == 3",
          "{0}.map(x, {1}, {2}).size() >= 0", "{0}.sortBy(x, {2}).size() >= 0",
          "{0}.transformMap(i, x, {2}).size() >= 0")  # fmt: skip


class Expressions:
    """Expressions about an object, from a seed."""

    def __init__(self, seed: int, body: Mapping[str, Any]) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._paths = list(paths(body))
        self._by_result: dict[str, list[Signature]] = {}
        for signatures in OVERLOADS.values():
            for one in signatures:
                kinds = {kind.name for kind in (*one.parameters, one.returns)}
                if not kinds & _LIVE and not one.name.startswith("@sort"):
                    self._by_result.setdefault(one.returns.name, []).append(one)

    def one(self) -> str:
        """Return an expression, most often of type bool."""
        return self._value(BOOL, self._random.choice((1, 2, 2, 3)))

    def _value(self, kind: CelType, depth: int) -> str:
        chance = self._random.random()
        if chance < 0.015:
            kind = self._random.choice(_PLAIN)
        if depth <= 0 or chance > 0.9:
            return self._leaf(kind)
        if kind == BOOL and chance < 0.15:
            return self._fold(depth - 1)
        found = [*self._by_result.get(kind.name, ()), *(self._by_result["$A"] if kind.name != "dyn" else ())]
        if not found:
            return self._leaf(kind)
        return self._call(self._random.choice(found), kind, depth - 1)

    def _call(self, signature: Signature, kind: CelType, depth: int) -> str:
        known = {f"${letter}": self._random.choice(_PLAIN) for letter in "ABKV"}
        if signature.returns.is_variable:
            known[signature.returns.name] = kind
        elif kind.parameters and signature.returns.parameters and signature.returns.parameters[0].is_variable:
            known[signature.returns.parameters[0].name] = kind.parameters[0]
        arguments = [self._value(substitute(one, known), depth) for one in signature.parameters]
        name = signature.name
        if name in _OPERATORS:
            return _OPERATORS[name].format(*arguments)
        if name == "@in":
            return f"({arguments[0]} in {arguments[1]})"
        if name.startswith("_"):
            return f"({arguments[0]} {name.strip('_')} {arguments[1]})"
        if signature.is_member:
            return f"{arguments[0]}.{name}({', '.join(arguments[1:])})"
        return f"{name}({', '.join(arguments)})"

    def _fold(self, depth: int) -> str:
        shape = self._random.choice(_FOLDS)
        target = self._value(type_of(self._random.choice(("list<int>", "list<string>", "dyn"))), depth)
        test = self._random.choice(("x == x", "x > x", "x != dyn(1)", "size(x) > 0", self._value(BOOL, depth)))
        return shape.format(target, test, self._random.choice(("x", "1", "'a'", "string(x)", "[x]")))

    def _leaf(self, kind: CelType) -> str:
        choose = self._random
        if choose.random() < 0.3 and self._paths:
            path = choose.choice(self._paths)
            return path if kind.name in ("dyn", "int", "string", "list", "map", "bool") else self._literal(kind)
        return self._literal(kind)

    def _literal(self, kind: CelType) -> str:  # noqa: PLR0911 - one for each kind of type
        if kind.name == "list":
            return f"[{', '.join(self._literal(kind.parameters[0]) for _ in range(self._random.randrange(4)))}]"
        if kind.name == "map":
            key, value = kind.parameters
            return f"{{{self._literal(key)}: {self._literal(value)}}}"
        if kind.name == "optional_type":
            return self._random.choice(("optional.none()", f"optional.of({self._literal(kind.parameters[0])})"))
        if kind.name == "type":
            return self._random.choice(("int", "string", "type(1.0)"))
        if kind.name == "dyn":
            return f"dyn({self._literal(self._random.choice(_PLAIN))})"
        if kind.is_variable:
            return self._literal(self._random.choice(_PLAIN))
        return self._random.choice(_LITERALS[kind.name])


def substitute(kind: CelType, known: Mapping[str, CelType]) -> CelType:
    """Return a type with its variables replaced."""
    if kind.is_variable:
        return known.get(kind.name, kind)
    return CelType(kind.name, tuple(substitute(one, known) for one in kind.parameters))


def paths(value: Any, prefix: str = "object") -> Iterator[str]:
    """Yield an expression for each value in an object."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            step = f".{key}" if str(key).isidentifier() else f"['{key}']"
            yield f"{prefix}{step}"
            yield from paths(item, f"{prefix}{step}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield f"{prefix}[{index}]"
            yield from paths(item, f"{prefix}[{index}]")

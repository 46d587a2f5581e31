"""Types of CEL, and when a value of one type can stand for another."""

from collections.abc import Sequence
from functools import cache

from msgspec import Struct

OPTIONAL = "optional_type"
_SIMPLE = frozenset(("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"))
_SHOWN = {
    "null_type": "null",
    "quantity": "kubernetes.Quantity",
    "ip": "net.IP",
    "cidr": "net.CIDR",
    "url": "kubernetes.URL",
    "semver": "kubernetes.Semver",
    "format": "kubernetes.NamedFormat",
}


class CelType(Struct, frozen=True):
    """A type; a type variable has a name that starts with `$`."""

    name: str
    parameters: tuple["CelType", ...] = ()

    @property
    def is_variable(self) -> bool:
        """True if the type is not known yet."""
        return self.name.startswith("$")

    def __str__(self) -> str:
        """Return the type as an API server prints it."""
        shown = _SHOWN.get(self.name, self.name)
        return f"{shown}({', '.join(map(str, self.parameters))})" if self.parameters else shown


DYN, ERROR, BOOL, INT = (CelType(name) for name in ("dyn", "error", "bool", "int"))


@cache
def type_of(text: str) -> CelType:
    """Read a type: `int`, `list<A>`, `map<string,list<string>>`; one capital letter is a type variable."""
    name, angle, rest = text.partition("<")
    if not angle:
        return CelType(f"${name}" if len(name) == 1 and name.isupper() else name)
    parts, depth, start = [], 0, 0
    inner = rest.removesuffix(">")
    for index, character in enumerate(inner):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append(inner[start:index])
            start = index + 1
    parts.append(inner[start:])
    return CelType(name, tuple(type_of(part.strip()) for part in parts))


@cache
def has_variables(kind: CelType) -> bool:
    """Return whether a type has type variables."""
    return kind.is_variable or any(map(has_variables, kind.parameters))


def list_of(item: CelType) -> CelType:
    """Return the type of lists of items."""
    return CelType("list", (item,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of maps."""
    return CelType("map", (key, value))


def optional_of(value: CelType) -> CelType:
    """Return the type of optional values."""
    return CelType(OPTIONAL, (value,))


def unwrapped(kind: CelType) -> tuple[CelType, bool]:
    """Return the type in an optional one, and whether it was optional."""
    return (kind.parameters[0], True) if kind.name == OPTIONAL else (kind, False)


def is_dynamic(kind: CelType) -> bool:
    """Return whether anything can stand for this type."""
    return kind.name in ("dyn", "error")


class Unifier:
    """The types that stand for type variables so far."""

    def __init__(self) -> None:
        self._known: dict[str, CelType] = {}
        self._count = 0

    def fresh(self) -> CelType:
        """Return a new type variable."""
        self._count += 1
        return CelType(f"$v{self._count}")

    def instantiate(self, types: Sequence[CelType]) -> Sequence[CelType]:
        """Return types with new variables for theirs."""
        if not any(map(has_variables, types)):
            return types
        names: dict[str, CelType] = {}
        return [self._renamed(kind, names) for kind in types]

    def _renamed(self, kind: CelType, names: dict[str, CelType]) -> CelType:
        if kind.is_variable:
            if kind.name not in names:
                names[kind.name] = self.fresh()
            return names[kind.name]
        if not kind.parameters:
            return kind
        return CelType(kind.name, tuple(self._renamed(one, names) for one in kind.parameters))

    def assign(self, pairs: Sequence[tuple[CelType, CelType]]) -> bool:
        """Return whether each first type can stand for the second; what that says of variables is kept if all can."""
        rest = []
        for one, other in pairs:
            quick = _quick(one, other)
            if quick is False:
                return False
            if quick is None:
                rest.append((one, other))
        before = dict(self._known) if rest else {}
        if all(self._assignable(one, other) for one, other in rest):
            return True
        self._known = before
        return False

    def resolve(self, kind: CelType, *, to_dyn: bool = False) -> CelType:
        """Return a type with what is known of its variables; with `to_dyn`, the others become dyn."""
        if kind.name in self._known:
            return self.resolve(self._known[kind.name], to_dyn=to_dyn)
        if kind.is_variable:
            return DYN if to_dyn else kind
        if not kind.parameters:
            return kind
        return CelType(kind.name, tuple(self.resolve(one, to_dyn=to_dyn) for one in kind.parameters))

    def _assignable(self, one: CelType, other: CelType) -> bool:
        if other.is_variable:
            valid, known = self._substitutes(one, other)
            if valid or known:
                return valid
        if one.is_variable:
            return self._substitutes(other, one)[0]
        if is_dynamic(one) or is_dynamic(other):
            return True
        if "null_type" in (one.name, other.name):
            rest = other if one.name == "null_type" else one
            return rest.name == "null_type" or _nullable(rest)
        if one.name == other.name == "type":
            return True
        return (
            one.name == other.name
            and len(one.parameters) == len(other.parameters)
            and all(self._assignable(a, b) for a, b in zip(one.parameters, other.parameters, strict=True))
        )

    def _substitutes(self, kind: CelType, variable: CelType) -> tuple[bool, bool]:
        """Return whether `kind` can stand for a variable, and whether something was known to stand for it."""
        if kind == variable:
            return True, True
        known = self._known.get(variable.name)
        if known is not None:
            if kind == known:
                return True, True
            if self._assignable(kind, known):
                general = most_general(kind, known)
                if not self._occurs(variable, general):
                    self._known[variable.name] = general
                return True, True
            return False, True
        if self._occurs(variable, kind):
            return False, False
        self._known[variable.name] = kind
        return True, False

    def _occurs(self, variable: CelType, within: CelType) -> bool:
        if variable == within:
            return True
        if within.is_variable:
            known = self._known.get(within.name)
            return known is not None and self._occurs(variable, known)
        return any(self._occurs(variable, one) for one in within.parameters)


def _quick(one: CelType, other: CelType) -> bool | None:
    """Return whether one plain type can stand for another; None if that depends on variables or parameters."""
    if one.parameters or other.parameters or one.is_variable or other.is_variable:
        if one.is_variable or other.is_variable or one.name == other.name or is_dynamic(one) or is_dynamic(other):
            return None
        return None if "null_type" in (one.name, other.name) else False
    if one.name == other.name or is_dynamic(one) or is_dynamic(other):
        return True
    return None if "null_type" in (one.name, other.name) else False


def _nullable(kind: CelType) -> bool:
    return kind.name not in _SIMPLE - {"duration", "timestamp"} and kind.name not in ("list", "map", "type")


def most_general(one: CelType, other: CelType) -> CelType:
    """Return the more general of two types that agree."""
    return one if _covers(one, other) else other


def _covers(one: CelType, other: CelType) -> bool:
    if one.name == "dyn" or one.is_variable:
        return True
    if other.name == "dyn" or other.is_variable or one.name != other.name:
        return False
    return one.name == "type" or (
        len(one.parameters) == len(other.parameters)
        and all(_covers(a, b) for a, b in zip(one.parameters, other.parameters, strict=True))
    )

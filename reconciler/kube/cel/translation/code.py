"""`FunctionBody`: a function of Python, line by line, and `TranslatedValue`: a value in it."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from reconciler.kube.cel.access import (
    check_items,
    find,
    find_item,
    has,
    index,
    merge,
    pairs,
    select,
)
from reconciler.kube.cel.library.lists import sort_by
from reconciler.kube.cel.program import CostExceededError, Run
from reconciler.kube.cel.syntax import Node
from reconciler.kube.cel.values import (
    MISSING,
    NONE,
    CelError,
    Optional,
    check_key,
    equal,
    kind_of,
    more_informative,
    no_overload,
    present,
    unwrap,
)

_RUNTIME: dict[str, Any] = {
    function.__name__: function
    for function in (
        CelError, CostExceededError, Optional, check_items, check_key, equal, find, find_item, has, index,
        kind_of, merge, more_informative, no_overload, pairs, present, select, sort_by, unwrap,
    )
} | {"MISSING": MISSING, "NONE": NONE}  # fmt: skip
"""What generated functions use."""
TYPES = {"string": "str", "bool": "bool", "int": "int", "list": "list", "map": "dict"}
"""The Python types of most values, by the names of their CEL types."""
_KINDS = {str: "string", bool: "bool", int: "int", list: "list", dict: "map"}
_WRITTEN = (str, bool, int, type(None))


class TranslatedValue(NamedTuple):
    """A value in generated code: a variable or a constant.

    kind: its CEL type, if it is certain that the value has the Python type of it; empty: unknown.
    is_optional: the variable of an optional value holds what is in it, or MISSING.
    constant: the value, if it is known.
    """

    text: str
    kind: str = ""
    is_optional: bool = False
    constant: Any = MISSING

    @property
    def value(self) -> str:
        """The value as others use it: an optional one as `Optional`."""
        return f"(NONE if {self.text} is MISSING else Optional({self.text}))" if self.is_optional else self.text

    @property
    def is_constant(self) -> bool:
        """True if the value is known."""
        return self.constant is not MISSING


def unless(operand: TranslatedValue, kind: str, special: str, general: str) -> str:
    """Return an expression: `special` if the operand is of a kind, otherwise `general`."""
    if operand.kind == kind:
        return special
    return general if operand.kind else f"{special} if type({operand.text}) is {TYPES[kind]} else {general}"


class Translator(Protocol):
    """Translates nodes as parts of a function. `scope` has the variables of macros."""

    code: "FunctionBody"
    scope: Mapping[str, TranslatedValue]

    def operand(self, node: Node) -> TranslatedValue:
        """Add the lines that evaluate a node, and return its value."""

    def branch(self, node: Node, most: int = ...) -> TranslatedValue:
        """Translate what is not always evaluated: what has more than `most` nodes as a function of its own."""


class FunctionBody:
    """A function in the making."""

    def __init__(self) -> None:
        self.depth = 1
        self.can_fail = False
        """Whether lines so far can raise a CelError."""
        self._names: dict[str, Any] = dict(_RUNTIME)
        self._lines: list[tuple[int, str]] = []
        self._count = 0

    def new(self, prefix: str = "t") -> str:
        """Return a new name."""
        self._count += 1
        return f"{prefix}{self._count}"

    def line(self, text: str, *, can_fail: bool = True) -> None:
        """Add a line."""
        self._lines.append((self.depth, text))
        self.can_fail |= can_fail

    def assigned(
        self, expression: str, kind: str = "", *, is_optional: bool = False, can_fail: bool = True
    ) -> TranslatedValue:
        """Add a line that assigns an expression to a new variable."""
        name = self.new()
        self.line(f"{name} = {expression}", can_fail=can_fail)
        return TranslatedValue(name, kind, is_optional)

    def name(self, value: Any, prefix: str) -> str:
        """Return a name for a value."""
        name = self.new(prefix)
        self._names[name] = value
        return name

    def rename(self, name: str, value: Any) -> None:
        """Give a name to another value, also in the function once it is compiled."""
        self._names[name] = value

    def constant(self, value: Any) -> TranslatedValue:
        """Return a constant."""
        kind = _KINDS.get(type(value), "")
        text = repr(value) if type(value) in _WRITTEN else self.name(value, "constant")
        return TranslatedValue(text, kind, constant=value)

    @contextmanager
    def block(self, head: str, *, can_fail: bool = False) -> Iterator[None]:
        """Put lines below a line, such as `if x:`."""
        self.line(head, can_fail=can_fail)
        self.depth += 1
        yield
        self.depth -= 1

    def attempt(self, failure: TranslatedValue, add: Callable[[], None]) -> bool:
        """Let `add` add lines, keep the more telling error of them in `failure`. Return whether there can be one."""
        (outer, could_fail), self._lines, self.can_fail = (self._lines, self.can_fail), [], False
        self.depth += 1
        add()
        self.depth -= 1
        lines, self._lines = self._lines, outer
        fails, self.can_fail = self.can_fail, could_fail
        if not fails:
            self._lines += ((depth - 1, text) for depth, text in lines)
            return False
        with self.block("try:"):
            self._lines += lines
        with self.block("except CelError as error:"):
            self.line(f"{failure.text} = more_informative({failure.text}, error)", can_fail=False)
        return True

    def compiled(self, parameters: Sequence[str]) -> Run:
        """Let Python compile the function and return it."""
        lines = ("    " * depth + text for depth, text in self._lines)
        source = "\n".join((f"def run({', '.join(parameters)}):", *lines))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of operations on constants that CEL allows, as `3 is True`
            code = compile(source, "<CEL>", "exec")
        exec(code, self._names)  # noqa: S102 - what it says is in the package's docstring
        run: Run = self._names["run"]
        return run

"""The syntax tree of a script. Places are offsets in its text."""

from typing import TypeAlias

from msgspec import Struct

END_OF_TEXT = "\0"
"""Sentinel after the last character; no argument of a program can contain it."""


class ShellError(Exception):
    """The text is not a valid script, or exceeds a limit; `at` is the offset."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


class Literal(Struct, frozen=True, gc=False):
    """Literal characters. Unquoted ones are split at blanks inside `${X:-a b}`."""

    text: str
    quoted: bool = False


class ParameterExpansion(Struct, frozen=True, gc=False):
    """`$NAME`, `${NAME}`, `${NAME[index]}`, `${NAME<operator>operand}`; `#NAME` with operator `length`."""

    name: str
    quoted: bool = False
    index: str = ""
    operator: str = ""
    operand: "tuple[Part, ...]" = ()


class ArithmeticExpansion(Struct, frozen=True):
    """`$((expression))`."""

    expression: str
    quoted: bool = False


class UnknownExpansion(Struct, frozen=True):
    """An expansion that is only known at run time; `reason` names it (`a command substitution`).

    `many`: it may give several words even if quoted, like `"${@:2}"`.
    """

    reason: str
    quoted: bool = False
    many: bool = False


Part: TypeAlias = Literal | ParameterExpansion | ArithmeticExpansion | UnknownExpansion


class Word(Struct, frozen=True, gc=False):
    """A word in the source, from `start` to `end`. Without `parts` it is literally `text`."""

    text: str
    start: int
    end: int
    parts: tuple[Part, ...] = ()


class Assignment(Struct, frozen=True):
    """`NAME=word`, `NAME+=word`, `NAME=(words)`, `NAME[i]=word`."""

    name: str
    value: Word | tuple[Word, ...]
    append: bool = False
    indexed: bool = False


class Redirection(Struct):
    """`> file`, or a here-document, whose `body` is set once the lines below are parsed.

    `quoted`: nothing in the body is expanded.
    """

    operator: str
    target: Word
    body: str | None = None
    quoted: bool = False


class SimpleCommand(Struct, frozen=True):
    """Words with assignments and redirections. `declares`: `export` or a similar builtin makes the assignments."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    redirections: tuple[Redirection, ...]
    start: int
    end: int
    declares: bool = False


class ConditionalExpression(Struct, frozen=True):
    """`[[ … ]]`; `words` includes the operators."""

    words: tuple[Word, ...]


class ArithmeticCommand(Struct, frozen=True):
    """`(( … ))`."""

    expression: str


class AndOrList(Struct, frozen=True):
    """`first && second || third`: `rest` pairs each operator with the node after it."""

    first: "Node"
    rest: "tuple[tuple[str, Node], ...]"


class Pipeline(Struct, frozen=True):
    """`a | b`: every part runs in a subshell. A single part is a negated command, `! a`."""

    parts: "tuple[Node, ...]"


class Subshell(Struct, frozen=True):
    """`( … )` or `… &`: assignments inside have no effect outside."""

    body: "Script"


class BraceGroup(Struct, frozen=True):
    """`{ …; }`."""

    body: "Script"


class ConditionalConstruct(Struct, frozen=True):
    """`if` and `case`: conditions with their bodies, tried in order; None is always true."""

    arms: "tuple[tuple[Script | None, Script], ...]"
    is_if: bool  # the patterns of `case` are not evaluated


class Loop(Struct, frozen=True):
    """`for name in words`, `while`, `until`, `select`; `words` is None without `in`."""

    condition: "Script"
    body: "Script"
    name: str = ""
    words: tuple[Word, ...] | None = None


class FunctionDefinition(Struct, frozen=True):
    """`name() …`."""

    name: str
    body: "Node"


Node: TypeAlias = (
    SimpleCommand
    | ConditionalExpression
    | ArithmeticCommand
    | AndOrList
    | Pipeline
    | Subshell
    | BraceGroup
    | ConditionalConstruct
    | Loop
    | FunctionDefinition
)
Script: TypeAlias = tuple[Node, ...]

"""What a script is made of, before anything is expanded. Places are offsets in the text that was read."""

from typing import TypeAlias

from msgspec import Struct

END_OF_TEXT = "\0"
"""Marks the end of a text that is being read; no argument of a program can hold it."""


class ShellError(Exception):
    """The text is no script that bash would run, or beyond what is read; `at` is the offset where it shows."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


class Literal(Struct, frozen=True, gc=False):
    """Characters that stand for themselves. Unquoted ones are split at blanks inside `${X:-a b}`."""

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
    """What only a running shell could tell; `reason` says what it is (`a command substitution`).

    `many`: it may be several words though it is quoted, as `"${@:2}"`.
    """

    reason: str
    quoted: bool = False
    many: bool = False


Part: TypeAlias = Literal | ParameterExpansion | ArithmeticExpansion | UnknownExpansion


class Word(Struct, frozen=True, gc=False):
    """One word as written at `start` to `end`. Without `parts` it stands for `text`, letter by letter."""

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
    """`> file`, `<<EOF` with the text of the lines below (known only once they are read).

    `quoted`: nothing in that text is expanded.
    """

    operator: str
    target: Word
    body: str | None = None
    quoted: bool = False


class SimpleCommand(Struct, frozen=True):
    """A simple command. Assignments of `export` and its like belong to the shell (`declares`)."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    redirections: tuple[Redirection, ...]
    start: int
    end: int
    declares: bool = False


class ConditionalExpression(Struct, frozen=True):
    """`[[ … ]]`; `words` evaluate_condition operators as words too."""

    words: tuple[Word, ...]


class ArithmeticCommand(Struct, frozen=True):
    """`(( … ))`."""

    expression: str


class AndOrList(Struct, frozen=True):
    """`first && second || third`: `rest` evaluate_condition each operator with the node behind it."""

    first: "Node"
    rest: "tuple[tuple[str, Node], ...]"


class Pipeline(Struct, frozen=True):
    """`a | b`: every part runs in a shell of its own. One part stands for a negated command: `! a`."""

    parts: "tuple[Node, ...]"


class Subshell(Struct, frozen=True):
    """`( … )` or `… &`: what is assigned inside is lost outside."""

    body: "Script"


class BraceGroup(Struct, frozen=True):
    """`{ …; }`."""

    body: "Script"


class ConditionalConstruct(Struct, frozen=True):
    """`if` and `case`: conditions with their bodies, tried in order; one that is None always evaluate_condition."""

    arms: "tuple[tuple[Script | None, Script], ...]"
    certain: bool  # the conditions of `if` are run in order; patterns of `case` are not looked at


class Loop(Struct, frozen=True):
    """`for name in words`, `while`, `until`, `select`; `words` is None where there are none to take."""

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

"""Expands words: variables, defaults, arithmetic, splitting at blanks. What only a run could tell stays marked."""

import re

from msgspec import Struct

from reconciler.core.launch.shell.arithmetic import calculate
from reconciler.core.launch.shell.syntax import Arithmetic, Literal, Opaque, Parameter, Part, Word
from reconciler.core.launch.shell.variables import LOOSE, UNKNOWN, Value, Variables, unknown

_BLANKS = re.compile(r"[ \t\n]+")
_GIVES_OPERAND = frozenset("-+")
_TAKES_OPERAND = frozenset("-+=")
_ITEMS = frozenset("@*")


class Field(Struct, frozen=True, gc=False):
    """One word that a program receives, made of the word written at `start` to `end`.

    `whole`: it is all that the written word gave. `why` is not empty where UNKNOWN stands in `text`; `loose`: the
    unknown part is not quoted, so that it may be several words, or none.
    """

    text: str
    start: int
    end: int
    whole: bool = True
    why: str = ""
    loose: bool = False


class Expansion:
    """Expands against variables, and sets those that `${NAME:=default}` sets. `size` counts the letters made."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self.size = 0
        self._why = ""
        self._done: list[tuple[str, bool]] = []
        self._current: str | None = None
        self._loose = False
        self._vague = False

    def fields(self, word: Word) -> list[Field]:
        """Return what the program receives for one written word: usually one, none for an empty variable."""
        if not word.parts:
            return [Field(word.text, word.start, word.end)]
        self._why, self._done, self._current, self._loose, self._vague = "", [], None, False, False
        for part in word.parts:
            self._add(part, splits=False)
        self._end()
        if self._vague and len(word.parts) > 1:
            # An unknown number of words beside other letters: which word those belong to is not known either.
            self._done = [(UNKNOWN, True)]
        whole = len(self._done) == 1
        return [
            Field(text, word.start, word.end, whole, self._why if UNKNOWN in text else "", loose)
            for text, loose in self._done
        ]

    def scalar(self, word: Word) -> Value:
        """Return a word as the value of an assignment, where nothing is split."""
        return self._joined(word.parts) if word.parts else Value(word.text, "")

    def _joined(self, parts: tuple[Part, ...]) -> Value:
        texts: list[str] = []
        why = ""
        for part in parts:
            value = self._value(part)
            texts.append(_in_one(value))
            why = why or value.why
        text = "".join(texts)
        self.size += len(text)
        return Value(text, why if UNKNOWN in text else "")

    def _add(self, part: Part, *, splits: bool) -> None:
        """Add a part to the fields; `splits`: unquoted letters are split too, as in `${X:-a b}`."""
        if isinstance(part, Literal):
            if splits and not part.quoted:
                self._split(part.text)
            else:
                self._glue(part.text)
            return
        if isinstance(part, Parameter) and part.operator[-1:] in _GIVES_OPERAND:
            chosen = self._operand(part)
            if chosen:
                for inner in chosen:
                    self._add(inner, splits=not part.quoted)
                return
        value = self._value(part)
        self._why = self._why or value.why
        if value.items is not None and not (part.quoted and isinstance(part, Parameter) and _joins(part)):
            self._items(value.items, quoted=part.quoted)
        elif part.quoted or isinstance(part, Arithmetic):
            self._loose = self._loose or (value.items is None and value.text == UNKNOWN and _gives_items(part))
            self._glue(_in_one(value))
        else:
            self._split(value.text)

    def _items(self, items: tuple[str, ...], *, quoted: bool) -> None:
        for number, item in enumerate(items):
            if number:
                self._end()
            if quoted:
                self._loose = self._loose or item == LOOSE
                self._glue(UNKNOWN if item == LOOSE else item)
            else:
                self._split(UNKNOWN if item == LOOSE else item)
        self._vague = self._vague or LOOSE in items

    def _glue(self, text: str) -> None:
        self._current = text if self._current is None else self._current + text
        self.size += len(text) + 1

    def _split(self, text: str) -> None:
        pieces = _BLANKS.split(text)
        for number, piece in enumerate(pieces):
            if number:
                self._end()
            if piece:
                self._glue(piece)
                self._loose = self._loose or UNKNOWN in piece

    def _end(self) -> None:
        if self._current is not None:
            self._done.append((self._current, self._loose))
        self._current, self._loose = None, False

    def _value(self, part: Part) -> Value:
        if isinstance(part, Literal):
            return Value(part.text, "")
        if isinstance(part, Opaque):
            return unknown(f"it depends on {part.why}")
        if isinstance(part, Arithmetic):
            result = calculate(part.expression, self._number)
            return unknown(f"`$(({part.expression}))` is not known") if result is None else Value(str(result), "")
        if part.operator[-1:] in _TAKES_OPERAND and (chosen := self._operand(part)) is not None:
            return self._joined(chosen)
        return self._parameter(part)

    def _number(self, name: str) -> str | None:
        value = self.variables.get(name)
        return None if value is None or UNKNOWN in value.text else value.text

    def _operand(self, part: Parameter) -> tuple[Part, ...] | None:
        """Return the operand where it is what the expansion gives; None where the variable is."""
        operator = part.operator
        value = self._stored(part)
        is_set = value is not None and (operator[0] != ":" or bool(value.text or value.items))
        if value is not None and value.text == UNKNOWN:
            return None
        if operator[-1] == "+":
            return part.operand if is_set else None
        if is_set:
            return None
        if operator[-1] == "=":
            self.variables.set(part.name, self._joined(part.operand))
        return part.operand

    def _parameter(self, part: Parameter) -> Value:
        value = self._stored(part)
        if part.operator == "length":
            return _length(value)
        if part.operator[-1:] == "+":
            return value if value is not None and value.text == UNKNOWN else Value("", "")
        if value is None:
            if part.operator[-1:] in {"-", "="}:
                return Value("", "")
            return unknown(f"`{part.name}` is set neither in the script nor in the container's env")
        if part.operator[:1] in {"%", "#"}:
            return _trimmed(value, part.operator, self._joined(part.operand))
        return value

    def _stored(self, part: Parameter) -> Value | None:  # noqa: PLR0911 - one line for each kind of name
        name, variables = part.name, self.variables
        if name in _ITEMS:
            why = "the script's arguments are not known" if LOOSE in variables.arguments else ""
            return Value("", why, variables.arguments)
        if name == "#" and LOOSE not in variables.arguments:
            return Value(str(len(variables.arguments)), "")
        if name == "0":
            return Value(variables.name, "")
        if name.isdigit():
            number = int(name[:6])
            if LOOSE in variables.arguments:
                return unknown("the script's arguments are not known")
            return Value(variables.arguments[number - 1], "") if number <= len(variables.arguments) else Value("", "")
        if name in "#?$!-_":
            return unknown(f"`${name}` is known only where the job runs")
        return _indexed(variables.get(name), part.index)


def _in_one(value: Value) -> str:
    return value.text if value.items is None else " ".join(value.items).replace(LOOSE, UNKNOWN)


def _gives_items(part: Part) -> bool:
    return part.index == "@" if isinstance(part, Parameter) else isinstance(part, Opaque) and part.many


def _joins(part: Parameter) -> bool:
    return part.name == "*" or part.index == "*"


def _indexed(value: Value | None, index: str) -> Value | None:  # noqa: PLR0911 - one line for each case
    if value is None:
        return None
    if index in _ITEMS:
        if value.items is not None:
            return value
        return Value(value.text, value.why, (LOOSE if value.text == UNKNOWN else value.text,))
    items = (value.text,) if value.items is None else value.items
    if LOOSE in items or (value.items is None and value.text == UNKNOWN):
        return unknown(value.why)
    if index and not index.isdecimal():
        return unknown(f"the index `[{index}]` is not known")
    number = int(index[:6] or "0")
    if number >= len(items):
        return Value("", "") if index else None
    return Value(items[number], value.why if UNKNOWN in items[number] else "")


def _length(value: Value | None) -> Value:
    if value is None or value.text == UNKNOWN or UNKNOWN in value.text or LOOSE in (value.items or ()):
        return unknown("the length of a value that is not known")
    return Value(str(len(value.text) if value.items is None else len(value.items)), "")


def _trimmed(value: Value, operator: str, pattern: Value) -> Value:
    """`${X#pattern}` and its like, for patterns with at most one star at one end."""
    text, letters = value.text, pattern.text
    star = letters.count("*")
    if (
        value.items is not None
        or UNKNOWN in text
        or UNKNOWN in letters
        or star > 1
        or any(x in letters for x in "?[\\")
    ):
        return unknown("it depends on a pattern")
    fixed = letters.replace("*", "")
    if not star:
        return Value(text.removeprefix(fixed) if operator[0] == "#" else text.removesuffix(fixed), "")
    if operator[0] == "#" and letters[0] == "*":
        at = text.find(fixed) if operator == "#" else text.rfind(fixed)
        return Value(text if at < 0 else text[at + len(fixed) :], "")
    if operator[0] == "%" and letters[-1] == "*":
        at = text.rfind(fixed) if operator == "%" else text.find(fixed)
        return Value(text if at < 0 else text[:at], "")
    return unknown("it depends on a pattern")

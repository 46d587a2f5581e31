"""The lexer of words: quotes, expansions, braces. The parser of commands extends it."""

import re
from abc import ABC, abstractmethod

from reconciler.core.launch.shell.ast import (
    END_OF_TEXT,
    ArithmeticExpansion,
    Literal,
    ParameterExpansion,
    Part,
    ShellError,
    UnknownExpansion,
    Word,
)
from reconciler.core.launch.shell.substitution import read_substitution

MAX_DEPTH = 40
"""Maximum nesting of quotes, substitutions and compound commands; real scripts stay below ten."""

_PLAIN = re.compile(r"[^\0 \t\n'\"\\$`;&|()<>{#][^\0 \t\n'\"\\$`;&|()<>{]*(?=[\0 \t\n;&|()<>])")
_UNQUOTED = re.compile(r"[^\0 \t\n'\"\\$`;&|()<>]+")
_IN_DOUBLE_QUOTES = re.compile(r'[^\0"\\$`]+')
_IN_BRACES = re.compile(r"[^\0'\"\\$`}]+")
_IN_QUOTED_BRACES = re.compile(r'[^\0"\\$`}]+')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-]")
_BRACED = re.compile(r"(#?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!_-])(?:\[([^]\[\0]*)\])?")
_OPERATOR = re.compile(r":[-=+?]|[-=+?]|%%?|##?")
_ENDS_WORD = frozenset("\0 \t\n;&|()<>")
_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8}))"
)
_ASCII_END = 128
_EXPR = re.compile(r"\$\(\s*expr((?:\s+(?:\$\w+|\$\{\w+\}|\d+|[-+/%]|\\\*))+)\s*\)")
"""`$(expr 32 / $n)`: the one command whose output is arithmetic."""


class Lexer(ABC):
    """A position in the text of a script."""

    def __init__(self, text: str) -> None:
        self.text = text + END_OF_TEXT
        self.position = 0
        self.depth = 0

    @abstractmethod
    def skip_commands(self) -> None:
        """Skip commands and the `)` after them."""

    def fail(self, message: str, at: int | None = None) -> ShellError:
        """Return an error at this position."""
        return ShellError(message, self.position if at is None else at)

    def nest(self) -> None:
        """Enter one more nesting level."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"nested more than {MAX_DEPTH} levels deep")

    def word(self) -> Word:
        """Read the word at this position; it may be empty."""
        start = self.position
        if plain := _PLAIN.match(self.text, start):
            self.position = plain.end()
            return Word(plain[0], start, self.position)
        parts: list[Part] = []
        while (char := self.text[self.position]) not in _ENDS_WORD or self._substitutes_process(char):
            self._unquoted_part(char, parts)
        if _expands_braces(parts):
            parts = [UnknownExpansion("a brace expansion")]
        if all(type(part) is Literal for part in parts):
            return Word("".join(part.text for part in parts if isinstance(part, Literal)), start, self.position)
        return Word("", start, self.position, tuple(parts))

    def _substitutes_process(self, char: str) -> bool:
        return char in "<>" and self.text[self.position + 1] == "("

    def _unquoted_part(self, char: str, parts: list[Part]) -> None:
        if match := _UNQUOTED.match(self.text, self.position):
            parts.append(Literal(match[0]))
            self.position = match.end()
        elif char == "'":
            parts.append(Literal(self._single_quotes(), quoted=True))
        elif char == '"':
            self.position += 1
            self._double_quotes(parts)
        elif char == "\\":
            self._backslash(parts)
        elif char in "<>":
            self.position += 2
            self.skip_commands()
            parts.append(UnknownExpansion("a process substitution", quoted=True))
        else:
            parts.append(self._expansion(quoted=False, parts=parts))

    def _backslash(self, parts: list[Part]) -> None:
        follower = self.text[self.position + 1]
        if follower == END_OF_TEXT:
            parts.append(Literal("\\", quoted=True))
            self.position += 1
            return
        if follower != "\n":
            parts.append(Literal(follower, quoted=True))
        self.position += 2

    def _single_quotes(self) -> str:
        end = self.text.find("'", self.position + 1)
        if end < 0:
            raise self.fail("the single quote is not closed")
        content = self.text[self.position + 1 : end]
        self.position = end + 1
        return content

    def _double_quotes(self, parts: list[Part]) -> None:
        """Read from after the opening quote to after the closing one."""
        opened = self.position - 1
        self.nest()
        before = len(parts)
        while (char := self.text[self.position]) != '"':
            if match := _IN_DOUBLE_QUOTES.match(self.text, self.position):
                parts.append(Literal(match[0], quoted=True))
                self.position = match.end()
            elif char == END_OF_TEXT:
                raise self.fail("the double quote is not closed", opened)
            elif char == "\\":
                self._escaped_in_double_quotes(parts, '$`"\\')
            else:
                parts.append(self._expansion(quoted=True, parts=parts))
        if len(parts) == before:  # "" is an empty word, while "$@" may be none
            parts.append(Literal("", quoted=True))
        self.position += 1
        self.depth -= 1

    def _escaped_in_double_quotes(self, parts: list[Part], special: str) -> None:
        follower = self.text[self.position + 1]
        if follower == END_OF_TEXT:
            raise self.fail("the double quote is not closed")
        if follower != "\n":
            parts.append(Literal(follower if follower in special else "\\" + follower, quoted=True))
        self.position += 2

    def _expansion(self, *, quoted: bool, parts: list[Part]) -> Part:  # noqa: PLR0911 - one line for each kind
        """Read an expansion that begins with a dollar or a backtick."""
        if self.text[self.position] == "`":
            return self._backticks(quoted=quoted)
        follower = self.text[self.position + 1]
        if follower == "(":
            return self._parenthesis(quoted=quoted)
        if follower == "{":
            return self._braces(quoted=quoted)
        if follower == "[":
            return self._old_arithmetic(quoted=quoted)
        if follower == "'" and not quoted:
            self.position += 1
            return self._ansi_quotes()
        if follower == '"' and not quoted:
            self.position += 2
            self._double_quotes(parts)
            return Literal("", quoted=True)
        if match := _NAME.match(self.text, self.position + 1):
            self.position = match.end()
            return ParameterExpansion(match[0], quoted)
        self.position += 1
        return Literal("$", quoted=True)

    def _backticks(self, *, quoted: bool) -> Part:
        end = self.position + 1
        while self.text[end] != "`":
            if self.text[end] == END_OF_TEXT:
                raise self.fail("the backtick is not closed")
            end += 2 if self.text[end] == "\\" and self.text[end + 1] != END_OF_TEXT else 1
        command = self.text[self.position + 1 : end]
        self.position = end + 1
        return read_substitution(command, quoted=quoted)

    def _old_arithmetic(self, *, quoted: bool) -> Part:
        end = self.text.find("]", self.position)
        if end < 0:
            raise self.fail("`$[` is not closed")
        expression = self.text[self.position + 2 : end]
        self.position = end + 1
        return ArithmeticExpansion(expression, quoted)

    def _parenthesis(self, *, quoted: bool) -> Part:
        self.nest()
        try:
            if self.text[self.position + 2] == "(" and (end := self.calculation_end(self.position + 3)):
                expression = self.text[self.position + 3 : end]
                self.position = end + 2
                return ArithmeticExpansion(expression, quoted)
            if (match := _EXPR.match(self.text, self.position)) is not None:
                self.position = match.end()
                return ArithmeticExpansion(match[1].replace("\\", ""), quoted)
            self.position += 2
            start = self.position
            self.skip_commands()
            return read_substitution(self.text[start : self.position - 1], quoted=quoted)
        finally:
            self.depth -= 1

    def calculation_end(self, start: int) -> int:
        """Return the offset of the `))` that ends the expression at `start`; 0 where it is not an expression."""
        depth = 0
        for match in _PARENTHESES.finditer(self.text, start):
            if match[0] == "(":
                depth += 1
            elif depth:
                depth -= 1
            else:
                return match.start() if self.text[match.end()] == ")" else 0
        return 0

    def _ansi_quotes(self) -> Part:
        r"""Read `$'…'`, in which `\n` is a line break."""
        end = self.position + 1
        while self.text[end] != "'":
            if self.text[end] == END_OF_TEXT:
                raise self.fail("the single quote is not closed")
            end += 2 if self.text[end] == "\\" and self.text[end + 1] != END_OF_TEXT else 1
        content = self.text[self.position + 1 : end]
        self.position = end + 1
        try:
            return Literal(_ESCAPE.sub(_unescape, content), quoted=True)
        except ValueError:
            return UnknownExpansion("bytes in $'…' that are not text", quoted=True)

    def _braces(self, *, quoted: bool) -> Part:
        opened = self.position
        self.nest()
        head = _BRACED.match(self.text, self.position + 2)
        if head is None:
            self.position += 2
            self._operand(quoted=quoted, opened=opened)
            self.depth -= 1
            return UnknownExpansion("an unsupported `${…}` expansion", quoted, many=True)
        self.position = head.end()
        length, name, index = head[1], head[2], head[3] or ""
        operator = _OPERATOR.match(self.text, self.position)
        self.position = operator.end() if operator else self.position
        follows = self.text[self.position]
        operand = self._operand(quoted=quoted and not (operator and operator[0][0] in "%#"), opened=opened)
        self.depth -= 1
        if length and not operator and not operand:
            return ParameterExpansion(name, quoted, index, "length")
        if length or (operator is None and follows != "}"):
            return UnknownExpansion("an unsupported `${…}` expansion", quoted, many="@" in (name, index))
        return ParameterExpansion(name, quoted, index, operator[0] if operator else "", operand)

    def _operand(self, *, quoted: bool, opened: int) -> tuple[Part, ...]:
        parts: list[Part] = []
        literal = _IN_QUOTED_BRACES if quoted else _IN_BRACES
        while (char := self.text[self.position]) != "}":
            if match := literal.match(self.text, self.position):
                parts.append(Literal(match[0], quoted))
                self.position = match.end()
            elif char == END_OF_TEXT:
                raise self.fail("`${` is not closed", opened)
            elif char == "'":
                parts.append(Literal(self._single_quotes(), quoted=True))
            elif char == '"':
                self.position += 1
                self._double_quotes(parts)
            elif char == "\\" and quoted:
                self._escaped_in_double_quotes(parts, '$`"\\}')
            elif char == "\\":
                self._backslash(parts)
            else:
                parts.append(self._expansion(quoted=quoted, parts=parts))
        self.position += 1
        return tuple(parts)


_PARENTHESES = re.compile(r"[()]")


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return _ESCAPES[match[1]]
    code = int(match[2], 8) if match[2] else int(match[3] or match[4] or match[5], 16)
    if code == 0 or code >= _ASCII_END:  # the result depends on the locale
        raise ValueError(match[0])
    return chr(code)


def _expands_braces(parts: list[Part]) -> bool:
    """Whether bash would expand `{a,b}` or `{1..3}` in a word; quoted parts are literal."""
    bare = "".join(part.text if isinstance(part, Literal) and not part.quoted else "x" for part in parts)
    opened = bare.find("{")
    if opened < 0:
        return False
    divided = min((at for at in (bare.find(",", opened), bare.find("..", opened)) if at > 0), default=len(bare))
    return bare.find("}", divided) > 0

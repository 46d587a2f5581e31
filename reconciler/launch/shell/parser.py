"""The parser of scripts: words, then lists, pipelines, compound commands, functions, redirections."""

import re
from abc import ABC, abstractmethod

from reconciler.launch.shell.ast import (
    END_OF_TEXT,
    AndOrList,
    ArithmeticCommand,
    ArithmeticExpansion,
    Assignment,
    BraceGroup,
    ConditionalConstruct,
    ConditionalExpression,
    FunctionDefinition,
    Literal,
    Loop,
    Node,
    ParameterExpansion,
    Part,
    Pipeline,
    Redirection,
    Script,
    ShellError,
    SimpleCommand,
    Subshell,
    UnknownExpansion,
    Word,
)
from reconciler.launch.shell.substitution import read_substitution

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


class _Lexer(ABC):
    """A position in the text of a script, with words: quotes, expansions, braces. The parser of commands extends it."""

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
    """Return whether bash would expand `{a,b}` or `{1..3}` in a word; quoted parts are literal."""
    bare = "".join(part.text if isinstance(part, Literal) and not part.quoted else "x" for part in parts)
    opened = bare.find("{")
    if opened < 0:
        return False
    divided = min((at for at in (bare.find(",", opened), bare.find("..", opened)) if at > 0), default=len(bare))
    return bare.find("}", divided) > 0


_BLANKS = re.compile(r"(?:[ \t]+|\\\n)*(?:(?<![^\0 \t\n;&|()])#[^\n\0]*)?")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]\0\n]*\])?(\+?)=")
_REDIRECTION = re.compile(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-?|<>|<&|<(?!\()|>>|>&|>\||>(?!\())|(&>>?)")
_RESERVED = re.compile(
    r"(if|then|elif|else|fi|for|select|while|until|do|done|case|esac|function|time|coproc|\[\[|\{|\}|!)"
    r"(?=[\0 \t\n;&|()<>])"
)
_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_IN = re.compile(r"in(?=[\0 \t\n;])")
_CASE_ENDS = re.compile(r";;&|;;|;&")
_PLAIN_WORD = re.compile(r"(?:[ \t]|\\\n)+([^\0 \t\n'\"\\$`;&|()<>{#][^\0 \t\n'\"\\$`;&|()<>{]*)(?=[\0 \t\n;|)])")
_FUNCTION = re.compile(r"([^\0 \t\n'\"\\$`;&|()<>={}]+)[ \t]*\([ \t]*\)")
_DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})
_MAY_BEGIN_REDIRECTION = frozenset("0123456789<>&{")
_ENDS_COMMAND = frozenset("\0\n;&|)")


def parse(text: str) -> Script:
    """Parse a script. Raises ShellError with the offset of the first error."""
    parser = _ScriptParser(text)
    script = parser.script()
    if parser.text[parser.position] != END_OF_TEXT or parser.position < len(text):
        raise parser.fail("expected a command")
    return script


class _ScriptParser(_Lexer):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.pending: list[tuple[Redirection, str]] = []

    # Blanks, line ends, here-documents

    def blanks(self) -> str:
        """Skip blanks and a comment; return the next character."""
        match = _BLANKS.match(self.text, self.position)
        if match:
            self.position = match.end()
        return self.text[self.position]

    def lines(self) -> str:
        """Skip blanks, comments and line ends; return the next character."""
        while self.blanks() == "\n":
            self._line_end()
        return self.text[self.position]

    def _line_end(self) -> None:
        self.position += 1
        pending, self.pending = self.pending, []
        for redirection, delimiter in pending:
            redirection.body = self._here_document(delimiter, tabs=redirection.operator == "<<-")

    def _here_document(self, delimiter: str, *, tabs: bool) -> str:
        """Read up to the delimiter line; without one, like bash, to the end of the script."""
        start = self.position
        while self.text[self.position] != END_OF_TEXT:
            end = self.text.find("\n", self.position)
            end = len(self.text) - 1 if end < 0 else end
            line = self.text[self.position : end]
            if (line.lstrip("\t") if tabs else line) == delimiter:
                body = self.text[start : self.position]
                self.position = min(end + 1, len(self.text) - 1)
                return body
            self.position = min(end + 1, len(self.text) - 1)
        return self.text[start : self.position]

    # Lists

    def skip_commands(self) -> None:
        self.script()
        self.expect(")")

    def expect(self, sign: str) -> None:
        """Consume the given characters, or fail."""
        self.lines()
        if not self.text.startswith(sign, self.position):
            raise self.fail(f"expected `{sign}`")
        self.position += len(sign)

    def script(self) -> Script:
        """Parse commands up to a closing word or character."""
        self.nest()
        nodes: list[Node] = []
        while not self._closes(self.lines()):
            node = self._and_or_list()
            sign = self.blanks()
            if sign == "&":
                self.position += 1
                node = Subshell((node,))
            elif sign == ";" and not _CASE_ENDS.match(self.text, self.position):
                self.position += 1
            elif sign not in ")\n;\0" and self._reserved() not in _CLOSERS:
                raise self.fail("unexpected word after a command")
            nodes.append(node)
        self.depth -= 1
        return tuple(nodes)

    def _closes(self, char: str) -> bool:
        if char in ")\0":
            return True
        if char == ";":
            if _CASE_ENDS.match(self.text, self.position):
                return True
            raise self.fail("expected a command before `;`")
        return self._reserved() in _CLOSERS

    def _reserved(self) -> str:
        match = _RESERVED.match(self.text, self.position)
        return match[1] if match else ""

    def _and_or_list(self) -> Node:
        first = self._pipeline()
        rest: list[tuple[str, Node]] = []
        while self.blanks() in "&|" and (operator := self.text[self.position : self.position + 2]) in {"&&", "||"}:
            self.position += 2
            self.lines()
            rest.append((operator, self._pipeline()))
        return AndOrList(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Node:
        negated = False
        while (word := self._reserved()) in {"!", "time"}:
            negated |= word == "!"
            self.position += len(word)
            self.blanks()
            if word == "time" and self.text.startswith("-p", self.position):
                self.position += 2
                self.blanks()
        parts = [self._command()]
        while self.blanks() == "|" and self.text[self.position + 1] != "|":
            self.position += 2 if self.text[self.position + 1] == "&" else 1
            self.lines()
            parts.append(self._command())
        return Pipeline(tuple(parts)) if len(parts) > 1 or negated else parts[0]

    # Commands

    def _command(self) -> Node:
        char = self.text[self.position]
        if char == "(":
            return self._compound("((" if self.text[self.position + 1] == "(" else "(")
        if (word := self._reserved()) and word not in _CLOSERS:
            return self._compound(word)
        if match := _FUNCTION.match(self.text, self.position):
            self.position = match.end()
            self.lines()
            return FunctionDefinition(match[1], self._body())
        return self._simple()

    def _body(self) -> Node:
        word = "(" if self.text[self.position] == "(" else self._reserved()
        if not word or word in _CLOSERS:
            raise self.fail("expected the body of a function")
        return self._compound("((" if self.text.startswith("((", self.position) else word)

    def _compound(self, word: str) -> Node:
        self.nest()
        start = self.position
        self.position += len(word)
        node = self._read_compound(word, start)
        redirections: list[Redirection] = []
        while self._redirection(self.blanks(), redirections):
            pass
        self.depth -= 1
        return node

    def _read_compound(self, word: str, start: int) -> Node:  # noqa: PLR0911 - one line for each kind of command
        match word:
            case "(":
                return Subshell(self._until(")"))
            case "{":
                return BraceGroup(self._until("}"))
            case "((":
                return self._calculation(start)
            case "[[":
                return self._test()
            case "if":
                return self._if()
            case "case":
                return self._case()
            case "while" | "until":
                return Loop(self._until("do"), self._until("done"))
            case "for" | "select":
                return self._for()
            case "function":
                return self._function()
        self.blanks()  # coproc
        return Subshell((self._command(),))

    def _until(self, word: str) -> Script:
        script = self.script()
        self.expect(word)
        return script

    def _calculation(self, start: int) -> Node:
        end = self.calculation_end(self.position)
        if not end:
            self.position = start + 1
            return Subshell(self._until(")"))
        expression = self.text[self.position : end]
        self.position = end + 2
        return ArithmeticCommand(expression)

    def _test(self) -> Node:
        words: list[Word] = []
        while (char := self.lines()) != END_OF_TEXT:
            if char in ";&|()<>":
                words.append(Word(char, self.position, self.position + 1))
                self.position += 1
                continue
            word = self.word()
            if word.text == "]]" and not word.parts:
                return ConditionalExpression(tuple(words))
            words.append(word)
        raise self.fail("`[[` is not closed")

    def _if(self) -> Node:
        arms: list[tuple[Script | None, Script]] = []
        condition: Script | None = self._until("then")
        while True:
            arms.append((condition, self.script()))
            if condition is not None and self._reserved() == "elif":
                self.position += len("elif")
                condition = self._until("then")
            elif condition is not None and self._reserved() == "else":
                self.position += len("else")
                condition = None
            else:
                self.expect("fi")
                return ConditionalConstruct(tuple(arms), is_if=True)

    def _case(self) -> Node:
        self.blanks()
        self.word()
        self.lines()
        self.expect("in")
        arms: list[tuple[Script | None, Script]] = []
        while self.lines() != END_OF_TEXT and self._reserved() != "esac":
            if self.text[self.position] == "(":
                self.position += 1
            always = self._patterns()
            arms.append((None if always else (), self.script()))
            if ended := _CASE_ENDS.match(self.text, self.position):
                self.position = ended.end()
        self.expect("esac")
        return ConditionalConstruct(tuple(arms), is_if=False)

    def _patterns(self) -> bool:
        """Parse the patterns of one arm of `case`; return whether one matches everything."""
        always = False
        while self.blanks() != ")":
            before = self.position
            self.position += self.text[self.position] == "|"
            self.blanks()
            start = self.position
            self.word()
            always |= self.text[start : self.position] == "*"
            if self.position == before:
                raise self.fail("expected `)` after a pattern of `case`")
        self.position += 1
        return always

    def _for(self) -> Node:
        self.blanks()
        if self.text.startswith("((", self.position):
            self.position += 2
            self._calculation(self.position - 2)
            name, words = "", None
        else:
            name, words = self.word().text, self._items()
        while self.lines() == ";":
            self.position += 1
        if self._reserved() == "{":
            self.position += 1
            return Loop((), self._until("}"), name, words)
        self.expect("do")
        return Loop((), self._until("done"), name, words)

    def _items(self) -> tuple[Word, ...] | None:
        self.lines()
        if not _IN.match(self.text, self.position):
            return None
        self.position += len("in")
        words: list[Word] = []
        while self.blanks() not in _ENDS_COMMAND:
            words.append(self._required_word())
        return tuple(words)

    def _function(self) -> Node:
        self.blanks()
        name = self.word().text
        if self.blanks() == "(":
            self.position += 1
            self.expect(")")
        self.lines()
        return FunctionDefinition(name, self._body())

    # Simple commands

    def _simple(self) -> Node:
        start = self.position
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirections: list[Redirection] = []
        declares = False
        while (char := self.blanks()) not in _ENDS_COMMAND or self.text.startswith("&>", self.position):
            if char in _MAY_BEGIN_REDIRECTION and self._redirection(char, redirections):
                continue
            if (not words or declares) and (match := _ASSIGNMENT.match(self.text, self.position)):
                assignments.append(self._assignment(match))
                continue
            words.append(self._required_word())
            declares = declares or (len(words) == 1 and words[0].text in _DECLARES)
            if not declares:
                self._plain_words(words)
        end = max((item.end for item in words[-1:]), default=self.position)
        if not words and not assignments and not redirections:
            raise self.fail("expected a command")
        return SimpleCommand(tuple(words), tuple(assignments), tuple(redirections), start, end, declares)

    def _plain_words(self, words: list[Word]) -> None:
        """Read the plain words that follow, in one regular expression match each."""
        text, position = self.text, self.position
        while match := _PLAIN_WORD.match(text, position):
            position = match.end()
            words.append(Word(match[1], match.start(1), position))
        self.position = position

    def _required_word(self) -> Word:
        before = self.position
        word = self.word()
        if self.position == before:
            sign = self.text[before]
            what = "the end of the line" if sign == "\n" else "the end" if sign == END_OF_TEXT else f"`{sign}`"
            raise self.fail(f"expected a word, not {what}")
        return word

    def _assignment(self, match: re.Match[str]) -> Assignment:
        self.position = match.end()
        append, indexed = bool(match[3]), bool(match[2])
        if self.text[self.position] != "(":
            return Assignment(match[1], self.word(), append, indexed)
        self.position += 1
        words: list[Word] = []
        while self.lines() != ")":
            words.append(self._required_word())
        self.position += 1
        return Assignment(match[1], tuple(words), append, indexed)

    def _redirection(self, char: str, redirections: list[Redirection]) -> bool:
        if char not in _MAY_BEGIN_REDIRECTION:
            return False
        match = _REDIRECTION.match(self.text, self.position)
        if match is None:
            return False
        self.position = match.end()
        self.blanks()
        target = self._required_word()
        redirection = Redirection(match[1] or match[2], target)
        redirections.append(redirection)
        if redirection.operator in {"<<", "<<-"}:
            written = self.text[target.start : target.end]
            redirection.quoted = any(sign in written for sign in "'\"\\")
            self.pending.append((redirection, written if target.parts else target.text))
        return True

"""Variables and the expansion of words. UNKNOWN marks text that is only known at run time."""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from reconciler.launch.shell.ast import ArithmeticExpansion, Literal, ParameterExpansion, Part, UnknownExpansion, Word
from reconciler.launch.shell.substitution import ITEMS

# Arithmetic of `$(( … ))`.


_TOKEN = re.compile(
    r"[ \t\n]*(0[xX][0-9a-fA-F]+|[0-9]+|\$?\{?[A-Za-z_][A-Za-z0-9_]*\}?|\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>!])"
)

_PRECEDENCE = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "<<": 5, ">>": 5} | {
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
}

_SIGNED_64_BITS = 1 << 63  # bash calculates with these, and wraps around

_MAX_TOKENS = 200

_MAX_SHIFT = 63


def evaluate_arithmetic(expression: str, variable: Callable[[str], str | None]) -> int | None:
    """Return the value; None where it is unknown or invalid. `variable` returns the text of a name."""
    tokens: list[str] = []
    position = 0
    text = expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or len(tokens) == _MAX_TOKENS:
            return None
        tokens.append(match[1])
        position = match.end()
    try:
        return _ArithmeticEvaluator(tokens, variable).result()
    except (ValueError, IndexError, ZeroDivisionError):
        return None


class _ArithmeticEvaluator:
    """Precedence climbing over the tokens. Raises ValueError for unknown operands."""

    def __init__(self, tokens: list[str], variable: Callable[[str], str | None]) -> None:
        self.tokens = tokens
        self.position = 0
        self.variable = variable

    def result(self) -> int:
        value = self._binary(1)
        if self.position != len(self.tokens):
            raise ValueError(self.tokens[self.position])
        return value

    def _binary(self, lowest: int) -> int:
        left = self._unary()
        while self.position < len(self.tokens):
            operator = self.tokens[self.position]
            precedence = _PRECEDENCE.get(operator, 0)
            if precedence < lowest:
                break
            self.position += 1
            left = _wrap(_apply(operator, left, self._binary(precedence + 1)))
        return left

    def _unary(self) -> int:
        token = self.tokens[self.position]
        self.position += 1
        if token == "-":  # noqa: S105 - an operator
            return _wrap(-self._unary())
        if token == "+":  # noqa: S105 - an operator
            return self._unary()
        if token == "!":  # noqa: S105 - an operator
            return int(not self._unary())
        if token == "(":  # noqa: S105 - an operator
            value = self._binary(1)
            if self.tokens[self.position] != ")":
                raise ValueError(token)
            self.position += 1
            return value
        return _wrap(self._number(token))

    def _number(self, token: str) -> int:
        if token[0].isdigit():
            return _constant(token)
        text = self.variable(token.strip("${}"))
        if text is None:
            raise ValueError(token)
        text = text.strip()
        return _constant(text.lstrip("-")) * (-1 if text.startswith("-") else 1) if text else 0


def _constant(text: str) -> int:
    if not text.isascii() or not text.isalnum() or len(text) > len(str(_SIGNED_64_BITS)):
        raise ValueError(text)
    if text[:2] in {"0x", "0X"}:
        return int(text, 16)
    return int(text, 8) if text.startswith("0") else int(text)


def _apply(operator: str, left: int, right: int) -> int:
    if operator in {"/", "%"}:
        # The shell rounds towards zero, Python downwards.
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator in {"<<", ">>"}:
        if not 0 <= right <= _MAX_SHIFT:
            raise ValueError(operator)
        return left << right if operator == "<<" else left >> right
    return _SIMPLE[operator](left, right)


_SIMPLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "<": lambda left, right: int(left < right),
    "<=": lambda left, right: int(left <= right),
    ">": lambda left, right: int(left > right),
    ">=": lambda left, right: int(left >= right),
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "&&": lambda left, right: int(bool(left and right)),
    "||": lambda left, right: int(bool(left or right)),
}


def _wrap(value: int) -> int:
    """Keep 64 bits, as the shell does."""
    return (value + _SIGNED_64_BITS) % (2 * _SIGNED_64_BITS) - _SIGNED_64_BITS


UNKNOWN = "\ufdd0"
"""Marks text that is only known at run time. A Unicode noncharacter, which no script contains."""

UNKNOWN_WORDS = "\ufdd1"
"""Marks any number of unknown words among the items of an array or the arguments of a script."""

MAX_LENGTH = 1 << 17
"""Maximum length of a value: that of one argument in the kernel (MAX_ARG_STRLEN, 32 pages)."""

_RUN_TIME_NAMES = re.compile(
    r"(?:PET|KUBERNETES|TORCHELASTIC|SLURM|OMPI|PMI|NVIDIA|CUDA|NCCL|JOBSET|RAY|BASH)_\w+|MASTER_(?:ADDR|PORT)|WORLD_SIZE|LOCAL_WORLD_SIZE"
    r"|(?:LOCAL_|NODE_|GROUP_)?RANK|JOB_COMPLETION_INDEX|HOSTNAME|HOME|PATH|LD_LIBRARY_PATH|PYTHONPATH|PWD|OLDPWD|SHLVL"
    r"|USER|LOGNAME|SHELL|RANDOM|SRANDOM|SECONDS|EPOCH\w+|LINENO|UID|EUID|PPID|BASH\w*|IFS|OPT(?:IND|ARG)|REPLY|HOST(?:TYPE)?|_"
)
"""Variables that shells, Kubernetes, container images and training operators set at run time."""


class ShellValue(Struct, frozen=True):
    """The text of a variable, or the `items` of an array. `reason` explains UNKNOWN in the text."""

    text: str
    reason: str = ""
    items: tuple[str, ...] | None = None


def unknown(reason: str) -> ShellValue:
    """Return an unknown value."""
    return ShellValue(UNKNOWN, reason)


class Variables:
    """The variables of a shell, with the positional `arguments` and `name` (`$0`) of its script."""

    def __init__(
        self, values: dict[str, ShellValue], exported: set[str], arguments: tuple[str, ...], name: str
    ) -> None:
        self.values = values
        self.exported = exported
        self.arguments = arguments
        self.name = name

    @classmethod
    def from_env(cls, env: Mapping[str, str | None], arguments: tuple[str, ...] = (), name: str = "") -> "Variables":
        """Return the variables of a shell in a container; None in `env` is a value from a reference."""
        values = {
            key: unknown(f"`{key}` comes from a reference (valueFrom)") if value is None else ShellValue(value, "")
            for key, value in env.items()
        }
        return cls(values, set(env), arguments, name)

    def copy(self) -> "Variables":
        """Return a copy for a subshell or a branch."""
        return Variables(dict(self.values), set(self.exported), self.arguments, self.name)

    def get(self, name: str) -> ShellValue | None:
        """Return the value of a variable; None where neither the script nor `env` sets it."""
        value = self.values.get(name)
        if value is not None:
            return value
        if _RUN_TIME_NAMES.fullmatch(name):
            return unknown(f"`{name}` is set at run time")
        return None

    def set(self, name: str, value: ShellValue) -> None:
        """Set a variable. A value that is too long becomes unknown."""
        size = len(value.text) + sum(len(item) + 1 for item in value.items or ())
        self.values[name] = (
            value if size <= MAX_LENGTH else unknown(f"`{name}` is longer than {MAX_LENGTH:,} characters")
        )

    def environment(self) -> dict[str, str | None]:
        """Return the environment of a program that is started now; None is an unknown value."""
        known: dict[str, str | None] = {}
        for name in self.exported:
            value = self.values.get(name)
            if value is not None:
                known[name] = None if UNKNOWN in value.text else value.text
        return known

    def merge(self, other: "Variables") -> None:
        """Merge with the variables of another branch: values that differ become unknown."""
        for name in self.values.keys() | other.values.keys():
            if self.values.get(name) != other.values.get(name):
                self.values[name] = unknown(f"`{name}` depends on a branch of the script")
        self.exported |= other.exported
        if self.arguments != other.arguments:
            self.arguments = (UNKNOWN_WORDS,)


_BLANKS = re.compile(r"[ \t\n]+")

_SPLITS_OPERAND = frozenset("-+")

_USES_OPERAND = frozenset("-+=")

_ITEMS = frozenset("@*")  # all items of an array


class Field(Struct, frozen=True, gc=False):
    """One argument that a program receives (POSIX: a field), from the word written at `start` to `end`.

    `whole`: the word expanded to this field alone. `reason` explains UNKNOWN in `text`. `may_split`: the unknown part
    is unquoted, so it may be several fields, or none.
    """

    text: str
    start: int
    end: int
    whole: bool = True
    reason: str = ""
    may_split: bool = False


class Expander:
    """Expands words. `${NAME:=default}` sets variables. `size` counts the characters of all results."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self.size = 0
        self._reason = ""
        self._fields: list[tuple[str, bool]] = []
        self._text: str | None = None
        self._may_split = False
        self._unknown_count = False

    def fields(self, word: Word) -> list[Field]:
        """Return the fields of a word: usually one, none for an empty variable."""
        if not word.parts:
            return [Field(word.text, word.start, word.end)]
        self._reason, self._fields, self._text, self._may_split, self._unknown_count = "", [], None, False, False
        for part in word.parts:
            self._add(part, splits=False)
        self._end()
        if self._unknown_count and len(word.parts) > 1:
            # With an unknown number of fields, the fields of the other characters are unknown too.
            self._fields = [(UNKNOWN, True)]
        whole = len(self._fields) == 1
        return [
            Field(text, word.start, word.end, whole, self._reason if UNKNOWN in text else "", may_split)
            for text, may_split in self._fields
        ]

    def scalar(self, word: Word) -> ShellValue:
        """Return a word as the value of an assignment, without splitting."""
        return self._join(word.parts) if word.parts else ShellValue(word.text, "")

    def _join(self, parts: tuple[Part, ...]) -> ShellValue:
        texts: list[str] = []
        reason = ""
        for part in parts:
            value = self._value(part)
            texts.append(_to_text(value))
            reason = reason or value.reason
        text = "".join(texts)
        self.size += len(text)
        return ShellValue(text, reason if UNKNOWN in text else "")

    def _add(self, part: Part, *, splits: bool) -> None:
        """Add a part to the fields; with `splits`, unquoted literals are split too, as in `${X:-a b}`."""
        if isinstance(part, Literal):
            if splits and not part.quoted:
                self._split(part.text)
            else:
                self._append(part.text)
            return
        if isinstance(part, ParameterExpansion) and part.operator[-1:] in _SPLITS_OPERAND:
            chosen = self._operand(part)
            if chosen:
                for inner in chosen:
                    self._add(inner, splits=not part.quoted)
                return
        value = self._value(part)
        self._reason = self._reason or value.reason
        if value.items is not None and not (
            part.quoted and isinstance(part, ParameterExpansion) and _joins_items(part)
        ):
            self._items(value.items, quoted=part.quoted)
        elif part.quoted or isinstance(part, ArithmeticExpansion):
            self._may_split = self._may_split or (
                value.items is None and value.text == UNKNOWN and _expands_to_items(part)
            )
            self._append(_to_text(value))
        else:
            self._split(value.text)

    def _items(self, items: tuple[str, ...], *, quoted: bool) -> None:
        for number, item in enumerate(items):
            if number:
                self._end()
            if quoted:
                self._may_split = self._may_split or item == UNKNOWN_WORDS
                self._append(UNKNOWN if item == UNKNOWN_WORDS else item)
            else:
                self._split(UNKNOWN if item == UNKNOWN_WORDS else item)
        self._unknown_count = self._unknown_count or UNKNOWN_WORDS in items

    def _append(self, text: str) -> None:
        self._text = text if self._text is None else self._text + text
        self.size += len(text) + 1

    def _split(self, text: str) -> None:
        pieces = _BLANKS.split(text)
        for number, piece in enumerate(pieces):
            if number:
                self._end()
            if piece:
                self._append(piece)
                self._may_split = self._may_split or UNKNOWN in piece

    def _end(self) -> None:
        if self._text is not None:
            self._fields.append((self._text, self._may_split))
        self._text, self._may_split = None, False

    def _value(self, part: Part) -> ShellValue:
        if isinstance(part, Literal):
            return ShellValue(part.text, "")
        if isinstance(part, UnknownExpansion):
            return unknown(f"it depends on {part.reason}")
        if isinstance(part, ArithmeticExpansion):
            result = evaluate_arithmetic(part.expression, self._number)
            return unknown(f"`$(({part.expression}))` is unknown") if result is None else ShellValue(str(result), "")
        if part.operator[-1:] in _USES_OPERAND and (chosen := self._operand(part)) is not None:
            return self._join(chosen)
        return self._parameter(part)

    def _number(self, name: str) -> str | None:
        value = self.variables.get(name)
        return None if value is None or UNKNOWN in value.text else value.text

    def _operand(self, part: ParameterExpansion) -> tuple[Part, ...] | None:
        """Return the operand where the expansion uses it; None where it uses the variable."""
        operator = part.operator
        value = self._lookup(part)
        is_set = value is not None and (operator[0] != ":" or bool(value.text or value.items))
        if value is not None and value.text == UNKNOWN:
            return None
        if operator[-1] == "+":
            return part.operand if is_set else None
        if is_set:
            return None
        if operator[-1] == "=":
            self.variables.set(part.name, self._join(part.operand))
        return part.operand

    def _parameter(self, part: ParameterExpansion) -> ShellValue:
        value = self._lookup(part)
        if part.operator in {"length", ITEMS}:
            return _length(value) if part.operator == "length" else _count_items(part.name, value)
        if part.operator[-1:] == "+":
            return value if value is not None and value.text == UNKNOWN else ShellValue("", "")
        if value is None:
            if part.operator[-1:] in {"-", "="}:
                return ShellValue("", "")
            return unknown(f"`{part.name}` is set neither in the script nor in the container's env")
        if part.operator[:1] in {"%", "#"}:
            return _trim(value, part.operator, self._join(part.operand))
        return value

    def _lookup(self, part: ParameterExpansion) -> ShellValue | None:  # noqa: PLR0911 - one line for each kind of name
        name, variables = part.name, self.variables
        if name in _ITEMS:
            reason = "the arguments of the script are unknown" if UNKNOWN_WORDS in variables.arguments else ""
            return ShellValue("", reason, variables.arguments)
        if name == "#" and UNKNOWN_WORDS not in variables.arguments:
            return ShellValue(str(len(variables.arguments)), "")
        if name == "0":
            return ShellValue(variables.name, "")
        if name.isdigit():
            number = int(name[:6])
            if UNKNOWN_WORDS in variables.arguments:
                return unknown("the arguments of the script are unknown")
            return (
                ShellValue(variables.arguments[number - 1], "")
                if number <= len(variables.arguments)
                else ShellValue("", "")
            )
        if name in "#?$!-_":
            return unknown(f"`${name}` is only known at run time")
        return _index(variables.get(name), part.index)


def _to_text(value: ShellValue) -> str:
    return value.text if value.items is None else " ".join(value.items).replace(UNKNOWN_WORDS, UNKNOWN)


def _expands_to_items(part: Part) -> bool:
    return (
        part.index == "@" if isinstance(part, ParameterExpansion) else isinstance(part, UnknownExpansion) and part.many
    )


def _joins_items(part: ParameterExpansion) -> bool:
    return part.name == "*" or part.index == "*"


def _index(value: ShellValue | None, index: str) -> ShellValue | None:  # noqa: PLR0911 - one line for each case
    if value is None:
        return None
    if index in _ITEMS:
        if value.items is not None:
            return value
        return ShellValue(value.text, value.reason, (UNKNOWN_WORDS if value.text == UNKNOWN else value.text,))
    items = (value.text,) if value.items is None else value.items
    if UNKNOWN_WORDS in items or (value.items is None and value.text == UNKNOWN):
        return unknown(value.reason)
    if index and not index.isdecimal():
        return unknown(f"the index `[{index}]` is unknown")
    number = int(index[:6] or "0")
    if number >= len(items):
        return ShellValue("", "") if index else None
    return ShellValue(items[number], value.reason if UNKNOWN in items[number] else "")


def _length(value: ShellValue | None) -> ShellValue:
    if value is None or value.text == UNKNOWN or UNKNOWN in value.text or UNKNOWN_WORDS in (value.items or ()):
        return unknown("the length of an unknown value")
    return ShellValue(str(len(value.text) if value.items is None else len(value.items)), "")


def _count_items(name: str, value: ShellValue | None) -> ShellValue:
    """Return the number of items that commas separate; without a text, `wc` counts one line."""
    if value is None or UNKNOWN in value.text or value.items is not None:
        return unknown(f"the number of items in `{name}` is unknown")
    return ShellValue(str(value.text.count(",") + 1))


def _trim(value: ShellValue, operator: str, pattern: ShellValue) -> ShellValue:
    """Evaluate `${X#pattern}`, `##`, `%` and `%%` for patterns with at most one star, at one end."""
    text, glob = value.text, pattern.text
    star = glob.count("*")
    if value.items is not None or UNKNOWN in text or UNKNOWN in glob or star > 1 or any(x in glob for x in "?[\\"):
        return unknown("it depends on a pattern")
    fixed = glob.replace("*", "")
    if not star:
        return ShellValue(text.removeprefix(fixed) if operator[0] == "#" else text.removesuffix(fixed), "")
    if operator[0] == "#" and glob[0] == "*":
        at = text.find(fixed) if operator == "#" else text.rfind(fixed)
        return ShellValue(text if at < 0 else text[at + len(fixed) :], "")
    if operator[0] == "%" and glob[-1] == "*":
        at = text.rfind(fixed) if operator == "%" else text.find(fixed)
        return ShellValue(text if at < 0 else text[:at], "")
    return unknown("it depends on a pattern")

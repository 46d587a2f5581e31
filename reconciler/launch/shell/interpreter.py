"""Interprets a script without running anything: every program that it may start, with its arguments.

All branches whose condition is unknown are interpreted; a variable whose value differs between them is unknown
afterwards.
"""

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from reconciler.launch.shell.ast import (
    AndOrList,
    ArithmeticCommand,
    Assignment,
    BraceGroup,
    ConditionalConstruct,
    ConditionalExpression,
    FunctionDefinition,
    Loop,
    Node,
    Pipeline,
    Script,
    ShellError,
    SimpleCommand,
    Subshell,
    Word,
)
from reconciler.launch.shell.documents import WrittenFiles
from reconciler.launch.shell.expansion import (
    MAX_LENGTH,
    UNKNOWN,
    UNKNOWN_WORDS,
    Expander,
    Field,
    ShellValue,
    Variables,
    unknown,
)
from reconciler.launch.shell.parser import parse

MAX_STEPS = 20_000
"""Maximum number of steps: one for each command, and one for 64 copied variables."""

_MAX_SIZE = 4 * MAX_LENGTH
MAX_LEVELS = 100
"""Commands within commands, through functions and `eval`: four shells within each other fit the stack of Python."""

_CONDITIONS = frozenset({"[", "test", "grep", "command", "which", "type", "false", "read", "diff", "cmp", "pgrep"})
_SETS = frozenset({"read", "mapfile", "readarray", "getopts", "let"})
_ASSIGNED = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?:\+\+|--|[-+*/%&|^]?=(?!=))|(?:\+\+|--)([A-Za-z_][A-Za-z0-9_]*)"
)

OnCommand = Callable[[Sequence[Field], Variables], None]
"""Receives the arguments of a program, and the variables when it starts, with those set for it alone."""


def interpret(text: str, variables: Variables, on_command: OnCommand, written: WrittenFiles) -> None:
    """Call `on_command` for each program that the script may start, and note the files it writes. Raises ShellError."""
    _Interpreter(variables, on_command, written).script(parse(text))


class _Interpreter:
    def __init__(self, variables: Variables, on_command: OnCommand, written: WrittenFiles) -> None:
        self.variables = variables
        self.written = written
        self.on_command: OnCommand | None = on_command
        self.functions: dict[str, Node] = {}
        self.level = 0
        self.steps = 0
        self.size = 0
        self.exited = False
        self.eval_depth = 0  # inside `eval`, words have no place in the script
        self.builtins: dict[str, Callable[[list[str]], None]] = {
            "export": self._export,
            "declare": self._declare,
            "typeset": self._declare,
            "local": self._declare,
            "readonly": self._declare,
            "unset": self._unset,
            "shift": self._shift,
            "eval": self._eval,
            "set": self._set_arguments,
        }

    def script(self, script: Script) -> None:
        """Interpret commands in order, up to `exit` or `exec`."""
        for node in script:
            if self.exited:
                return
            self.node(node)

    def node(self, node: Node) -> None:  # noqa: C901, PLR0912 - one case for each kind of command
        """Interpret one command."""
        self.level += 1
        match node:
            case SimpleCommand():
                self._command(node)
            case AndOrList():
                self._and_or_list(node)
            case Pipeline():
                for part in node.parts:
                    if len(node.parts) == 1:
                        self.node(part)
                    else:
                        self._subshell((part,))
            case Subshell():
                self._subshell(node.body)
            case BraceGroup():
                self.script(node.body)
            case ConditionalConstruct():
                self._conditional(node)
            case Loop():
                self._loop(node)
            case FunctionDefinition():
                self.functions[node.name] = node.body
            case ArithmeticCommand():
                self._forget_assigned(node.expression)
            case ConditionalExpression():
                pass
        self.level -= 1

    def _check_level(self, at: int) -> None:
        """Raise ShellError if a function or `eval` is about to nest too deeply; the parser limits all else."""
        if self.level > MAX_LEVELS:
            raise ShellError(f"function calls and `eval` are nested more than {MAX_LEVELS} levels deep", at)

    def _count_steps(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS or self.size > _MAX_SIZE:
            raise ShellError(f"the script exceeds {MAX_STEPS:,} steps", 0)

    # Branches

    def _copy(self) -> Variables:
        self._count_steps(1 + len(self.variables.values) // 64)
        return self.variables.copy()

    def _subshell(self, body: Script) -> None:
        outer, functions, self.variables = self.variables, dict(self.functions), self._copy()
        self.script(body)
        self.variables, self.functions, self.exited = outer, functions, False

    def _run_optionally(self, body: Callable[[], None]) -> None:
        """Interpret what may or may not run."""
        before = self._copy()
        body()
        if self.exited:
            self.variables, self.exited = before, False
        else:
            self.variables.merge(before)

    def _and_or_list(self, node: AndOrList) -> None:
        conditional = _is_condition(node.first)
        result = self._evaluate((node.first,))
        self.node(node.first)
        for number, (operator, part) in enumerate(node.rest):
            if self.exited:
                return
            if result is not None:
                if result is (operator == "&&"):
                    conditional, result = _is_condition(part), self._evaluate((part,))
                    self.node(part)
                continue
            if operator == "||" or conditional:
                rest = node.rest[number:] if operator == "&&" else ((operator, part),)
                self._run_optionally(lambda rest=rest: self._run(rest))  # type: ignore[misc]
                if operator == "&&":
                    return
            else:
                result = self._evaluate((part,))
                self.node(part)
            conditional = _is_condition(part)

    def _run(self, rest: Sequence[tuple[str, Node]]) -> None:
        """Interpret the rest of a list whose first part succeeded."""
        for operator, part in rest:
            if self.exited:
                return
            if operator == "||":
                self._run_optionally(lambda part=part: self.node(part))  # type: ignore[misc]
            else:
                self.node(part)

    def _conditional(self, node: ConditionalConstruct) -> None:
        branches: list[Variables] = []
        decided = not node.arms
        for condition, body in node.arms:
            result: bool | None = condition is None or None
            if node.is_if and condition:
                result = self._evaluate(condition)
                self.script(condition)
            if result is False:
                continue
            start = self._copy()
            self.script(body)
            if not self.exited:
                branches.append(self.variables)
            self.variables, self.exited = start, False
            if result:
                decided = True
                break
        if not decided:
            branches.append(self.variables)
        self.exited = not branches
        if branches:
            self.variables = branches[0]
            for branch in branches[1:]:
                self._count_steps(1 + len(branch.values) // 64)
                self.variables.merge(branch)

    def _evaluate(self, condition: Script) -> bool | None:
        expander = Expander(self.variables)
        result = _evaluate_condition(condition, expander)
        self.size += expander.size
        return result

    def _loop(self, node: Loop) -> None:
        self.script(node.condition)
        expander = Expander(self.variables)
        values = [field for word in node.words or () for field in expander.fields(word)]
        self.size += expander.size
        once = node.words is not None and len(values) == 1 and not values[0].may_split
        if once:
            self.variables.set(node.name, ShellValue(values[0].text, values[0].reason))
            self.script(node.body)
            self.exited = False
            return
        # A first iteration, without `on_command`, finds the variables that the loop changes.
        on_command, self.on_command = self.on_command, None
        self._run_optionally(lambda: self._iterate(node))
        self.on_command = on_command
        self._run_optionally(lambda: self._iterate(node))

    def _iterate(self, node: Loop) -> None:
        if node.name:
            self.variables.set(node.name, unknown(f"`{node.name}` changes in a loop"))
        self.script(node.body)
        self.exited = False

    # Simple commands

    def _command(self, node: SimpleCommand) -> None:
        self._count_steps(1 + (len(node.words) + len(node.assignments)) // 64)
        expander = Expander(self.variables)
        fields: list[Field] = []
        for word in node.words:
            if word.parts:
                fields += expander.fields(word)
            else:
                fields.append(Field(word.text, word.start, word.end))
        if node.redirections or fields:
            self.written.note(node, fields, expander)
        if node.assignments:
            self._assign(node, expander, fields)
        elif fields:
            self._run_program(fields, self.variables)
        self.size += expander.size

    def _assign(self, node: SimpleCommand, expander: Expander, fields: list[Field]) -> None:
        if fields and not node.declares:
            own = self._copy()
            expander.variables = own
            for assignment in node.assignments:
                self._set(own, assignment, expander)
                own.exported.add(assignment.name)
            self._run_program(fields, own)
            return
        for assignment in node.assignments:
            self._set(self.variables, assignment, expander)
            if node.declares and node.words[0].text == "export":
                self.variables.exported.add(assignment.name)

    def _set(self, variables: Variables, assignment: Assignment, expander: Expander) -> None:
        before = variables.get(assignment.name) if assignment.append else None
        if assignment.indexed:
            variables.set(assignment.name, unknown(f"an item of `{assignment.name}` is assigned"))
        elif isinstance(assignment.value, tuple):
            fields = [field for word in assignment.value for field in expander.fields(word)]
            items = tuple(UNKNOWN_WORDS if field.may_split else field.text for field in fields)
            if before is not None:
                scalar = (UNKNOWN_WORDS if before.text == UNKNOWN else before.text,)
                items = (*(scalar if before.items is None else before.items), *items)
            reason = next((field.reason for field in fields if field.reason), before.reason if before else "")
            variables.set(assignment.name, ShellValue("", reason, items))
        else:
            value = expander.scalar(assignment.value)
            if before is not None and before.items is not None:
                value = unknown(f"text is appended to the array `{assignment.name}`")
            elif before is not None:
                value = ShellValue(before.text + value.text, before.reason or value.reason)
            variables.set(assignment.name, value)

    def _run_program(self, fields: list[Field], variables: Variables) -> None:
        name = fields[0].text
        if (body := self.functions.get(name)) is not None:
            self._call(body, fields)
        elif name in {"exit", "return"}:
            self.exited = True
        elif not self._builtin(name, fields):
            if self.on_command is not None:
                placed = [replace(field, start=-1, end=-1) for field in fields] if self.eval_depth else fields
                self.on_command(placed, variables)
            if name == "exec" and len(fields) > 1:
                self.exited = True

    def _call(self, body: Node, fields: list[Field]) -> None:
        self._check_level(fields[0].start)
        arguments = tuple(UNKNOWN_WORDS if field.may_split else field.text for field in fields[1:])
        outer, self.variables.arguments = self.variables.arguments, arguments
        self.node(body)
        self.variables.arguments = outer
        self.exited = False

    def _builtin(self, name: str, fields: list[Field]) -> bool:
        """Run a builtin that changes variables; return whether the command is one."""
        words = [field.text for field in fields[1:]]
        if name in self.builtins:
            self.builtins[name](words)
            return True
        if name in _SETS or (name == "printf" and words[:1] == ["-v"]):
            for word in words:
                for match in _NAME.finditer(word):
                    self.variables.set(match[0], unknown(f"`{match[0]}` is set by `{name}`"))
            return True
        return False

    def _export(self, words: list[str]) -> None:
        for word in words:
            self.variables.exported.add(word)

    def _declare(self, words: list[str]) -> None:
        if "-x" in words:
            self._export(words)

    def _unset(self, words: list[str]) -> None:
        for word in words:
            self.variables.values.pop(word, None)

    def _shift(self, words: list[str]) -> None:
        arguments = self.variables.arguments
        if UNKNOWN_WORDS in arguments or (words and not words[0].isdecimal()):
            self.variables.arguments = (UNKNOWN_WORDS,)
        else:
            self.variables.arguments = arguments[int(words[0][:6]) if words else 1 :]

    def _set_arguments(self, words: list[str]) -> None:
        if "--" in words:
            self.variables.arguments = tuple(words[words.index("--") + 1 :])

    def _eval(self, words: list[str]) -> None:
        text = " ".join(words)
        self.size += len(text)
        self._count_steps()
        if UNKNOWN in text:
            return
        self._check_level(0)
        self.eval_depth += 1
        self.script(parse(text))
        self.eval_depth -= 1

    def _forget_assigned(self, expression: str) -> None:
        for match in _ASSIGNED.finditer(expression):
            name = match[1] or match[2]
            self.variables.set(name, unknown(f"`{name}` is the result of arithmetic"))


_NAME = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b")


def _is_condition(node: Node) -> bool:
    """Return whether a command is usually written as a condition, not as a step that should succeed."""
    if isinstance(node, SimpleCommand):
        return bool(node.words) and node.words[0].text in _CONDITIONS
    return isinstance(node, ConditionalExpression | ArithmeticCommand) or (
        isinstance(node, Pipeline) and len(node.parts) == 1
    )


# Conditions whose operands are known: `[ "$A" = 1 ]`, `[[ -n $B ]]`, `true`

_TESTS = frozenset({"[", "test", "true", ":", "false"})
_UNARY: dict[str, Callable[[str], bool]] = {"-z": lambda text: not text, "-n": bool}
_STRINGS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")  # with a leading zero, `[` and `[[` disagree
_PATTERN = re.compile(r"[*?\[\\]")  # signs that the shell expands to names of files
_BINARY_WORDS = 3  # an operator between two words


def _evaluate_condition(condition: Script, expander: Expander) -> bool | None:
    """Return the result of a condition, or of the left side of `&&`; None where it is only known at run time."""
    return _evaluate_node(condition[0], expander) if len(condition) == 1 else None


def _evaluate_node(node: Node, expander: Expander) -> bool | None:  # noqa: PLR0911 - one line for each form
    if isinstance(node, Pipeline) and len(node.parts) == 1:
        result = _evaluate_node(node.parts[0], expander)
        return None if result is None else not result
    if isinstance(node, ConditionalExpression):
        words = [_expand_unsplit(word, expander) for word in node.words]
        known = [word for word in words if word is not None]
        return _test(known, patterns=True) if len(known) == len(words) else None
    # Other commands are not expanded here: `${NAME:=default}` would be set too early.
    if not isinstance(node, SimpleCommand) or node.assignments or not node.words or node.words[0].text not in _TESTS:
        return None
    fields = [field for word in node.words for field in expander.fields(word)]
    if not fields or any(UNKNOWN in field.text for field in fields):
        return None
    name, *rest = (field.text for field in fields)
    if name in {"true", ":", "false"}:
        return name != "false"
    if name == "[" and rest[-1:] == ["]"]:
        return _test(rest[:-1], patterns=False)
    return _test(rest, patterns=False) if name == "test" else None


def _expand_unsplit(word: Word, expander: Expander) -> str | None:
    """Expand a word of `[[ … ]]` without splitting; None where it is unknown."""
    text = expander.scalar(word).text
    return None if UNKNOWN in text else text


def _test(words: list[str], *, patterns: bool) -> bool | None:  # noqa: PLR0911 - one line for each form
    negations = 0
    while negations < len(words) - 1 and words[negations] == "!":
        negations += 1
    if negations:
        result = _test(words[negations:], patterns=patterns)
        return None if result is None else result is (negations % 2 == 0)
    if len(words) < 2:  # noqa: PLR2004 - one word is true unless it is empty
        return bool(words and words[0])
    if len(words) == 2:  # noqa: PLR2004 - an operator and its word
        return _UNARY[words[0]](words[1]) if words[0] in _UNARY else None
    if len(words) != _BINARY_WORDS:
        return None
    left, operator, right = words
    if operator in _STRINGS and not (patterns and _PATTERN.search(right)):
        return _STRINGS[operator](left, right)
    if operator in _NUMBERS and _WHOLE.fullmatch(left) and _WHOLE.fullmatch(right):
        return _NUMBERS[operator](int(left), int(right))
    return None

"""Conversion of Go templates to Jinja2: fields, conditions, loops and the functions that Kaiwo's templates use.

Anything else is refused with its line, because a template that means something else is worse than none.
"""

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import InvalidInput
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem

_ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
_GO = re.compile(r"\{\{-?\s*(?:\.|/\*|\$|(?:range|if|with)\s+[.$(\w]|end\b|else\b|(?:mul|indent|quote)\s)")
_JINJA = re.compile(r"\{%")
_WORD = re.compile(
    r'\s*("(?:\\.|[^"\\])*"|`[^`]*`|-?\d+(?:\.\d+)?|\$?(?:\.?[A-Za-z_]\w*)+(?:\.\w+)*|\$|\.|[()|]|:=|=|,)'
)
_ASSIGNMENT = re.compile(r"\$(\w+)\s*(:?=)\s*(.+)", re.DOTALL)
_RANGE = re.compile(r"(?:\$(\w+)\s*(?:,\s*\$(\w+)\s*)?:=\s*)?(.+)", re.DOTALL)
_OPERATORS = {
    "mul": "*", "add": "+", "sub": "-", "div": "//", "mod": "%", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "and": "and", "or": "or",
}  # fmt: skip
_OF_MANY = frozenset(("mul", "add", "and", "or"))
"""The operators that take more than two values."""
_CONSTANTS = {"true": "true", "false": "false", "nil": "none"}
_FILTERS = {"quote": "quote", "toYaml": "to_yaml", "toJson": "to_yaml", "trim": "trim", "lower": "lower",
            "upper": "upper", "len": "length", "int": "int", "toString": "string"}  # fmt: skip
_FUNCTIONS = frozenset((*_OPERATORS, *_FILTERS, "not", "default", "indent", "nindent"))


class _OpenBlock(Struct, frozen=True, kw_only=True):
    """An open block: what closes it, and what the dot is in it. `outer` is the dot around it, which `else` has, too."""

    end: str
    dot: str
    outer: str
    line: int


class _RefusedTemplate(Exception):
    """An expression that is not in the subset."""


def is_go_template(template: str) -> bool:
    """Return whether a template is written in Go's syntax."""
    return _JINJA.search(template) is None and _GO.search(template) is not None


def to_jinja(path: str, template: str) -> str:
    """Return a Go template in the syntax of Jinja2. Raises `InvalidInput` with every line that cannot be converted."""
    problems: list[Problem] = []
    text = "".join(_converted(path, template, problems))
    if problems:
        raise InvalidInput(problems, where=f"in {path}")
    return text


def _converted(path: str, template: str, problems: list[Problem]) -> Iterator[str]:
    blocks: list[_OpenBlock] = []
    end = 0
    for match in _ACTION.finditer(template):
        yield _literal(template[end : match.start()])
        end = match.end()
        left, action, right = match.groups()
        line = template.count("\n", 0, match.start()) + 1
        try:
            yield _action(action, left, right, blocks, line)
        except _RefusedTemplate as error:
            problems.append(_problem(path, line, f"{{{{ {action} }}}}: {error}"))
    yield _literal(template[end:])
    problems += [_problem(path, block.line, "is not closed by {{ end }}") for block in blocks]


def _literal(text: str) -> str:
    """Return text between actions so that Jinja2 sees no comment in it, such as in `${#files[@]}`."""
    return text.replace("{#", "{{ '{#' }}")


def _problem(path: str, line: int, message: str) -> Problem:
    hint = "write this part in Jinja2; docs/submitting.md has the syntax of both"
    return Problem(rule="submit.template", place=SourceRef(path=path, line=line, column=1), message=message, hint=hint)


def _action(action: str, left: str, right: str, blocks: list[_OpenBlock], line: int) -> str:
    dot = blocks[-1].dot if blocks else ""
    word, _, rest = action.partition(" ")
    if action.startswith("/*"):
        return f"{{#{left} {action.strip('/*').strip()} {right}#}}"
    if word == "end":
        if not blocks:
            raise _RefusedTemplate("closes nothing")
        return f"{{%{left} {blocks.pop().end} {right}%}}"
    if word == "else":
        if not blocks:
            raise _RefusedTemplate("no block is open")
        blocks[-1] = replace(blocks[-1], dot=blocks[-1].outer)
        return f"{{%{left} {_else(rest.strip(), blocks[-1].dot)} {right}%}}"
    if word in ("if", "with", "range"):
        start, block = _opened(word, rest.strip(), dot, len(blocks), line)
        blocks.append(block)
        return f"{{%{left} {start} {right}%}}"
    if assigned := _ASSIGNMENT.fullmatch(action):
        if assigned[2] == "=" and any(block.end == "endfor" for block in blocks):
            raise _RefusedTemplate("a variable of before the loop is not changed in it")
        return f"{{%{left} set {assigned[1]} = {_expression(assigned[3], dot)} {right}%}}"
    return f"{{{{{left} {_expression(action, dot)} {right}}}}}"


def _else(rest: str, dot: str) -> str:
    if not rest:
        return "else"
    word, _, condition = rest.partition(" ")
    if word != "if":
        raise _RefusedTemplate("only else and else if are converted")
    return f"elif {_expression(condition, dot)}"


def _opened(word: str, rest: str, dot: str, depth: int, line: int) -> tuple[str, _OpenBlock]:
    if word == "if":
        return f"if {_expression(rest, dot)}", _OpenBlock(end="endif", dot=dot, outer=dot, line=line)
    if word == "with":
        name = f"with{depth}"
        value = _expression(rest, dot)
        start = f"if {value} %}}{{% set {name} = {value}"
        return start, _OpenBlock(end="endif", dot=name, outer=dot, line=line)
    found = _RANGE.fullmatch(rest)
    if found is None:
        raise _RefusedTemplate("is not a loop")
    index, item, over = found.groups()
    name = item or index or f"item{depth}"
    start = f"for {index if item else '_'}, {name} in {_expression(over, dot)} | pairs"
    return start, _OpenBlock(end="endfor", dot=name, outer=dot, line=line)


def _expression(text: str, dot: str) -> str:
    """Return a pipeline as an expression of Jinja2."""
    words = _words(text)
    value = _pipeline(words, dot)
    if words:
        raise _RefusedTemplate(f"{words[0]!r} is not understood")
    return value


def _words(text: str) -> list[str]:
    words: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        match = _WORD.match(text, place)
        if match is None:
            raise _RefusedTemplate(f"{text[place:].strip()!r} is not understood")
        words.append(match[1])
        place = match.end()
    return words


def _pipeline(words: list[str], dot: str) -> str:
    value = _command(words, dot, None)
    while words and words[0] == "|":
        words.pop(0)
        value = _command(words, dot, value)
    return value


def _command(words: list[str], dot: str, piped: str | None) -> str:
    """Return one command of a pipeline: a value, or a function with its arguments, the last of which may be piped."""
    if not words:
        raise _RefusedTemplate("is empty")
    name = words[0]
    if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in _CONSTANTS:
        words.pop(0)
        if name not in _FUNCTIONS:
            raise _RefusedTemplate(f"{name!r} is not converted")
        arguments = [*_operands(words, dot), *([piped] if piped is not None else [])]
        return _call(name, arguments)
    operands = list(_operands(words, dot))
    if piped is not None or len(operands) != 1:
        raise _RefusedTemplate("is not a function")
    return operands[0]


def _operands(words: list[str], dot: str) -> Iterator[str]:
    while words and words[0] not in ("|", ")"):
        yield _operand(words, dot)


def _operand(words: list[str], dot: str) -> str:
    word = words.pop(0)
    if word == "(":
        value = _pipeline(words, dot)
        if not words or words.pop(0) != ")":
            raise _RefusedTemplate("a parenthesis is not closed")
        return f"({value})"
    if word[0] in '"`' or word[0].isdigit() or word[0] == "-":
        return word if word[0] != "`" else repr(word[1:-1])
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if word == "." and dot:
        return dot
    if word.startswith(".") and len(word) > 1:
        return f"{dot}{word}" if dot else word[1:]
    if word.startswith("$") and len(word) > 1:
        return word.lstrip("$.")
    raise _RefusedTemplate(f"{word!r} is not understood")


def _call(name: str, arguments: list[str]) -> str:
    if name in _OPERATORS and (len(arguments) == 2 or (name in _OF_MANY and len(arguments) > 2)):  # noqa: PLR2004
        return f"({f' {_OPERATORS[name]} '.join(arguments)})"
    if name == "not" and len(arguments) == 1:
        return f"(not {arguments[0]})"
    if name == "default" and len(arguments) == 2:  # noqa: PLR2004 - the default and the value
        return f"({arguments[1]} or {arguments[0]})"
    if name in ("indent", "nindent") and len(arguments) == 2:  # noqa: PLR2004 - the width and the text
        return f"{repr(chr(10)) + ' ~ ' if name == 'nindent' else ''}({arguments[1]} | indent({arguments[0]}, true))"
    if name in _FILTERS and len(arguments) == 1:
        return f"({arguments[0]} | {_FILTERS[name]})"
    raise _RefusedTemplate(f"{name!r} has other arguments")

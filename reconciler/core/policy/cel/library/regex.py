"""`find` and `findAll`: RE2 through the engine's own extraction, never Python's backtracking `re`.

The extraction leaves out empty matches, which Go's would list.
"""

from functools import cache
from typing import Any

from reconciler.core.policy.cel.library.signature import Signature, member


def whole_match(pattern: str) -> str:
    """Make one capturing group of the whole pattern: extraction returns the group, `find` the match."""
    text, index, in_class = "", 0, False
    while index < len(pattern):
        sign = pattern[index]
        if sign == "\\":
            end = pattern.find("\\E", index) + 2 if pattern.startswith("\\Q", index) else index + 2
            end = len(pattern) if end < index + 2 else end
            text += pattern[index:end]
            index = end
            continue
        if in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
            # "]" right after "[" or "[^" stands for itself.
            skip = 2 if pattern.startswith("^", index + 1) else 1
            if pattern.startswith("]", index + skip):
                text += pattern[index : index + skip + 1]
                index += skip + 1
                continue
        elif sign == "(":
            named = pattern.startswith(("?P<", "?<"), index + 1)
            if named or not pattern.startswith("?", index + 1):
                text += "(?:"
                index = pattern.find(">", index) + 1 if named else index + 1
                continue
        text += sign
        index += 1
    return f"({text})"


@cache
def _program() -> tuple[Any, Any]:
    from cel_expr_python import cel  # noqa: PLC0415 - only policies that search need a second environment

    string = cel.Type.STRING
    config = cel.NewEnvConfigFromYaml("extensions:\n- name: optional\n- name: regex\n")
    environment = cel.NewEnv(config=config, variables={"text": string, "pattern": string})
    return environment, environment.compile("regex.extractAll(text, pattern)")


def _extract_all(text: str, pattern: str) -> list[str]:
    _, program = _program()
    found = program.eval(data={"text": text, "pattern": pattern})
    if found.type().name() == "ERROR":
        raise ValueError(str(found.value()).partition(": ")[2])
    return list(found.plain_value())


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return all matches, or the first `limit` of them where it is not negative."""
    found = _extract_all(text, whole_match(pattern))
    return found if limit < 0 else found[:limit]


def find(text: str, pattern: str) -> str:
    """Return the first match, or the empty string."""
    return next(iter(find_all(text, pattern)), "")


SIGNATURES: tuple[Signature, ...] = (
    member("find", "string string", "string", find),
    member("findAll", "string string", "list<string>", find_all),
    member("findAll", "string string int", "list<string>", find_all),
)

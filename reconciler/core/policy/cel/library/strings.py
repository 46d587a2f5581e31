"""`find` and `findAll`, and the named string formats of `format`.

Regular expressions use RE2 through the engine's own extraction, never Python's backtracking `re`. The extraction omits
empty matches, which Go's returns. `validate` of a format returns an optional list; at run time it is a list, which the
program converts into an optional (empty: valid).
"""

from collections.abc import Callable
from datetime import date, datetime
from functools import cache
from typing import Any

from reconciler.core.patterns import later
from reconciler.core.policy.cel.library.network import uri_errors
from reconciler.core.policy.cel.library.signature import Signature, function, member, seal, unseal


def whole_match(pattern: str) -> str:
    """Return the pattern as one capturing group: the extraction returns groups, `find` returns the match."""
    text, index, in_class = "", 0, False
    while index < len(pattern):
        character = pattern[index]
        if character == "\\":
            end = pattern.find("\\E", index) + 2 if pattern.startswith("\\Q", index) else index + 2
            end = len(pattern) if end < index + 2 else end
            text += pattern[index:end]
            index = end
            continue
        if in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
            # "]" right after "[" or "[^" stands for itself.
            skip = 2 if pattern.startswith("^", index + 1) else 1
            if pattern.startswith("]", index + skip):
                text += pattern[index : index + skip + 1]
                index += skip + 1
                continue
        elif character == "(":
            named = pattern.startswith(("?P<", "?<"), index + 1)
            if named or not pattern.startswith("?", index + 1):
                text += "(?:"
                index = pattern.find(">", index) + 1 if named else index + 1
                continue
        text += character
        index += 1
    return f"({text})"


@cache
def _program() -> tuple[Any, Any]:
    from cel_expr_python import cel  # noqa: PLC0415 - few policies use regular expressions

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
    """Return all matches, or the first `limit` if it is not negative."""
    found = _extract_all(text, whole_match(pattern))
    return found if limit < 0 else found[:limit]


def find(text: str, pattern: str) -> str:
    """Return the first match, or the empty string."""
    return next(iter(find_all(text, pattern)), "")


_REGEX: tuple[Signature, ...] = (
    member("find", "string string", "string", find),
    member("findAll", "string string", "list<string>", find_all),
    member("findAll", "string string int", "list<string>", find_all),
)

# --- formats ----------------------------------------------------------------------------------------------------------

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = later(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = later(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64 = later(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DATE = later(r"\d{4}-\d{2}-\d{2}")
_TIME = later(r"(?i)(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.\d+)?(Z|[+-]\d{2}:\d{2})")
_LABEL_LENGTH, _SUBDOMAIN_LENGTH = 63, 253

Validator = Callable[[str], list[str]]


def _pattern(pattern: str, longest: int, message: str, *, prefix: bool = False) -> Validator:
    compiled = later(pattern)

    def validate(text: str) -> list[str]:
        errors = [f"must be no more than {longest} characters"] if len(text) > longest else []
        # A prefix may end with '-', because a generated suffix follows.
        shown = text[:-1] + "a" if prefix and text.endswith("-") else text
        return errors if compiled.fullmatch(shown) else [*errors, message]

    return validate


_subdomain = _pattern(rf"{_LABEL}(?:\.{_LABEL})*", _SUBDOMAIN_LENGTH, "must be a lowercase RFC 1123 subdomain")


def _qualified_name(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    errors = [f"prefix part {error}" for error in _subdomain(prefix)] if slash else []
    if not _NAME.fullmatch(name) or len(name) > _LABEL_LENGTH:
        errors.append("name part must be 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends")
    return errors


def _label_value(text: str) -> list[str]:
    valid = len(text) <= _LABEL_LENGTH and (not text or _NAME.fullmatch(text))
    return [] if valid else ["must be empty or 1 to 63 letters, digits, '-', '_' or '.'"]


def _date(text: str) -> list[str]:
    if not _DATE.fullmatch(text):
        return ["invalid date"]
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return []


def _datetime(text: str) -> list[str]:
    match = _TIME.fullmatch(text)
    if not match:
        return ["invalid datetime"]
    try:
        datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00")
    except ValueError:
        return ["invalid datetime"]
    return []


_LABEL_1123 = (_LABEL, _LABEL_LENGTH, "must be a lowercase RFC 1123 label")
_LABEL_1035 = (r"[a-z](?:[-a-z0-9]*[a-z0-9])?", _LABEL_LENGTH, "must be an RFC 1035 label")
_SUBDOMAIN = (rf"{_LABEL}(?:\.{_LABEL})*", _SUBDOMAIN_LENGTH, "must be a lowercase RFC 1123 subdomain")

FORMATS: dict[str, Validator] = {
    "dns1123Label": _pattern(*_LABEL_1123),
    "dns1123Subdomain": _pattern(*_SUBDOMAIN),
    "dns1035Label": _pattern(*_LABEL_1035),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _pattern(*_LABEL_1123, prefix=True),
    "dns1123SubdomainPrefix": _pattern(*_SUBDOMAIN, prefix=True),
    "dns1035LabelPrefix": _pattern(*_LABEL_1035, prefix=True),
    "labelValue": _label_value,
    "uri": uri_errors,
    "uuid": lambda text: [] if _UUID.fullmatch(text) else ["does not match the UUID format"],
    "byte": lambda text: [] if _BASE64.fullmatch(text) else ["invalid base64"],
    "date": _date,
    "datetime": _datetime,
}


def _validate(sealed: bytes, text: str) -> list[str]:
    return FORMATS[unseal("format", sealed)](text)


def _constant(name: str) -> Callable[[], bytes]:
    return lambda: seal("format", name)


SIGNATURES: tuple[Signature, ...] = (
    *_REGEX,
    *(function(f"format.{name}", "", "format", _constant(name)) for name in FORMATS),
    # Empty bytes mean an unknown format; the program converts them to an empty optional.
    function(
        "format.named", "string", "optional_type<format>", lambda name: seal("format", name) if name in FORMATS else b""
    ),
    member("validate", "format string", "optional_type<list<string>>", _validate),
)

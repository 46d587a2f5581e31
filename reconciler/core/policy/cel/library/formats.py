"""`format`: named string formats, each with what is wrong about a value.

`validate` returns an optional list; the program wraps its run-time list (empty: valid) into an optional.
"""

from collections.abc import Callable
from datetime import date, datetime

from reconciler.core.patterns import later
from reconciler.core.policy.cel.library import url
from reconciler.core.policy.cel.library.signature import Signature, function, member, seal, unseal

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = later(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = later(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64 = later(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DATE = later(r"\d{4}-\d{2}-\d{2}")
_TIME = later(r"(?i)(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.\d+)?(Z|[+-]\d{2}:\d{2})")
_LABEL_LENGTH, _SUBDOMAIN_LENGTH = 63, 253

Validator = Callable[[str], list[str]]


def _pattern(pattern: str, longest: int, words: str, *, prefix: bool = False) -> Validator:
    shape = later(pattern)

    def problems(text: str) -> list[str]:
        found = [f"must be no more than {longest} characters"] if len(text) > longest else []
        # A prefix may end in a dash: what is generated follows it.
        shown = text[:-1] + "a" if prefix and text.endswith("-") else text
        return found if shape.fullmatch(shown) else [*found, words]

    return problems


_subdomain = _pattern(rf"{_LABEL}(?:\.{_LABEL})*", _SUBDOMAIN_LENGTH, "must be a lowercase RFC 1123 subdomain")


def _qualified_name(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    found = [f"prefix part {one}" for one in _subdomain(prefix)] if slash else []
    if not _NAME.fullmatch(name) or len(name) > _LABEL_LENGTH:
        found.append("name part must be 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends")
    return found


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
    "uri": url.problems,
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
    *(function(f"format.{name}", "", "format", _constant(name)) for name in FORMATS),
    # Empty bytes mean: no such format; the program makes an empty optional of them.
    function(
        "format.named", "string", "optional_type<format>", lambda name: seal("format", name) if name in FORMATS else b""
    ),
    member("validate", "format string", "optional_type<list<string>>", _validate),
)

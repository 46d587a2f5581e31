"""The named string formats of `format`, as an API server validates them."""

import re
from collections.abc import Callable
from datetime import date, datetime

from reconciler.kube.cel.library.network import uri_errors
from reconciler.kube.cel.library.signature import Signature, function, member
from reconciler.kube.cel.values import NONE, Opaque, Optional
from reconciler.kube.patterns import (
    LABEL,
    LABEL_LENGTH,
    LETTER_LABEL,
    SUBDOMAIN,
    SUBDOMAIN_LENGTH,
    is_label_value,
    later,
)

_UUID = later(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64 = later(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DATE = later(r"\d{4}-\d{2}-\d{2}")
_TIME = later(r"(?i)(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.\d+)?(Z|[+-]\d{2}:\d{2})")

Validator = Callable[[str], list[str]]


def _pattern(form: re.Pattern[str], longest: int, message: str, *, prefix: bool = False) -> Validator:
    def validate(text: str) -> list[str]:
        # A prefix may end with '-', because a generated suffix follows: a server looks at `x` in its place, without
        # the character before.
        shown = text[:-2] + "x" if prefix and len(text) > 1 and text.endswith("-") else text
        errors = [f"must be no more than {longest} characters"] if len(shown) > longest else []
        return errors if form.fullmatch(shown) else [*errors, message]

    return validate


_SUBDOMAIN = (SUBDOMAIN, SUBDOMAIN_LENGTH, "must be a lowercase RFC 1123 subdomain")
_subdomain = _pattern(*_SUBDOMAIN)


def _qualified_name(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    errors = [f"prefix part {error}" for error in _subdomain(prefix)] if slash else []
    if not is_label_value(name):
        errors.append("name part must be 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends")
    return errors


def _label_value(text: str) -> list[str]:
    return [] if not text or is_label_value(text) else ["must be empty or 1 to 63 letters, digits, '-', '_' or '.'"]


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


_LABEL_1123 = (LABEL, LABEL_LENGTH, "must be a lowercase RFC 1123 label")
_LABEL_1035 = (LETTER_LABEL, LABEL_LENGTH, "must be an RFC 1035 label")

FORMATS: dict[str, Validator] = {
    "dns1123Label": _pattern(*_LABEL_1123),
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _pattern(*_LABEL_1035),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _pattern(*_LABEL_1123, prefix=True),
    "dns1123SubdomainPrefix": _pattern(*_SUBDOMAIN, prefix=True),
    "dns1035LabelPrefix": _pattern(*_LABEL_1035, prefix=True),
    "labelValue": _label_value,
    "uri": uri_errors,
    "uuid": lambda text: [] if _UUID.fullmatch(text) else ["does not match the UUID format"],
    "byte": lambda text: [] if text and _BASE64.fullmatch(text) else ["invalid base64"],
    "date": _date,
    "datetime": _datetime,
}


def _validate(one: Opaque, text: str) -> Optional:
    errors = FORMATS[one.value](text)
    return Optional(errors) if errors else NONE


def _named(name: str) -> Optional:
    return Optional(Opaque("format", name)) if name in FORMATS else NONE


def _constant(name: str) -> Callable[[], Opaque]:
    return lambda: Opaque("format", name)


SIGNATURES: tuple[Signature, ...] = (
    *(function(f"format.{name}", "", "format", _constant(name)) for name in FORMATS),
    function("format.named", "string", "optional_type<format>", _named),
    member("validate", "format string", "optional_type<list<string>>", _validate),
)

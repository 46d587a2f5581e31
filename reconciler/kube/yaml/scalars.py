"""Plain scalars: the values that Kubernetes reads, and the scalars that other YAML parsers read differently.

Kubernetes reads YAML with sigs.k8s.io/yaml (a fork of go-yaml v2: mostly YAML 1.1, with Go's number syntax), converts
it to JSON and decodes that with 64-bit integers. `resolve` returns the value after both steps. `is_ambiguous` compares
it with YAML 1.2's core schema and with YAML 1.1 as PyYAML and Ruby implement it.
"""

import math
import re
import struct

from reconciler.kube.patterns import later

Scalar = str | int | float | bool | None

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_WORDS: dict[str, Scalar] = (
    dict.fromkeys(_TRUE, True)
    | dict.fromkeys(_FALSE, False)
    | dict.fromkeys(_NULL, None)
    | dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan)
    | {sign + word: math.inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")}
    | dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf)
)
_EVERYWHERE = frozenset(
    (*_NULL, "true", "True", "TRUE", "false", "False", "FALSE"),
)
"""Words that every parser reads the same way."""
_NUMERIC_START = frozenset("0123456789+-.")

# strconv.ParseInt(text, 0, 64), strconv.ParseUint and go-yaml's yamlStyleFloat, after removing underscores
_GO_INTEGER = later(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_GO_FLOAT = later(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_GO_DOT_FLOAT = later(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)
_GO_SIGN_INSIDE = later(r"0b([-+][01]{1,64})", re.ASCII)

# https://yaml.org/spec/1.2.2/#1032-tag-resolution
_CORE_INTEGER = later(r"[-+]?[0-9]+", re.ASCII)
_CORE_BASED = later(r"0o([0-7]+)|0x([0-9a-fA-F]+)", re.ASCII)  # YAML 1.2

# https://yaml.org/type/int.html, float.html and timestamp.html, as PyYAML and Psych use them
_OLD_INTEGER = later(
    r"([-+]?)(?:0b([01_]+)|0x([0-9a-fA-F_]+)|0([0-7_]+)|(0|[1-9][0-9_]*)|([1-9][0-9_]*(?::[0-5]?[0-9])+))", re.ASCII
)
_OLD_BASES = (2, 16, 8, 10)  # of the groups of `_OLD_INTEGER`
_OLD_FLOAT = later(r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?", re.ASCII)
_OLD_OTHER = later(
    r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?"
    r"(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?",
    re.ASCII,
)

_INT64 = range(-(2**63), 2**63)
_UINT64_MAX = 2**64 - 1
_MAX_INTEGER = 128
"""No 64-bit integer has more digits, not counting leading zeros."""
_MAX_NUMBER = 256
"""Anything longer that looks like a number counts as ambiguous."""
_NUMERIC = later(r"[-+.:_0-9]+(?:[eE][-+]?[0-9]+)?|0[xX][0-9a-fA-F_]+", re.ASCII)


def resolve(text: str) -> Scalar:
    """Return the value that Kubernetes reads from a plain scalar, including NaN and infinities."""
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in _NUMERIC_START:
        return text
    return _number(text)


def _number(text: str) -> Scalar:
    if text[0] == ".":
        return _float(text.replace("_", ""), text) if _GO_DOT_FLOAT.fullmatch(text) else text
    digits = text.replace("_", "")
    integer = _integer(_GO_INTEGER.fullmatch(digits))
    if integer is not None:
        if integer in _INT64:
            return integer
        if _is_unsigned(integer, digits):
            return float(integer)
    if _GO_FLOAT.fullmatch(digits):
        return _float(digits, text)
    inside = _GO_SIGN_INSIDE.fullmatch(digits)
    return int(inside[1], 2) if inside and int(inside[1], 2) in _INT64 else text


def is_ambiguous(text: str) -> bool:
    """Return whether common parsers disagree about the type or value of a plain scalar."""
    if text in _WORDS:
        return text not in _EVERYWHERE
    if text in {"=", "<<"}:
        return True
    if not text or text[0] not in _NUMERIC_START:
        return False
    if len(text) > _MAX_NUMBER:
        return _NUMERIC.fullmatch(text) is not None
    kubernetes = resolve(text)
    return not (_same(kubernetes, _yaml_1_2(text)) and _same(kubernetes, _yaml_1_1(text)))


def is_string(text: str) -> bool:
    """Return whether every common parser reads a plain scalar as this string."""
    return isinstance(resolve(text), str) and not is_ambiguous(text)


def key_text(text: str) -> str | None:
    """Return the mapping key that Kubernetes reads from a plain scalar, or None if it is not a valid key.

    Follows convertToJSONableObject of sigs.k8s.io/yaml: booleans and numbers become strings; null and integers that
    need an unsigned type are not valid.
    """
    value = resolve(text)
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number_key(text, value)


def _number_key(text: str, value: float) -> str | None:
    digits = text.replace("_", "")
    if not _GO_FLOAT.fullmatch(digits):
        return str(value) if isinstance(value, int) else _go_float32(value)
    integer = _integer(_GO_INTEGER.fullmatch(digits))
    if integer is not None and integer in _INT64:
        return str(integer)
    if integer is not None and _is_unsigned(integer, digits):
        return None
    return _go_float32(float(digits))


def _is_unsigned(integer: int, digits: str) -> bool:
    return 0 <= integer <= _UINT64_MAX and digits[0] not in "+-"


def _integer(match: re.Match[str] | None) -> int | None:
    """Return the integer of a `_GO_INTEGER` match, or None without a match or with too many digits."""
    if match is None:
        return None
    sign, *groups = match.groups()
    for digits, base in zip(groups, (16, 2, 8, 10), strict=True):
        if digits:
            significant = digits.lstrip("0") or "0"
            if len(significant) > _MAX_INTEGER:
                return None
            return int(sign + significant, base)
    return None


def _float(digits: str, text: str) -> Scalar:
    """Parse a float as Go does; through JSON, a whole number becomes an integer."""
    value = float(digits)
    if math.isinf(value):
        return text  # strconv.ParseFloat reports a range error, so the scalar stays a string
    if value.is_integer() and int(value) in _INT64:
        return int(value)
    return value


def _same(one: Scalar, other: Scalar) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or isinstance(one, str) or isinstance(other, str):
        return type(one) is type(other) and one == other
    return one == other


def _yaml_1_2(text: str) -> Scalar:
    if _CORE_INTEGER.fullmatch(text):
        return int(text)
    based = _CORE_BASED.fullmatch(text)
    if based:
        return int(based[1], 8) if based[1] else int(based[2], 16)
    return float(text) if _GO_FLOAT.fullmatch(text) else text


def _yaml_1_1(text: str) -> Scalar:
    match = _OLD_INTEGER.fullmatch(text)
    if match:
        sign, *groups, sexagesimal = match.groups()
        digits, base = next(
            ((digits, base) for digits, base in zip(groups, _OLD_BASES, strict=True) if digits), ("", 10)
        )
        bare = digits.replace("_", "")
        if sexagesimal or not bare:
            return math.nan  # another number or an error, never what Kubernetes reads
        return int(sign + bare, base)
    if _OLD_FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return None if _OLD_OTHER.fullmatch(text) else text


def _go_float32(value: float) -> str:
    """Format as strconv.FormatFloat(value, 'g', -1, 32): shortest digits that give the same 32-bit float."""
    rounded = _float32(value)
    if not math.isfinite(rounded):
        return ".nan" if math.isnan(rounded) else ".inf" if rounded > 0 else "-.inf"
    candidates = (f"{rounded:.{precision}e}" for precision in range(9))
    text = next(candidate for candidate in candidates if _float32(float(candidate)) == rounded)
    mantissa, exponent = text.split("e")
    smallest, largest = -4, 5
    if not smallest <= int(exponent) <= largest:
        return text
    decimals = max(len(mantissa.lstrip("-").replace(".", "")) - 1 - int(exponent), 0)
    return f"{float(text):.{decimals}f}"


def _float32(value: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded

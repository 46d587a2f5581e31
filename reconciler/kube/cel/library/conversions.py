"""Conversions between types, as Go's strconv and time packages read text."""

import math
import re
from decimal import Decimal
from typing import Any

from reconciler.kube.cel.library.signature import Signature, function
from reconciler.kube.cel.library.times import parse_duration, parse_timestamp, timestamp_text
from reconciler.kube.cel.values import INT64, UINT64, CelError, Duration, UInt, checked_int
from reconciler.kube.patterns import later

_INT, _UINT = later(r"[+-]?[0-9]+"), later(r"[0-9]+")
# As strconv.ParseFloat of Go.
_DOUBLE = later(r"(?i)[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)")
_HEX_DOUBLE = later(r"(?i)[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]+")
# As strconv.ParseBool of Go.
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_MIN_POWER, _MAX_POWER, _MAX_DIGITS = -4, 5, 64


def _wrong(source: str, target: str) -> CelError:
    return CelError(f"type conversion error from '{source}' to '{target}'")


def _whole(text: str, form: re.Pattern[str], allowed: range, kind: str) -> int:
    if not form.fullmatch(text) or not text.isascii() or len(text) > _MAX_DIGITS or int(text) not in allowed:
        raise _wrong("string", kind)
    return int(text)


def _int_of_text(text: str) -> int:
    return _whole(text, _INT, INT64, "int")


def _uint_of_text(text: str) -> int:
    return UInt(_whole(text, _UINT, UINT64, "uint"))


def _double_of_text(text: str) -> float:
    if _HEX_DOUBLE.fullmatch(text):
        return float.fromhex(text)
    if not text.isascii() or not _DOUBLE.fullmatch(text):
        raise _wrong("string", "double")
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise _wrong("string", "double")
    return value


def _bool_of_text(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _wrong("string", "bool")


def _int_of_double(value: float) -> int:
    if math.isnan(value) or math.isinf(value) or not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


def _uint_of_double(value: float) -> int:
    if math.isnan(value) or math.isinf(value) or not 0 <= value < 2.0**64:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def _uint_of_int(value: int) -> int:
    if value < 0:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def double_text(value: float) -> str:
    """Return a double as Go prints it with `%g`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    power = len(digits) - 1 + int(exponent)
    if _MIN_POWER <= power <= _MAX_POWER:
        return format(Decimal((sign, digits, int(exponent))), "f")
    shown = "".join(map(str, digits))
    fraction = f".{shown[1:]}" if len(shown) > 1 else ""
    return f"{'-' if sign else ''}{shown[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def duration_text(value: Duration) -> str:
    """Return a duration as seconds, such as `1.5s`."""
    seconds = value.nanoseconds // 10**9 + (value.nanoseconds % 10**9) / 1e9
    return format(Decimal(repr(seconds)).normalize(), "f") + "s"


def _no_duration(_: int) -> Duration:
    """Refuse an int, which the type checker takes."""
    raise _wrong("int", "google.protobuf.Duration")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _identity(value: Any) -> Any:
    return value


SIGNATURES: tuple[Signature, ...] = (
    function("int", "int", "int", _identity),
    function("int", "double", "int", _int_of_double),
    function("int", "duration", "int", lambda one: one.nanoseconds),
    function("int", "string", "int", _int_of_text),
    function("int", "timestamp", "int", lambda one: one.nanoseconds // 10**9),
    function("int", "uint", "int", lambda one: checked_int(int(one))),
    function("uint", "uint", "uint", _identity),
    function("uint", "double", "uint", _uint_of_double),
    function("uint", "int", "uint", _uint_of_int),
    function("uint", "string", "uint", _uint_of_text),
    function("double", "double", "double", _identity),
    function("double", "int", "double", float),
    function("double", "string", "double", _double_of_text),
    function("double", "uint", "double", float),
    function("bool", "bool", "bool", _identity),
    function("bool", "string", "bool", _bool_of_text),
    function("bytes", "bytes", "bytes", _identity),
    function("bytes", "string", "bytes", lambda one: one.encode("utf-8", "surrogatepass")),
    function("string", "string", "string", _identity),
    function("string", "bool", "string", lambda one: "true" if one else "false"),
    function("string", "bytes", "string", _text_of_bytes),
    function("string", "double", "string", double_text),
    function("string", "duration", "string", duration_text),
    function("string", "int", "string", str),
    function("string", "timestamp", "string", timestamp_text),
    function("string", "uint", "string", lambda one: str(int(one))),
    function("duration", "duration", "duration", _identity),
    function("duration", "int", "duration", _no_duration),
    function("duration", "string", "duration", parse_duration),
    function("timestamp", "timestamp", "timestamp", _identity),
    function("timestamp", "int", "timestamp", parse_timestamp),
    function("timestamp", "string", "timestamp", parse_timestamp),
)

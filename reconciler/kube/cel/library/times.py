"""Durations and points in time: reading and printing them as Go does, and their parts."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from reconciler.kube.cel.library.operators import moment
from reconciler.kube.cel.library.signature import Signature, member
from reconciler.kube.cel.values import INT64, CelError, Duration, Timestamp
from reconciler.kube.patterns import later

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_TERM = later(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")  # as time.ParseDuration of Go
_TERMS = later(r"(?:[0-9]*(?:\.[0-9]*)?(?:ns|us|µs|μs|ms|s|m|h))+")
_TIME = later(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_OFFSET = later(r"[+-]?[0-9]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_HOURS, _MAX_MINUTES = 24, 60  # Go takes these offsets, too


def parse_duration(text: str) -> Duration:
    """Read `1h2m3.5s`. Raises CelError."""
    wrong = CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    if not text.isascii() and not any(unit in text for unit in ("µs", "μs")):
        raise wrong
    if not _TERMS.fullmatch(rest):
        raise wrong
    total = 0
    for whole, fraction, unit in _TERM.findall(rest):
        if not whole and not fraction:
            raise wrong
        exact = Fraction(f"{whole or 0}.{fraction or 0}") * _UNITS[unit]
        total += int(exact)
    if sign * total not in INT64:
        raise wrong
    return Duration(sign * total)


def parse_timestamp(value: str | int) -> Timestamp:
    """Read RFC 3339, or seconds since 1970. Raises CelError."""
    if isinstance(value, int):
        return moment(value * 10**9)
    wrong = CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    match = _TIME.fullmatch(value) if value.isascii() else None
    if match is None:
        raise wrong
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = int((match[7] or "0")[:9].ljust(9, "0"))
    offset = 0
    if match[8]:
        if int(match[9]) > _MAX_HOURS or int(match[10]) > _MAX_MINUTES:
            raise wrong
        offset = (int(match[9]) * 60 + int(match[10])) * (-60 if match[8] == "-" else 60)
    try:  # Python has no year 0, which Go reads and then finds out of range
        at = datetime(year or 4, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise wrong from None
    seconds = (at - _EPOCH) // timedelta(seconds=1) - offset
    return moment((seconds if year else -(10**14)) * 10**9 + fraction)


def _local(value: Timestamp, zone: tzinfo = UTC) -> datetime:
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=value.nanoseconds // 1000)
    try:
        return at.astimezone(zone)
    except OverflowError:
        raise CelError("timestamp overflow") from None


def timestamp_text(value: Timestamp) -> str:
    """Return a point in time as RFC 3339 with as many digits as it needs."""
    at = _local(value)
    fraction = f".{value.nanoseconds % 10**9:09d}".rstrip("0").rstrip(".")
    return f"{at.year:04d}-{at:%m-%dT%H:%M:%S}{fraction}Z"


def _zone(name: str) -> tzinfo:
    hours, colon, minutes = name.partition(":")
    if colon:
        if not _OFFSET.fullmatch(hours) or not _OFFSET.fullmatch(minutes):
            raise CelError(f"{name!r} is not a time zone")
        total = int(hours) * 60 + (-int(minutes) if name.startswith("-") else int(minutes))
        if abs(total) >= 24 * 60:
            raise CelError(f"{name!r} is not a time zone")
        return timezone(timedelta(minutes=total))
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_AMOUNTS = {"getHours": 3600 * 10**9, "getMinutes": 60 * 10**9, "getSeconds": 10**9, "getMilliseconds": 10**6}


def _part(name: str) -> tuple[Signature, ...]:
    read = _PARTS[name]
    plain: Callable[[Any], int] = lambda one: read(_local(one))  # noqa: E731 - beside its sibling
    zoned: Callable[[Any, str], int] = lambda one, zone: read(_local(one, _zone(zone)))  # noqa: E731
    return (member(name, "timestamp", "int", plain), member(name, "timestamp string", "int", zoned))


def _amount(name: str) -> Signature:
    unit = _AMOUNTS[name]
    return member(
        name, "duration", "int", lambda one: abs(one.nanoseconds) // unit * (-1 if one.nanoseconds < 0 else 1)
    )


SIGNATURES: tuple[Signature, ...] = (
    *(signature for name in _PARTS for signature in _part(name)),
    *(_amount(name) for name in _AMOUNTS),
)

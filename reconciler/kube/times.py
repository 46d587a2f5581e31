"""Times and dates as Kubernetes and our own files write them."""

import datetime as dt


def timestamp(seconds: float) -> str:
    """Return a time of Unix as an API server writes it, without fractions of a second."""
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_time(text: object) -> float:
    """Return the time of Unix of a timestamp; 0 for what is none, and for a time that no calendar has."""
    try:
        return dt.datetime.fromisoformat(str(text).upper().replace(":60", ":59")).timestamp()  # it has no leap seconds
    except (ValueError, OverflowError):
        return 0.0


def duration(seconds: float) -> str:
    """Return a time span in its largest unit: `45 s`, `12 min`, `5 h`, `3 d`."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(int(seconds), 0)} s"


def is_date(text: str) -> bool:
    """Return whether a text is a date of the form 2026-01-31."""
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def is_too_old(days: int | None, most: int | None) -> bool:
    """Return whether an age is more than a limit. What is from the future is too old; None: no age, or no limit."""
    return days is not None and most is not None and not 0 <= days <= most

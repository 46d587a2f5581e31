"""Times and dates as Kubernetes and our own files write them."""

import datetime as dt


def timestamp(seconds: float) -> str:
    """Return a time of Unix as an API server writes it, without fractions of a second."""
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_time(text: object) -> float:
    """Return the time of Unix of a timestamp; 0 if there is none. Raises `ValueError` for another text."""
    return dt.datetime.fromisoformat(text).timestamp() if isinstance(text, str) and text else 0.0


def is_date(text: str) -> bool:
    """Return whether a text is a date of the form 2026-01-31."""
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False

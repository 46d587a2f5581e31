"""Regular expressions: RE2, as in Go, never Python's backtracking `re`."""

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

import re2

from reconciler.kube.cel.library.signature import Signature, both, member
from reconciler.kube.cel.values import CelError
from reconciler.kube.patterns import later

_ESCAPED = later(r"\\(?:Q[\s\S]*?(?:\\E|\Z)|[\s\S])")  # of RE2: `\Q…\E`, or one character
_MAX_KEPT = 128
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


@lru_cache(maxsize=_MAX_KEPT)
def _compiled(pattern: str) -> Any:
    """Return a compiled pattern. Raises CelError for one that Go refuses."""
    if "\\C" in pattern and "\\C" in _ESCAPED.findall(pattern):  # RE2 has it, and Go has not
        raise CelError("invalid regular expression: invalid escape sequence: `\\C`")
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise CelError(f"invalid regular expression: {error.args[0].decode(errors='replace')}") from None
    except UnicodeEncodeError:
        raise _no_text() from None


def _no_text() -> CelError:
    return CelError("invalid regular expression: the text is not valid Unicode")


def matches(text: str, pattern: str) -> bool:
    """Return whether a pattern matches anywhere in a text."""
    try:
        return _compiled(pattern).search(text) is not None
    except UnicodeEncodeError:
        raise _no_text() from None


def first_within(text: str, words: tuple[str, ...]) -> int:
    """Return the position of the first of some words that a text contains; the number of words if there is none.

    Most texts contain none, and RE2 looks for all words at once.
    """
    with suppress(UnicodeEncodeError):  # half of a surrogate pair, which RE2 does not take
        if _any_of(words).search(text.encode()) is None:
            return len(words)
    return next((position for position, word in enumerate(words) if word in text), len(words))


@lru_cache(maxsize=_MAX_KEPT)
def _any_of(words: tuple[str, ...]) -> Any:
    return re2.compile("|".join(map(re2.escape, words)).encode(), _OPTIONS)


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return all matches, or the first `limit` if it is not negative."""
    try:
        found = list(_found(text, pattern))
    except UnicodeEncodeError:
        raise _no_text() from None
    return found if limit < 0 else found[:limit]


def _found(text: str, pattern: str) -> Iterator[str]:
    """Yield all matches; as in Go, an empty one right after another match does not count."""
    last = -1
    for match in _compiled(pattern).finditer(text):
        if match.end() > match.start() or match.start() != last:
            yield match.group()
        last = match.end()


def find(text: str, pattern: str) -> str:
    """Return the first match, or the empty string."""
    return next(iter(find_all(text, pattern)), "")


@lru_cache(maxsize=_MAX_KEPT)
def pattern_error(pattern: str) -> str:
    """Return the mistake in a regular expression, or the empty string."""
    try:
        _compiled(pattern)
    except CelError as error:
        return str(error)
    return ""


SIGNATURES: tuple[Signature, ...] = (
    *both("matches", "string string", "bool", matches),
    member("find", "string string", "string", find),
    member("findAll", "string string", "list<string>", find_all),
    member("findAll", "string string int", "list<string>", find_all),
)

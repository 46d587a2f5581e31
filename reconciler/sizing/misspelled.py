"""Names that a misspelled name may mean."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_MAX_SUGGESTIONS = 3
_SIMILARITY = 0.85
_OTHER = re.compile(r"[^0-9]+")


def misspelled(written: str, names: Iterable[str]) -> list[str]:
    """Return the names that differ from `written` in a letter or two, the nearest first.

    Digits have to be the same: another version or size is another thing, not a misspelling.
    """
    digits = _OTHER.sub("", written)
    candidates = [name for name in names if _OTHER.sub("", name) == digits]
    return get_close_matches(written, candidates, _MAX_SUGGESTIONS, _SIMILARITY)

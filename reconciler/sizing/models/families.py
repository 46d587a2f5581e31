"""The family, the version and the size that a model's name says: `my-org/Qwen2.5-14B-foo` is a Qwen 2.5 of 14 B."""

import re
from collections.abc import Sequence

_SIZE = re.compile(r"(?<![a-z0-9.])((?:\d+x)?)(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
_ACTIVE = re.compile(r"(?<![a-z0-9])a(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
_VERSION = r"[-. ]?v?(\d+(?:\.\d+)?)(?![\d.]*[bmx])"
_POINT = re.compile(r"(?<=\d)[_p](?=\d+(?:[^\dbm.]|$))")
_WORD = re.compile(r"[a-z]+")
_OTHER_LAYERS = frozenset(
    {
        *("vl", "vision", "omni", "audio", "moe", "mamba", "rwkv", "hybrid", "aqlm", "pruned", "medusa", "dream"),
        *("diffusion", "t", "bert", "encoder", "draft", "eagle", "hyena", "tiny", "mini", "nano"),
    }
)
"""Words for an architecture that differs from that of the family; the row of a model has them as well."""
_TUNING = frozenset({"v", "instruct", "chat", "hf", "it", "base", "code", "moe", "r"})


class FamilyName:
    """A name by its parts: `words`, `sizes` (parameters in millions, or experts with their size) and active ones."""

    def __init__(self, name: str) -> None:
        self.text = _POINT.sub(".", name.lower()).replace("_", "-")
        self.sizes = [(experts, _millions(count, unit)) for experts, count, unit in _SIZE.findall(self.text)]
        self.active = [_millions(count, unit) for count, unit in _ACTIVE.findall(self.text)]
        words = _WORD.findall(_ACTIVE.sub(" ", _SIZE.sub(" ", self.text)))
        self.first = words[0] if words else ""
        self.words = frozenset(words)

    def version(self, word: str) -> str:
        """Return the version that follows a word, empty if none does."""
        match = re.search(rf"(?<![a-z]){word}{_VERSION}", self.text)
        return "" if match is None else match[1].removesuffix(".0")


def _millions(count: str, unit: str) -> float:
    return float(count) * (1000 if unit == "b" else 1)


def same_family(name: str, rows: Sequence[FamilyName]) -> int | None:
    """Return the number of the row whose family and size a name says; None if it says neither, or other layers.

    The version is the one that the name says, else one with the same first digit; a name without a version means the
    row without one, else the newest.
    """
    written = FamilyName(name)
    fits = [(rank, index) for index, row in enumerate(rows) if (rank := _rank(written, row)) is not None]
    return max(fits, key=lambda fit: (fit[0], -fit[1]))[1] if fits else None


def _rank(written: FamilyName, row: FamilyName) -> tuple[int, int, float] | None:
    """Return how well a row fits: its words, then whether the version is the same, then the newest."""
    if not row.sizes or written.sizes[:1] != row.sizes[:1] or written.active[:1] != row.active[:1]:
        return None
    if not row.words - _TUNING <= written.words or (written.words & _OTHER_LAYERS) - row.words:
        return None
    own, said = row.version(row.first), written.version(row.first)
    if said == own:
        closeness = 2
    elif not said or said.partition(".")[0] == own.partition(".")[0]:
        closeness = 1
    else:
        return None
    return len(row.words - _TUNING), closeness, float(own or 0)

"""Files by path and blob id as one text of sorted lines: searched, compared and digested without being taken apart.

A repository of ten thousand documents is a text of two megabytes. To decode, look through or compare that many objects
in Python takes longer than a whole plan may; a text is read in one piece, and compared at the speed of memory.
"""

from collections.abc import ItemsView, Iterator, Mapping
from functools import cached_property
from hashlib import sha256


class Listing(Mapping[str, str]):
    """Blob ids by path, sorted by path. Paths are printable, which is what keeps them apart."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self._asked = 0
        self._compared: tuple[Listing, list[str]] | None = None  # the last comparison: several ask for the same

    @classmethod
    def of(cls, oids: Mapping[str, str]) -> "Listing":
        """Sort paths into a listing. Raises `ValueError` where a path is not printable."""
        if not "".join(oids).isprintable():
            raise ValueError("a path holds signs that are not printable")
        return cls("".join([f"{path}\t{oids[path]}\n" for path in sorted(oids)]))

    def __getitem__(self, path: str) -> str:
        """Return the blob id of a path: by a search, but from many questions on all is taken apart once."""
        self._asked += 1
        if self._asked > _FEW:
            return self._oids[path]
        at = self._seek(path)
        if not self.text.startswith(f"{path}\t", at):
            raise KeyError(path)
        return self.text[at + len(path) + 1 : self.text.index("\n", at)]

    def __iter__(self) -> Iterator[str]:
        """Yield the paths."""
        return iter(self._oids)

    def __len__(self) -> int:
        """Count the paths, once."""
        return self._count

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.text)

    @cached_property
    def _count(self) -> int:
        return self.text.count("\n")

    def __eq__(self, other: object) -> bool:
        """Whether both list the same."""
        return self.text == other.text if isinstance(other, Listing) else NotImplemented

    def __hash__(self) -> int:
        """Digest the text."""
        return hash(self.text)

    def items(self) -> ItemsView[str, str]:
        """Return all paths with their ids, taken apart once."""
        return self._oids.items()

    @cached_property
    def _oids(self) -> dict[str, str]:
        parts = self.text.replace("\n", "\t").split("\t")
        return dict(zip(parts[:-1:2], parts[1::2], strict=True))

    def _seek(self, path: str) -> int:
        """Return where the line of a path begins, or would begin."""
        text, low, high = self.text, 0, len(self.text)
        while low < high:
            at = max(text.rfind("\n", low, (low + high) // 2) + 1, low)
            if text[at : text.index("\t", at)] < path:
                low = text.index("\n", at) + 1
            else:
                high = at
        return low

    def position(self, path: str) -> int:
        """Return how many paths come before one."""
        return self.text.count("\n", 0, self._seek(path))

    def below(self, folder: str) -> "Listing":
        """Cut out what lies below a folder: `0` is the sign after `/`."""
        return self.parted(folder)[1]

    def parted(self, folder: str) -> "tuple[Listing, Listing, Listing]":
        """Cut into what comes before a folder, what lies below it, and what comes after it."""
        begin, end = self._seek(f"{folder}/"), self._seek(f"{folder}0")
        return Listing(self.text[:begin]), Listing(self.text[begin:end]), Listing(self.text[end:])

    def relative_to(self, folder: str) -> "Listing":
        """Cut the folder off all paths, which lie below it."""
        return Listing(f"\n{self.text}".replace(f"\n{folder}/", "\n")[1:])

    def replaced(self, changes: Mapping[str, str | None]) -> "Listing":
        """Return a listing with other ids at these paths, and without those that have None."""
        pieces, done = [], 0
        for path in sorted(changes):
            at = self._seek(path)
            oid = changes[path]
            pieces += [self.text[done:at], "" if oid is None else f"{path}\t{oid}\n"]
            done = self.text.index("\n", at) + 1 if self.text.startswith(f"{path}\t", at) else at
        return Listing("".join([*pieces, self.text[done:]])) if changes else self

    def differing(self, other: "Listing") -> list[str]:
        """Return the paths that one of the two has alone, or with another id, sorted."""
        if self._compared is None or self._compared[0] is not other:
            self._compared = other, self._differing(other)
        return [*self._compared[1]]

    def _differing(self, other: "Listing") -> list[str]:
        if self.text == other.text:
            return []
        begin = self.text.rfind("\n", 0, _common_begin(self.text, other.text)) + 1
        own, others = self.text[begin:], other.text[begin:]
        whole = own.find("\n", len(own) - _common_end(own, others)) + 1  # where whole common lines begin
        end = len(own) - whole if whole else 0
        lines = {*own[: len(own) - end].split("\n")} ^ {*others[: len(others) - end].split("\n")}
        return sorted({line[: line.index("\t")] for line in lines if line})

    @property
    def digest(self) -> str:
        """SHA-256 of paths and ids."""
        return sha256(self.text.encode()).hexdigest()


def joined(*listings: Listing) -> Listing:
    """Put listings together of which each has only paths after those of the one before."""
    return Listing("".join([listing.text for listing in listings]))


def _common_begin(one: str, other: str) -> int:
    """Return how many signs two texts begin with in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(one: str, other: str) -> int:
    """Return how many signs two texts end with in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[len(other) - middle : len(other) - low], len(one) - middle):
            low = middle
        else:
            high = middle - 1
    return low


_FEW = 100
"""So many searches cost as much as to take a listing of ten thousand files apart (a few milliseconds)."""

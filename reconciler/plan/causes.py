"""The edited lines that a difference comes from: the lines of a change to the sources, and the origins of values.

A value that differs has origins in the head and in the base. The cause is an edited line within them; where no origin
was edited (a default now applies), it is an edited line of a document that the object was rendered from.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import groupby
from operator import ne

from msgspec import Struct

from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.reasons import Origin
from reconciler.kube.yaml import Document

MAX_LINES = 3
"""LineRange that a cause names on each side, the first ones."""

_MAX_COMPARED = 4_000  # lines of one edit that are compared one by one
_WORD = later(r"[A-Za-z0-9]+")


class Block(Struct, frozen=True):
    """LineRange that differ between the base and the head, from 0: `removed` of the base became `added` of the head."""

    removed: range
    added: range


class FileEdit(Struct, frozen=True, kw_only=True, dict=True):
    """The edit of one file: its lines in the base and in the head, empty where it does not exist."""

    path: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of lines that differ, in order."""
        return tuple(_blocks(self.before, self.after))


class LineRange(Struct, frozen=True):
    """LineRange of one file, from 1: the `first` and the `last`."""

    path: str
    first: int
    last: int


class Cause(Struct, frozen=True, kw_only=True):
    """Edited lines of the head, and lines of the base that were removed."""

    edited: tuple[SourceRef, ...] = ()
    removed: tuple[SourceRef, ...] = ()

    def __bool__(self) -> bool:
        """Return whether any line is known."""
        return bool(self.edited or self.removed)


Matters = Callable[[FieldPath | None, FieldPath | None], bool]
"""Returns whether a field, by its paths after and before, would differ if a part of the sources had not changed."""


class SourcePart(Struct, frozen=True):
    """A part of the sources that an object was rendered from: its lines in the `head` and in the `base`."""

    head: Sequence[LineRange]
    base: Sequence[LineRange]
    matters: Matters


_Line = tuple[str, bool, int]
"""The path of a file, whether the line is one of its head, and the line from 0."""

Edits = Callable[[str], FileEdit | None]
"""Returns how a file differs; None if it does not."""


def read_edit(path: str, before: bytes | None, after: bytes | None) -> FileEdit:
    """Return the difference of a file."""
    sides = ((raw or b"").decode("utf-8", "replace").splitlines() for raw in (before, after))
    return FileEdit(path=path, before=tuple(next(sides)), after=tuple(next(sides)))


def _blocks(before: Sequence[str], after: Sequence[str]) -> Iterator[Block]:
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    tail = next((at for at in range(shorter - head) if before[-1 - at] != after[-1 - at]), shorter - head)
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    if len(left) == len(right) and 2 * sum(map(ne, left, right)) <= len(left):  # lines were edited where they are
        for differs, numbers in groupby(range(len(left)), lambda at: left[at] != right[at]):
            if differs:
                first, *others = numbers
                lines = range(head + first, head + first + 1 + len(others))
                yield Block(lines, lines)
        return
    if not left or not right or len(left) == len(right) == 1 or len(left) + len(right) > _MAX_COMPARED:
        if left or right:
            yield Block(range(head, head + len(left)), range(head, head + len(right)))
        return

    matcher = SequenceMatcher(a=left, b=right, autojunk=False)
    for operation, first, last, new_first, new_last in matcher.get_opcodes():
        if operation != "equal":
            yield Block(range(head + first, head + last), range(head + new_first, head + new_last))


def cause_of(
    edits: Edits,
    head: Iterable[Origin],
    base: Callable[[], Iterable[Origin]],
    used: Callable[[], Iterable[SourcePart]],
    field: tuple[FieldPath | None, FieldPath | None],
) -> Cause:
    """Return the cause of a difference.

    head, base: origins of the value on both sides, none where it does not exist.
    used: the parts of the sources that the object was rendered from.
    field: paths of the value after and before; their words rank the edited lines.
    """
    found = _join(_edited(edits, origin) for origin in head)
    found = found or _join(_removed(edits, origin) for origin in base())
    if found:
        return found
    parts = [(part, lines) for part in used() if (lines := _part_lines(edits, part))]
    if len(parts) > 1:
        parts = [(part, lines) for part, lines in parts if part.matters(*field)] or parts
    lines = [line for _, own in parts for line in own]
    words = [str(part) for part in field[0] or field[1] or () if isinstance(part, str)]
    return _join([_line_cause(*line) for line in _most_related(edits, lines, words)])


def _part_lines(edits: Edits, part: SourcePart) -> list[_Line]:
    return [*_all_edited(edits, part.head, is_head=True), *_all_edited(edits, part.base, is_head=False)]


def is_new(edits: Edits, document: SourceRef) -> bool:
    """Return whether the first line of a document is new: then the document is."""
    edit = edits(document.path)
    return edit is not None and any(document.line - 1 in block.added for block in edit.blocks)


def removed_document(edits: Edits, document: SourceRef) -> Cause:
    """Return the first line of a document of the base if it was removed, or the line that replaces it."""
    edit, line = edits(document.path), document.line - 1
    block = next((block for block in edit.blocks if line in block.removed), None) if edit is not None else None
    if edit is None or block is None:
        return Cause()
    if len(block.added) == len(block.removed):
        return _replacement(edit, block, line)
    return Cause(removed=(document,))


def _join(causes: Iterable[Cause]) -> Cause:
    found = [cause for cause in causes if cause]
    edited = dict.fromkeys(place for cause in found for place in cause.edited)
    removed = dict.fromkeys(place for cause in found for place in cause.removed)
    return Cause(edited=tuple(edited)[:MAX_LINES], removed=tuple(removed)[:MAX_LINES]) if found else Cause()


def _edited(edits: Edits, origin: Origin) -> Cause:
    """Return the edited lines of the head within an origin, and the lines that were removed from within it."""
    document = origin.document
    edit = edits(document.source.path)
    if edit is None:
        return Cause()
    first, last = _lines(origin)
    lines = range(first - 1, last)
    place = document.at(origin.field)
    edited = [line for block in edit.blocks for line in _overlap(block.added, lines)]
    removed = [line for block in edit.blocks if _is_within(edit, block, lines) for line in block.removed]
    return Cause(
        edited=tuple(_place(edit.path, line, place) for line in edited[:MAX_LINES]),
        removed=tuple(_place(edit.path, line) for line in removed[:MAX_LINES]),
    )


def _lines(origin: Origin) -> tuple[int, int]:
    """Return the lines of an origin; of a whole document only the first one, because values come from parts of it."""
    first, last = origin.document.lines(origin.field)
    return first, last if origin.field else first


def _is_within(edit: FileEdit, block: Block, lines: range) -> bool:
    """Return whether removed lines without a replacement were part of a value that has more than its first line."""
    if block.added or not lines.start < block.added.start <= lines.stop or len(lines) == 1:
        return False
    gone, key = edit.before[block.removed.start], edit.after[lines.start]
    return _indent(gone) > _indent(key) or (_indent(gone) == _indent(key) and gone.lstrip().startswith("-"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _removed(edits: Edits, origin: Origin) -> Cause:
    """Return what became of the lines of an origin in the base."""
    document = origin.document
    edit = edits(document.source.path)
    if edit is None:
        return Cause()
    first, last = _lines(origin)
    place = document.at(origin.field)
    return _join(
        _replacement(edit, block, line, place)
        for block in edit.blocks
        for line in _overlap(block.removed, range(first - 1, last))
    )


def _replacement(edit: FileEdit, block: Block, line: int, place: SourceRef | None = None) -> Cause:
    """Return the line of the head that replaces a line of the base, else the removed line itself."""
    if len(block.added) == len(block.removed):
        return Cause(edited=(_place(edit.path, block.added[line - block.removed.start]),))
    added = tuple(_place(edit.path, each) for each in block.added[:MAX_LINES])
    return Cause(edited=added, removed=(_place(edit.path, line, place),))


def _overlap(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _place(path: str, line: int, value: SourceRef | None = None) -> SourceRef:
    column = value.column if value is not None and value.line == line + 1 else 1
    return SourceRef(path=path, line=line + 1, column=column)


# Where no origin was edited.


def _all_edited(edits: Edits, documents: Iterable[LineRange], *, is_head: bool) -> Iterator[_Line]:
    """Yield the edited lines of documents; lines of the base as those of the head that replace them, if any do."""
    for lines in documents:
        edit = edits(lines.path)
        for block in edit.blocks if edit is not None else ():
            side = block.added if is_head else block.removed
            is_replaced = len(block.added) == len(block.removed)
            for line in _overlap(side, range(lines.first - 1, lines.last)):
                if is_head or not is_replaced:
                    yield lines.path, is_head, line
                else:
                    yield lines.path, True, block.added[line - block.removed.start]


def _most_related(edits: Edits, lines: Iterable[_Line], words: Sequence[str]) -> list[_Line]:
    """Return the lines that share the most specific word with a path; all of them if none does."""
    ranks = {word: rank for rank, part in enumerate(words, 1) for word in _words(part)}
    best = 0
    found: list[_Line] = []
    for path, is_head, line in dict.fromkeys(lines):
        edit = edits(path)
        if edit is None:
            continue
        text = (edit.after if is_head else edit.before)[line]
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        rank = max((ranks.get(word, 0) for word in _words(text)), default=0)
        if rank > best:
            best, found = rank, []
        if rank == best:
            found.append((path, is_head, line))
    return found


def _words(text: str) -> list[str]:
    return [word.lower().removesuffix("s") for word in _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text))]


def _line_cause(path: str, is_head: bool, line: int) -> Cause:  # noqa: FBT001 - a part of `_Line`
    place = (_place(path, line),)
    return Cause(edited=place) if is_head else Cause(removed=place)


def document_lines(document: Document) -> LineRange:
    """Return the lines of a document in its file."""
    return LineRange(document.source.path, *document.lines(()))

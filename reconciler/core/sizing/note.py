"""What a reviewer is told of a sized job: three lines, and the table of what was weighed."""

from msgspec import Struct

from reconciler.core.objects import SourceRef


class Weighed(Struct, frozen=True, kw_only=True):
    """A candidate as it is shown. GiB are of one GPU; None: no engine was asked, `text` says why."""

    gpus: int  # in all
    workers: int
    product: str
    memory_gib: float
    fits: bool
    chosen: bool
    text: str
    peak_gib: float | None = None
    low_gib: float | None = None
    high_gib: float | None = None


class SizingNote(Struct, frozen=True, kw_only=True):
    """What was read (from `places`), what was chosen, what was rejected, and all that was weighed."""

    read: str
    chosen: str
    rejected: str
    places: tuple[SourceRef, ...] = ()
    candidates: tuple[Weighed, ...] = ()

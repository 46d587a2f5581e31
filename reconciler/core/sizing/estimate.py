"""What an engine says of one layout: the peak of one GPU, in parts, with a band."""

from enum import StrEnum

from msgspec import Struct


class Confidence(StrEnum):
    """How far the prediction may be trusted: `high` where runs like it were measured and engines agree."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Part(Struct, frozen=True, kw_only=True):
    """A share of the peak: `weights`, `gradients`, `optimizer`, `transients`, `activations`, `logits`, `overhead`."""

    name: str
    gib: float


class Estimate(Struct, frozen=True, kw_only=True):
    """Peak memory of the fullest GPU, GiB as NVML reports it; `low_gib` and `high_gib` bound nine runs of ten.

    `parts` sum to `peak_gib`. `floor_gib` cannot be avoided (weights, and gradients of what is trained): a GPU smaller
    than it can never hold the run. `unpaged_gib` is set where `peak_gib` counts on paging of the optimizer to the
    host: what it would need to run at full speed. `need_gib` is what is alive at the worst moment: the peak without
    blocks that the allocator merely keeps and gives back when the card is full. The run goes through if it fits.
    """

    peak_gib: float
    low_gib: float
    high_gib: float
    floor_gib: float
    need_gib: float
    confidence: Confidence
    parts: tuple[Part, ...]
    unpaged_gib: float | None = None

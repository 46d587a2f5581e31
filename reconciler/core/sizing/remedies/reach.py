"""The largest batch and the longest samples that fit a number of GPUs."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.sizing.decide import Evaluator
from reconciler.core.sizing.question import Question
from reconciler.core.sizing.training import Layout

MAX_BATCH = 65_536
"""Samples per GPU up to which the search goes."""

SEQUENCE_STEP = 128
"""Tokens: lengths are multiples of it, as those of samples usually are."""

MAX_SEQUENCE = SEQUENCE_STEP << 16
"""Tokens up to which the search goes (8,388,608)."""


class Reach(Struct, frozen=True, kw_only=True):
    """The largest values that fit, one at a time; 0 if not even the smallest does.

    `batch` is in samples per GPU, `sequence` in tokens, a multiple of `SEQUENCE_STEP`. `safe_*`: even the upper end of
    the estimate's range fits.
    """

    layout: Layout
    batch: int
    safe_batch: int
    sequence: int
    safe_sequence: int


def find_reach(question: Question, layout: Layout) -> Reach:
    """Search the largest batch per GPU and the longest samples on the GPUs of `layout`, all else unchanged.

    The next larger value never fits: the search keeps a value that fits and a larger one that does not. More samples
    or tokens never need less memory.
    """

    def by_batch(batch: int) -> tuple[Question, Layout]:
        return question, replace(layout, batch=batch)

    def by_length(steps: int) -> tuple[Question, Layout]:
        training = replace(question.training, sequence=steps * SEQUENCE_STEP)
        return replace(question, training=training), layout

    def largest(make: Callable[[int], tuple[Question, Layout]], most: int, *, safe: bool) -> int:
        return _largest(lambda value: _fits(*make(value), safe=safe), most)

    most_steps = MAX_SEQUENCE // SEQUENCE_STEP
    return Reach(
        layout=layout,
        batch=largest(by_batch, MAX_BATCH, safe=False),
        safe_batch=largest(by_batch, MAX_BATCH, safe=True),
        sequence=SEQUENCE_STEP * largest(by_length, most_steps, safe=False),
        safe_sequence=SEQUENCE_STEP * largest(by_length, most_steps, safe=True),
    )


def _fits(question: Question, layout: Layout, *, safe: bool) -> bool:
    """Return whether a layout is accepted; `safe`: also if it needs as much as the range of the estimate allows."""
    candidate = Evaluator(question, speed=None).evaluate(layout)
    estimate = candidate.estimate
    if not candidate.fits or estimate is None:
        return False
    return not safe or estimate.need_gib * estimate.high_gib / estimate.peak_gib <= question.gpu.memory_gib


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Return a number that fits whose successor does not, 0 if 1 does not fit, or `most` if all do."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low

"""The layouts that are weighed for a question: how many GPUs, and how the effective batch is spread over them.

The effective batch (samples between two updates) decides what is learnt, so every layout keeps it exactly; a number of
GPUs that cannot is told with its arithmetic, and nothing is ever rounded.
"""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.core.sizing.question import Goal, Question
from reconciler.core.sizing.training import Layout, Method

_MOST_MULTIPLES = 32
"""Beyond so many nodes only powers of two are tried."""

_LONGEST_SAMPLE = 8192
_LARGEST_BATCH = 128
"""What ado-autoconf's predictor was trained on; it answers the same beyond (all above is one bin)."""

_VOICED_METHODS = (Method.FULL, Method.LORA)


class Spread(Struct, frozen=True):
    """The layouts for one number of GPUs, largest batch a GPU first; without any, `obstacle` is a sentence."""

    gpus: int
    workers: int
    layouts: tuple[Layout, ...] = ()
    obstacle: str = ""


def spreads(question: Question) -> Iterator[Spread]:
    """Yield for each number of GPUs, fewest first, how it could be used under the question's goal."""
    for gpus in counts(question):
        yield spread(question, gpus)


def counts(question: Question) -> list[int]:
    """Return the numbers of GPUs that are tried: powers of two, and beyond one node whole nodes as well.

    To avoid running out of memory: the number that the job asks for, then the powers of two above it.
    """
    most, each = question.max_gpus, question.gpus_per_worker
    powers = [1 << exponent for exponent in range(most.bit_length()) if 1 << exponent <= most]
    if question.goal is Goal.AVOID_OOM:
        asked = question.requested_gpus or question.processes
        return [asked, *(power for power in powers if power > asked)]
    nodes = range(2 * each, min(most, _MOST_MULTIPLES * each) + 1, each)
    return sorted({*powers, *nodes})


def spread(question: Question, gpus: int) -> Spread:
    """Spread the effective batch over so many GPUs, on as few nodes of equal size as hold them."""
    workers = _workers(gpus, question.gpus_per_worker)
    ways = question.training.tensor * question.training.pipeline
    if gpus % ways:
        text = f"one copy of the model takes {ways} GPUs (tensor x pipeline), and {gpus} is no multiple of that"
        return Spread(gpus, workers, obstacle=text)
    pairs, text = _pairs(question, gpus)
    layouts = tuple(
        Layout(gpus=gpus, workers=workers, batch=batch, accumulation=accumulation) for batch, accumulation in pairs
    )
    return Spread(gpus, workers, layouts, text)


def _workers(gpus: int, each: int) -> int:
    """Tell the fewest nodes that hold `gpus` in equal shares of at most `each`."""
    workers = -(-gpus // each)
    while gpus % workers:
        workers += 1
    return workers


def _pairs(question: Question, gpus: int) -> tuple[list[tuple[int, int]], str]:
    """Return pairs of batch a GPU and accumulation, or why there are none.

    For the fewest GPUs the batch of one step is divided, as ado-autoconf does; where it does not divide, but the
    effective batch does, accumulation changes. To avoid running out of memory the batch a GPU stays where accumulation
    can make room, else it shrinks.
    """
    total = question.effective_batch
    if total % gpus:
        steps = f" x {question.accumulation} steps" if question.accumulation > 1 else ""
        made = f"{question.batch} a GPU x {question.processes}{steps}"
        return [], f"an effective batch of {total} ({made}) does not divide among {gpus} GPUs"
    share = total // gpus
    if question.goal is Goal.THROUGHPUT:
        return [(size, share // size) for size in _divisors(share)], ""
    most = question.batch if question.goal is Goal.AVOID_OOM else -(-question.global_batch // gpus)
    size = most if share % most == 0 else next(size for size in _divisors(share) if size <= most)
    return [(size, share // size)], ""


def _divisors(number: int) -> list[int]:
    """Return all divisors, largest first."""
    low = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return sorted({*low, *(number // divisor for divisor in low)}, reverse=True)


def in_domain(question: Question, layout: Layout) -> bool:
    """Whether ado-autoconf's predictor may be heard about a layout: its names, its methods, lengths and batches."""
    training = question.training
    return (
        bool(training.architecture.autoconf and question.gpu.autoconf)
        and training.method in _VOICED_METHODS
        and training.sequence <= _LONGEST_SAMPLE
        and layout.gpus * layout.batch <= _LARGEST_BATCH
    )


def engine_layouts(question: Question) -> tuple[Layout, ...]:
    """Return the layouts that ado-autoconf is to be asked about; empty: it has no say in this question."""
    return tuple(layout for found in spreads(question) for layout in found.layouts if in_domain(question, layout))

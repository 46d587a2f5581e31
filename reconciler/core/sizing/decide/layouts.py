"""The layouts to try for a question: numbers of GPUs, and how each keeps the effective batch.

The effective batch (samples per update) determines what is learned, so every layout keeps it exactly. A number of GPUs
that cannot keep it is rejected with the arithmetic; nothing is rounded.
"""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.core.sizing.question import Goal, Question
from reconciler.core.sizing.training import Layout, Method, Objective

_MAX_MULTIPLES = 32
"""Above this number of nodes only powers of two are tried."""

_MAX_DOMAIN_TOKENS = 8192
_MAX_DOMAIN_BATCH = 128
"""The range that ado-autoconf's predictor was trained on; above it, it gives the same answer for all values."""

_DOMAIN_METHODS = (Method.FULL, Method.LORA)


class LayoutOptions(Struct, frozen=True):
    """The layouts for one number of GPUs, largest batch per GPU first. `obstacle` says why there are none."""

    gpus: int
    workers: int
    layouts: tuple[Layout, ...] = ()
    obstacle: str = ""


def all_layout_options(question: Question) -> Iterator[LayoutOptions]:
    """Yield the layouts for each number of GPUs, fewest first."""
    for gpus in gpu_counts(question):
        yield layout_options(question, gpus)


def gpu_counts(question: Question) -> list[int]:
    """Return the numbers of GPUs to try: powers of two, and above one node also multiples of a node.

    For the goal avoid-oom: the requested number, then the powers of two above it.
    """
    most, per_worker = question.max_gpus, question.gpus_per_worker
    powers = [1 << exponent for exponent in range(most.bit_length()) if 1 << exponent <= most]
    if question.goal is Goal.AVOID_OOM:
        requested = question.requested_gpus or question.processes
        return [requested, *(power for power in powers if power > requested)]
    whole_nodes = range(2 * per_worker, min(most, _MAX_MULTIPLES * per_worker) + 1, per_worker)
    return sorted({*powers, *whole_nodes})


def layout_options(question: Question, gpus: int) -> LayoutOptions:
    """Return the layouts for a number of GPUs, on the fewest nodes with an equal number each."""
    workers = _workers(gpus, question.gpus_per_worker)
    group = question.training.group
    if gpus % group:
        obstacle = f"{group} GPUs share each sample (tensor x pipeline x context); {gpus} is not a multiple of that"
        return LayoutOptions(gpus, workers, obstacle=obstacle)
    pairs, obstacle = _batch_pairs(question, gpus)
    layouts = tuple(
        Layout(gpus=gpus, workers=workers, batch=batch, accumulation=accumulation) for batch, accumulation in pairs
    )
    return LayoutOptions(gpus, workers, layouts, obstacle)


def _workers(gpus: int, per_worker: int) -> int:
    """Return the fewest nodes that hold `gpus` in equal parts of at most `per_worker`."""
    workers = -(-gpus // per_worker)
    while gpus % workers:
        workers += 1
    return workers


def _batch_pairs(question: Question, gpus: int) -> tuple[list[tuple[int, int]], str]:
    """Return pairs of batch per GPU and accumulation, or why there are none.

    For min-gpu the batch of a step is divided, as ado-autoconf does; if it does not divide but the effective batch
    does, accumulation changes. For avoid-oom the batch per GPU stays if accumulation can absorb the change, else it
    shrinks. For throughput all pairs are tried.
    """
    batch = question.effective_batch
    if batch % gpus:
        steps = f" x {question.accumulation} steps" if question.accumulation > 1 else ""
        product = f"{question.batch} per GPU x {question.processes}{steps}"
        return [], f"an effective batch of {batch} ({product}) does not divide among {gpus} GPUs"
    per_gpu = batch // gpus
    if question.goal is Goal.THROUGHPUT:
        return [(size, per_gpu // size) for size in _divisors(per_gpu)], ""
    most = question.batch if question.goal is Goal.AVOID_OOM else -(-question.global_batch // gpus)
    size = most if per_gpu % most == 0 else next(size for size in _divisors(per_gpu) if size <= most)
    return [(size, per_gpu // size)], ""


def _divisors(number: int) -> list[int]:
    """Return all divisors, largest first."""
    low = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return sorted({*low, *(number // divisor for divisor in low)}, reverse=True)


def in_domain(question: Question, layout: Layout) -> bool:
    """Return whether ado-autoconf's predictor was trained for a layout: its names, methods, lengths and batches."""
    training = question.training
    return (
        bool(training.architecture.autoconf and question.gpu.autoconf)
        and training.objective is Objective.SFT
        and training.method in _DOMAIN_METHODS
        and training.sequence <= _MAX_DOMAIN_TOKENS
        and layout.gpus * layout.batch <= _MAX_DOMAIN_BATCH
    )


def engine_layouts(question: Question) -> tuple[Layout, ...]:
    """Return the layouts to ask ado-autoconf about; empty if the question is outside of its domain."""
    return tuple(
        layout for options in all_layout_options(question) for layout in options.layouts if in_domain(question, layout)
    )

"""The layouts to try for a question: numbers of GPUs, and how each keeps the effective batch.

The effective batch (samples per update) determines what is learned, so every layout keeps it exactly. A number of GPUs
that cannot keep it is rejected with the arithmetic; nothing is rounded.
"""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.sizing.question import Goal, Question
from reconciler.sizing.training import Layout, Method, Objective

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

    If GPUs share samples, experts or shards, a number is a power of two times those that do, and nodes are whole
    multiples of them. For the goal avoid-oom: the requested number, then those powers above it.
    """
    most, per_worker, multiple = question.max_gpus, question.gpus_per_worker, question.training.multiple
    powers = [multiple << exponent for exponent in range(most.bit_length()) if multiple << exponent <= most]
    exact, requested = question.exact_gpus, question.requested_gpus or question.processes
    if exact is not None:
        return sorted({exact, requested} if question.goal is Goal.AVOID_OOM else {exact})
    if question.goal is Goal.AVOID_OOM:
        return [requested, *(power for power in powers if power > requested)]
    whole_nodes = range(2 * per_worker, min(most, _MAX_MULTIPLES * per_worker) + 1, per_worker)
    return sorted({*powers, *(nodes for nodes in whole_nodes if nodes % multiple == 0)}) or [multiple]


def layout_options(question: Question, gpus: int) -> LayoutOptions:
    """Return the layouts for a number of GPUs, on the fewest nodes with an equal number each."""
    if obstacle := _obstacle(question, gpus):
        return LayoutOptions(gpus, -(-gpus // question.gpus_per_worker), obstacle=obstacle)
    workers = _workers(gpus, question.gpus_per_worker)
    pairs, obstacle = _batch_pairs(question, gpus)
    layouts = tuple(
        Layout(gpus=gpus, workers=workers, batch=batch, accumulation=accumulation) for batch, accumulation in pairs
    )
    return LayoutOptions(gpus, workers, layouts, obstacle)


def _obstacle(question: Question, gpus: int) -> str:
    """Return why the degrees of parallelism rule out a number of GPUs; empty if they do not."""
    training, exact = question.training, question.exact_gpus
    if exact is not None and gpus != exact:
        return f"the degrees of parallelism on the line multiply to {exact} GPUs, not to {gpus}"
    if gpus > question.max_gpus:
        return f"{gpus} GPUs share samples or experts, and at most {question.max_gpus} are allowed"
    if gpus % training.group:
        return (
            f"{training.group} GPUs share each sample (tensor x pipeline x context); {gpus} is not a multiple of that"
        )
    if gpus % training.multiple:
        shared = f"{training.multiple} GPUs share samples, experts (expert x tensor x pipeline) or replicas of shards"
        return f"{shared}; {gpus} is not a multiple of that"
    return ""


def _workers(gpus: int, per_worker: int) -> int:
    """Return the fewest nodes that hold `gpus` in equal parts of at most `per_worker`."""
    workers = -(-gpus // per_worker)
    while gpus % workers:
        workers += 1
    return workers


def _batch_pairs(question: Question, gpus: int) -> tuple[list[tuple[int, int]], str]:
    """Return pairs of batch per GPU and accumulation, or why there are none.

    For min-gpu the batch of a step is divided, as ado-autoconf does; if it does not divide but the effective batch
    does, accumulation changes. For avoid-oom, and if the line states the samples of an update, the batch per GPU stays
    if accumulation can absorb the change, else it shrinks. For throughput all pairs are tried.
    """
    batch, replicas = question.effective_batch, question.replicas_of(gpus)
    if batch % replicas:
        steps = f" x {question.accumulation} steps" if question.accumulation > 1 else ""
        product = f"{question.batch} per GPU x {question.replicas}{steps}"
        among = f"{gpus} GPUs" if replicas == gpus else f"{replicas} replicas on {gpus} GPUs"
        return [], f"an effective batch of {batch} ({product}) does not divide among {among}"
    per_gpu = batch // replicas
    if question.goal is Goal.THROUGHPUT:
        return [(size, per_gpu // size) for size in _divisors(per_gpu)], ""
    keeps = question.goal is Goal.AVOID_OOM or question.keeps_batch
    most = question.batch if keeps else -(-question.global_batch // replicas)
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
        and training.multiple == 1
        and training.method in _DOMAIN_METHODS
        and training.sequence <= _MAX_DOMAIN_TOKENS
        and layout.gpus * layout.batch <= _MAX_DOMAIN_BATCH
    )


def engine_layouts(question: Question) -> tuple[Layout, ...]:
    """Return the layouts to ask ado-autoconf about; empty if the question is outside of its domain."""
    return tuple(
        layout for options in all_layout_options(question) for layout in options.layouts if in_domain(question, layout)
    )

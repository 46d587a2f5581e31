"""The section about nodes that are taken out of use or given back."""

from collections.abc import Iterator

from reconciler.core.plan import QuarantineLine
from reconciler.core.values import plural
from reconciler.outputs.findings import where
from reconciler.outputs.sections.model import Name, PageSection, SentenceBlock, View
from reconciler.outputs.summary import number, signed
from reconciler.outputs.terminal.page import Piece, Style, Styled

_VERBS = {"begins": "leaves use", "ends": "returns to use", "changes": "stays out of use, on other terms"}


def quarantines(view: View) -> PageSection | None:
    """Return the nodes whose quarantine changes, with the reason and the cost."""
    if not view.plan.quarantines:
        return None
    return PageSection(
        title="Node health", blocks=tuple(SentenceBlock(tuple(_pieces(view, one))) for one in view.plan.quarantines)
    )


def _pieces(view: View, one: QuarantineLine) -> Iterator[Piece]:
    yield "Node "
    yield Name(one.node)
    yield f" of {one.cluster} {_VERBS[one.word]}"
    yield f" ({one.check})" if one.check else ""
    yield f": {one.reason}" if one.word != "ends" else ""
    yield f"; slots {', '.join(one.slots)}" if one.slots else ""
    yield f"; until {one.until}" if one.until and one.word != "ends" else ""
    yield ". "
    if not one.is_known:
        yield Styled("No evidence lists this node, so its cost is unknown", Style.WARNING)
    elif one.gpus:
        yield Styled(f"{signed(one.gpus)} {one.product}", Style.DELETED if one.gpus < 0 else Style.CREATED)
        yield from _use(view, one)
    else:
        yield "No GPUs are lost or returned"
    yield f" ({where(one.place)})" if one.place is not None else ""


def _use(view: View, one: QuarantineLine) -> Iterator[Piece]:
    """Yield who may use such GPUs: the queues with a quota for them, and the jobs that request them."""
    left = [line.capacity for line in view.plan.capacity if (line.cluster, line.product) == (one.cluster, one.product)]
    yield f", {number(left[0])} left" if left else ""
    queues = [
        f"{line.queue} ({number(line.after)} guaranteed, {line.requested} requested)"
        for line in view.plan.queues
        if line.cluster == one.cluster and line.product in {"", one.product} and (line.after is None or line.after > 0)
    ]
    if queues:
        yield f"; queues: {', '.join(queues)}"
    yield f"; {plural(one.jobs, 'job')} with {plural(one.requested, 'GPU')} may run there"

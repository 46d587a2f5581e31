"""The section about node health: nodes that leave use or return, and what changed policies would have done."""

from collections.abc import Iterator

from reconciler.console.page import Piece, Style, Styled
from reconciler.kube.objects import SourceRef
from reconciler.kube.values import plural
from reconciler.plan import QuarantineLine
from reconciler.plan.health.effect import PolicyEffect
from reconciler.plan.outputs.findings import where
from reconciler.plan.outputs.sections.model import Name, PageSection, SentenceBlock, View
from reconciler.plan.outputs.summary.queues import number, signed

_VERBS = {"begins": "leaves use", "ends": "returns to use", "changes": "stays out of use, on other terms"}


def quarantines(view: View) -> PageSection | None:
    """Return the nodes whose quarantine changes, with the reason and the cost, and the effect of changed policies."""
    if not view.plan.quarantines and not view.plan.health_policies:
        return None
    sentences = (
        *(_pieces(view, one) for one in view.plan.quarantines),
        *(_effect(one) for one in view.plan.health_policies),
    )
    return PageSection(title="Node health", blocks=tuple(SentenceBlock(tuple(pieces)) for pieces in sentences))


def _pieces(view: View, one: QuarantineLine) -> Iterator[Piece]:
    yield "Node "
    yield Name(one.node)
    yield f" of {one.cluster} {_VERBS[one.word]}"
    yield f" ({one.check})" if one.check else ""
    yield f": {one.reason}" if one.word != "ends" else ""
    if one.word == "begins":
        yield "; running pods stop" if one.evicts else "; running pods stay, new ones go elsewhere"
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
    yield from _place(one.place)


def _place(place: SourceRef | None) -> Iterator[Piece]:
    if place is not None:
        yield " ("
        yield Name(where(place))
        yield ")"


def _use(view: View, one: QuarantineLine) -> Iterator[Piece]:
    """Yield who may use such GPUs: the queues with a quota for them, and the jobs that request them."""
    left = [line.capacity for line in view.plan.capacity if (line.cluster, line.product) == (one.cluster, one.product)]
    yield f", {number(left[0])} left" if left else ""
    queues = [
        f"{line.queue} (quota {number(line.after)}, {line.requested} requested)"
        for line in view.plan.queues
        if line.cluster == one.cluster and line.product in {"", one.product} and (line.after is None or line.after > 0)
    ]
    if queues:
        yield f"; queues: {', '.join(queues)}"
    yield f"; {plural(one.jobs, 'job')} with {plural(one.requested, 'GPU')} may run there"


def _effect(one: PolicyEffect) -> Iterator[Piece]:
    """Yield what the changed policies of a cluster would have done, and what nobody can tell."""
    yield "Changed HealthPolicies of "
    yield Name(one.cluster)
    if one.basis == "reports":
        span = one.first if one.first == one.last else f"{one.first} to {one.last}"
        yield f", replayed on {plural(one.reports, 'report')} of {plural(one.nodes, 'node')} ({span}): "
        yield f"{plural(round(one.after, 1), 'quarantine')} a week instead of {number(round(one.before, 1))}"
    elif one.basis == "health":
        yield f", by the health of {plural(one.nodes, 'node')} on {one.first} (no reports are recorded): "
        yield f"{plural(one.after, 'node')} acted on instead of {number(one.before)}"
    if one.basis:
        yield (
            f"; {plural(one.changed, 'node')} judged differently" if one.changed else "; no node is judged differently"
        )
    if one.verdicts:
        yield ": "
        yield "; ".join(f"{each.node} {each.before} → {each.after}" for each in one.verdicts)
        more = one.changed - len(one.verdicts)
        yield f" and {more} more" if more > 0 else ""
    for reason in one.refused:
        yield ". "
        yield Styled(f"Must not be merged: {reason}", Style.ERROR)
    if one.unknown:
        yield ". "
        yield Styled(f"Unknown: {'; '.join(one.unknown)}", Style.WARNING)
    yield from _place(one.place)

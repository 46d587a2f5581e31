"""The pages: each is a title and sections over a snapshot. What no evidence says is shown as unknown."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from reconciler.console.page import Piece, Style, Styled
from reconciler.html import AmountBar, Cell, Mark, bars, cells, source_address
from reconciler.kinds.quantities import total
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.values import plural
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.evidence import FleetHealth
from reconciler.placement.scenario import FORMS, scenario_of, unknown_names
from reconciler.plan.outputs.findings import qualified_name, where
from reconciler.plan.outputs.placement import placement_sections
from reconciler.plan.outputs.sections.model import (
    Block,
    Column,
    Form,
    Link,
    Name,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
    strong,
)
from reconciler.plan.outputs.summary.queues import gpus, number
from reconciler.plan.what_if import report_placement
from reconciler.queues.queues import QueueKey
from reconciler.repo.config.placement import StrategyName
from reconciler.repo.evidence.usage import SUSPENDED, WAITING, Usage, UsedWorkload
from reconciler.reports.pages import report_sections
from reconciler.sizing.inventory import Inventory, Node
from reconciler.web.snapshot import ClusterState, Snapshot, queue_name

_UNKNOWN = Styled("unknown", Style.WARNING)
_MAX_CELLS = 2_000  # nodes that a map shows
_ROWS_WITH = "Rows with"
_SETTINGS = source_address("reconciler.yaml")
_MOST_QUEUES = 5


class Drawn(NamedTuple):
    """A section with its chart, and the address of the evidence of its figures."""

    section: PageSection
    chart: Markup = Markup()
    evidence: str = ""


class SitePage(Struct, frozen=True, kw_only=True):
    """A row of the table of pages.

    asks: the purpose of its field; empty: it has none. what_if: draws the page for the words in the field; None: they
    choose rows.
    """

    path: str
    title: str
    draw: Callable[[Snapshot], Iterable[Drawn]]
    asks: str = ""
    what_if: Callable[[Snapshot, str], Iterable[Drawn]] | None = None


# Overview.


def _overview(snapshot: Snapshot) -> Iterator[Drawn]:
    for state in snapshot.clusters:
        yield Drawn(
            PageSection(
                title=f"Cluster {state.name}", blocks=(_products(state), *_quotas(state), *_ages(snapshot, state))
            ),
            bars(
                list(_product_bars(state)), title="GPUs in use, of those that the nodes have (grey); hatched is unknown"
            ),
        )
        if waiting := _waiting(state):
            yield Drawn(PageSection(title=f"Waiting on {state.name}", count=len(waiting), blocks=(_reasons(waiting),)))


_PRODUCTS = (
    Column("product", Form.PRODUCT),
    Column("GPUs", Form.NUMBER),
    Column("in use", Form.NUMBER),
    Column("requested in Git", Form.NUMBER),
    Column("on unhealthy nodes", Form.NUMBER),
    Column("all, per hour", Form.NUMBER),
)


def _products(state: ClusterState) -> Block:
    if state.inventory is None:
        return SentenceBlock(
            (
                _UNKNOWN,
                f": there is no evidence of the nodes of {state.name} that is new enough; run `reconciler observe`",
            )
        )
    used = state.used_gpus
    rows: list[Row] = []
    for product in sorted({node.product for node in state.inventory.nodes if node.gpus}):
        nodes = [node for node in state.inventory.nodes if node.product == product and node.gpus]
        wanted = total(job.gpus for job in state.jobs if job.product == product and not job.suspended)
        price = state.prices.hour(product)
        rows.append(
            (
                Link(product or "any", Style.STRONG, f"/nodes?{urlencode({'q': product})}"),
                _figure(str(sum(node.gpus for node in nodes)), state.inventory),
                _figure(str(sum((used or {}).get(node.name, 0) for node in nodes)), state.usage),
                Link(number(wanted), Style.PLAIN, _job_rows(product)),
                _figure(
                    str(sum(node.gpus for node in nodes if _health(state, node) is CheckStatus.FAIL)), state.health
                ),
                _UNKNOWN if price is None else Link(_money(price, nodes, state), Style.PLAIN, _SETTINGS),
            )
        )
    return TableBlock(columns=_PRODUCTS, rows=tuple(rows))


def _money(price: float, nodes: Sequence[Node], state: ClusterState) -> str:
    return f"{price * sum(node.gpus for node in nodes):,.2f} {state.prices.currency}"


def _product_bars(state: ClusterState) -> Iterator[AmountBar]:
    if state.inventory is None:
        return
    used = state.used_gpus
    for product, count in sorted(state.inventory.gpus_by_product.items()):
        nodes = [node for node in state.inventory.nodes if node.product == product]
        busy = None if used is None else sum(used.get(node.name, 0) for node in nodes)
        text = f"unknown of {count}" if busy is None else f"{busy} of {count}"
        yield AmountBar(label=product or "any product", before=count, after=busy, text=text)


def _quotas(state: ClusterState) -> Iterator[Block]:
    """Yield the queues that request more than their quota, and the GPUs of quotas that nobody requests."""
    requested = state.queues.requested_by_queue()
    found = ((queue, wanted, state.queues.quota(queue)) for queue, wanted in sorted(requested.items()))
    over = [(queue.name, wanted - quota) for queue, wanted, quota in found if quota is not None and wanted > quota]
    if over:
        names = ", ".join(f"{name} by {number(beyond)}" for name, beyond in over[:_MOST_QUEUES])
        more = f" and {len(over) - _MOST_QUEUES} more" if len(over) > _MOST_QUEUES else ""
        yield SentenceBlock((Link("Over their quota", Style.WARNING, "/queues"), f": {names}{more}"))
    quotas = [(queue, state.queues.quota(queue)) for queue in state.queues.queues if not state.queues.is_cohort(queue)]
    unused = total(max(0, quota - requested.get(queue, 0)) for queue, quota in quotas if quota)
    if unused:
        yield SentenceBlock((Link("In quotas that no job requests", Style.PLAIN, "/queues"), f": {gpus(unused)}"))


def _ages(snapshot: Snapshot, state: ClusterState) -> Iterator[Block]:
    """Yield when each kind of evidence was taken, and where it stands."""
    taken = (
        ("nodes", state.inventory and state.inventory.taken_at, state.inventory),
        ("use", state.usage and state.usage.observed_at, state.usage),
        ("health", state.health and state.health.taken_at, state.health),
    )
    for what, moment, found in taken:
        if what in state.expired:
            place, why = state.expired[what]
            yield SentenceBlock(
                (f"Evidence of {what}: ", _UNKNOWN, ", ", "" if place is None else _link(place), f" {why}")
            )
        elif found is None or found.document is None:
            yield SentenceBlock((f"Evidence of {what}: ", _UNKNOWN, ", there is none"))
        else:
            yield SentenceBlock((f"Evidence of {what}: ", _link(found.document.source), f", taken at {moment}"))
    notes = state.usage.coverage if state.usage is not None else ()
    for note in notes:
        yield SentenceBlock((Styled("not covered: ", Style.WARNING), note))
    days = [line.evidence_days for line in snapshot.plan.capacity if line.cluster == state.name and line.evidence_days]
    if days:
        yield SentenceBlock(
            (Styled(f"The evidence is {plural(max(days), 'day')} old at this revision.", Style.WARNING),)
        )


def _waiting(state: ClusterState) -> list[UsedWorkload]:
    return [] if state.usage is None else [one for one in state.usage.workloads if one.state == WAITING]


def _reasons(waiting: Sequence[UsedWorkload]) -> Block:
    counted: Counter[str] = Counter()
    for one in waiting:
        counted[one.conditions[0].reason if one.conditions else "no reason given"] += 1
    rows = tuple(
        (reason, Link(str(count), Style.PLAIN, f"/queues?{urlencode({'q': reason})}"))
        for reason, count in counted.most_common()
    )
    return TableBlock(columns=(Column("reason"), Column("workloads", Form.NUMBER)), rows=rows)


def _link(place: SourceRef) -> Piece:
    return Link(where(place), Style.PLAIN, source_address(where(place)))


def _figure(text: str, found: Inventory | Usage | FleetHealth | None, at: FieldPath = ()) -> Piece:
    """Return a figure that leads to the evidence that says it."""
    if found is None or found.document is None:
        return _UNKNOWN
    return Link(text, Style.PLAIN, source_address(where(found.document.at(at))))


def _address(found: Usage | None) -> str:
    return "" if found is None or found.document is None else source_address(where(found.document.source))


def _place(row: ObjectSummary) -> Piece:
    return Name(where(SourceRef(path=row.source, line=row.line, column=row.column))) if row.source else ""


def _job_rows(words: str) -> str:
    return f"/jobs?{urlencode({'q': words})}"


# Queues.


_QUEUES = (
    Column("queue"),
    Column("quota", Form.NUMBER),
    Column("requested in Git", Form.NUMBER),
    Column("borrowed", Form.NUMBER),
    Column("waiting", Form.NUMBER),
    Column("source", Form.PLACE),
)


def _queues(snapshot: Snapshot) -> Iterator[Drawn]:
    for state in snapshot.clusters:
        rows = tuple(_tree(state))
        table: Block = TableBlock(columns=_QUEUES, rows=rows)
        if not rows:
            table = SentenceBlock(("This repository has no queues for it.",))
        yield Drawn(
            PageSection(title=f"Queues of {state.name}", count=len(rows), blocks=(table,)),
            bars(list(_queue_bars(state))[:40], title="Requested GPUs by queue; the line is the quota"),
        )
        if waiting := sorted(_waiting(state), key=lambda one: (one.cluster_queue, -one.priority, one.created_at)):
            waits = TableBlock(columns=_WAITS, rows=tuple(map(_wait, waiting)))
            section = PageSection(title=f"Waiting on {state.name}, in order", count=len(waiting), blocks=(waits,))
            yield Drawn(section, evidence=_address(state.usage))


def _tree(state: ClusterState) -> Iterator[Row]:
    """Yield the queues, each below the one that it belongs to."""
    usage, depths = state.queues, dict[QueueKey, int]()
    requested = usage.requested_with_children(queue for queue in usage.queues if usage.is_cohort(queue))
    waiting: Counter[str] = Counter()
    for one in _waiting(state):
        waiting[one.cluster_queue or one.queue] += one.gpus
    for queue in usage.from_roots():
        parent = usage.parent_of(queue)
        depths[queue] = depths.get(parent, -1) + 1 if parent is not None else 0
        row = usage.queues.get(queue)
        guaranteed = usage.quota(queue)
        wanted = total(requested.get(queue, {}).values())
        beyond = 0 if guaranteed is None else max(0, wanted - guaranteed)
        yield (
            strong(f"{'  ' * depths[queue]}{queue.name}"),
            _UNKNOWN if row is None else "unlimited" if guaranteed is None else number(guaranteed),
            Link(number(wanted), Style.PLAIN, _job_rows(queue.name)),
            _UNKNOWN if row is None else Styled(number(beyond), Style.WARNING if beyond else Style.PLAIN),
            _figure(str(waiting[queue.name]), state.usage),
            Styled("not in this repository", Style.DIM) if row is None else _place(row),
        )


def _queue_bars(state: ClusterState) -> Iterator[AmountBar]:
    for queue, wanted in sorted(state.queues.requested_by_queue().items()):
        quota = state.queues.quota(queue)
        marks = (Mark(name="quota", at=float(quota)),) if quota else ()
        yield AmountBar(label=queue.name or "(no queue)", before=0, after=float(wanted), text=gpus(wanted), marks=marks)


_WAITS = (
    Column("workload"),
    Column("queue"),
    Column("GPUs", Form.NUMBER),
    Column("priority", Form.NUMBER),
    Column("since"),
    Column("why", Form.NOTE),
)


def _wait(one: UsedWorkload) -> Row:
    why = "; ".join(f"{reason.reason}: {reason.message}" for reason in one.conditions)
    return (
        strong(f"{one.namespace}/{one.name}"),
        Name(one.cluster_queue or one.queue or "-"),
        str(one.gpus),
        str(one.priority),
        one.created_at or _UNKNOWN,
        why or _UNKNOWN,
    )


# Jobs.


_JOBS = (
    Column("job"),
    Column("kind"),
    Column("queue"),
    Column("GPUs", Form.NUMBER),
    Column("product", Form.PRODUCT),
    Column("source", Form.PLACE),
    Column("state", Form.NOTE),
)


def _jobs(snapshot: Snapshot) -> Iterator[Drawn]:
    for state in snapshot.clusters:
        observed = state.observed
        found = sorted(state.jobs, key=lambda job: (-float(job.gpus), job.namespace, job.name))
        table = TableBlock(columns=_JOBS, rows=tuple(_job(state, job, observed.get(job.key)) for job in found))
        yield Drawn(PageSection(title=f"Jobs of {state.name}", count=len(found), blocks=(table,)))


def _job(state: ClusterState, job: ObjectSummary, seen: UsedWorkload | None) -> Row:
    return (
        strong(qualified_name(job.key)),
        job.kind,
        Name(queue_name(state, job)) if job.queue else Styled("(no queue)", Style.WARNING),
        number(job.gpus),
        Name(job.product) if job.product else "any",
        _place(job),
        _state(state, job, seen),
    )


def _state(state: ClusterState, job: ObjectSummary, seen: UsedWorkload | None) -> Piece:
    if job.finished:
        return "finished"
    if job.suspended:
        return Styled(f"{SUSPENDED} in Git", Style.DIM)
    if state.usage is None:
        return _UNKNOWN
    if seen is None:
        return Styled("not there", Style.WARNING)
    why = f": {seen.conditions[0].message}" if seen.conditions and seen.state == WAITING else ""
    return Styled(f"{seen.state}{why}", Style.WARNING if seen.state == WAITING else Style.PLAIN)


# Nodes.


_NODES = (
    Column("node"),
    Column("rack"),
    Column("product", Form.PRODUCT),
    Column("GPUs", Form.NUMBER),
    Column("in use", Form.NUMBER),
    Column("health"),
    Column("why", Form.NOTE),
)
_RACKS = ("topology.kubernetes.io/rack", "cloud.google.com/gce-topology-block", "rack", "topology.kubernetes.io/zone")


def _nodes(snapshot: Snapshot) -> Iterator[Drawn]:
    for state in snapshot.clusters:
        if state.inventory is None:
            yield Drawn(PageSection(title=f"Nodes of {state.name}", blocks=(_products(state),)))
            continue
        used = state.used_gpus
        nodes = sorted((node for node in state.inventory.nodes if node.gpus), key=lambda node: (_rack(node), node.name))
        table = TableBlock(columns=_NODES, rows=tuple(_node(state, node, used) for node in nodes))
        blocks = (table, *_stranded(nodes, used))
        yield Drawn(
            PageSection(title=f"Nodes of {state.name}", count=len(nodes), blocks=blocks), _map(state, nodes, used)
        )


def _rack(node: Node) -> str:
    return next((node.labels[label] for label in _RACKS if label in node.labels), "")


def _health(state: ClusterState, node: Node) -> CheckStatus:
    return CheckStatus.UNKNOWN if state.health is None else state.health.status(node.name)


_HEALTH_STYLES = {CheckStatus.PASS: Style.SUCCESS, CheckStatus.WARN: Style.WARNING, CheckStatus.FAIL: Style.ERROR}


def _node(state: ClusterState, node: Node, used: dict[str, int] | None) -> Row:
    status = _health(state, node)
    seen = state.health.nodes.get(node.name) if state.health is not None else None
    why = "; ".join(f"{issue.check} {issue.status}" for issue in seen.issues) or seen.why if seen is not None else ""
    if not node.is_open:
        why = "; ".join(filter(None, ("quarantined in Git" if node.quarantined else "cordoned", why)))
    return (
        strong(node.name),
        Name(_rack(node)) if _rack(node) else "-",
        Name(node.product),
        _figure(str(node.gpus), state.inventory, node.origin),
        _figure(str((used or {}).get(node.name, 0)), state.usage),
        _UNKNOWN if status is CheckStatus.UNKNOWN else Styled(str(status), _HEALTH_STYLES.get(status, Style.WARNING)),
        why,
    )


def _map(state: ClusterState, nodes: Sequence[Node], used: dict[str, int] | None) -> Markup:
    """Draw each rack as a row of nodes: the colour is the health, the filled part is in use."""
    racks: dict[str, list[Cell]] = {}
    for node in nodes[:_MAX_CELLS]:
        busy = None if used is None else min(1.0, used.get(node.name, 0) / node.gpus)
        status = "closed" if not node.is_open else str(_health(state, node)).lower()
        text = f"{node.name}: {node.gpus} x {node.product}, {status}, " + (
            "use unknown" if used is None else f"{used.get(node.name, 0)} in use"
        )
        racks.setdefault(_rack(node) or node.product, []).append(Cell(text=text, status=status, filled=busy))
    more = len(nodes) - _MAX_CELLS
    rest = f"; {more:,} more nodes are in the table only" if more > 0 else ""
    return cells(racks, title=f"Nodes by rack: filled is in use, the frame is the health; hatched is unknown{rest}")


def _stranded(nodes: Sequence[Node], used: dict[str, int] | None) -> Iterator[Block]:
    """Yield how the free GPUs are spread: those on nodes that are partly used serve no job that wants whole nodes."""
    if used is None:
        yield SentenceBlock(("Free GPUs: ", _UNKNOWN, ", there is no evidence of use that is new enough"))
        return
    free = [node.gpus - used.get(node.name, 0) for node in nodes if node.is_open]
    whole = sum(node.gpus for node in nodes if node.is_open and not used.get(node.name))
    yield SentenceBlock(
        (f"Free: {sum(free)} GPUs, {whole} of them on empty nodes, {sum(free) - whole} on shared ones.",)
    )


# Placement, efficiency and cost.


def _placement(snapshot: Snapshot, words: str = "") -> Iterator[Drawn]:
    """Yield the strategies side by side, in the scenario that the reader wrote, with the edit that would do it."""
    scenario = scenario_of(words) if words else None
    if words and scenario is None:
        yield Drawn(PageSection(title="Not a scenario", blocks=(SentenceBlock((f"Write one of {FORMS}.",)),)))
    prices = {state.name: state.prices for state in snapshot.clusters}
    for one in snapshot.forecasts:
        unknown = (
            [violation.message for violation in unknown_names(scenario, one.evidence)]
            if scenario and one.evidence
            else []
        )
        if unknown:
            yield Drawn(
                PageSection(title=f"Placement on {one.cluster}", blocks=(SentenceBlock(("; ".join(unknown),)),))
            )
            continue
        first = str(one.settings.strategy)
        names = list(dict.fromkeys((first, *map(str, StrategyName))))
        report = report_placement(one, names, scenario, prices[one.cluster])
        evidence = _address(one.evidence.usage if one.evidence is not None else None)
        yield from (Drawn(section, evidence=evidence) for section in placement_sections([report], full=False))
    if not snapshot.forecasts:
        words = "there is no evidence of use; run `reconciler observe`"
        yield Drawn(PageSection(title="Placement", blocks=(SentenceBlock((_UNKNOWN, f": {words}")),)))


def _use(snapshot: Snapshot) -> Iterator[Drawn]:
    evidence = next(filter(None, (_address(state.usage) for state in snapshot.clusters)), "")
    for report in snapshot.reports:
        yield from (Drawn(section, evidence=evidence) for section in report_sections(report))


# Changes.


def _changes(snapshot: Snapshot) -> Iterator[Drawn]:
    rows = tuple(
        (Name(one.oid[:12]), one.committed_at, Name(one.plan[:19]) if one.plan else "by a person", one.subject)
        for one in snapshot.history
    )
    columns = (Column("commit"), Column("date"), Column("plan"), Column("subject", Form.NOTE))
    block: Block = TableBlock(columns=columns, rows=rows) if rows else SentenceBlock(("There are no commits yet.",))
    yield Drawn(PageSection(title="Commits", count=len(rows), blocks=(block,)))


PLAN_EVIDENCE = {
    "GPUs": "/jobs",
    "Capacity": "/nodes",
    "Placement": "/placement",
    "Sizing": "/jobs",
    "Costs": _SETTINGS,
}
"""The address of the evidence of a plan's figures, by the title of their section, if their row has no place."""

PAGES = (
    SitePage(path="/", title="Overview", draw=_overview),
    SitePage(path="/plan", title="Plan", draw=lambda _: ()),
    SitePage(path="/queues", title="Queues", draw=_queues, asks=_ROWS_WITH),
    SitePage(path="/jobs", title="Jobs", draw=_jobs, asks=_ROWS_WITH),
    SitePage(path="/nodes", title="Nodes", draw=_nodes, asks=_ROWS_WITH),
    SitePage(
        path="/placement",
        title="Placement",
        draw=_placement,
        asks="What if, such as nodes+=4x8xNVIDIA-H200",
        what_if=_placement,
    ),
    SitePage(path="/efficiency", title="Efficiency and cost", draw=_use),
    SitePage(path="/changes", title="Changes", draw=_changes),
)
"""Every page, in the order of the navigation."""

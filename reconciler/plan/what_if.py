"""Strategies side by side, and what would be different in a scenario: `reconciler placement plan`."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.errors import ConfigError, InvalidInput
from reconciler.kube.problems import Violation
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.placement import PlacementEvidence
from reconciler.placement.scenario import (
    KIND,
    PlacementScenario,
    QueueShare,
    first_to_start,
    quota_after,
    unknown_names,
    with_scenario,
)
from reconciler.plan.placement import ClusterForecast, placement_line
from reconciler.plan.plan import PlacedWorkload, PlacementLine
from reconciler.queues.queues import QueueKey
from reconciler.sizing.inventory import Inventory
from reconciler.sizing.prices import Prices

API_VERSION = "gpureconciler.io/v1alpha1"


class NodeMove(Struct, frozen=True, kw_only=True, rename="camel"):
    """A workload that two strategies place on different nodes."""

    workload: str
    strategies: tuple[str, str]
    nodes: tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]


class CostDelta(Struct, frozen=True, kw_only=True, rename="camel"):
    """The cost per hour of added nodes; None: a product has no price."""

    product: str
    gpus: int
    per_hour: float | None
    currency: str


class PlacementReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The placement of one cluster by each strategy.

    before: without the scenario, by the first strategy. starts: workloads that the scenario lets start.
    unplaced: the first workload that no strategy has nodes for. edits: what would make the scenario true, in Git or
    elsewhere. costs: per hour in `currency`, of the GPUs that each strategy gives to workloads that start; None: a
    product is `unpriced`. cost_before: the same without the scenario.
    """

    cluster: str
    unknown: str = ""
    strategies: tuple[PlacementLine, ...] = ()
    costs: tuple[float | None, ...] = ()
    cost_before: float | None = None
    currency: str = ""
    moves: tuple[NodeMove, ...] = ()
    unpriced: tuple[str, ...] = ()
    unplaced: PlacedWorkload | None = None
    before: PlacementLine | None = None
    starts: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    added: tuple[CostDelta, ...] = ()
    edits: tuple[str, ...] = ()


def report_placement(
    one: ClusterForecast, strategies: Sequence[str], scenario: PlacementScenario | None, prices: Prices
) -> PlacementReport:
    """Return the placement of a cluster by strategies, the first of which is compared with the others."""
    if one.evidence is None:
        return PlacementReport(cluster=one.cluster, unknown=one.unknown)
    changed = None if scenario is None else with_scenario(one.evidence, scenario)
    lines = tuple(placement_line(one, name, one.look(name, changed), every=True) for name in strategies)
    before = None if scenario is None else placement_line(one, strategies[0], every=True)
    inventory, known = (changed or one.evidence).inventory, {product for product, _ in prices.gpu_hours}
    return PlacementReport(
        cluster=one.cluster,
        strategies=lines,
        costs=tuple(_cost(line, inventory, prices) for line in lines),
        cost_before=None if before is None else _cost(before, one.evidence.inventory, prices),
        currency=prices.currency,
        unpriced=tuple(sorted({each for line in lines for each in _products(line, inventory)} - known)),
        moves=tuple(move for other in lines[1:] for move in _moves(lines[0], other)),
        unplaced=_unplaced(lines),
        before=before,
        starts=() if before is None else tuple(_newly(before, lines[0], "starts")),
        stops=() if before is None else tuple(_newly(before, lines[0], "waits")),
        added=() if scenario is None else tuple(_added(scenario, prices)),
        edits=() if scenario is None else tuple(_edits(one, scenario, one.evidence)),
    )


class WrittenScenario(Struct, frozen=True, kw_only=True):
    """A scenario, and the document that says it; None: words of the command line."""

    scenario: PlacementScenario
    document: Document | None = None


def read_scenario(path: str, raw: bytes, catalogue: Catalogue) -> WrittenScenario:
    """Read a scenario file. Raises `InvalidInput` with the places of what is wrong."""
    found = read(path, raw)
    problems = [*found.problems]
    for number, document in enumerate(found.documents):
        wrong = _wrong_kind(document, number)
        problems += document.problems([wrong]) if wrong is not None else catalogue.validate(document)
    if not found.documents and not problems:
        raise ConfigError(f"{path} has no scenario", hint=f"write a document of kind {KIND}")
    if problems:
        raise InvalidInput(tuple(problems), where=f"in {path}")
    (document,) = found.documents
    return WrittenScenario(scenario=msgspec.convert(document.data["spec"], PlacementScenario), document=document)


def _wrong_kind(document: Document, number: int) -> Violation | None:
    if number:
        return Violation(rule="scenario.kind", path=(), message="a second document", hint="write one in each file")
    if document.kind == KIND and document.api_version == API_VERSION:
        return None
    message, hint = f"{document.kind or 'a document without a kind'} is not a scenario", f"write kind: {KIND}"
    return Violation(rule="scenario.kind", path=("kind",), message=message, hint=f"{hint} of {API_VERSION}")


def check_scenario(written: WrittenScenario, found: Sequence[ClusterForecast]) -> None:
    """Raise what a scenario names that no cluster has: with its place in a file, else as a wrong flag."""
    wrong: list[list[Violation]] = []
    for one in found:
        if one.evidence is not None:
            names = [*unknown_names(written.scenario, one.evidence)]
            names += (
                each for index, share in enumerate(written.scenario.queues) for each in _unknown(one, index, share)
            )
            wrong.append(names)
    if not wrong or not all(wrong):
        return
    violations = min(wrong, key=len)
    if written.document is not None:
        raise InvalidInput(written.document.problems(violations), where=f"in {written.document.source.path}")
    raise ConfigError(f"--what-if: {violations[0].message}", hint=violations[0].hint)


def _unknown(one: ClusterForecast, index: int, share: QueueShare) -> Iterator[Violation]:
    if _queue(one, share.name) is None:
        known = ", ".join(sorted({key.name for key in one.queues.queues})[:8])
        message = f"there is no queue {share.name!r} in the repository"
        path = ("spec", "queues", index, "name")
        yield Violation(rule="scenario.unknown", path=path, message=message, hint=f"known: {known or 'none'}")


def _queue(one: ClusterForecast, name: str) -> QueueKey | None:
    return next((key for key in sorted(one.queues.queues) if key.name == name), None)


def _moves(first: PlacementLine, other: PlacementLine) -> Iterator[NodeMove]:
    nodes = {each.key: each.nodes for each in first.workloads}
    for each in other.workloads:
        if nodes.get(each.key, each.nodes) != each.nodes:
            yield NodeMove(
                workload=_name(each),
                strategies=(first.strategy, other.strategy),
                nodes=(nodes[each.key], each.nodes),
            )


def _name(one: PlacedWorkload) -> str:
    return f"{one.key.kind} {one.key.namespace}/{one.key.name}"


def _unplaced(lines: Sequence[PlacementLine]) -> PlacedWorkload | None:
    """Return the first workload that waits by every strategy."""
    waiting = [{each.key for each in line.workloads if each.word != "starts"} for line in lines]
    everywhere = frozenset.intersection(*map(frozenset, waiting)) if waiting else frozenset()
    return next((each for each in lines[0].workloads if each.key in everywhere), None)


def _newly(before: PlacementLine, after: PlacementLine, word: str) -> Iterator[str]:
    known = {each.key: each.word for each in before.workloads}
    for each in after.workloads:
        if each.word == word and known.get(each.key, "starts" if word == "waits" else "") != word:
            yield _name(each) + (f": {each.why}" if each.why else "")


def _products(line: PlacementLine, inventory: Inventory) -> dict[str, float]:
    """Return the GPUs that new workloads get, by product."""
    products = {node.name: node.product for node in inventory.nodes}
    found: dict[str, float] = {}
    for one in line.workloads:
        pods = sum(count for _, count in one.nodes)
        for name, count in one.nodes:
            found[products[name]] = found.get(products[name], 0.0) + one.gpus * count / pods
    return found


def _cost(line: PlacementLine, inventory: Inventory, prices: Prices) -> float | None:
    """Return what the GPUs of workloads that start cost per hour; None if a price is unknown."""
    costs = [(prices.hour(product), gpus) for product, gpus in _products(line, inventory).items()]
    if any(price is None for price, _ in costs):
        return None
    return round(sum(gpus * price for price, gpus in costs if price is not None), 2)


def _added(scenario: PlacementScenario, prices: Prices) -> Iterator[CostDelta]:
    for product, gpus in sorted(scenario.gpus.items()):
        price = prices.hour(product)
        cost = None if price is None else round(price * gpus, 2)
        yield CostDelta(product=product, gpus=gpus, per_hour=cost, currency=prices.currency)


def _edits(one: ClusterForecast, scenario: PlacementScenario, evidence: PlacementEvidence) -> Iterator[str]:
    """Yield what would make a scenario true."""
    for new in scenario.add_nodes:
        nodes = f"{new.count} x {new.gpus} {new.product}"
        yield f"add {nodes} to cluster {one.cluster}; `reconciler observe` then records them in Git"
    for name in dict.fromkeys(scenario.drain_nodes):
        yield f"reconciler new quarantine {name} --reason TEXT --effect NoExecute"
    for rack in scenario.failed_racks:
        yield f"nothing in Git: rack {rack} fails, and `reconciler observe` records it"
    for share in scenario.queues:
        yield from _quota_edit(one, share, evidence)


def _quota_edit(one: ClusterForecast, share: QueueShare, evidence: PlacementEvidence) -> Iterator[str]:
    key = _queue(one, share.name)
    if key is None:
        return
    row = one.queues.queues[key]
    quotas: Mapping[str, Any] = {quota.product: quota.guaranteed for quota in one.queues.quotas(key)}
    amounts = list(quotas.values())
    present = None if None in amounts else float(sum(amounts))
    after = quota_after(share, present)
    words = f"{_number(present)} → {_number(after)} GPUs"
    together = " (its flavors together)" if len(quotas) > 1 else ""
    yield f"{row.place}: quota of {row.kind} {share.name}: {words}{together}"
    if present is not None and after is not None and after > present:
        first = first_to_start(evidence.usage, share.name, after - present)
        names = ", ".join(f"{each.namespace}/{each.name}" for each in first[:8])
        more = f"{_number(after - present)} more GPUs are"
        if first:
            yield f"{more} enough for these workloads that wait in {share.name}: {names}"
        elif first_to_start(evidence.usage, share.name, inf):
            yield f"{more} not enough for the workload that is first in {share.name}"
        else:
            yield f"nothing waits in {share.name}"


def _number(amount: float | None) -> str:
    return "unlimited" if amount is None else f"{amount:g}"

"""The health of fleets as `reconciler health` shows it: live, or as far as the repository alone knows it."""

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from msgspec import Struct

from reconciler.clock import Clock
from reconciler.errors import ConfigError, InvalidInput, OutsideError
from reconciler.health.fast_lane import HealthRules, run_round
from reconciler.health.quarantine_files import HealthSources
from reconciler.health.state_store import HealthCase, StateStore
from reconciler.index.build import read_files
from reconciler.kinds.health import POLICY, QUARANTINE
from reconciler.kube.problems import Severity
from reconciler.live.observe.reading import OpenCluster
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision
from reconciler.nodehealth.fleet.evaluate import FleetInput, evaluate
from reconciler.nodehealth.fleet.evidence import FleetHealth, as_of_age
from reconciler.nodehealth.fleet.overview import HealthOverview, NodeHealthRow, overview
from reconciler.nodehealth.fleet.state import FleetNode, FleetState, NodeState
from reconciler.nodehealth.report import NodeReport
from reconciler.plan.workspace import Workspace
from reconciler.policy.references import evidence_ages


class FleetView(Struct, frozen=True, kw_only=True, eq=False):
    """One cluster: the overview, and what it is made of. `failure`: why the cluster could not be looked at.

    proven: the workloads that ended well on nodes in probation.
    """

    sources: HealthSources
    rules: HealthRules
    view: HealthOverview | None = None
    evaluation: FleetEvaluation | None = None
    facts: Mapping[str, FleetNode] = {}
    reports: Mapping[str, NodeReport] = {}
    cases: Mapping[str, HealthCase] = {}
    proven: Mapping[str, tuple[str, ...]] = {}
    failure: str = ""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.sources.cluster.name


class NodeDetails(Struct, frozen=True, kw_only=True, eq=False):
    """Everything that is known about one node."""

    fleet: FleetView
    decision: HealthDecision
    state: NodeState
    report: NodeReport | None = None
    case: HealthCase | None = None
    labels: Mapping[str, str] = {}
    row: NodeHealthRow | None = None


def health_sources(workspace: Workspace) -> list[HealthSources]:
    """Return what the repository says about the health of every chosen cluster.

    Raises `InvalidInput` for a file with errors that may hold a policy or a quarantine; other files do not matter here.
    """
    index = workspace.compile()
    errors = [problem for problem in index.problems() if problem.severity is Severity.ERROR]
    paths = sorted({problem.place.path for problem in errors} & index.revision.files.sources.keys())
    contents = read_files(workspace.repository, index.revision.files.sources, paths)
    words = [kind.encode() for _, kind in (POLICY, QUARANTINE)]
    hidden = {path for path, content in contents if any(word in content for word in words)}
    if problems := [problem for problem in errors if problem.place.path in hidden]:
        raise InvalidInput(problems)
    return [HealthSources(repository=workspace.repository, index=index, cluster=one) for one in index.clusters]


def live_fleets(
    workspace: Workspace, open_cluster: OpenCluster, *, clock: Clock, namespace: str
) -> Iterator[FleetView]:
    """Look at every cluster as a round of the controller does, and write nothing."""
    for sources in health_sources(workspace):
        rules = sources.rules()
        try:
            with ExitStack() as stack:
                live = stack.enter_context(open_cluster(sources.cluster))
                name = f"{workspace.config.name}-{sources.cluster.name}"
                store = StateStore(live, namespace=namespace, source=name)
                done = run_round(live, store, rules, clock=clock, dry_run=True)
        except OutsideError as error:
            yield FleetView(sources=sources, rules=rules, failure=str(error))
            continue
        reading = done.reading
        limits = rules.policies.base.breaker
        name, evaluation = sources.cluster.name, done.evaluation
        view = overview(
            name, evaluation, reading.facts, reports=reading.reports, limits=limits, now=done.now, jobs=done.state.jobs
        )
        yield FleetView(
            sources=sources,
            rules=rules,
            view=view,
            evaluation=done.evaluation,
            facts=reading.facts,
            reports=reading.reports,
            cases=done.state.cases,
            proven=done.state.proven,
        )


def recorded_fleets(workspace: Workspace, *, now: float) -> Iterator[FleetView]:
    """Return the health that evidence and quarantine files state. What passed too long ago is unknown, too."""
    today = dt.datetime.fromtimestamp(now, dt.UTC).date()
    for sources in health_sources(workspace):
        rules = sources.rules()
        inventory = sources.index.context.evidence.inventories.get(sources.cluster.name)
        if inventory is None:
            hint = f"there is no evidence; run `reconciler observe --cluster {sources.cluster.name}` first"
            yield FleetView(sources=sources, rules=rules, failure=hint)
            continue
        facts = {
            node.name: FleetNode(
                name=node.name,
                pool=node.labels.get("gpureconciler.io/pool", node.product),
                product=node.product,
                gpus=node.gpus,
                labels=node.labels,
                cordoned=node.unschedulable,
            )
            for node in inventory.nodes
            if node.gpus
        }
        quarantines = tuple(one.quarantine for one in sources.quarantines.values())
        given = FleetInput(facts=facts, reports={}, policies=rules.policies, quarantines=quarantines)
        evaluation = evaluate(given, FleetState(), now)
        limits = rules.policies.base.breaker
        health = _recorded_health(sources, today)
        view = overview(sources.cluster.name, evaluation, facts, reports={}, limits=limits, now=now, evidence=health)
        yield FleetView(sources=sources, rules=rules, view=view, evaluation=evaluation, facts=facts)


def _recorded_health(sources: HealthSources, today: dt.date) -> FleetHealth | None:
    """Return the recorded health as far as it is still known today."""
    context, name = sources.index.context, sources.cluster.name
    health = context.evidence.health.get(name)
    if health is None:
        return None
    return as_of_age(health, evidence_ages({name: health}, today).get(name), context.config.evidence_days)


def find_node(fleets: list[FleetView], name: str) -> NodeDetails:
    """Return one node. Raises `ConfigError` if no cluster has it, naming those that could not be asked."""
    for fleet in fleets:
        if fleet.evaluation is not None and name in fleet.evaluation.decisions:
            return NodeDetails(
                fleet=fleet,
                decision=fleet.evaluation.decisions[name],
                state=fleet.evaluation.state.nodes.get(name, NodeState()),
                report=fleet.reports.get(name),
                case=fleet.cases.get(name),
                labels=fleet.facts[name].labels,
                row=next((row for row in fleet.view.nodes if row.node == name), None) if fleet.view else None,
            )
    silent = ", ".join(fleet.cluster for fleet in fleets if fleet.evaluation is None)
    hint = f"not asked: {silent}" if silent else "only nodes with GPUs or with a report are known"
    raise ConfigError(f"no node {name!r}", hint=hint)

"""Learn the limits of a HealthPolicy from what healthy GPUs measure: an edit of its file, and what it would do."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.errors import ConfigError, InvalidInput
from reconciler.health.fast_lane import HealthRules
from reconciler.health.quarantine_files import HealthSources
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.health import POLICY, policy_from
from reconciler.kube.values import mapping
from reconciler.kube.yaml import Document
from reconciler.nodehealth.catalogue import BY_ID
from reconciler.nodehealth.checks.check import as_number
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.evaluate import FleetInput, evaluate
from reconciler.nodehealth.fleet.replay import compare_replays, gate, replay
from reconciler.nodehealth.fleet.state import FleetNode, FleetState, HealthPhase
from reconciler.nodehealth.learning import AcceptedRun, Lesson, PresentLimits, learn
from reconciler.nodehealth.limits import NAMED_LIMITS, NamedLimits
from reconciler.nodehealth.policy import CheckRule, PolicyBook, PolicyDocument
from reconciler.nodehealth.report import GpuSeries, NodeReport
from reconciler.sizing.peaks import PeakTable, product_key

_GDDR = "Gddr"


class FleetRecords(Struct, frozen=True, kw_only=True, eq=False):
    """The records of a fleet: reports of one moment or of many, and the nodes."""

    reports: Sequence[NodeReport]
    facts: Mapping[str, FleetNode]


class LearnedPolicy(Struct, frozen=True, kw_only=True, eq=False):
    """The file of a policy before and after, what its checks teach, and why the plan would refuse the edit."""

    path: str
    before: bytes
    after: bytes
    lessons: tuple[Lesson, ...]
    refused: tuple[str, ...] = ()


def learn_policy(
    sources: HealthSources, records: FleetRecords, peaks: PeakTable, *, name: str = "", now: float
) -> LearnedPolicy:
    """Return the edit of one HealthPolicy. Raises `ConfigError` if it is not clear which."""
    document, policy = _chosen(sources, name)
    day = dt.datetime.fromtimestamp(now, dt.UTC).date()
    rules = sources.rules()
    accepted = _accepted(sources, rules, records, policy, now)
    present = rules.policies.of_labels(policy.node_labels)
    lessons = []
    for check, kinds in _learnable():
        rule = present.checks.get(check, CheckRule())
        for names in kinds:
            runs, limits = _runs(check, names, accepted, peaks)
            now_limits = _present(check, names, rule.limits, limits, peaks)
            if now_limits is not None:
                lessons.append(learn(check, runs, now_limits, source=rule.source, day=day))
    return _edit(sources, rules, document, lessons, records, day=day)


def _accepted(
    sources: HealthSources, rules: HealthRules, records: FleetRecords, policy: PolicyDocument, now: float
) -> list[NodeReport]:
    """Return the reports of the policy's nodes that are healthy and in no quarantine."""
    latest = {one.node: one for one in sorted(records.reports, key=lambda one: one.measured_at)}
    given = FleetInput(
        facts=records.facts,
        reports=latest,
        policies=rules.policies,
        defaults=rules.defaults,
        quarantines=tuple(one.quarantine for one in sources.quarantines.values()),
    )
    done = evaluate(given, FleetState(), max((one.measured_at for one in latest.values()), default=now))
    return [
        one
        for one in records.reports
        if one.node in done.decisions
        and policy.node_labels.items() <= records.facts[one.node].labels.items()
        and done.decisions[one.node].phase is HealthPhase.HEALTHY
        and one.status is not CheckStatus.FAIL
    ]


def _chosen(sources: HealthSources, name: str) -> tuple[Document, PolicyDocument]:
    """Return the policy with a name, or the only one without a selector."""
    found = sources.index.context.definitions.get((sources.cluster.name, POLICY, ""), {})
    rows = [(one.document, policy_from(one.document.key.name, one.document.data["spec"])) for one in found.values()]
    chosen = [(document, one) for document, one in rows if (one.name == name if name else not one.node_labels)]
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(sorted(one.name for _, one in rows))
    what = f"no HealthPolicy {name!r}" if name else f"{len(chosen)} HealthPolicies apply to all nodes"
    hint = f"name one of {known} with --policy" if known else "`reconciler new health-policy NAME` writes one"
    raise ConfigError(f"{sources.cluster.name}: {what}", hint=hint)


def _learnable() -> Iterator[tuple[str, tuple[NamedLimits, ...]]]:
    """Yield the checks whose limits are parts of what the specification says, with their limits."""
    for check, kinds in NAMED_LIMITS.items():
        if BY_ID[check].is_recorded and all(one.is_part and one.warn for one in kinds):
            yield check, kinds


def _runs(
    check: str, names: NamedLimits, reports: Iterable[NodeReport], peaks: PeakTable
) -> tuple[list[AcceptedRun], list[float]]:
    """Return the accepted runs of one check on the GPUs that these limits are for, and what agents warned below."""
    runs, limits = list[AcceptedRun](), list[float]()
    for report in reports:
        product = product_key(report.gpus[0].product) if report.gpus else ""
        known = peaks.limits(product)
        is_gddr = known is not None and known.gddr
        if is_gddr is not names.warn.endswith(_GDDR) and len(NAMED_LIMITS[check]) > 1:
            continue
        for slot, series in report.measured.get(check, {}).items():
            if series.scale <= 0:
                continue
            limits.append(series.limit / series.scale)
            runs += _shares(product, report.node, slot, series)
    return runs, limits


def _shares(product: str, node: str, slot: str, series: GpuSeries) -> Iterator[AcceptedRun]:
    first = series.runs - len(series.newest) + 1
    for number, value in enumerate(series.newest, first):
        share = round(value / series.scale, 4)
        yield AcceptedRun(product=product, node=node, slot=slot, number=number, value=share)


def _present(
    check: str, names: NamedLimits, own: Mapping[str, object], limits: Sequence[float], peaks: PeakTable
) -> PresentLimits | None:
    """Return the limits of a check now: of the policy, else those by which the agents judged; None without runs."""
    if not limits:
        return None
    row = BY_ID[check]
    judged_by = round(min(limits), 3)
    usual_warn, usual_fail = as_number(row.limits[names.warn].value), as_number(row.limits[names.fail].value)
    warn_of_link, fail_of_link = _of_link(judged_by, peaks)
    floor = usual_fail if usual_fail is not None else fail_of_link
    warn = as_number(own.get(names.warn))
    fail = as_number(own.get(names.fail))
    return PresentLimits(
        warn_name=names.warn,
        warn=warn if warn is not None else usual_warn if usual_warn is not None else warn_of_link,
        fail_name=names.fail,
        fail=fail if fail is not None else floor,
        floor=floor,
    )


def _of_link(judged_by: float, peaks: PeakTable) -> tuple[float, float]:
    """Return the limits of the generation of PCI Express whose warning is nearest."""
    rows = [row for generation in range(1, 9) if (row := peaks.pcie(generation)) is not None]
    nearest = min(rows, key=lambda row: abs(row.warn_below - judged_by), default=None)
    return (judged_by, judged_by) if nearest is None else (nearest.warn_below, nearest.fail_below)


def _edit(
    sources: HealthSources,
    rules: HealthRules,
    document: Document,
    lessons: Sequence[Lesson],
    records: FleetRecords,
    *,
    day: dt.date,
) -> LearnedPolicy:
    """Return the edit of the file, and what the replay of stored reports says to it."""
    spec = mapping(document.data["spec"])
    learned = [one for one in lessons if not one.refused]
    for one in learned:
        spec = one.over(spec, day)
    path = document.source.path
    before = sources.content(path)
    if not learned:
        return LearnedPolicy(path=path, before=before, after=before, lessons=tuple(lessons))
    edited = edit_source(before, [(document, {**document.data, "spec": dict(spec)})])
    if edited.problems:
        raise InvalidInput(edited.problems)
    name = document.key.name
    documents = [policy_from(name, spec) if one.name == name else one for one in rules.policies.documents]
    old, new = (
        replay(book, records.reports, records.facts, rules.defaults) for book in (rules.policies, PolicyBook(documents))
    )
    refused = gate(new, compare_replays(old, new))
    return LearnedPolicy(path=path, before=before, after=edited.content, lessons=tuple(lessons), refused=refused)

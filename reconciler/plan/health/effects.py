"""The effect of a changed HealthPolicy: what it would have done with what the repository has recorded."""

import datetime as dt
from collections.abc import Iterator, Mapping

from reconciler.index.build import CompiledRevision, read_files
from reconciler.kinds.health import POLICY, policy_from, policy_of
from reconciler.kube.objects import ObjectKey
from reconciler.kube.secrets import mask_text
from reconciler.kube.values import mapping
from reconciler.nodehealth.fleet.evidence import as_of_age
from reconciler.nodehealth.fleet.replay import catalogue_rules
from reconciler.nodehealth.fleet.state import FleetNode
from reconciler.nodehealth.policy import PolicyBook, PolicyDocument
from reconciler.nodehealth.published import MalformedReport
from reconciler.nodehealth.stored import stored_reports
from reconciler.plan.baseline import Baseline, place_of
from reconciler.plan.health.effect import PolicyEffect
from reconciler.plan.health.replayed import PolicyChange, effect_on_health, effect_on_reports, unknown_effect
from reconciler.policy.references import evidence_ages
from reconciler.repo.config import Cluster
from reconciler.repo.files import report_files
from reconciler.repo.port import Repository

_UNREADABLE = (ValueError, TypeError, AttributeError, KeyError)
"""The errors of reading a policy that no schema has accepted, such as a rendered file that was edited by hand."""


def effect_of_change(
    repository: Repository,
    index: CompiledRevision,
    baseline: Baseline,
    cluster: Cluster,
    paths: Mapping[str, str],
    *,
    existing: set[str],
    day: dt.date | None,
    most_days: int | None,
) -> PolicyEffect | None:
    """Return the effect of the policies of a cluster that changed, by the names of their files; None without one.

    existing: the paths that the base has.
    """
    change = _policy_change(index, cluster, baseline, paths, existing)
    try:
        return _effect_of(repository, index, change, day, most_days) if change.matters else None
    except _UNREADABLE:
        return unknown_effect(change, "the effect: a policy of the base cannot be read")


def _policy_change(
    index: CompiledRevision, cluster: Cluster, baseline: Baseline, paths: Mapping[str, str], existing: set[str]
) -> PolicyChange:
    defined = index.context.definitions.get((cluster.name, POLICY, ""), {})
    after = {name: policy_of(one.document) for name, one in defined.items()}
    before = {name: one for name, one in after.items() if name not in paths}
    before.update(_existing(baseline, {name: path for name, path in paths.items() if path in existing}))
    name, path = min(paths.items())
    return PolicyChange(
        cluster=cluster.name,
        key=ObjectKey(group=POLICY[0], kind=POLICY[1], namespace="", name=name),
        place=defined[name].document.source
        if name in defined
        else place_of(path, index.revision.config.rendered, baseline.sources),
        before=PolicyBook(before.values()),
        after=PolicyBook(after.values()),
        rules=catalogue_rules(),
        nodes=_nodes(index, cluster.name),
    )


def _existing(baseline: Baseline, paths: Mapping[str, str]) -> Iterator[tuple[str, PolicyDocument]]:
    for name, path in paths.items():
        body = baseline.body(path)
        if body is not None:
            yield name, policy_from(name, mapping(body.get("spec")))


def _nodes(index: CompiledRevision, cluster: str) -> dict[str, FleetNode]:
    inventory = index.context.evidence.measured.get(cluster)
    return {
        node.name: FleetNode(
            name=node.name,
            pool=node.labels.get("gpureconciler.io/pool", node.product),
            product=node.product,
            gpus=node.gpus,
            labels=node.labels,
        )
        for node in (inventory.nodes if inventory is not None else ())
        if node.gpus
    }


def _effect_of(
    repository: Repository, index: CompiledRevision, change: PolicyChange, day: dt.date | None, most_days: int | None
) -> PolicyEffect:
    """Return the effect by the best record that there is."""
    config, evidence = index.revision.config, index.context.evidence
    files = report_files(config, index.revision.files.evidence, change.cluster)
    reports = []
    for path, raw in read_files(repository, files, sorted(files)):
        try:
            reports += stored_reports(path, raw)
        except MalformedReport as error:
            return unknown_effect(change, mask_text(f"the effect: {path}: {error}"))
    if reports:
        return effect_on_reports(change, reports)
    health = evidence.health.get(change.cluster)
    if health is None:
        folder = f"{config.evidence}/{change.cluster}"
        return unknown_effect(change, f"the effect: neither {folder}/reports/ nor {folder}/health.yaml has records")
    age = evidence_ages({change.cluster: health}, day).get(change.cluster)
    return effect_on_health(change, as_of_age(health, age, most_days))

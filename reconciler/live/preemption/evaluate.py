"""Evaluate preemption for the clusters of a repository: evidence and sources in, decisions and edits out."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from reconciler.kinds.preemption import PreemptionMode
from reconciler.kube.objects import ObjectKey
from reconciler.kube.problems import Problem
from reconciler.live.preemption.decide import PreemptionDecision, PreemptionInput, WorkloadVerdict, decide
from reconciler.live.preemption.sources import read_sources, suspend
from reconciler.plan.workspace import Workspace


class EvaluatedCluster(Struct, frozen=True, kw_only=True):
    """The result for one cluster. edits: files of workloads that are suspended; refused: why others stay.

    enforced: what policies enforce within their budgets. reviewed: what they leave to people. evidence: its file.
    """

    cluster: str
    decision: PreemptionDecision | None = None
    edits: Mapping[str, bytes] = field(default_factory=dict)
    enforced: Mapping[str, bytes] = field(default_factory=dict)
    reviewed: Mapping[str, bytes] = field(default_factory=dict)
    evidence: str = ""
    refused: Mapping[ObjectKey, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def evaluate(workspace: Workspace, now: dt.datetime) -> Iterator[EvaluatedCluster]:
    """Yield the decisions for every chosen cluster. With a wrong value in Git nothing is decided."""
    index = workspace.compile()
    for cluster in index.clusters:
        utilisation = index.context.evidence.utilisation.get(cluster.name)
        if utilisation is None:
            note = "there is no utilisation evidence; set `prometheus` of the cluster and run `reconciler observe`"
            yield EvaluatedCluster(cluster=cluster.name, notes=(note,))
            continue
        sources = read_sources(workspace.repository, index, cluster, utilisation.workloads)
        if sources.problems:
            yield EvaluatedCluster(cluster=cluster.name, problems=sources.problems)
            continue
        if not sources.policies:
            yield EvaluatedCluster(cluster=cluster.name, notes=("there is no PreemptionPolicy",))
            continue
        given = PreemptionInput(
            utilisation=utilisation,
            inventory=index.context.evidence.inventories.get(cluster.name),
            candidates=sources.candidates,
            now=now,
            spent=sources.spent,
        )
        decision = decide(given)
        proposed, held = _proposed(decision)
        done = suspend(index, cluster, sources, proposed, utilisation.taken_at)
        enforced, reviewed = _by_review(proposed)
        taken = dt.datetime.fromisoformat(utilisation.taken_at)
        if any(when >= taken for _, when, _ in sources.spent):  # this evidence has led to suspensions already
            enforced, reviewed = [], []
        yield EvaluatedCluster(
            cluster=cluster.name,
            decision=decision,
            edits=done.edits,
            enforced=suspend(index, cluster, sources, enforced, utilisation.taken_at).edits,
            reviewed=suspend(index, cluster, sources, reviewed, utilisation.taken_at).edits,
            evidence=utilisation.document.source.path,
            refused={**held, **done.refused},
        )


def _by_review(proposed: Iterable[WorkloadVerdict]) -> tuple[list[WorkloadVerdict], list[WorkloadVerdict]]:
    """Return what is done without people, and what policies that enforce leave to them: all for a demand, or none."""
    rows = [*proposed]

    def is_free(one: WorkloadVerdict) -> bool:
        return one.candidate.policy.mode is PreemptionMode.ENFORCE and not one.exceeded

    mixed = {one.wanted_for for one in rows if not is_free(one)} - {None}
    enforced = [one for one in rows if is_free(one) and one.wanted_for not in mixed]
    rest = [one for one in rows if one not in enforced]
    demands = {one.wanted_for for one in rest if one.candidate.policy.mode is PreemptionMode.ENFORCE}
    return enforced, [
        one
        for one in rest
        if one.candidate.policy.mode is PreemptionMode.ENFORCE or (one.wanted_for and one.wanted_for in demands)
    ]


def _proposed(decision: PreemptionDecision) -> tuple[list[WorkloadVerdict], dict[ObjectKey, str]]:
    """Return what policies propose to suspend, and why others stay: all that a demand needs is proposed, or nothing."""
    suspended = [one for one in decision.workloads if one.is_suspended]
    reported = [one for one in suspended if one.candidate.policy.mode is PreemptionMode.REPORT]
    short = {one.wanted_for for one in reported} - {None}
    rest = [one for one in suspended if one.candidate.policy.mode is not PreemptionMode.REPORT]
    held = {
        one.candidate.workload.key: f"another workload that {one.wanted_for} needs is only reported"
        for one in rest
        if one.wanted_for in short
    }
    return [one for one in rest if one.candidate.workload.key not in held], held

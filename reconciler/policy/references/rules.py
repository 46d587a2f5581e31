"""The catalogue of cross-document rules, and `Evaluation`, which collects their verdicts."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from msgspec import UNSET, Struct, UnsetType, field

from reconciler.kinds.kind import Kinds
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.policy.verdict import Result, Verdict
from reconciler.queues.flavors import NEWEST, Version
from reconciler.repo.config import Cluster, RuleSetting
from reconciler.sizing.inventory import Inventory


class Rule(Struct, frozen=True, kw_only=True):
    """A requirement, why it matters, and its default action."""

    title: str
    reason: str
    action: Result = Result.DENY
    parameters: tuple[str, ...] = ()


RULES: Mapping[str, Rule] = {
    "identity.duplicate": Rule(
        title="One object, one document",
        reason="two documents that render the same object would overwrite each other in an undefined order",
    ),
    "identity.path-collision": Rule(
        title="One object, one file, on every file system",
        reason="on a case-insensitive file system, a checkout loses one of two files whose names differ only in case",
    ),
    "identity.path-reserved": Rule(
        title="File names are valid on every file system",
        reason="a checkout fails if a name is reserved (con, nul, aux) or longer than 255 bytes",
    ),
    "reference.queue": Rule(
        title="The queue of a workload exists",
        reason="a workload in a queue that does not exist is never admitted, and nothing reports it",
    ),
    "reference.parent": Rule(
        title="The parent of a queue exists",
        reason="a queue whose parent does not exist gets no share of the cluster",
    ),
    "reference.parent-cycle": Rule(
        title="No queue is its own ancestor",
        reason="in a cycle of parents no queue has a root to draw GPUs from",
    ),
    "reference.cluster-queue": Rule(
        title="The ClusterQueue of a LocalQueue exists",
        reason="a LocalQueue without its ClusterQueue admits nothing",
    ),
    "reference.resource-flavor": Rule(
        title="The flavors of a ClusterQueue exist",
        reason="Kueue deactivates a ClusterQueue if one of its flavors does not exist",
    ),
    "reference.admission-check": Rule(
        title="The admission checks of a ClusterQueue exist, with their parameters",
        reason="Kueue deactivates a ClusterQueue if one of its checks does not exist, or is not active",
    ),
    "reference.topology": Rule(
        title="The topology of a flavor exists",
        reason="Kueue admits nothing to a flavor whose topology does not exist",
    ),
    "reference.pvc": Rule(
        title="Mounted claims exist",
        reason="a pod that mounts a claim that does not exist stays Pending, with its whole gang",
    ),
    "reference.shared-claim": Rule(
        title="Workloads write to claims of their own",
        reason="workloads that write to the same folder of a claim overwrite each other's checkpoints and code; mount"
        " what is only read with readOnly, and folders of one claim with subPath. A claim that a queue defines is for"
        " all its jobs",
        action=Result.WARN,
    ),
    "reference.config-map": Rule(
        title="Referenced ConfigMaps exist",
        reason="a container that needs a ConfigMap that does not exist never starts",
    ),
    "reference.secret": Rule(
        title="Referenced Secrets exist",
        reason="Secrets belong outside Git, so the repository cannot show whether the cluster has them",
        action=Result.WARN,
    ),
    "reference.service-account": Rule(
        title="Referenced service accounts exist",
        reason="pods of a service account that does not exist are not created",
        action=Result.WARN,
    ),
    "reference.priority-class": Rule(
        title="Priority classes exist",
        reason="the API server rejects pods of a priority class that does not exist",
    ),
    "reference.storage-class": Rule(
        title="Storage classes exist",
        reason="a claim of a storage class that does not exist stays Pending",
        action=Result.WARN,
    ),
    "reference.route": Rule(
        title="Gateways and backends of routes exist",
        reason="a route without its gateway serves nothing, and one to a pool or a Service that does not exist answers"
        " with errors",
        action=Result.WARN,
    ),
    "reference.namespace": Rule(
        title="Namespaces exist",
        reason="nothing can be created in a namespace that does not exist; checked if the repository or `external`"
        " names any namespace at all",
        action=Result.WARN,
    ),
    "queues.never-admitted": Rule(
        title="Kueue can admit the workload",
        reason="a workload that its queue, a flavor, a topology, a LimitRange or a webhook of Kueue keeps out waits"
        " forever, however much quota is free",
        action=Result.WARN,
    ),
    "queues.admission-unknown": Rule(
        title="It is known whether Kueue can admit the workload",
        reason="labels of namespaces and nodes decide it, and the repository lacks them",
        action=Result.AUDIT,
    ),
    "quota.children": Rule(
        title="The quotas of child queues fit that of their parent",
        reason="quotas that exceed the parent's in total cannot all be granted",
    ),
    "quota.root-queue": Rule(
        title="Workloads are in KAI queues that have a parent",
        reason="KAI schedules nothing from a queue without a parent (kai-scheduler/KAI-Scheduler#621)",
    ),
    "quota.leaf-queue": Rule(
        title="Workloads are in KAI queues at the bottom of the tree",
        reason="workloads in a queue with children compete with the children outside every share",
        action=Result.WARN,
    ),
    "quota.bottom-queue": Rule(
        title="Workloads are in Volcano queues at the bottom of the tree",
        reason="Volcano refuses jobs in the queue root, and in every queue that has children",
    ),
    "quota.child-limit": Rule(
        title="The limit of a Volcano queue is not above that of the queues above it",
        reason="Volcano refuses a queue with more capability than the next queue above it that sets one",
    ),
    "quota.cohort": Rule(
        title="A ClusterQueue is in the cohort that has its name",
        reason="Kueue shares quota only within a cohort: a ClusterQueue outside it is not the parent of its members,"
        " and its quota is added to theirs",
        action=Result.WARN,
    ),
    "quota.queue-limit": Rule(
        title="A workload fits its queue",
        reason="a workload that requests more than the limit of its queue waits forever",
    ),
    "quota.growth": Rule(
        title="A workload fits its queue at its largest",
        reason="an autoscaler starts pods that wait forever where the queue of its workload never grants so many GPUs",
        action=Result.WARN,
    ),
    "quota.not-covered": Rule(
        title="The ClusterQueue of a workload covers what its pods request",
        reason="Kueue admits no pod that requests a resource that no resource group of its ClusterQueue covers, be it"
        " cpu, memory or storage; a limit without a request, the overhead of a RuntimeClass and the defaults of a"
        " LimitRange count as well. List what Kueue's configuration excludes (`resources.excludeResourcePrefixes`), or"
        " replaces by other resources, as `excludeResourcePrefixes`",
        parameters=("excludeResourcePrefixes",),
    ),
    "quota.non-preemptible": Rule(
        title="A workload that KAI never preempts fits the quota of its queue",
        reason="workloads of priority 100 or more, and those that say so, get only GPUs of a quota: of their queue and"
        " of those above it: one that requests more waits forever",
    ),
    "quota.limit-below-quota": Rule(
        title="The limit of a KAI or Volcano queue is not below its quota",
        reason="KAI never grants more than the limit, so the rest of the quota is never used, and Volcano refuses such"
        " a queue",
    ),
    "quota.product": Rule(
        title="The GPU product exists in the cluster",
        reason="no node in the evidence has the product, so no pod can be placed",
    ),
    "quota.capacity": Rule(
        title="The cluster has enough of the GPU product",
        reason="a workload that is larger than the cluster waits forever",
    ),
    "quota.node-shape": Rule(
        title="Each pod fits on one node",
        reason="a pod cannot span nodes: it stays Pending if no node has enough GPUs",
    ),
    "quota.cordoned": Rule(
        title="Enough nodes are schedulable",
        reason="the workload fits the cluster only when cordoned nodes are schedulable again",
        action=Result.WARN,
    ),
    "quota.no-evidence": Rule(
        title="GPU requests can be checked against evidence",
        reason="without an inventory it is unknown whether the cluster has these GPUs",
        action=Result.WARN,
    ),
    "capacity.overcommit": Rule(
        title="Quotas fit the cluster",
        reason="where quotas exceed the GPUs of the cluster, the queues cannot all use them at the same time",
        action=Result.WARN,
    ),
    "evidence.shrinks": Rule(
        title="Evidence does not lose GPUs",
        reason="an inventory that lists fewer GPUs than that of the base means lost nodes, or a measurement that"
        " missed some",
        action=Result.WARN,
    ),
    "evidence.age": Rule(
        title="Evidence is recent",
        reason="old figures, and figures from a clock that was wrong, describe nodes that may not exist; set"
        " `spec.evidence.maxAge` in reconciler.yaml to limit the age",
        action=Result.WARN,
    ),
    "health.quarantine-ended": Rule(
        title="Quarantines that have ended are removed",
        reason="a NodeQuarantine keeps its node out of use as long as the file exists, whatever its `until` says",
        action=Result.WARN,
    ),
    "health.replay": Rule(
        title="A health policy takes few nodes out of use",
        reason="a policy that would have taken more than 1 % of the nodes in a week, nodes that the present one leaves"
        " alone, or that would have tripped the breaker, is more likely wrong than the nodes",
    ),
    "quota.multikueue": Rule(
        title="MultiKueue can run the workload",
        reason="Kueue rejects workloads of kinds that it does not copy to worker clusters",
    ),
    "quota.workers": Rule(
        title="Workloads of worker clusters are visible",
        reason="what MultiKueue sends to worker clusters runs on their nodes, which the evidence of this cluster does"
        " not describe",
        action=Result.WARN,
    ),
    "quota.daemon-set": Rule(
        title="GPUs of DaemonSets are visible",
        reason="a DaemonSet takes GPUs on every node that it matches, and no queue counts them",
        action=Result.WARN,
    ),
    "quota.not-counted": Rule(
        title="All pods and GPUs are counted",
        reason="GPUs that are not counted bypass every quota and every limit; declare where a kind has its pods in"
        " spec.podPaths of reconciler.yaml",
        action=Result.WARN,
    ),
    "quota.shared-gpus": Rule(
        title="Shares of a GPU have a name of their own",
        reason="where the device plugin offers each GPU several times as nvidia.com/gpu, plans and quotas count shares"
        " as if they were whole GPUs",
        action=Result.WARN,
    ),
    "quota.default-gpus": Rule(
        title="Pods get only GPUs that they ask for",
        reason="a LimitRange gives each container that names no GPUs its default, which is the maximum where it sets no"
        " other: also to those that need none",
        action=Result.WARN,
    ),
    "quota.max-gpus-per-namespace": Rule(
        title="The GPUs of a namespace are limited",
        reason="keeps one team from filling the cluster; set `max`, and `overrides` by namespace, in reconciler.yaml",
        parameters=("max", "overrides"),
    ),
    "quota.max-gpus-per-queue": Rule(
        title="The GPUs of a queue's workloads are limited",
        reason="keeps the demand on a queue from growing unnoticed; set `max`, and `overrides` by queue",
        parameters=("max", "overrides"),
    ),
}

ALWAYS = frozenset(("identity.duplicate", "identity.path-collision"))
"""Rules that `spec.rules` can neither disable nor turn into warnings."""

COLLECTIVE = frozenset(
    (
        "quota.leaf-queue",
        "quota.root-queue",
        "quota.bottom-queue",
        "quota.no-evidence",
        "quota.workers",
        "queues.admission-unknown",
        "quota.max-gpus-per-namespace",
        "quota.max-gpus-per-queue",
    )
)
"""Rules about workloads whose verdicts depend on several of them: on their number, their sum, and the first."""

_MAX_SUGGESTIONS = 50  # of one run: each compares many names
_MAX_NAMES = 2_000


class RuleScope(Struct, frozen=True, kw_only=True, eq=False):
    """One cluster whose objects are evaluated: its settings, its measured nodes, and the version of Kueue there.

    Without an inventory the GPUs of the cluster are unknown, and the rules that need it say so.
    """

    kinds: Kinds
    cluster: Cluster
    settings: Mapping[str, RuleSetting]
    inventory: Inventory | None = None
    kueue: Version = NEWEST

    def evaluation(self) -> "Evaluation":
        """Begin a run of the rules."""
        return Evaluation(kinds=self.kinds, cluster=self.cluster, settings=self.settings, kueue=self.kueue)


class Evaluation(Struct, kw_only=True):
    """One run of the rules over a cluster: its settings, the version of Kueue that it runs, and the verdicts so far."""

    kinds: Kinds
    cluster: Cluster
    settings: Mapping[str, RuleSetting]
    kueue: Version = NEWEST
    verdicts: list[Verdict] = field(default_factory=list)
    suggestions: int = 0

    def is_enabled(self, rule: str) -> bool:
        """Return whether a rule is evaluated."""
        setting = self.settings.get(rule)
        return setting is None or setting.enabled or rule in ALWAYS

    def report(
        self, rule: str, row: ObjectSummary, message: str, *, hint: str = "", field: str = "", other: str = ""
    ) -> None:
        """Report a violation by a summarized object; `other` is the place of the object it conflicts with."""
        message += f" (the other is at {other})" if other else ""
        self.report_object(rule, row.key, row.place, message, hint=hint, field=field)

    def report_object(
        self,
        rule: str,
        key: ObjectKey,
        place: SourceRef,
        message: str,
        *,
        hint: str = "",
        field: str = "",
        result: Result | None = None,
        cause: ObjectKey | UnsetType = UNSET,
    ) -> None:
        """Report a violation by any object; `field` and `place` may be of another one, which is the cause."""
        if not self.is_enabled(rule):
            return
        self.verdicts.append(
            Verdict(
                rule=rule,
                result=result or self.action(rule),
                cluster=self.cluster.name,
                key=key,
                place=place,
                message=message,
                hint=hint,
                field=field,
                cause=cause,
            )
        )

    def action(self, rule: str) -> Result:
        """Return the result of a violation."""
        setting = self.settings.get(rule)
        if setting is None or not setting.action or rule in ALWAYS:
            return RULES[rule].action
        return Result(setting.action.lower())

    def suggest(self, name: str, names: Iterable[str]) -> str:
        """Call `suggest`, but only so often in one run."""
        if self.suggestions >= _MAX_SUGGESTIONS:
            return ""
        self.suggestions += 1
        return suggest(name, sorted(set(names))[:_MAX_NAMES])


def suggest(name: str, names: Iterable[str]) -> str:
    """Return `did you mean …?` if a name close to a wrong one exists, else an empty string."""
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else ""

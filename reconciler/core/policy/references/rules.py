"""The catalogue of cross-document rules, and the bench that collects their verdicts."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from reconciler.core.config import Cluster, RuleSetting
from reconciler.core.objects import ObjectKey, SourceRef
from reconciler.core.policy.verdict import Result, Verdict
from reconciler.core.summary import ObjectSummary


class Rule(Struct, frozen=True, kw_only=True):
    """What a rule demands, why a reviewer should care, and what it does unless the settings say otherwise."""

    title: str
    reason: str
    action: Result = Result.DENY
    parameters: tuple[str, ...] = ()


RULES: Mapping[str, Rule] = {
    "identity.duplicate": Rule(
        title="One identity, one document",
        reason="two documents that render to one object would overwrite each other, and which one wins is chance",
    ),
    "identity.path-collision": Rule(
        title="One object, one file, on every file system",
        reason="where letter case does not count, a checkout loses one of two files whose names differ only in case",
    ),
    "identity.path-reserved": Rule(
        title="Rendered files have names that every file system takes",
        reason="a checkout fails where a name is reserved (con, nul, aux) or longer than 255 bytes",
    ),
    "reference.queue": Rule(
        title="The queue of a workload exists",
        reason="a workload in a queue that does not exist is never admitted, and nobody is told",
    ),
    "reference.parent": Rule(
        title="The parent of a queue exists",
        reason="a queue below a parent that does not exist gets no share of the cluster",
    ),
    "reference.parent-cycle": Rule(
        title="No queue is above itself",
        reason="in a ring of parents no queue has a root to draw GPUs from",
    ),
    "reference.cluster-queue": Rule(
        title="The ClusterQueue of a LocalQueue exists",
        reason="a LocalQueue that points nowhere admits nothing",
    ),
    "reference.resource-flavor": Rule(
        title="The flavors of a ClusterQueue exist",
        reason="Kueue stops a ClusterQueue one of whose flavors does not exist",
    ),
    "reference.topology": Rule(
        title="The topology of a flavor exists",
        reason="Kueue admits nothing to a flavor whose topology does not exist",
    ),
    "reference.pvc": Rule(
        title="Mounted claims exist",
        reason="a pod that mounts a claim which does not exist stays Pending, with its whole gang",
    ),
    "reference.config-map": Rule(
        title="Named ConfigMaps exist",
        reason="a container that needs a ConfigMap which does not exist never starts",
    ),
    "reference.secret": Rule(
        title="Named Secrets exist",
        reason="Secrets rightly live outside Git, so that nobody sees here whether the cluster has them",
        action=Result.WARN,
    ),
    "reference.service-account": Rule(
        title="Named service accounts exist",
        reason="pods of a service account that does not exist are not created",
        action=Result.WARN,
    ),
    "reference.priority-class": Rule(
        title="Priority classes exist",
        reason="the API server refuses pods of a priority class that does not exist",
    ),
    "reference.storage-class": Rule(
        title="Storage classes exist",
        reason="a claim of a storage class that does not exist stays Pending",
        action=Result.WARN,
    ),
    "reference.namespace": Rule(
        title="Namespaces exist",
        reason="nothing can be created in a namespace that does not exist; judged where the repository or `external`"
        " names any namespace at all",
        action=Result.WARN,
    ),
    "quota.children": Rule(
        title="Children are guaranteed no more than their parent",
        reason="guarantees that add up to more than the parent's cannot all be kept",
    ),
    "quota.leaf-queue": Rule(
        title="Workloads are in KAI queues at the bottom of the tree",
        reason="KAI schedules nothing from a queue without a parent (kai-scheduler/KAI-Scheduler#621), and what is in"
        " a queue with children competes with them outside every share",
        action=Result.WARN,
    ),
    "quota.cohort": Rule(
        title="A ClusterQueue is in the cohort that is named after it",
        reason="Kueue shares quota within a cohort only: a ClusterQueue outside it is not the parent of those inside,"
        " and its quota comes on top of theirs",
        action=Result.WARN,
    ),
    "quota.queue-limit": Rule(
        title="A workload fits its queue",
        reason="a workload that asks for more than its queue may ever have waits for ever",
    ),
    "quota.product": Rule(
        title="The GPU product exists in the cluster",
        reason="no node that the evidence knows has the product, so that no pod can ever be placed",
    ),
    "quota.capacity": Rule(
        title="The cluster has enough of the GPU product",
        reason="a workload that is larger than the cluster waits for ever",
    ),
    "quota.node-shape": Rule(
        title="One node can hold one pod",
        reason="a pod cannot be spread over nodes: it stays Pending if no node has as many GPUs",
    ),
    "quota.cordoned": Rule(
        title="Enough nodes take new pods",
        reason="the workload fits the cluster only once cordoned nodes are back",
        action=Result.WARN,
    ),
    "quota.no-evidence": Rule(
        title="GPU requests can be checked against evidence",
        reason="without an inventory nobody knows whether the cluster has these GPUs: unknown is not fine",
        action=Result.WARN,
    ),
    "quota.daemon-set": Rule(
        title="GPUs that every node gives away are seen",
        reason="a DaemonSet takes GPUs on each node that it matches, and no sum of this plan holds them",
        action=Result.WARN,
    ),
    "quota.max-gpus-per-namespace": Rule(
        title="A namespace asks for no more GPUs than it may",
        reason="keeps one team from filling the cluster; set `max`, and `overrides` by namespace, in reconciler.yaml",
        parameters=("max", "overrides"),
    ),
    "quota.max-gpus-per-queue": Rule(
        title="The workloads of a queue ask for no more GPUs than it may hold",
        reason="keeps a queue from growing without anybody noticing; set `max`, and `overrides` by queue",
        parameters=("max", "overrides"),
    ),
}

ALWAYS = frozenset(("identity.duplicate", "identity.path-collision"))
"""Rules that `spec.rules` can neither switch off nor soften."""
_MOST_SUGGESTIONS = 50  # of one run: each looks through many names
_MOST_NAMES = 2_000


class Bench(Struct, kw_only=True):
    """Collects the verdicts of one cluster under its settings."""

    cluster: Cluster
    settings: Mapping[str, RuleSetting]
    verdicts: list[Verdict] = field(default_factory=list)
    suggested: int = 0

    def is_on(self, rule: str) -> bool:
        """Whether a rule judges at all; that two objects share a file cannot be switched off."""
        setting = self.settings.get(rule)
        return setting is None or setting.enabled or rule in ALWAYS

    def rule(
        self, rule: str, row: ObjectSummary, message: str, *, hint: str = "", field: str = "", at: str = ""
    ) -> None:
        """Give a verdict on a row, as the rule ships or as the settings have it; `at` adds a second place."""
        self.object(
            rule,
            row.key,
            row.place,
            message + (f" (the other is asked for at {at})" if at else ""),
            hint=hint,
            field=field,
        )

    def object(
        self,
        rule: str,
        key: ObjectKey,
        place: SourceRef,
        message: str,
        *,
        hint: str = "",
        field: str = "",
        result: Result | None = None,
    ) -> None:
        """Give a verdict on any object."""
        if not self.is_on(rule):
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
            )
        )

    def action(self, rule: str) -> Result:
        """Return what a violation leads to."""
        setting = self.settings.get(rule)
        if setting is None or not setting.action or rule in ALWAYS:
            return RULES[rule].action
        return Result(setting.action.lower())

    def meant(self, name: str, names: Iterable[str]) -> str:
        """Return `did you mean …?` where a name close to a wrong one exists."""
        if self.suggested >= _MOST_SUGGESTIONS:
            return ""
        self.suggested += 1
        from difflib import get_close_matches  # noqa: PLC0415 - only on the way to a verdict

        close = get_close_matches(name, sorted(set(names))[:_MOST_NAMES], n=1, cutoff=0.6)
        return f"did you mean {close[0]!r}?" if close else ""

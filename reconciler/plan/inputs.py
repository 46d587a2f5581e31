"""`Inputs`: everything that a plan depends on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem
from reconciler.plan.approvals import NO_APPROVALS, Approvals
from reconciler.plan.baseline import place_of
from reconciler.plan.comparison import NO_CAUSES, NO_SCHEMAS, Causes, Comparison, FieldSchemas
from reconciler.plan.health.effect import PolicyEffect
from reconciler.plan.plan import Behind, Change, Drift, LiveState, LiveVersion, QuarantineLine, Revision
from reconciler.policy.exceptions import ExceptionInForce
from reconciler.policy.verdict import Verdict
from reconciler.queues.flavors import NEWEST, Version
from reconciler.queues.queues import QueueUsage
from reconciler.repo.config import Config
from reconciler.repo.config.changes import SettingChange
from reconciler.repo.evidence.active_queues import ActiveQueues
from reconciler.repo.evidence.runs import FinishedRuns
from reconciler.repo.evidence.usage import Usage
from reconciler.repo.evidence.utilisation import GpuUtilisation
from reconciler.sizing.inventory import Inventory


class Common(Struct, frozen=True, kw_only=True):
    """Objects that are equal on both sides, which a plan only counts.

    rows: yields their summaries, for the few questions that need each of them.
    usage: their queues and requests by cluster; None if they were not added up.
    """

    count: int = 0
    rows: Callable[[], Iterable[ObjectSummary]] = tuple
    usage: Mapping[str, QueueUsage] | None = None


class UsageEvidence(Struct, frozen=True, kw_only=True):
    """The evidence of use of a cluster: its age in days (None: no commit says), and the version of Kueue there."""

    found: Usage
    days: int | None = None
    kueue: Version = NEWEST


class LiveFacts(Struct, frozen=True, kw_only=True):
    """The replies of live clusters: their states, versions of the existing objects by path, refusals, and drift.

    adopted: paths of existing objects that are not ours and become ours, with whose they are, in words.
    contents: what is in a namespace that goes, besides what the plan deletes itself, by the path of the namespace.
    """

    clusters: tuple[LiveState, ...] = ()
    versions: Mapping[str, LiveVersion] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    drift: tuple[Drift, ...] = ()
    adopted: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Inputs(Struct, frozen=True, kw_only=True):
    """Desired and existing objects, findings about them, and the identity of both revisions.

    Paths are relative to the rendered folder: `<cluster>/<namespace>/<kind>-<name>.yaml`.

    desired: summaries of the objects that the sources define.
    existing: blob ids of the rendered files of the base that we own.
    existing_rows: summaries of the existing objects whose blob id differs from the desired one.
    kept: existing objects that an annotation keeps when their source is removed. external: those that others own now.
    common: objects that are equal on both sides and not part of the three mappings above.
    manifest: returns the desired object at a path, with reasons. It is called for changes only.
    body: returns the existing object at a path; None if the file cannot be read. It is called for changes only.
    sources: source files of the existing objects that have no files of their own.
    comparisons: what was compared already, by the paths before and after.
    reviewed: creations of the saved plan that this one repeats. Those of the same content keep its details.
    causes: finds the edited lines behind what differs.
    kept_specs: updates that are not made, because `onImmutableChange: keep` says so.
    schemas: how to compare lists and quantities.
    origins: source files of existing objects whose source now has errors, so they are held back. None if they are
        unknown; then all deletions are held back while any file has errors.
    blocked: source files that need what a file with errors defines; existing files of them stay.
    waiting: paths whose sources wait for a sizing answer; existing files stay.
    inventories, inventories_before: measured nodes by cluster, of the head and of the base (None: the same).
    quarantines: nodes that are taken out of use or given back.
    health_policies: what changed policies would have done, by cluster.
    evidence_ages: ages of inventories in days, as far as a reviewer should see them.
    active_queues: the queues that workloads use, by cluster, as the evidence says.
    usage: what runs and waits, by cluster.
    runs, utilisation: finished jobs and the use of GPUs, by cluster, as the evidence says.
    edited: rendered files of the head that were edited by hand; whole paths.
    lost: objects that an annotation keeps but the head removes.
    behind: what the base branch has besides the merge base.
    settings: what differs between the settings and rules of head and base.
    folders: number of files in each source folder, before and after.
    judged_by: digest of the settings, policies and evidence of the head.
    approvals: what lets the plan exceed budgets.
    live: what live clusters said, if the existing objects are theirs.
    """

    engine: str
    base: Revision
    head: Revision
    evidence: str
    policies: str
    config: Config
    kinds: Kinds
    desired: Mapping[str, ObjectSummary]
    existing: Mapping[str, str]
    existing_rows: Mapping[str, ObjectSummary]
    manifest: Callable[[str], Manifest]
    body: Callable[[str], Mapping[str, Any] | None]
    comparisons: Mapping[tuple[str, str], Comparison] = field(default_factory=dict)
    reviewed: Mapping[str, Change] = field(default_factory=dict)
    causes: Causes = NO_CAUSES
    kept: frozenset[str] = frozenset()
    external: frozenset[str] = frozenset()
    kept_specs: frozenset[str] = frozenset()
    schemas: FieldSchemas = NO_SCHEMAS
    origins: Mapping[str, str] | None = None
    blocked: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    inventories_before: Mapping[str, Inventory] | None = None
    quarantines: tuple[QuarantineLine, ...] = ()
    health_policies: tuple[PolicyEffect, ...] = ()
    evidence_ages: Mapping[str, int] = field(default_factory=dict)
    active_queues: Mapping[str, ActiveQueues] = field(default_factory=dict)
    usage: Mapping[str, UsageEvidence] = field(default_factory=dict)
    runs: Mapping[str, FinishedRuns] = field(default_factory=dict)
    utilisation: Mapping[str, GpuUtilisation] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = ()
    exceptions: tuple[ExceptionInForce, ...] = ()
    edited: tuple[str, ...] = ()
    lost: frozenset[str] = frozenset()
    behind: Behind | None = None
    settings: tuple[SettingChange, ...] = ()
    folders: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    common: Common = Common()
    judged_by: str = ""
    approvals: Approvals = NO_APPROVALS
    live: LiveFacts = LiveFacts()
    sources: Mapping[str, str] = field(default_factory=dict)

    def place(self, path: str) -> SourceRef:
        """Return the file of an existing object."""
        return place_of(path, self.config.rendered, self.sources)

"""`Inputs`: everything a plan is made from. The pipeline fills it; nothing else has any influence."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.core.config import Config
from reconciler.core.inventory import Inventory
from reconciler.core.kinds.kind import Kinds
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import FieldPath
from reconciler.core.plan.comparison import Comparison
from reconciler.core.plan.plan import Revision
from reconciler.core.policy.exceptions import ExceptionInForce
from reconciler.core.policy.verdict import Verdict
from reconciler.core.problems import Problem
from reconciler.core.queues import QueueUsage
from reconciler.core.summary import ObjectSummary

KindListKeys = Callable[[str, str, FieldPath], tuple[str, ...] | None]
"""`(group, kind, path)`, as `Catalogue.list_keys`: keys of the list there; `()`: by position; None: unknown."""


def no_schema(_: str, __: str, ___: FieldPath) -> tuple[str, ...] | None:
    """Tell of no list by what it goes."""
    return None


KindQuantities = Callable[[str, str, FieldPath], bool]
"""`(group, kind, path)`, as `Catalogue.is_quantity`: whether the value there is a quantity."""


def no_schema_quantity(_: str, __: str, ___: FieldPath) -> bool:
    """Tell of no value that it is a quantity."""
    return False


class Common(Struct, frozen=True, kw_only=True):
    """Objects that are the same on both sides, which a plan only has to count.

    `usage` is their GPUs by queue, if it is known. `rows` gives them one by one, for the few questions that need it.
    """

    count: int = 0
    rows: Callable[[], Iterable[ObjectSummary]] = tuple
    usage: Mapping[str, QueueUsage] | None = None


class Inputs(Struct, frozen=True, kw_only=True):
    """Desired and existing objects, what was found about them, and what pins them.

    Paths are below the rendered folder (`<cluster>/<namespace>/<kind>-<name>.yaml`). `existing` lists
    the base's files that we own (foreign ones are the pipeline's errors) with their blob ids. `existing_rows` holds a
    row for each of them that is not desired with the same blob id: rows of the others are those of `desired`.
    What is the same on both sides may be left out of these three and told by `common`.
    `manifest` and `body` are asked only for paths that differ; `body` gives None where the file cannot be read.
    `comparisons` holds updates that were compared already.
    `origins` tells which existing paths came from source files that now have errors: those are held back. None says
    that nobody knows: then everything that would vanish while any file has errors is held back. `waiting` are paths
    whose document cannot be rendered before an answer comes: what exists there stays.
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
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    list_keys: KindListKeys = no_schema
    is_quantity: KindQuantities = no_schema_quantity
    origins: Mapping[str, str] | None = None
    waiting: frozenset[str] = frozenset()
    inventories: Mapping[str, Inventory] = field(default_factory=dict)  # by cluster; none: never measured
    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = ()
    exceptions: tuple[ExceptionInForce, ...] = ()
    folders: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # files in each source folder: before, after
    common: Common = Common()
    acknowledgement: str = ""  # what the user gave to go over budget

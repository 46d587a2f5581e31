"""`ReconcilerConfig` (`reconciler.yaml`): clusters, source folders, rules and budgets as typed values."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.problems import Problem, Violation
from reconciler.kube.values import text
from reconciler.kube.yaml import Document
from reconciler.repo.config.builds import ROOT, Build, build_violations, parse_builds, source_folders
from reconciler.repo.config.drift import DriftPolicy, drift_violations, parse_drift
from reconciler.repo.config.forge import ForgeSettings, forge_violations, parse_forge
from reconciler.repo.config.placement import PlacementSettings, parse_placement, placement_violations
from reconciler.repo.config.pod_paths import DeclaredPods, parse_pod_paths, pod_path_violations
from reconciler.sizing.config import SizingSettings, merge_sizing, sizing_errors, sizing_settings
from reconciler.sizing.devices import Vendor
from reconciler.sizing.prices import NO_PRICES, Prices, parse_prices

GROUP = "gpureconciler.io"

CONFIG = (GROUP, "ReconcilerConfig")


DEFAULT_FOLDERS: Mapping[str, tuple[str, ...]] = {"sources": ("queues", "jobs"), "policies": ("policies",)}
"""Folders if `reconciler.yaml` sets none."""

DEFAULT_EVIDENCE = "evidence"

DEFAULT_APPROVALS = "approvals"

DEFAULT_RENDERED = "rendered"

NOT_RENDERED = "none"
"""`spec.rendered` of a repository that only reviews: what exists is what the base builds."""


class Backend(StrEnum):
    """The scheduler of queued jobs in a cluster: NVIDIA's KAI scheduler, Kueue, or none."""

    KAI = "kai"
    KUEUE = "kueue"
    NONE = "none"


class OnImmutableChange(StrEnum):
    """The treatment of an object whose change the API server accepts only on a new object."""

    REFUSE = "refuse"  # the plan is refused
    REPLACE = "replace"  # a job runs on under a new name; the old one is deleted
    KEEP = "keep"  # the object stays as it is until it is deleted; the change is for new ones


class Selector(Struct, frozen=True, kw_only=True):
    """The source documents of a cluster, by folder (including subfolders) and by label. Empty: all documents."""

    folders: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


class Requester(Struct, frozen=True, kw_only=True):
    """The user who applies the objects of a cluster, for admission policies, without the groups that servers add."""

    user: str
    groups: tuple[str, ...] = ()


class PrometheusSettings(Struct, frozen=True, kw_only=True):
    """The server that knows how busy GPUs are: the length of the window that is asked of, and between two samples."""

    url: str
    window_seconds: int = 1800
    interval_seconds: int = 30


class Cluster(Struct, frozen=True, kw_only=True):
    """One cluster that the repository renders for."""

    name: str
    backend: Backend = Backend.KAI
    namespace: str = "default"  # for objects without one
    vendor: Vendor = Vendor.NVIDIA
    select: Selector = Selector()
    # Objects that exist in the cluster but not in this repository: `Kind`, `Kind/name` or `Kind/namespace/name` each.
    external: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()  # that the cluster runs, by component (`kube.schemas.components`)
    applied_by: Requester | None = None  # None: unknown
    sizing: SizingSettings = SizingSettings()  # `spec.sizing` merged with the cluster's own `sizing`
    prices: Prices = NO_PRICES  # the cluster's own, else those of the repository
    prometheus: PrometheusSettings | None = None
    placement: PlacementSettings = PlacementSettings()  # that of the repository

    def has_external(self, kind: str) -> bool:
        """Return whether the cluster has objects of a kind that this repository lacks."""
        return any(entry.partition("/")[0] == kind for entry in self.external)


class RuleSetting(Struct, frozen=True, kw_only=True):
    """The setting of a rule: enabled or not, action (deny, warn, audit), and parameters."""

    enabled: bool = True
    action: str = ""  # empty: the rule's own action
    parameters: Mapping[str, Any] = field(default_factory=dict)
    place: SourceRef = SourceRef(path="reconciler.yaml")


class Budgets(Struct, frozen=True, kw_only=True):
    """Limits on what a plan may change without an approval. None: no limit.

    `delete_share` is a fraction of the existing objects, `disruption_share` one of the running GPUs. The change of the
    GPU quota is the sum over queues of |after - before| GPUs; `gpu_quota_share` is a fraction of the quotas before.
    """

    delete_count: int | None = 10
    delete_share: float | None = 0.25
    disruption_gpus: int | None = None
    disruption_share: float | None = 0.25
    gpu_quota_count: int | None = None
    gpu_quota_share: float | None = 0.5
    empty_sources: bool = False  # True: source folders may be empty or missing
    settings: bool = False  # True: settings that decide how changes are judged may be weakened
    exceptions: bool = True  # True: exceptions may be added and extended


class Config(Struct, frozen=True, kw_only=True):
    """The whole of `reconciler.yaml`."""

    clusters: tuple[Cluster, ...]
    name: str = ""  # `metadata.name`, which is part of the name of the inventory on clusters
    sources: tuple[str, ...] = DEFAULT_FOLDERS["sources"]
    policies: tuple[str, ...] = DEFAULT_FOLDERS["policies"]
    evidence: str = DEFAULT_EVIDENCE
    evidence_days: int | None = None  # maximum age of inventories; None: no limit
    evidence_shrink: float = 0.25  # share of the nodes and GPUs that one observation may miss
    approvals: str = DEFAULT_APPROVALS
    rendered: str = "rendered"
    is_rendered: bool = True  # False (`rendered: none`): no folder of ours; paths are still named below `rendered`
    builds: tuple[Build, ...] = ()  # those of `sources` that a program builds
    exclude: tuple[str, ...] = ()  # patterns of files in source folders that are not read
    rules: Mapping[str, RuleSetting] = field(default_factory=dict)
    budgets: Budgets = Budgets()
    on_immutable_change: OnImmutableChange = OnImmutableChange.REFUSE  # queues and jobs may set their own
    drift: DriftPolicy = DriftPolicy()
    defaults: Mapping[str, str] = field(default_factory=dict)  # of command-line settings, lowest precedence
    pod_paths: tuple[DeclaredPods, ...] = ()  # of kinds that the registry does not know
    sizing: SizingSettings = SizingSettings()  # of the repository; a cluster's own is in `Cluster.sizing`
    placement: PlacementSettings = PlacementSettings()
    forge: ForgeSettings | None = None  # None: no change requests, comments or statuses are made

    @property
    def plain_sources(self) -> tuple[str, ...]:
        """The source folders that are read as they are."""
        built = {build.path for build in self.builds}
        return tuple(folder for folder in self.sources if folder not in built)

    def cluster(self, name: str) -> Cluster | None:
        """Return the cluster called `name`."""
        return next((cluster for cluster in self.clusters if cluster.name == name), None)


def parse_config(document: Document) -> tuple[Config | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted; problems are about what a schema cannot say."""
    spec = document.data["spec"]
    builds = parse_builds(spec, _normalize)
    problems = document.problems([*_violations(spec), *build_violations(builds)])
    if problems:
        return None, problems
    shipped, placement = Config(clusters=()), parse_placement(spec.get("placement", {}))
    return (
        Config(
            clusters=tuple(
                replace(_cluster(entry, spec.get("sizing", {}), spec.get("prices", {})), placement=placement)
                for entry in spec["clusters"]
            ),
            name=text(document.metadata.get("name")),
            sources=tuple(map(_normalize, source_folders(spec.get("sources", shipped.sources)))),
            builds=builds,
            exclude=tuple(spec.get("exclude", ())),
            policies=tuple(_normalize(written) for written in spec.get("policies", shipped.policies)),
            evidence=_normalize(_evidence_folder(spec)[1]),
            evidence_days=_evidence_days(spec),
            evidence_shrink=_evidence_shrink(spec, shipped.evidence_shrink),
            approvals=_normalize(spec.get("approvals", shipped.approvals)),
            rendered=_rendered_folder(spec),
            is_rendered=spec.get("rendered") != NOT_RENDERED,
            rules={
                rule: RuleSetting(**setting, place=document.at(("spec", "rules", rule), key=True))
                for rule, setting in spec.get("rules", {}).items()
            },
            budgets=_budgets(spec.get("budgets", {})),
            on_immutable_change=OnImmutableChange(spec.get("onImmutableChange", shipped.on_immutable_change)),
            drift=parse_drift(document, spec),
            defaults={name: str(value) for name, value in spec.get("defaults", {}).items()},
            pod_paths=parse_pod_paths(document, spec),
            sizing=sizing_settings(spec.get("sizing", {})),
            placement=placement,
            forge=parse_forge(spec),
        ),
        (),
    )


def _cluster(entry: Mapping[str, Any], sizing: Mapping[str, Any], prices: Mapping[str, Any]) -> Cluster:
    select = entry.get("select", {})
    own_prices = parse_prices(prices, entry.get("prices"))
    return Cluster(
        name=entry["name"],
        backend=Backend(entry.get("backend", Backend.KAI)),
        namespace=entry.get("namespace", "default"),
        vendor=Vendor(entry.get("vendor", Vendor.NVIDIA)),
        select=Selector(
            folders=tuple(_normalize(written) for written in select.get("folders", ())),
            labels=tuple(sorted(select.get("labels", {}).items())),
        ),
        external=tuple(entry.get("external", ())),
        versions=tuple(sorted(entry.get("versions", {}).items())),
        applied_by=parse_requester(entry.get("appliedBy")),
        sizing=replace(sizing_settings(merge_sizing(sizing, entry.get("sizing", {}))), hours=own_prices),
        prices=own_prices,
        prometheus=_prometheus(entry.get("prometheus")),
    )


def _prometheus(entry: Mapping[str, Any] | None) -> PrometheusSettings | None:
    if entry is None:
        return None
    return PrometheusSettings(
        url=entry["url"],
        window_seconds=_seconds(entry.get("window", "30m")),
        interval_seconds=_seconds(entry.get("interval", "30s")),
    )


def _seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def parse_requester(entry: Mapping[str, Any] | None) -> Requester | None:
    """Read `appliedBy`; None without one."""
    return Requester(user=entry["user"], groups=tuple(entry.get("groups", ()))) if entry else None


def _budgets(spec: Mapping[str, Any]) -> Budgets:
    shipped = Budgets()
    deletes, quota = spec.get("deletes", {}), spec.get("gpuQuotaChange", {})
    disruption = spec.get("disruption", {})
    return Budgets(
        delete_count=deletes.get("count", shipped.delete_count),
        delete_share=deletes.get("share", shipped.delete_share),
        disruption_gpus=disruption.get("gpus", shipped.disruption_gpus),
        disruption_share=disruption.get("share", shipped.disruption_share),
        gpu_quota_count=quota.get("count", shipped.gpu_quota_count),
        gpu_quota_share=quota.get("share", shipped.gpu_quota_share),
        empty_sources=spec.get("emptySources", "refuse") == "allow",
        settings=spec.get("settings", "refuse") == "allow",
        exceptions=spec.get("exceptions", "allow") == "allow",
    )


def _violations(spec: Mapping[str, Any]) -> Iterator[Violation]:
    yield from _duplicate_clusters(spec)
    yield from _folder_violations(spec)
    yield from drift_violations(spec)
    yield from forge_violations(spec)
    yield from pod_path_violations(spec)
    yield from placement_violations(spec)
    for index, cluster in enumerate(spec["clusters"]):
        if "prices" in cluster and "prices" not in spec:
            message = "has no currency: the repository has no prices"
            hint = "add spec.prices with the currency of the whole repository"
            yield Violation(
                rule="config.prices", path=("spec", "clusters", index, "prices"), message=message, hint=hint
            )
    for path, message, hint in sizing_errors(spec):
        yield Violation(rule="config.sizing", path=path, message=message, hint=hint)


def _duplicate_clusters(spec: Mapping[str, Any]) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, cluster in enumerate(spec["clusters"]):
        if cluster["name"] in seen:
            message = f"cluster {cluster['name']!r} is defined twice"
            path: FieldPath = ("spec", "clusters", index, "name")
            yield Violation(rule="config.duplicate-cluster", path=path, message=message, hint="rename one")
        seen.add(cluster["name"])


def _rendered_folder(spec: Mapping[str, Any]) -> str:
    written = spec.get("rendered", DEFAULT_RENDERED)
    return DEFAULT_RENDERED if written == NOT_RENDERED else _normalize(written)


def _normalize(text: str) -> str:
    """Normalize a folder: no `./` at the start, no `/` at the end."""
    return text.removeprefix("./").rstrip("/") or ROOT


def _folder_violations(spec: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield the folders that are outside the repository, or overlap with a folder of another role."""
    for path, written in _folders(spec):
        parts = _normalize(written).split("/")
        if written in {".", "./"} and path[1] in {"sources", "clusters"}:
            continue
        if written.startswith("/") or not all(parts) or {"..", "."} & set(parts):
            hint = "use a folder below the root of the repository, such as jobs/team-a"
            message = f"{written!r} is not a folder inside the repository"
            yield Violation(rule="config.folder", path=path, message=message, hint=hint)
    for path, message, hint in _overlaps(spec):
        yield Violation(rule="config.folder", path=path, message=message, hint=hint)


def _folders(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    for name, default in DEFAULT_FOLDERS.items():
        for index, written in enumerate(source_folders(spec.get(name, default))):
            yield ("spec", name, index), written
    yield _evidence_folder(spec)
    yield ("spec", "approvals"), spec.get("approvals", DEFAULT_APPROVALS)
    if spec.get("rendered") != NOT_RENDERED:
        yield ("spec", "rendered"), spec.get("rendered", DEFAULT_RENDERED)
    for index, cluster in enumerate(spec["clusters"]):
        for position, written in enumerate(cluster.get("select", {}).get("folders", ())):
            yield ("spec", "clusters", index, "select", "folders", position), written


def _evidence_folder(spec: Mapping[str, Any]) -> tuple[FieldPath, str]:
    evidence = spec.get("evidence", DEFAULT_EVIDENCE)
    if isinstance(evidence, str):
        return ("spec", "evidence"), evidence
    return ("spec", "evidence", "folder"), evidence.get("folder", DEFAULT_EVIDENCE)


def _evidence_days(spec: Mapping[str, Any]) -> int | None:
    evidence = spec.get("evidence")
    limit = evidence.get("maxAge") if isinstance(evidence, dict) else None
    return int(limit.removesuffix("d")) if limit else None


def _evidence_shrink(spec: Mapping[str, Any], default: float) -> float:
    evidence = spec.get("evidence")
    return float(evidence.get("maxShrink", default)) if isinstance(evidence, dict) else default


def _overlaps(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str, str]]:
    """Yield overlapping folders of two roles, and selectors that match no source folder."""
    roles: dict[str, list[tuple[FieldPath, str]]] = {
        role: [] for role in ("sources", "policies", "evidence", "approvals", "rendered", "clusters")
    }
    for path, written in _folders(spec):
        roles[str(path[1])].append((path, written))
    order = ("sources", "policies", "evidence", "approvals", "rendered")
    for position, role in enumerate(order):
        occupied = [(other, written) for other in reversed(order[position + 1 :]) for _, written in roles[other]]
        for path, written in roles[role]:
            for other, existing in occupied:
                if _overlap(written, existing):
                    message = f"{written!r} overlaps with {existing!r} of spec.{other}"
                    yield path, message, "use separate folders"
    sources = [written for _, written in roles["sources"]]
    for path, written in roles["clusters"]:
        if ROOT not in (*sources, written) and not any(_overlap(written, source) for source in sources):
            yield path, f"{written!r} is not in a source folder", f"source folders: {', '.join(sources)}"


def _overlap(one: str, other: str) -> bool:
    """Return whether two folders are equal, or one contains the other. The root contains no folder of another role."""
    first, second = f"{_normalize(one)}/", f"{_normalize(other)}/"
    return first.startswith(second) or second.startswith(first)

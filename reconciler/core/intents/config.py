"""`ReconcilerConfig` (`reconciler.yaml`): clusters, source folders, rules and budgets as typed values."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.problems import Problem

if TYPE_CHECKING:
    from reconciler.core.documents import Document


class Backend(StrEnum):
    """What queues jobs in a cluster: NVIDIA's KAI scheduler, Kueue, or nothing but plain Kubernetes."""

    KAI = "kai"
    KUEUE = "kueue"
    NONE = "none"


class Vendor(StrEnum):
    """Whose GPUs: decides the resource key."""

    NVIDIA = "nvidia"
    AMD = "amd"

    @property
    def resource(self) -> str:
        """The extended resource that the vendor's device plugin registers."""
        return {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}[self.value]


class Selector(Struct, frozen=True, kw_only=True):
    """Which source documents a cluster takes: by folder (any depth below) and by label. Empty: all of them."""

    folders: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


class Cluster(Struct, frozen=True, kw_only=True):
    """One cluster that the repository renders for."""

    name: str
    backend: Backend = Backend.KAI
    namespace: str = "default"  # of objects that name none
    vendor: Vendor = Vendor.NVIDIA
    select: Selector = Selector()
    # Objects that exist in the cluster but not in this repository: `Kind` or `Kind/namespace/name` per entry.
    external: tuple[str, ...] = ()


class RuleSetting(Struct, frozen=True, kw_only=True):
    """A shipped rule's switch: on or off, its action (deny, warn, audit), and its parameters."""

    enabled: bool = True
    action: str = ""  # empty: as the rule ships
    parameters: Mapping[str, Any] = field(default_factory=dict)
    place: SourceRef = SourceRef(path="reconciler.yaml")


class Budgets(Struct, frozen=True, kw_only=True):
    """What a plan may do without an acknowledgement. None: no limit.

    `delete_share` is of the objects that existed before; `gpu_quota_change` is the sum over queues of |after - before|
    guaranteed GPUs, as a share of what was guaranteed before; the counts are absolute.
    """

    delete_count: int | None = 10
    delete_share: float | None = 0.25
    gpu_quota_count: int | None = None
    gpu_quota_share: float | None = 0.5
    empty_sources: bool = False  # True: a source folder may be empty or vanish


class Config(Struct, frozen=True, kw_only=True):
    """The whole of `reconciler.yaml`."""

    clusters: tuple[Cluster, ...]
    sources: tuple[str, ...] = ("queues", "jobs")
    policies: tuple[str, ...] = ("policies",)
    evidence: str = "evidence"
    rendered: str = "rendered"
    rules: Mapping[str, RuleSetting] = field(default_factory=dict)
    budgets: Budgets = Budgets()
    defaults: Mapping[str, str] = field(default_factory=dict)  # of command-line settings, lowest precedence

    def cluster(self, name: str) -> Cluster | None:
        """Return the cluster called `name`."""
        return next((cluster for cluster in self.clusters if cluster.name == name), None)


def parse_config(document: "Document") -> tuple[Config | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted; problems are about what a schema cannot say."""
    spec = document.data["spec"]
    problems = tuple(_problems(document, spec))
    if problems:
        return None, problems
    shipped = Config(clusters=())
    return (
        Config(
            clusters=tuple(_cluster(entry) for entry in spec["clusters"]),
            sources=tuple(_folder(folder) for folder in spec.get("sources", shipped.sources)),
            policies=tuple(_folder(folder) for folder in spec.get("policies", shipped.policies)),
            evidence=_folder(spec.get("evidence", shipped.evidence)),
            rendered=_folder(spec.get("rendered", shipped.rendered)),
            rules={
                rule: RuleSetting(**setting, place=document.at(("spec", "rules", rule), key=True))
                for rule, setting in spec.get("rules", {}).items()
            },
            budgets=_budgets(spec.get("budgets", {})),
            defaults={name: str(value) for name, value in spec.get("defaults", {}).items()},
        ),
        (),
    )


def _cluster(entry: Mapping[str, Any]) -> Cluster:
    select = entry.get("select", {})
    return Cluster(
        name=entry["name"],
        backend=Backend(entry.get("backend", Backend.KAI)),
        namespace=entry.get("namespace", "default"),
        vendor=Vendor(entry.get("vendor", Vendor.NVIDIA)),
        select=Selector(
            folders=tuple(_folder(folder) for folder in select.get("folders", ())),
            labels=tuple(sorted(select.get("labels", {}).items())),
        ),
        external=tuple(entry.get("external", ())),
    )


def _budgets(spec: Mapping[str, Any]) -> Budgets:
    shipped = Budgets()
    deletes, quota = spec.get("deletes", {}), spec.get("gpuQuotaChange", {})
    return Budgets(
        delete_count=deletes.get("count", shipped.delete_count),
        delete_share=deletes.get("share", shipped.delete_share),
        gpu_quota_count=quota.get("count", shipped.gpu_quota_count),
        gpu_quota_share=quota.get("share", shipped.gpu_quota_share),
        empty_sources=spec.get("emptySources", "refuse") == "allow",
    )


def _folder(text: str) -> str:
    return text.removeprefix("./").rstrip("/")


def _folders(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    shipped = Config(clusters=())
    for name, usual in (("sources", shipped.sources), ("policies", shipped.policies)):
        for index, folder in enumerate(spec.get(name, usual)):
            yield ("spec", name, index), folder
    for name in ("evidence", "rendered"):
        yield ("spec", name), spec.get(name, name)
    for index, cluster in enumerate(spec["clusters"]):
        for position, folder in enumerate(cluster.get("select", {}).get("folders", ())):
            yield ("spec", "clusters", index, "select", "folders", position), folder


def _problems(document: "Document", spec: Mapping[str, Any]) -> Iterator[Problem]:
    def problem(rule: str, field: FieldPath, message: str, hint: str) -> Problem:
        return Problem(rule=rule, place=document.at(field), field=format_path(field), message=message, hint=hint)

    seen: set[str] = set()
    for index, cluster in enumerate(spec["clusters"]):
        if cluster["name"] in seen:
            field: FieldPath = ("spec", "clusters", index, "name")
            message = f"cluster {cluster['name']!r} is given twice"
            yield problem("config.duplicate-cluster", field, message, "rename one")
        seen.add(cluster["name"])
    for field, folder in _folders(spec):
        parts = _folder(folder).split("/")
        if folder.startswith("/") or not all(parts) or {"..", "."} & set(parts):
            hint = "give a folder below the repository's root, as `jobs/team-a`"
            yield problem("config.folder", field, f"{folder!r} is not a folder of this repository", hint)
    for field, folder, message, hint in _overlaps(spec):
        yield problem("config.folder", field, f"{folder!r} {message}", hint)


def _overlaps(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str, str, str]]:
    """Folders of two roles that hold one another, and selectors that no source can meet."""
    roles: dict[str, list[tuple[FieldPath, str]]] = {
        role: [] for role in ("sources", "policies", "evidence", "rendered", "clusters")
    }
    for path, folder in _folders(spec):
        roles[str(path[1])].append((path, folder))
    written = [(role, folder) for role in ("rendered", "evidence", "policies") for _, folder in roles[role]]
    for role in ("sources", "policies", "evidence"):
        for path, folder in roles[role]:
            for other, taken in written:
                if other != role and (other, role) != ("policies", "evidence") and _meet(folder, taken):
                    message = f"and {taken!r} of spec.{other} hold one another"
                    yield path, folder, message, "give each a folder of its own: what lies in both would be read twice"
    sources = [folder for _, folder in roles["sources"]]
    for path, folder in roles["clusters"]:
        if not any(_meet(folder, source) for source in sources):
            yield path, folder, "is in none of the source folders", f"spec.sources are: {', '.join(sources)}"


def _meet(one: str, other: str) -> bool:
    """Whether two folders are the same, or one lies in the other."""
    first, second = f"{_folder(one)}/", f"{_folder(other)}/"
    return first.startswith(second) or second.startswith(first)

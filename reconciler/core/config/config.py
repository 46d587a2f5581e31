"""`ReconcilerConfig` (`reconciler.yaml`): clusters, source folders, rules and budgets as typed values."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from reconciler.core.config.cluster import Backend, Cluster, Selector, Vendor
from reconciler.core.config.folders import USUAL, folder, wrong_folders
from reconciler.core.config.sizing import SizingSettings, merge_sizing, sizing_errors, sizing_settings
from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.problems import Problem

if TYPE_CHECKING:
    from reconciler.core.documents import Document


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
    sources: tuple[str, ...] = USUAL["sources"]
    policies: tuple[str, ...] = USUAL["policies"]
    evidence: str = "evidence"
    rendered: str = "rendered"
    rules: Mapping[str, RuleSetting] = field(default_factory=dict)
    budgets: Budgets = Budgets()
    defaults: Mapping[str, str] = field(default_factory=dict)  # of command-line settings, lowest precedence
    sizing: SizingSettings = SizingSettings()  # of the repository; a cluster's own is in `Cluster.sizing`

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
            clusters=tuple(_cluster(entry, spec.get("sizing", {})) for entry in spec["clusters"]),
            sources=tuple(folder(written) for written in spec.get("sources", shipped.sources)),
            policies=tuple(folder(written) for written in spec.get("policies", shipped.policies)),
            evidence=folder(spec.get("evidence", shipped.evidence)),
            rendered=folder(spec.get("rendered", shipped.rendered)),
            rules={
                rule: RuleSetting(**setting, place=document.at(("spec", "rules", rule), key=True))
                for rule, setting in spec.get("rules", {}).items()
            },
            budgets=_budgets(spec.get("budgets", {})),
            defaults={name: str(value) for name, value in spec.get("defaults", {}).items()},
            sizing=sizing_settings(spec.get("sizing", {})),
        ),
        (),
    )


def _cluster(entry: Mapping[str, Any], sizing: Mapping[str, Any]) -> Cluster:
    select = entry.get("select", {})
    return Cluster(
        name=entry["name"],
        backend=Backend(entry.get("backend", Backend.KAI)),
        namespace=entry.get("namespace", "default"),
        vendor=Vendor(entry.get("vendor", Vendor.NVIDIA)),
        select=Selector(
            folders=tuple(folder(written) for written in select.get("folders", ())),
            labels=tuple(sorted(select.get("labels", {}).items())),
        ),
        external=tuple(entry.get("external", ())),
        sizing=sizing_settings(merge_sizing(sizing, entry.get("sizing", {}))),
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


def _problems(document: "Document", spec: Mapping[str, Any]) -> Iterator[Problem]:
    def problem(rule: str, field: FieldPath, message: str, hint: str) -> Problem:
        return Problem(rule=rule, place=document.at(field), field=format_path(field), message=message, hint=hint)

    seen: set[str] = set()
    for index, cluster in enumerate(spec["clusters"]):
        if cluster["name"] in seen:
            field: FieldPath = ("spec", "clusters", index, "name")
            message = f"cluster {cluster['name']!r} is defined twice"
            yield problem("config.duplicate-cluster", field, message, "rename one")
        seen.add(cluster["name"])
    for rule, wrong in (("config.folder", wrong_folders(spec)), ("config.sizing", sizing_errors(spec))):
        for field, message, hint in wrong:
            yield problem(rule, field, message, hint)

"""Documents of Kaiwo to rendered objects, as the pipeline does it: read, validate, understand, render."""

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from reconciler import resources
from reconciler.index.compile import problem_of
from reconciler.kinds.aspects import Dependents
from reconciler.kinds.facts import KindId
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import ObjectKey
from reconciler.kube.problems import Problem
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.repo.config import Backend, Cluster, PlacementSettings
from reconciler.repo.versions import ComponentVersion, component_version
from reconciler.sizing.devices import Vendor
from reconciler.sizing.inventory import Inventory, parse_inventory
from tests.kinds.walking import Result

CATALOGUE = Catalogue(resources)
GPU = "amd.com/gpu"
NO_PLACEMENT = PlacementSettings()


@dataclass(kw_only=True)
class CaseLookup:
    """What rendering looks up: the definitions among the documents, and the evidence."""

    cluster: Cluster
    nodes: Inventory | None = None
    definitions: dict[tuple[KindId, str, str], Any] = field(default_factory=dict)
    runs: bool = False
    suffixes: dict[str, str] = field(default_factory=dict)

    def inventory(self) -> Inventory | None:
        return self.nodes

    def defined(self, kind: KindId, namespace: str, name: str) -> Any | None:
        return self.definitions.get((kind, namespace, name))

    def generation(self, key: ObjectKey) -> str:
        return self.suffixes.get(key.name, "")

    def version(self, component: str) -> ComponentVersion:
        return component_version(component, self.cluster, observed={}, shipped={component: "0.19"})

    def has_runs(self) -> bool:
        return self.runs

    def defined_names(self, kind: KindId, namespace: str) -> tuple[str, ...]:
        return tuple(sorted(name for one, space, name in self.definitions if (one, space) == (kind, namespace)))


def documents(text: str, path: str = "jobs/test.yaml") -> tuple[Document, ...]:
    """Read documents that have no problem of form."""
    reading = read(path, text.encode())
    assert reading.problems == ()
    return reading.documents


def nodes(count: int = 4, gpus: int = 8, product: str = "AMD-Instinct-MI300X", **more: Any) -> Inventory:
    """Return the evidence of nodes that are all alike."""
    entry = {"gpu": {"product": product, "count": gpus}, "cpus": 96, **more}
    listed = "".join(f"\n  - {{name: node-{index}, {str(entry)[1:-1]}}}" for index in range(count))
    text = (
        "apiVersion: gpureconciler.io/v1alpha1\nkind: NodeInventory\nmetadata: {name: main}\n"
        f"spec:\n  takenAt: '2026-01-01T00:00:00Z'\n  nodes: {listed}\n"
    ).replace("True", "true")
    (document,) = documents(text, "evidence/main/nodes.yaml")
    assert CATALOGUE.validate(document) == ()
    found, problems = parse_inventory(document, "main")
    assert problems == ()
    assert found is not None
    return found


FLEET = nodes()


def cluster(
    backend: Backend | str = Backend.KUEUE,
    vendor: Vendor = Vendor.AMD,
    placement: PlacementSettings = NO_PLACEMENT,
    external: tuple[str, ...] = (),
) -> Cluster:
    """Return a cluster."""
    return Cluster(name="main", backend=Backend(backend), vendor=vendor, placement=placement, external=external)


def invalid(text: str) -> list[str]:
    """Return what the schemas say of documents."""
    return [str(problem) for document in documents(text) for problem in CATALOGUE.validate(document)]


def rendered(
    text: str,
    backend: Backend | str = Backend.KUEUE,
    inventory: Inventory | None = FLEET,
    vendor: Vendor = Vendor.AMD,
    placement: PlacementSettings = NO_PLACEMENT,
    *,
    external: tuple[str, ...] = (),
    **lookup: Any,
) -> Result:
    """Render documents for one cluster; what is rendered is judged by the shipped schemas of Kubernetes."""
    docs = documents(text)
    problems: list[Problem] = []
    manifests: list[Manifest] = []
    assert invalid(text) == []
    found = CaseLookup(cluster=cluster(backend, vendor, placement, external), nodes=inventory, **lookup)
    intents: list[tuple[Document, Any]] = []
    for document in docs:
        row = BUILT_IN.find(document.group, document.kind)
        assert row.source.parse is not None or row.source.render is None
        if row.source.parse is None:
            intent: Any = document
        else:
            parsed = row.source.parse(document)
            problems += parsed.problems
            intent = parsed.intent
        if row.source.dependents is Dependents.NAMED and intent is not None:
            namespace = "" if row.is_cluster_scoped else document.key.namespace or "default"
            found.definitions[row.id, namespace, document.key.name] = intent
        if row.source.render is not None and intent is not None:
            intents.append((document, intent))
    for document, intent in intents:
        render = BUILT_IN.find(document.group, document.kind).source.render
        assert render is not None
        result = render(intent, found)
        problems += result.problems
        manifests += result.manifests
    for manifest in manifests:
        for path, body in (((), manifest.body), *BUILT_IN.wrapped(manifest.body)):
            for violation in CATALOGUE.violations(dict(body)):
                problems.append(problem_of(manifest, replace(violation, path=(*path, *violation.path))))
    return Result(manifests=tuple(manifests), problems=tuple(problems))


def job(spec: str = "gpus: 8", *, name: str = "train", kind: str = "KaiwoJob", metadata: str = "") -> str:
    """Return a workload with a spec in block style, which has no common indent."""
    lines = "".join(f"  {line}\n" for line in spec.strip("\n").splitlines())
    return (
        f"apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: {kind}\n"
        f"metadata: {{name: {name}{', ' if metadata else ''}{metadata}}}\nspec:\n{lines}---\n"
    )


def service(spec: str = "gpus: 8\nimage: serve:1", **more: str) -> str:
    """Return a service."""
    return job(spec, kind="KaiwoService", **more)


def config(spec: str) -> str:
    """Return a KaiwoConfig."""
    text = job(spec, name="kaiwo", kind="KaiwoConfig")
    return text.replace("apiVersion: kaiwo", "apiVersion: config.kaiwo")


def queues(spec: str) -> str:
    """Return a KaiwoQueueConfig."""
    return job(spec, name="kaiwo", kind="KaiwoQueueConfig")


def pod_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of the pods of a Job or Deployment."""
    found: dict[str, Any] = body["spec"]["template"]["spec"]
    return found


def total_gpus(body: dict[str, Any]) -> int:
    """Return the GPUs of all pods of an object."""
    counted = BUILT_IN.pod_sets(body) or []
    amounts = [
        (one.replicas, container.get("resources", {}).get("limits", {}).get(GPU, 0))
        for one in counted
        for container in one.template["spec"]["containers"]
    ]
    return sum(count * int(gpus) for count, gpus in amounts)

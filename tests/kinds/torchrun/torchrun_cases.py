"""Documents to rendered objects, as the pipeline does it: read, validate, understand, render; nothing is mocked."""

from reconciler import resources
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.torchrun.intent import TorchrunQueue, job_intent, queue_intent
from reconciler.kinds.torchrun.render import render_job, render_queue
from reconciler.kube.problems import Problem
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.repo.config import Backend, Cluster
from reconciler.sizing.devices import Vendor
from reconciler.sizing.inventory import Inventory, parse_inventory
from tests.kinds.walking import Result

CATALOGUE = Catalogue(resources)


def documents(text: str, path: str = "jobs/test.yaml") -> tuple[Document, ...]:
    """Read documents that have no problem of form."""
    reading = read(path, text.encode())
    assert reading.problems == ()
    return reading.documents


def inventory_of(text: str, cluster: str) -> Inventory:
    """Read evidence that is valid."""
    (document,) = documents(text, f"evidence/{cluster}/nodes.yaml")
    assert CATALOGUE.validate(document) == ()
    inventory, problems = parse_inventory(document, cluster)
    assert problems == ()
    assert inventory is not None
    return inventory


def cluster_of(backend: Backend | str, vendor: Vendor = Vendor.NVIDIA) -> Cluster:
    """Return a cluster that is called after its backend."""
    backend = Backend(backend)
    return Cluster(name=backend.value, backend=backend, vendor=vendor)


def rendered(
    docs: tuple[Document, ...] | str,
    backend: Backend | str = Backend.KUEUE,
    inventory: Inventory | None = None,
    vendor: Vendor = Vendor.NVIDIA,
) -> Result:
    """Render queues and jobs for one cluster; what is rendered is judged by the shipped schemas of Kubernetes."""
    docs = documents(docs) if isinstance(docs, str) else docs
    cluster = cluster_of(backend, vendor)
    manifests: list[Manifest] = []
    problems: list[Problem] = [problem for document in docs for problem in CATALOGUE.validate(document)]
    assert problems == []
    queues: dict[tuple[str, str], TorchrunQueue] = {}
    for document in docs:
        if document.kind == "TorchrunQueue":
            parsed = queue_intent(document)
            problems += parsed.problems
            if parsed.intent:
                queues[parsed.intent.namespace or cluster.namespace, parsed.intent.name] = parsed.intent
                found = render_queue(parsed.intent, cluster, inventory)
                manifests += found.manifests
                problems += found.problems
    for document in docs:
        if document.kind == "TorchrunJob":
            job = job_intent(document)
            problems += job.problems
            if job.intent:
                queue = queues.get((job.intent.namespace or cluster.namespace, job.intent.queue))
                known = tuple(sorted(name for _, name in queues))
                found = render_job(job.intent, queue, cluster, inventory, known_queues=known)
                manifests += found.manifests
                problems += found.problems
    for manifest in manifests:
        assert not list(CATALOGUE.violations(manifest.body))
    return Result(manifests=tuple(manifests), problems=tuple(problems))

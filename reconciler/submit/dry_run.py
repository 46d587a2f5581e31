"""The manifests of a submitted workload: printed, and nothing is written. Works outside of a repository, too."""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.errors import InvalidInput
from reconciler.index.cache import DiskCache
from reconciler.index.checking import PolicyChecker
from reconciler.index.compile import CompiledFile, compile_files
from reconciler.index.context import CarriedFiles, build_context
from reconciler.index.parsed import CachedParser
from reconciler.kinds.aspects import Holds
from reconciler.kinds.kind import Kinds
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.secrets import masked_secret
from reconciler.kube.yaml import write
from reconciler.plan import opening
from reconciler.plan.opening import Run
from reconciler.repo.config import Backend, Cluster, Config
from reconciler.repo.config.config import GROUP
from reconciler.repo.files import FOLDER_SUFFIX
from reconciler.sizing.devices import Vendor
from reconciler.submit.proposal import Files
from reconciler.submit.site import NODE_GPUS

ASSUMED = Cluster(name="main", backend=Backend.KUEUE, namespace="kaiwo", vendor=Vendor.AMD)
"""The cluster outside of a repository."""

_NODES = 128


def manifests_in(run: Run, files: Files) -> list[Mapping[str, object]]:
    """Return the objects that files of a changed repository render. Raises `InvalidInput` for their errors."""
    workspace = run.workspace
    index = workspace.compile()
    _reject(problem for problem in index.problems() if problem.place.path in files)
    renderer = workspace.renderer(index)
    paths = [path for path, source in sorted(index.sources.items()) if source in files]
    return [_shown(index.context.kinds, renderer.object(path).manifest.body) for path in paths]


def manifests_outside(files: Files) -> list[Mapping[str, object]]:
    """Return the objects that files render for one cluster with Kueue and nodes of 8 GPUs.

    Raises `InvalidInput` for their errors.
    """
    engine = opening.plan_engine(DiskCache(None), opening.catalogue())
    contents = {path: content for path, content in files.items() if content is not None}
    nodes, inventory = _inventory()
    context = build_context(
        Config(clusters=(ASSUMED,)),
        engine=engine.version,
        object_format="sha1",
        kinds=engine.kinds,
        catalogue=engine.catalogue,
        tables=engine.tables,
        shipped=(),
        policies=(),
        evidence=CachedParser({}, engine.kinds, engine.catalogue).parse([(nodes, "")], lambda _: [inventory]),
        approvals=(),
        definitions=(),
        clusters=(ASSUMED,),
        checker=PolicyChecker(dict),
        carried=CarriedFiles(
            blobs={path: path for path in contents if f"{FOLDER_SUFFIX}/" in path},
            read=lambda paths: (contents[path] for path in paths),
        ),
    )
    sources = [(path, content) for path, content in contents.items() if f"{FOLDER_SUFFIX}/" not in path]
    compiled = compile_files(context, sources)
    _reject(problem for file in compiled for problem in file.problems)
    return [_shown(engine.kinds, body) for body in _bodies(compiled)]


def _inventory() -> tuple[str, bytes]:
    """Return the path and the content of the evidence of nodes that nobody has measured."""
    nodes = [
        {"name": f"assumed-{number}", "gpu": {"product": "assumed", "count": NODE_GPUS}} for number in range(_NODES)
    ]
    document = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "NodeInventory",
        "metadata": {"name": ASSUMED.name},
        "spec": {"cluster": ASSUMED.name, "takenAt": "2020-01-01T00:00:00Z", "nodes": nodes},
    }
    return f"evidence/{ASSUMED.name}/nodes.yaml", write(document)


def _bodies(compiled: Iterable[CompiledFile]) -> Iterator[dict[str, object]]:
    return (one.manifest.body for file in compiled for one in file.objects)


def _reject(problems: Iterable[Problem]) -> None:
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors, where="in what is submitted")


def _shown(kinds: Kinds, body: Mapping[str, object]) -> Mapping[str, object]:
    return masked_secret(dict(body)) if kinds.of(body).holds is Holds.SECRETS else body

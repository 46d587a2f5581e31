"""`Runtime`: what a run needs besides the tree that it plans. What is configured and what is loaded are apart."""

from msgspec import Struct

from reconciler.index.shipped import Shipped
from reconciler.index.workers import WorkerPool
from reconciler.kinds.kind import Kinds
from reconciler.kube.schemas import Catalogue
from reconciler.repo.port import Cache, Repository
from reconciler.sizing.tables import SizingTables
from reconciler.version import engine_version


class PlanEngine(Struct, frozen=True, kw_only=True, eq=False):
    """Everything besides the repository that decides on output: the contents of the package, and kind families."""

    kinds: Kinds
    catalogue: Catalogue
    tables: SizingTables
    shipped: Shipped
    digest: str  # of all of it but our own code

    @property
    def version(self) -> str:
        """The version of the package and of everything else here."""
        return engine_version(self.digest)


class RunOptions(Struct, frozen=True, kw_only=True):
    """The flags and settings that choose what is compiled, and where clusters keep our records."""

    cluster: str = ""  # empty: all
    inventory_namespace: str = "gpu-reconciler"  # on live clusters
    reads_all: bool = False  # also definitions that no file looks up (`Source.looked_up`)


class Runtime(Struct, frozen=True, kw_only=True, eq=False):
    """The parts that a command opened, for the one way down: `plan_tree`, `load_sides`, `compile_tree`, `build_index`.

    Everything else takes the parts that it uses.
    """

    repository: Repository
    cache: Cache
    engine: PlanEngine
    workers: WorkerPool = WorkerPool()
    options: RunOptions = RunOptions()

    @property
    def scope(self) -> str:
        """The name of what is cached: one for each engine, repository and choice of clusters."""
        return f"{self.engine.version}:{self.repository.root}:{self.options.cluster}"

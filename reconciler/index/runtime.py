"""`Runtime`: what a run needs besides the tree that it plans. What ships with the package is loaded when it is used."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from reconciler.index.parsed import CachedParser, ReadFiles, load_mapping, save_mapping
from reconciler.index.workers import WorkerPool
from reconciler.kinds.kind import Kinds
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document
from reconciler.policy.admission import PolicySet
from reconciler.policy.admission.programs import Programs
from reconciler.repo.port import Cache, Repository
from reconciler.sizing.tables import SizingTables
from reconciler.version import engine_version


class Shipped:
    """The shipped rules and schemas of one engine. `paths` are those of the rules, and `read` returns their bytes."""

    def __init__(
        self, cache: Cache, *, engine: str, paths: Sequence[str], read: ReadFiles, kinds: Kinds, catalogue: Catalogue
    ) -> None:
        self._cache, self._key = cache, f"shipped:{engine}"
        self._paths, self._read = paths, read
        self._kinds, self._catalogue = kinds, catalogue
        self._programs: list[Programs] = []

    @cached_property
    def _known(self) -> Mapping[str, bytes]:
        known = load_mapping(self._cache, self._key)
        self._catalogue.archive.recall(known)
        return known

    @cached_property
    def _parser(self) -> CachedParser:
        return CachedParser(self._known, self._kinds, self._catalogue)

    @cached_property
    def rules(self) -> tuple[Document, ...]:
        """The documents of the rules."""
        files = self._parser.parse([(path, "shipped") for path in self._paths], self._read)
        return tuple(document for file in files for document in file.documents)

    def recall(self, policies: PolicySet) -> None:
        """Let the shipped ones among these policies use what earlier runs have checked."""
        policies.shipped_programs.recall(self._known)
        self._programs.append(policies.shipped_programs)

    def save(self) -> None:
        """Add what this run made ready to the cache."""
        made = {**self._parser.used, **self._catalogue.archive.made}
        for programs in self._programs:
            made |= programs.made
        if not made.items() <= self._known.items():
            save_mapping(self._cache, self._key, load_mapping(self._cache, self._key), made)


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

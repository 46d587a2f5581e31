"""Render examples of our own kinds as a plan does: for a cluster, with its queues and its evidence."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.checking import PolicyChecker
from reconciler.index.compile import compile_document
from reconciler.index.context import CarriedFiles, Context, build_context, may_define
from reconciler.index.parsed import CachedParser, ParsedFile
from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document
from reconciler.repo.config import Cluster, Config, Selector
from reconciler.sizing.tables import SizingTables


class ExampleFiles(Protocol):
    """Reads files below the folder that a run may see; paths are relative to it."""

    def files(self, path: str) -> Sequence[str]:
        """Return a file by itself, or all files below a folder, sorted. Raises `ConfigError` if there is neither."""
        ...

    def has(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...


class RenderingTools(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """The needs of rendering besides files. `read_config` returns None where there is no `reconciler.yaml`."""

    kinds: Kinds
    tables: SizingTables
    read_config: Callable[[], Config | None]

    @cached_property
    def config(self) -> Config:
        """The configuration, which few runs need; without one, that of a single cluster with the defaults."""
        return self.read_config() or Config(clusters=(Cluster(name="test"),))

    def renders(self, document: Document) -> bool:
        """Return whether other objects are rendered from a document, which no cluster gets to see."""
        return self.kinds.find(document.group, document.kind).source.render is not None


class ExampleRenderer:
    """Renders documents for one cluster, wherever they lie. `problems` are those of the files beside them."""

    def __init__(
        self, tools: RenderingTools, files: ExampleFiles, catalogue: Catalogue, cluster: Cluster, sources: Iterable[str]
    ) -> None:
        self._files, self._parser = files, CachedParser({}, tools.kinds, catalogue)
        config = replace(tools.config, clusters=(replace(cluster, select=Selector()),))
        definitions = self._parse(path for path in sources if may_define(files.read(path), tools.kinds))
        self._context: Context = build_context(
            config,
            engine="",
            object_format="sha1",
            kinds=tools.kinds,
            catalogue=catalogue,
            tables=tools.tables,
            shipped=(),
            policies=(),
            evidence=self._parse(self._evidence(config, cluster.name)),
            approvals=(),
            definitions=definitions,
            clusters=config.clusters,
            checker=PolicyChecker(dict),
            carried=CarriedFiles(),
        )
        self.problems: tuple[Problem, ...] = (
            *(problem for file in definitions for problem in file.problems),
            *self._context.problems,
        )

    def _parse(self, paths: Iterable[str]) -> tuple[ParsedFile, ...]:
        return self._parser.parse([(path, "") for path in paths], lambda missing: [*map(self._files.read, missing)])

    def _evidence(self, config: Config, cluster: str) -> Sequence[str]:
        folder = f"{config.evidence}/{cluster}"
        found = self._files.files(folder) if self._files.has(folder) else ()
        return [path for path in found if not path.startswith(f"{folder}/reports/")]

    def render(self, document: Document) -> tuple[tuple[Manifest, ...], tuple[Problem, ...]]:
        """Return the objects that are rendered from a document, and what is wrong with it."""
        compiled = compile_document(self._context, document)
        problems = compiled.problems
        if not compiled.objects and not any(one.severity is Severity.ERROR for one in problems):
            message = "nothing is rendered from this example"
            hint = "a job without a size has no objects yet: set its number of GPUs"
            problems = (*problems, Problem(rule="test.rendered", place=document.source, message=message, hint=hint))
        return tuple(one.manifest for one in compiled.objects), problems

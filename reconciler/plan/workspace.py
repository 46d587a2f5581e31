"""`Workspace`: an open config repository, which most use cases start from."""

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.index.renderer import Renderer
from reconciler.index.runtime import Runtime
from reconciler.plan.sides import compile_tree
from reconciler.repo.config import Config
from reconciler.repo.port import Repository
from reconciler.repo.revision import TreeReference


class Workspace(Struct, frozen=True, kw_only=True, eq=False):
    """A config repository, the tree to read, and the configuration in that tree."""

    runtime: Runtime
    tree: TreeReference
    config: Config

    @property
    def repository(self) -> Repository:
        """The config repository itself."""
        return self.runtime.repository

    def compile(self, *, keep_contents: bool = False) -> CompiledRevision:
        """Compile the tree. `keep_contents` keeps the bytes of objects that differ from `rendered/`."""
        return compile_tree(self.runtime, self.tree, self.config, keep_contents=keep_contents)

    def compile_whole(self) -> CompiledRevision:
        """Compile the tree with all definitions in its context, also those that none of its files looks up."""
        runtime = replace(self.runtime, options=replace(self.runtime.options, reads_all=True))
        return compile_tree(runtime, self.tree, self.config)

    def renderer(self, index: CompiledRevision) -> Renderer:
        """Return what gives the manifests and bytes of compiled paths."""
        return Renderer(self.repository, self.runtime.workers, index)

"""`Workspace`: an open config repository, which most use cases start from."""

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision, Runtime
from reconciler.plan.sides import compile_tree
from reconciler.repo.config import Config
from reconciler.repo.revision import TreeReference


class Workspace(Struct, frozen=True, kw_only=True, eq=False):
    """A config repository, the tree to read, and the configuration in that tree."""

    runtime: Runtime
    tree: TreeReference
    config: Config

    def compile(self, *, keep_contents: bool = False) -> CompiledRevision:
        """Compile the tree. `keep_contents` keeps the bytes of objects that differ from `rendered/`."""
        return compile_tree(self.runtime, self.tree, self.config, keep_contents=keep_contents)

    def compile_whole(self) -> CompiledRevision:
        """Compile the tree with all definitions in its context, also those that none of its files looks up."""
        return compile_tree(replace(self.runtime, reads_all=True), self.tree, self.config)

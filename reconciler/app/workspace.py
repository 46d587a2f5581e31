"""`Workspace`: an open config repository, which most use cases start from."""

from msgspec import Struct

from reconciler.core.config import Config
from reconciler.index.head import Head, Tools
from reconciler.revision.sides import Side


class Workspace(Struct, frozen=True, kw_only=True, eq=False):
    """A config repository, the revision to read, and the configuration in that revision."""

    tools: Tools
    side: Side
    config: Config

    def compile(self, *, writes: bool = False) -> Head:
        """Compile the revision. `writes` keeps the bytes of objects that differ from `rendered/`."""
        return Head(self.tools, self.side, self.config, writes=writes)

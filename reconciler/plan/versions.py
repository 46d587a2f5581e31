"""The versions of everything that determines a plan."""

import json

from reconciler.kinds.kind import Kinds
from reconciler.version import __version__


def versions(kubernetes_versions: bytes, kinds: Kinds) -> dict[str, str]:
    """Return the version of the engine, of the schemas that it ships, and of packages that add kinds.

    `kubernetes_versions` is the JSON object in `schemas/kubernetes/versions.json`.
    """
    shipped: dict[str, str] = json.loads(kubernetes_versions)
    return {"reconciler": __version__, **shipped, **dict(kinds.versions)}

"""The evidence of the base, to compare that of the head with."""

from collections.abc import Mapping

from reconciler.core.inventory import Inventory
from reconciler.index.build import CompiledRevision, Runtime
from reconciler.index.evidence import read_evidence
from reconciler.index.parsed import CachedParser
from reconciler.revision.files import BlobIds
from reconciler.revision.revision import LoadedRevision


def inventories_before(runtime: Runtime, index: CompiledRevision, base: LoadedRevision) -> Mapping[str, Inventory]:
    """Return the inventories of the base. Those of clusters whose files are the same are not read again."""
    head, current = index.revision, index.context.evidence.inventories
    old, new = _by_cluster(base), _by_cluster(head)
    changed = {cluster for cluster in (*old, *new) if old.get(cluster) != new.get(cluster)}
    if not changed:
        return current
    blobs = {path: blob for cluster in sorted(changed) for path, blob in old.get(cluster, {}).items()}
    parser = CachedParser(index.store.parsed, runtime.kinds, runtime.catalogue)
    files = parser.parse(
        [*blobs.items()], lambda missing: runtime.repository.read([base.files.evidence[path] for path in missing])
    )
    read = read_evidence(base.config, index.clusters, runtime.kinds, files).inventories
    return {**{cluster: one for cluster, one in current.items() if cluster not in changed}, **read}


def _by_cluster(revision: LoadedRevision) -> dict[str, BlobIds]:
    """Return the evidence files of each cluster, the folder below that of the evidence."""
    files: dict[str, dict[str, str]] = {}
    for path, blob in revision.files.evidence.items():
        cluster = path.removeprefix(f"{revision.config.evidence}/").partition("/")[0]
        files.setdefault(cluster, {})[path] = blob
    return {**files}

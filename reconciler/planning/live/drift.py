"""Drift: fields of live objects that are not as Git says, although nobody edited them there."""

from collections.abc import Iterator, Mapping

from reconciler.core.items import ListKeys
from reconciler.core.plan import Drift
from reconciler.index.build import CompiledRevision
from reconciler.planning.baseline import Baseline
from reconciler.planning.live.baseline import LiveBaseline
from reconciler.planning.live.settling import changed_by, drift_of
from reconciler.planning.updates import Update


def find_drift(
    index: CompiledRevision, live: LiveBaseline, existing: Baseline, updates: Mapping[str, Update]
) -> Iterator[Drift]:
    """Yield what others changed: fields of updated objects and deleted objects, which an apply reverts, and what stays.

    existing: `rendered/` of the base.
    """
    existing.objects(path for path in updates if path in existing.versions)  # all at one time
    for path in sorted({*updates, *live.left, *live.deleted}):
        yield from _reverted(index, live, existing, path, updates[path]) if path in updates else ()
        yield from live.left.get(path, ())
        yield from live.deleted.get(path, ())


def _reverted(
    index: CompiledRevision, live: LiveBaseline, existing: Baseline, path: str, update: Update
) -> Iterator[Drift]:
    body, comparison = live.live(path), update.comparison
    if body is None:
        return
    before = existing.body(path) if path in existing.versions else None
    key = comparison.key
    keys = _list_keys(index, key.group, key.kind)
    file = f"{index.revision.config.rendered}/{path}"
    for field in comparison.fields:
        managers = changed_by(field, body, before, keys)
        if managers or (managers is not None and path not in live.adopted):  # what an adopted one lacks, it never had
            yield drift_of(comparison.cluster, key, file, field, managers, comparison.source, body)


def _list_keys(index: CompiledRevision, group: str, kind: str) -> ListKeys:
    return lambda path: index.context.catalogue.list_keys(group, kind, path)

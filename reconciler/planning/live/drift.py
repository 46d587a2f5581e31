"""Drift: fields of live objects that are not as Git says, although nobody edited them there."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.items import ListKeys
from reconciler.core.live.managers import Manager, managers_of
from reconciler.core.plan import Drift, FieldChange
from reconciler.core.printed_paths import find_path
from reconciler.index.build import CompiledRevision
from reconciler.planning.baseline import Baseline
from reconciler.planning.live.baseline import LiveBaseline
from reconciler.planning.updates import Update


def find_drift(
    index: CompiledRevision, live: LiveBaseline, existing: Baseline, updates: Mapping[str, Update]
) -> Iterator[Drift]:
    """Yield the fields of updated objects that others changed. `existing` is `rendered/` of the base."""
    for path, update in sorted(updates.items()):
        body, comparison = live.live(path), update.comparison
        if body is None:
            continue
        before = existing.body(path) if path in existing.versions else None
        key = comparison.key
        keys = _list_keys(index, key.group, key.kind)
        for field in comparison.fields:
            managers = _changed_by(field, body, before, keys)
            if managers is None:
                continue
            yield Drift(
                cluster=comparison.cluster,
                key=key,
                path=f"{index.revision.config.rendered}/{path}",
                field=field.path,
                live=field.before,
                git=field.after,
                has_live=field.has_before,
                has_git=field.has_after,
                managers=tuple(map(_name, managers)),
                source=comparison.source,
            )


def _changed_by(
    field: FieldChange, live: Mapping[str, Any], before: Mapping[str, Any] | None, keys: ListKeys
) -> tuple[Manager, ...] | None:
    """Return who changed a field on the cluster, nobody if it was removed there; None if Git changed it.

    A field that what applies Git set is what Git said then. One that is missing was removed if the base has it.
    """
    if field.has_before:
        path, rest = find_path(live, field.path, keys)
        managers = managers_of(live, path)
        if any(manager.applies_git for manager in managers) and not rest:
            return None
        return managers
    if before is None or not field.has_after:
        return None
    path, rest = find_path(before, field.path, keys)
    return None if rest or not path else ()


def _list_keys(index: CompiledRevision, group: str, kind: str) -> ListKeys:
    return lambda path: index.context.catalogue.list_keys(group, kind, path)


def _name(manager: Manager) -> str:
    details = ", ".join(part for part in (manager.operation, manager.subresource, manager.time) if part)
    return f"{manager.name} ({details})" if details else manager.name

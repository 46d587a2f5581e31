"""Accepted drift: the drifted fields of a live object that an apply leaves as they are, by policy or as contested."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.manifests.ownership import LABEL_PATH
from reconciler.kube.items import ListKeys
from reconciler.kube.objects import FieldPath, ObjectKey, SourceRef, format_path
from reconciler.kube.printed_paths import find_path
from reconciler.kube.schemas.catalogue import Catalogue
from reconciler.kube.values import value_at
from reconciler.plan import Drift, FieldChange
from reconciler.plan.differences import differences
from reconciler.plan.live.choices import LiveChoices
from reconciler.plan.live.managers import OURS, Manager, last_manager, last_writer, managers_of, writers
from reconciler.plan.live.projection import plain, project, without
from reconciler.repo.config.drift import DriftAction, DriftPolicy

CONTESTED = "contested"
"""What happens to a field that another controller keeps changing back: nothing, and a condition says so."""

TAKEN = "foreign"
"""What happens to an object that we applied and that is not ours any more: nothing, and a condition says so."""

_LABEL = format_path(LABEL_PATH)


class DriftRules(Struct, frozen=True, kw_only=True, eq=False):
    """The rules about drift: the policy, the findings of earlier passes, and the day (YYYY-MM-DD)."""

    policy: DriftPolicy
    choices: LiveChoices
    day: str

    def may_leave(self, manifest: Manifest) -> bool:
        """Return whether drift of an object may stay."""
        return self.policy.may_leave(manifest.key, self.day) or self.choices.contests(manifest.cluster, manifest.key)

    def decide(self, drift: Drift) -> Drift:
        """Return drift with what happens to it."""
        names = tuple(name.partition(" (")[0] for name in drift.managers)
        rule = self.policy.rule_for(drift.key, drift.field, names, self.day)
        action = rule.action.value
        if action == DriftAction.REVERT and self.choices.is_contested(drift.cluster, drift.key, drift.field):
            action = CONTESTED
        return replace(drift, action=action, reason=rule.reason, expires=rule.expires)


class Settled(Struct, frozen=True, kw_only=True, eq=False):
    """A desired object without the fields that stay as they are on the cluster, and these fields."""

    body: Mapping[str, Any]
    left: tuple[Drift, ...] = ()
    omitted: tuple[FieldPath, ...] = ()


def settle(  # noqa: PLR0917
    rules: DriftRules,
    manifest: Manifest,
    live: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    catalogue: Catalogue,
    path: str,
) -> Settled:
    """Return what an apply sends: fields that others changed are left out where the policy leaves them.

    before: the object in `rendered/` of the base. path: of the rendered file.
    """
    key, body = manifest.key, manifest.body
    if not rules.may_leave(manifest):
        return Settled(body=body)

    def keys(field: FieldPath) -> tuple[str, ...] | None:
        return catalogue.list_keys(key.group, key.kind, field)

    fields = differences(
        project(body, live, None, keys),
        body,
        list_keys=keys,
        is_quantity=lambda field: catalogue.is_quantity(key.group, key.kind, field),
        why=manifest.why,
    )
    left: list[Drift] = []
    omitted: set[FieldPath] = set()
    for field in fields:
        managers = changed_by(field, live, before, keys)
        if managers is None and rules.choices.is_contested(manifest.cluster, key, field.path):
            managers = managers_of(live, find_path(live, field.path, keys)[0])  # also of one that applies Git
        if managers is None or not field.has_after:
            continue
        one = rules.decide(drift_of(manifest.cluster, key, path, field, managers, manifest.source, live))
        if one.action != DriftAction.REVERT:
            left.append(one)
            omitted.add(_whole_list(body, find_path(body, field.path, keys)[0], keys))
    places = tuple(sorted(place for place in omitted if place))
    return Settled(body=without(body, places), left=tuple(left), omitted=places)


class SettledAdditions(Struct, frozen=True, kw_only=True, eq=False):
    """The additions to a live object: the paths that an apply removes, and what stays as drift at other paths."""

    removed: tuple[FieldPath, ...] = ()
    left: tuple[Drift, ...] = ()
    omitted: tuple[FieldPath, ...] = ()


def settle_additions(  # noqa: PLR0917
    rules: DriftRules,
    manifest: Manifest,
    live: Mapping[str, Any],
    result: Mapping[str, Any],
    paths: Sequence[FieldPath],
    catalogue: Catalogue,
    path: str,
) -> SettledAdditions:
    """Return what of additions an apply removes. Those that the server sets again, such as defaults, are none.

    result: the live object without them, as the server would store it. path: of the rendered file.
    """
    key = manifest.key

    def keys(field: FieldPath) -> tuple[str, ...] | None:
        return catalogue.list_keys(key.group, key.kind, field)

    lost: dict[FieldPath, list[Drift]] = {}
    for field in differences(plain(live), plain(result), list_keys=keys):
        managers = managers_of(live, find_path(live, field.path, keys)[0])
        added = lies_in(field, live, paths, keys)
        if added and managers:  # the rest are defaults of what was added
            gone = replace(field, after=None, has_after=False)
            one = drift_of(manifest.cluster, key, path, gone, managers, manifest.source, live)
            lost.setdefault(added, []).append(rules.decide(one))
    staying = {at for at, found in lost.items() if any(one.action != DriftAction.REVERT for one in found)}
    return SettledAdditions(
        removed=tuple(at for at in paths if at in lost and at not in staying),
        left=tuple(one for at in paths if at in staying for one in lost[at]),
        omitted=tuple(at for at in paths if at in staying and all(isinstance(step, str) for step in at)),
    )


def lies_in(field: FieldChange, live: Mapping[str, Any], paths: Sequence[FieldPath], keys: ListKeys) -> FieldPath:
    """Return the addition that a field is part of; empty if it is part of none."""
    place, _ = find_path(live, field.path, keys)
    return next((one for one in paths if place[: len(one)] == one), ())


def contested_deletions(
    choices: LiveChoices, index: CompiledRevision, cluster: str, missing: Mapping[str, ObjectKey]
) -> dict[str, tuple[Drift, ...]]:
    """Return the missing objects that are not created again, because somebody keeps deleting them."""
    contested = {
        path: key for path, key in missing.items() if choices.contested and choices.is_contested(cluster, key, "")
    }
    return absences(index, cluster, contested, CONTESTED)


def absences(
    index: CompiledRevision, cluster: str, missing: Mapping[str, ObjectKey], action: str = DriftAction.REVERT
) -> dict[str, tuple[Drift, ...]]:
    """Return objects that somebody deleted on a cluster as drift, by path."""
    rows = index.summaries(missing)
    folder = index.revision.config.rendered
    return {
        path: (
            Drift(
                cluster=cluster,
                key=key,
                path=f"{folder}/{path}",
                field="",
                git="present",
                has_live=False,
                source=rows[path].place,
                action=action,
            ),
        )
        for path, key in missing.items()
    }


def taken(index: CompiledRevision, path: str, live: Mapping[str, Any], what: str) -> Drift:
    """Return an object whose name another one has by now, or that was released, as drift that stays."""
    row, last = index.summaries([path])[path], last_manager(live)
    return Drift(
        cluster=row.cluster,
        key=row.key,
        path=f"{index.revision.config.rendered}/{path}",
        field="",
        live=what,
        git="present",
        managers=(_name(last),) if last is not None else (),
        source=row.place,
        action=TAKEN,
    )


def drift_of(  # noqa: PLR0917
    cluster: str,
    key: ObjectKey,
    path: str,
    field: FieldChange,
    managers: tuple[Manager, ...],
    document: SourceRef,
    live: Mapping[str, Any],
) -> Drift:
    """Return a field that others changed as drift. Its source is the line of the field, else its document."""
    return Drift(
        cluster=cluster,
        key=key,
        path=path,
        field=field.path,
        live=field.before,
        git=field.after,
        has_live=field.has_before,
        has_git=field.has_after,
        managers=tuple(map(_name, managers)),
        last_writer="" if managers else last_writer(live),
        source=next(iter(field.why.places), document) if field.why is not None else document,
    )


def changed_by(
    field: FieldChange, live: Mapping[str, Any], before: Mapping[str, Any] | None, keys: ListKeys
) -> tuple[Manager, ...] | None:
    """Return who changed a field on the cluster, nobody if it was removed there; None if Git changed it.

    A field that what applies Git set is what Git said then, unless it is ours and Git says it neither in the base nor
    now: an apply takes it away. One that is missing was removed if the base has it, and if what applies Git wrote the
    object: it never was in one that is adopted. Our label was there in any case.
    """
    if field.has_before:
        path, rest = find_path(live, field.path, keys)
        managers = managers_of(live, path)
        if not any(manager.applies_git for manager in managers) or rest:
            return managers
        is_ours = any(manager.name == OURS for manager in managers)
        return managers if is_ours and not field.has_after and _has(before, field, keys) is False else None
    was_applied = any(manager.applies_git for manager in writers(live))
    was_there = was_applied and (field.path == _LABEL or _has(before, field, keys))
    return () if field.has_after and was_there else None


def _has(before: Mapping[str, Any] | None, field: FieldChange, keys: ListKeys) -> bool | None:
    """Return whether an object has a field; None if the object is not known."""
    if before is None:
        return None
    path, rest = find_path(before, field.path, keys)
    return bool(path) and not rest


def _name(manager: Manager) -> str:
    details = ", ".join(part for part in (manager.operation, manager.subresource, manager.time) if part)
    return f"{manager.name} ({details})" if details else manager.name


def _whole_list(body: Mapping[str, Any], path: FieldPath, keys: ListKeys) -> FieldPath:
    """Return a path that ends at the first list whose items have no keys: servers replace such a list as a whole."""
    for depth in range(1, len(path)):
        if isinstance(value_at(body, path[:depth]), list) and not keys(path[:depth]):
            return path[:depth]
    return path

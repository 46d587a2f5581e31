"""`Comparison`: everything about a change that needs the bodies of both objects. Worker processes can compute it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.aspects import Holds
from reconciler.kinds.facts import Loss
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.kueue.labels import as_admitted
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.manifests.ownership import IMMUTABLE, why_recreated
from reconciler.kube.items import ListKeys, match_items
from reconciler.kube.objects import FieldPath, ObjectKey, SourceRef, format_path
from reconciler.kube.patterns import later
from reconciler.kube.problems import Violation
from reconciler.kube.reasons import Why
from reconciler.kube.secrets import mask_text
from reconciler.kube.values import value_at
from reconciler.plan.causes import Cause
from reconciler.plan.differences import CauseFinder, differences, in_notation_of
from reconciler.plan.plan import FieldChange
from reconciler.sizing.summary import SizingSummary

Body = Mapping[str, Any]
STORAGE: FieldPath = ("spec", "resources", "requests", "storage")
"""The requested size of a volume."""


class Comparison(Struct, frozen=True, kw_only=True):
    """A rendered object compared with the existing object that it replaces."""

    cluster: str
    key: ObjectKey
    source: SourceRef
    sizing: SizingSummary | None
    fields: tuple[FieldChange, ...]
    why: Why  # why the object exists
    replaces: bool
    is_immutable: bool = False  # its owner marked it as immutable
    frozen: tuple[str, ...] = ()  # fields that differ and that the API server accepts only on new objects
    broken: tuple[str, ...] = ()  # messages of the rules of the definition that the change breaks
    unapplied: tuple[str, ...] = ()  # fields that differ and do not reach running pods
    restarts: tuple[str, ...] = ()  # fields that differ and because of which running pods are replaced
    storage: tuple[Any, Any] = (None, None)  # requested size of a volume, before and after
    team: str = ""  # label of the rendered object
    on_immutable_change: str = ""  # the choice of its document or queue; empty: that of the configuration
    recreated: str = ""  # the annotation because of which it is deleted and created again
    losses: tuple[Loss, ...] = ()  # of the change in place


class FieldSchemas(Protocol):
    """The schemas of the fields of a kind."""

    def list_keys(self, group: str, kind: str, path: FieldPath) -> tuple[str, ...] | None:
        """Return the keys of a list; `()` if its items match by position; None if no schema is known."""
        ...

    def is_quantity(self, group: str, kind: str, path: FieldPath) -> bool:
        """Return whether a value is a quantity."""
        ...

    def stored(self, body: Body) -> Body:
        """Return an object with the defaults of its kind."""
        ...

    def transitions(self, before: Body, after: Body) -> tuple[Violation, ...]:
        """Return the violations of the rules of the kind's definition by a change."""
        ...


class _NoSchemas:
    def list_keys(self, _: str, __: str, ___: FieldPath) -> None:
        return None

    def is_quantity(self, _: str, __: str, ___: FieldPath) -> bool:
        return False

    def stored(self, body: Body) -> Body:
        return body

    def transitions(self, _: Body, __: Body) -> tuple[Violation, ...]:
        return ()


NO_SCHEMAS: FieldSchemas = _NoSchemas()
"""For comparisons without schemas."""


class Causes(Protocol):
    """Finds the edited lines of the sources behind what differs. Paths are relative to the rendered folder."""

    def of_object(self, manifest: Manifest, old: str) -> CauseFinder | None:
        """Return what finds the causes of an object's fields; `old` is its path in the base, empty if it is new."""
        ...

    def of_deletion(self, path: str) -> Cause:
        """Return the reason that an object of the base is not rendered any more."""
        ...


class _NoCauses:
    def of_object(self, _: Manifest, __: str) -> None:
        return None

    def of_deletion(self, _: str) -> Cause:
        return Cause()


NO_CAUSES: Causes = _NoCauses()
"""For plans whose sources are not known on both sides."""


def compare(
    kinds: Kinds, schemas: FieldSchemas, before: Body | None, manifest: Manifest, cause: CauseFinder | None = None
) -> Comparison:
    """Compare a rendered object with the existing one; None if there is none."""
    key = manifest.key
    fields = differences(
        before,
        manifest.body,
        list_keys=lambda path: schemas.list_keys(key.group, key.kind, path),
        is_quantity=lambda path: schemas.is_quantity(key.group, key.kind, path),
        why=manifest.why,
        cause=cause,
    )
    comparison = Comparison(
        cluster=manifest.cluster,
        key=key,
        source=manifest.source,
        sizing=manifest.sizing() if manifest.sizing else None,
        fields=redact_reasons(fields),
        why=manifest.why(()),
        replaces=before is not None,
        team=team_of(manifest.body),
        on_immutable_change=manifest.on_immutable_change,
    )
    if before is None:
        return comparison
    row = kinds.find(key.group, key.kind)
    update = _update(row, schemas, key, before, manifest.body)
    refused = schemas.transitions(*update)
    is_readmitted = _is_readmitted(kinds, row, *update)
    frozen, unapplied = _restricted(row, refused, update, lambda: comparison.fields)
    unapplied = () if is_readmitted else unapplied
    sizes = (value_at(before, STORAGE), value_at(manifest.body, STORAGE))
    return replace(
        comparison,
        is_immutable=value_at(before, ("metadata", "annotations", IMMUTABLE)) == "true",
        frozen=frozen,
        broken=tuple(dict.fromkeys(mask_text(one.message) for one in refused)),
        recreated="" if manifest.on_immutable_change else _why_recreated(row, frozen, manifest.body),
        unapplied=unapplied,
        restarts=_specs(fields) if is_readmitted else _in_templates(kinds, row, before, fields, unapplied),
        losses=tuple(row.life.losses(before, manifest.body)) if row.life.losses else (),
        storage=sizes if row.holds is Holds.VOLUME else (None, None),
    )


def needs_new_object(
    kinds: Kinds, schemas: FieldSchemas, key: ObjectKey, before: Body, after: Body, *, own_choice: Callable[[], str]
) -> bool:
    """Return whether a change reaches running pods only with a new object: it is frozen, or not applied to them.

    own_choice: returns what the document or queue of the object says about immutable changes.
    """

    def fields() -> tuple[FieldChange, ...]:
        return differences(
            before,
            after,
            list_keys=lambda path: schemas.list_keys(key.group, key.kind, path),
            is_quantity=lambda path: schemas.is_quantity(key.group, key.kind, path),
        )

    row = kinds.find(key.group, key.kind)
    update = _update(row, schemas, key, before, after)
    frozen, unapplied = _restricted(row, schemas.transitions(*update), update, fields)
    is_new = bool(frozen) or (bool(unapplied) and not _is_readmitted(kinds, row, *update))
    return is_new and (not _why_recreated(row, frozen, after) or bool(own_choice()))


def team_of(body: Body | None) -> str:
    """Return the label `team` of an object; empty without one."""
    team = value_at(body or {}, ("metadata", "labels", "team"))
    return team if isinstance(team, str) else ""


def _update(row: Kind, schemas: FieldSchemas, key: ObjectKey, before: Body, after: Body) -> tuple[Body, Body]:
    """Return both sides of a change as a server has them: the object as it is stored, and as it is after an apply.

    What a server or a webhook added to the first side stays, where `after` does not say otherwise.
    """
    old, new = schemas.stored(before), after
    if before.get("apiVersion") == after.get("apiVersion"):
        old = row.life.admitted(old) if row.life.admitted else old
        new = _applied(old, before, after, (), lambda path: schemas.list_keys(key.group, key.kind, path))
    new = schemas.stored(new)
    kind = key.group, key.kind
    list_keys, is_quantity = partial(schemas.list_keys, *kind), partial(schemas.is_quantity, *kind)
    return in_notation_of(new, old, list_keys, is_quantity), new


def _applied(live: Any, before: Any, after: Any, path: FieldPath, list_keys: ListKeys) -> Any:
    """Return what an apply of `after`, of which the last one was of `before`, makes of a value."""
    if isinstance(live, Mapping) and isinstance(after, Mapping):
        given = before if isinstance(before, Mapping) else {}
        made = {name: value for name, value in live.items() if given.get(name) is None}
        return made | {
            name: _applied(live.get(name), given.get(name), value, (*path, name), list_keys)
            for name, value in after.items()
            if value is not None
        }
    if all(isinstance(side, list) for side in (live, before, after)) and list_keys(path):
        pairs = match_items(path, before, after, list_keys)
        places = {pair.after: pair.before for pair in (pairs.items if pairs else ()) if pair.before is not None}
        return [
            _applied(live[places[at]], before[places[at]], item, (*path, at), list_keys) if at in places else item
            for at, item in enumerate(after)
        ]
    return after


def _restricted(
    row: Kind,
    refused: Sequence[Violation],
    update: tuple[Body, Body],
    fields: Callable[[], tuple[FieldChange, ...]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths that are frozen, and those that do not reach running pods.

    The registry of kinds knows them, and the rules of the definition what they have `refused`. Only paths whose meaning
    changes, at or below them: 1Gi and 1024Mi are equal to the API server, too.
    """
    paths = [tuple(check(*update)) if check else () for check in (row.life.immutable, row.life.unapplied)]
    differing = fields() if any(paths) or refused else ()
    frozen, unapplied = (tuple(path for path in found if next(fields_below(differing, path), None)) for found in paths)
    broken = (path for one in refused for path in _differing_at(one.path, differing))
    return tuple(dict.fromkeys((*frozen, *broken))), unapplied


def _is_readmitted(kinds: Kinds, row: Kind, before: Body, after: Body) -> bool:
    """Return whether Kueue stops a workload, whose pods are no longer those that it admitted, and admits it again."""
    if not (row.pods.suspend and kinds.is_queued(before) and kinds.is_queued(after)):
        return False
    old, new = (as_admitted(body, kinds.pod_sets(body) or ()) for body in (before, after))
    return old != new


def _specs(fields: Iterable[FieldChange]) -> tuple[str, ...]:
    return tuple(field.path for field in fields if field.path.startswith("spec."))


def _in_templates(
    kinds: Kinds, row: Kind, before: Body, fields: tuple[FieldChange, ...], unapplied: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the fields of pod templates that differ: a controller replaces its pods, unless its row says otherwise."""
    pods = kinds.pod_sets(before) if not row.pods.job_metadata else None
    templates = tuple(_any_item(one.prefix or "spec.containers[0]") for one in pods or ())  # a Pod has no template
    found = (field.path for field in fields if f"{_any_item(field.path)}.".startswith(templates))
    kept = {field.path for path in unapplied for field in fields_below(fields, path)}
    return tuple(path for path in found if path not in kept)


def _any_item(path: str) -> str:
    """Return a path without the positions and names of items: fields name what templates count."""
    return _ITEM.sub("[]", path)


_ITEM = later(r"\[[^\]]*\]")


def _differing_at(path: FieldPath, differing: Sequence[FieldChange]) -> Iterator[str]:
    """Yield the part of a path above the first list that has a difference; without one, all that differs."""
    names = tuple(takewhile(lambda part: isinstance(part, str), path))
    for length in range(len(names), 0, -1):
        found = format_path(names[:length])
        if next(fields_below(differing, found), None):
            yield found
            return
    yield from (field.path for field in differing)


def _why_recreated(row: Kind, frozen: Sequence[str], after: Body) -> str:
    """Return the annotation that makes Flux or Argo CD replace an object whose frozen fields differ; empty if none."""
    return why_recreated(after) if frozen and not _holds_others(row) else ""


def _holds_others(kind: Kind) -> bool:
    """Return whether deleting an object loses more than itself: data, or what is in it or admitted by it."""
    return kind.life.is_stateful or kind.holds in (Holds.OBJECTS, Holds.KINDS)


def fields_below(fields: Iterable[FieldChange], path: str) -> Iterator[FieldChange]:
    """Yield the fields that differ at or below a path."""
    starts = (f"{path}.", f"{path}[")
    return (field for field in fields if f"{field.path}.".startswith(starts))


def redact_reasons(fields: Iterable[FieldChange]) -> tuple[FieldChange, ...]:
    """Mask secrets that the text of a reason repeats."""
    redacted = []
    for field in fields:
        why = field.why
        if why is not None and why.text:
            field = replace(field, why=replace(why, text=mask_text(why.text)))  # noqa: PLW2901
        redacted.append(field)
    return tuple(redacted)

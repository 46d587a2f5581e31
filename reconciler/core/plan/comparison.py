"""`Comparison`: all of a change that depends on the bodies of an object; what depends on rows and sides comes later."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.kinds.kind import Kinds
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.manifests.ownership import IMMUTABLE
from reconciler.core.objects import FieldPath, ObjectKey, SourceRef
from reconciler.core.plan.differences import differences
from reconciler.core.plan.masking import redact
from reconciler.core.plan.plan import FieldChange
from reconciler.core.reasons import Why
from reconciler.core.sizing.summary import SizingSummary
from reconciler.core.values import value_at

Body = Mapping[str, Any]


class Comparison(Struct, frozen=True, kw_only=True):
    """A rendered object beside what it replaces. It can be encoded, so that workers may make it."""

    cluster: str
    key: ObjectKey
    source: SourceRef
    sizing: SizingSummary | None
    fields: tuple[FieldChange, ...]
    whole: Why  # why there is the object at all
    replaces: bool
    is_immutable: bool = False  # its owner forbids changes
    frozen: tuple[str, ...] = ()  # fields that differ, and that an API server accepts on new objects only
    unapplied: tuple[str, ...] = ()  # fields that differ, and that reach no running pod
    storage: tuple[Any, Any] = (None, None)  # what a claim asks for, before and after


def compare(
    kinds: Kinds,
    before: Body | None,
    manifest: Manifest,
    *,
    list_keys: Callable[[str, str, FieldPath], tuple[str, ...] | None],
    is_quantity: Callable[[str, str, FieldPath], bool],
) -> Comparison:
    """Compare a rendered object with what it replaces (None: nothing)."""
    key = manifest.key
    fields = differences(
        before,
        manifest.body,
        list_keys=lambda path: list_keys(key.group, key.kind, path),
        is_quantity=lambda path: is_quantity(key.group, key.kind, path),
        why=manifest.why,
    )
    found = Comparison(
        cluster=manifest.cluster,
        key=key,
        source=manifest.source,
        sizing=manifest.sizing() if manifest.sizing else None,
        fields=redacted(fields),
        whole=manifest.why(()),
        replaces=before is not None,
    )
    return found if before is None else _with_risks(kinds, found, before, manifest.body)


def _with_risks(kinds: Kinds, found: Comparison, before: Body, after: Body) -> Comparison:
    kind = kinds.find(found.key.group, found.key.kind)
    annotations = _mapping(_mapping(before.get("metadata")).get("annotations"))
    return replace(
        found,
        is_immutable=annotations.get(IMMUTABLE) == "true",
        frozen=tuple(kind.immutable(before, after)) if kind.immutable else (),
        unapplied=tuple(kind.unapplied(before, after)) if kind.unapplied else (),
        storage=(value_at(before, kind.storage), value_at(after, kind.storage)) if kind.storage else (None, None),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def redacted(fields: Iterable[FieldChange]) -> tuple[FieldChange, ...]:
    """Hide secrets that a reason's sentence repeats."""
    found = []
    for field in fields:
        text = field.why.text if field.why else ""
        clean = redact(text) if text else text
        kept = field if clean == text or field.why is None else replace(field, why=replace(field.why, text=clean))
        found.append(kept)
    return tuple(found)

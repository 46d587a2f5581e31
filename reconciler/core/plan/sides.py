"""Before and after as rows by path, and which paths are created, updated, deleted, held back or kept."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.core.manifests.ownership import KEEP
from reconciler.core.plan.inputs import Inputs
from reconciler.core.problems import Severity
from reconciler.core.summary import ObjectSummary


class Sides(Struct, frozen=True, kw_only=True):
    """What is compared. `after` is what `rendered/` holds once the plan is carried out; both without the common."""

    before: Mapping[str, ObjectSummary]
    after: Mapping[str, ObjectSummary]
    created: tuple[str, ...]
    updated: tuple[str, ...]
    deleted: tuple[str, ...]
    held: tuple[str, ...]
    kept: tuple[str, ...]
    unchanged: int


def compare(inputs: Inputs) -> Sides:
    """Compare by blob id alone: an unchanged object costs a look-up."""
    desired, existing = inputs.desired, inputs.existing
    differing = [path for path, row in desired.items() if existing.get(path) != row.digest]
    gone = sorted(path for path in existing if path not in desired)
    broken = {problem.place.path for problem in inputs.problems if problem.severity is Severity.ERROR}
    held = _held(inputs, differing, gone, broken) if broken else set()
    held.update(inputs.waiting.intersection(gone))
    gone = [path for path in gone if path not in held]
    kept = {path for path in gone if _is_kept(inputs, path)}
    before = {path: desired[path] for path, oid in existing.items() if path in desired and desired[path].digest == oid}
    unchanged = inputs.common.count + len(before) + len(kept)
    before.update((path, row) for path, row in inputs.existing_rows.items() if path in existing)
    after = {**desired}
    for path in held:
        after.pop(path, None)
    after.update((path, before[path]) for path in (*sorted(held), *sorted(kept)) if path in before)
    changed = sorted(path for path in differing if path not in held)
    return Sides(
        before=before,
        after=after,
        created=tuple(path for path in changed if path not in existing),
        updated=tuple(path for path in changed if path in existing),
        deleted=tuple(path for path in gone if path not in kept),
        held=tuple(sorted(held)),
        kept=tuple(sorted(kept)),
        unchanged=unchanged,
    )


def _held(inputs: Inputs, differing: list[str], gone: list[str], broken: set[str]) -> set[str]:
    held = {path for path in differing if inputs.desired[path].source in broken}
    for path in gone:
        origin = origin_of(inputs, path)
        # Where nobody knows it may well be the broken file's: an error must never read as a wish to delete.
        if origin in broken or (not origin and inputs.origins is None):
            held.add(path)
    return held


def origin_of(inputs: Inputs, path: str) -> str:
    """Return the source file that an existing object came from, as far as it is known."""
    if inputs.origins and path in inputs.origins:
        return inputs.origins[path]
    row = inputs.existing_rows.get(path)
    return row.source if row else ""


def _is_kept(inputs: Inputs, path: str) -> bool:
    metadata = (inputs.body(path) or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get(KEEP) == "true"

"""Which rendered files are created, updated, deleted, held back or kept, with their summaries before and after."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.problems import Severity
from reconciler.plan.inputs import Inputs


class ChangedPaths(Struct, frozen=True, kw_only=True):
    """Paths by what happens to them. `after` is the content of `rendered/` once the plan is applied.

    `held_back` paths stay because their source has errors or waits for an answer, `kept` ones because of an annotation.
    `kept_specs` stay as they are because `onImmutableChange: keep` says so.
    `before` and `after` do not contain the common objects; `unchanged` counts those, too.
    """

    before: Mapping[str, ObjectSummary]
    after: Mapping[str, ObjectSummary]
    created: tuple[str, ...]
    updated: tuple[str, ...]
    deleted: tuple[str, ...]
    held_back: tuple[str, ...]
    kept: tuple[str, ...]
    kept_specs: tuple[str, ...] = ()
    unchanged: int


def compare_paths(inputs: Inputs) -> ChangedPaths:
    """Compare desired and existing files by their blob ids."""
    desired, existing = inputs.desired, inputs.existing
    differing = [path for path, row in desired.items() if existing.get(path) != row.digest]
    missing = [path for path in existing if path not in desired]
    held_back = _held_back(inputs, differing, missing)
    unused = (path for path in missing if path not in held_back and path not in inputs.lost)
    kept = {path for path in unused if path in inputs.kept}
    equal = {path: desired[path] for path, oid in existing.items() if path in desired and desired[path].digest == oid}
    before = equal | {path: row for path, row in inputs.existing_rows.items() if path in existing}
    kept_specs = {path for path in differing if path in inputs.kept_specs and path not in held_back}
    staying = held_back | kept | kept_specs
    after = {path: row for path, row in desired.items() if path not in staying}
    after.update((path, before[path]) for path in sorted(staying) if path in before)
    changed = sorted(path for path in differing if path not in staying)
    return ChangedPaths(
        before=before,
        after=after,
        created=tuple(path for path in changed if path not in existing),
        updated=tuple(path for path in changed if path in existing),
        deleted=tuple(sorted(path for path in missing if path not in held_back and path not in kept)),
        held_back=tuple(sorted(held_back)),
        kept=tuple(sorted(kept)),
        kept_specs=tuple(sorted(kept_specs)),
        unchanged=inputs.common.count + len(equal) + len(kept) + len(kept_specs),
    )


def _held_back(inputs: Inputs, differing: Iterable[str], missing: Iterable[str]) -> set[str]:
    """Return the paths whose source has errors or waits for an answer.

    If the source of a missing object is unknown, any file with errors may be its source, so it is held back as well.
    """
    held_back = {path for path in missing if path in inputs.waiting}
    broken = {problem.place.path for problem in inputs.problems if problem.severity is Severity.ERROR}
    broken |= inputs.blocked
    if broken:
        held_back.update(path for path in differing if inputs.desired[path].source in broken)
        for path in missing:
            source = source_of(inputs, path)
            if source in broken or (not source and inputs.origins is None):
                held_back.add(path)
    return held_back


def source_of(inputs: Inputs, path: str) -> str:
    """Return the source file that an existing object came from; empty if it is unknown."""
    if inputs.origins and path in inputs.origins:
        return inputs.origins[path]
    row = inputs.existing_rows.get(path)
    return row.source if row else ""

"""Replacements: changes of fields that the API server accepts only on a new object.

`onImmutableChange` decides, in the document, its queue, or `reconciler.yaml`. With `replace`, a job gets a new name
before the plan is made (`plan.sides`): here it is a deletion and a creation that belong together.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from reconciler.kinds.aspects import Holds
from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.ownership import ON_IMMUTABLE_CHANGE
from reconciler.kube.objects import SourceRef, format_path
from reconciler.kube.problems import Problem
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.reasons import Why
from reconciler.kube.values import plural
from reconciler.plan.changed_paths import ChangedPaths
from reconciler.plan.comparison import STORAGE, Comparison, fields_below
from reconciler.plan.edits import Edit
from reconciler.plan.inputs import Inputs
from reconciler.plan.plan import FieldChange, KeptSpec, Operation
from reconciler.repo.config import Config, OnImmutableChange

_SIZE = format_path(STORAGE)
REFUSED = "immutable.refused"
"""Rule of a plan that is refused because objects must be replaced."""

CLAIM = "immutable.claim"
"""Rule of a claim that would shrink or change what it is."""

SERVER_REFUSED = "live.refused"
"""Rule of an object that a live API server, one of its webhooks or its policies refuses."""

UNKNOWN = "live.unknown"
"""Rule of what a live cluster could not say: a dry run that failed, a kind that may not be listed."""

ABOUT_CHANGES = (REFUSED, CLAIM, SERVER_REFUSED, UNKNOWN)
"""Rules of problems with a change; the files themselves are valid, so nothing of them is held back."""

_NAMED = 3  # objects that a message names
_CHOICES = (
    "undo the change, or choose with onImmutableChange in the queue or in reconciler.yaml, or with the annotation "
    f"{ON_IMMUTABLE_CHANGE} of a job: `replace` starts a new generation of the job with the same claims and stops its "
    "running pods, `keep` leaves the job as it is and applies the change to new jobs"
)


def is_kept(comparison: Comparison, config: Config) -> bool:
    """Return whether a changed object stays as it is."""
    differs = bool(comparison.frozen or comparison.unapplied) or shrinks(comparison)
    choice = comparison.on_immutable_change or config.on_immutable_change
    is_chosen = choice == OnImmutableChange.KEEP and not comparison.recreated
    return has_spare(comparison) or (differs and is_chosen)


def has_spare(comparison: Comparison) -> bool:
    """Return whether a claim has more than is computed for it by now, as after a job was given fewer GPUs.

    A size or an access mode that someone wrote is not computed: the change of one is refused.
    """
    size = next(fields_below(comparison.fields, _SIZE), None)
    modes = tuple(fields_below(comparison.fields, _MODES))
    smaller = size is not None and _is_computed(size) and shrinks(comparison)
    new = [field for field in modes if field.has_after]
    narrower = bool(new) and all(field.after != _SHARED and _is_computed(field) for field in new)
    narrower = narrower and {field.before for field in modes if field.has_before} == {_SHARED}
    return (smaller or (narrower and size is None)) and set(comparison.frozen) <= ({_MODES} if narrower else set())


def _is_computed(field: FieldChange) -> bool:
    return field.has_after and field.why is not None and bool(field.why.text)


def shrinks(comparison: Comparison) -> bool:
    """Return whether a claim requests less storage than before."""
    before, after = comparison.storage
    old = parse_quantity(before) if isinstance(before, str | int) else None
    new = parse_quantity(after) if isinstance(after, str | int) else None
    return old is not None and new is not None and new < old


def kept_specs(inputs: Inputs, paths: ChangedPaths) -> tuple[KeptSpec, ...]:
    """Return the objects that stay as they are although their source changed."""
    return tuple(
        KeptSpec(
            cluster=comparison.cluster,
            key=comparison.key,
            path=f"{inputs.config.rendered}/{path}",
            fields=tuple(field.path for field in comparison.fields),
            source=comparison.source,
            has_spare=has_spare(comparison),
        )
        for path, comparison in ((path, inputs.comparisons[path, path]) for path in paths.kept_specs)
    )


_IN_REVIEW = (
    "undo the change, give the {} another name, or let the tool that applies it delete it first, which stops its pods: "
    "Argo CD does with the sync options Force=true and Replace=true, Flux with spec.force of its Kustomization"
)
"""What helps where Argo CD or Flux builds the sources: they know no generations."""


def find_refusals(edits: Iterable[Edit], kinds: Kinds, *, is_rendered: bool = True) -> tuple[Problem, ...]:
    """Return a problem for each line whose change the API server would refuse, with all objects it concerns.

    Where several lines changed that an object depends on, it is counted at the one that most objects depend on.
    """
    refused = [edit for edit in edits if is_refused(edit)]
    lines = [tuple(dict.fromkeys(_lines(edit))) for edit in refused]
    counts = Counter(line for found in lines for line in found)
    groups: dict[tuple[_Line, _Refusal], list[Edit]] = {}
    for edit, found in zip(refused, lines, strict=True):
        line = max(found, key=lambda line: counts[line])
        groups.setdefault((line, _refusal_of(edit, kinds)), []).append(edit)
    problems = (refuse(line, members, kinds) for (line, refuse), members in groups.items())
    return tuple(one if is_rendered or one.rule != REFUSED else _in_review(one) for one in problems)


def _in_review(problem: Problem) -> Problem:
    noun = "job" if problem.hint == _CHOICES else "object"
    return replace(problem, hint=_IN_REVIEW.format(noun))


def is_refused(edit: Edit) -> bool:
    """Return whether the API server would refuse the change of an object."""
    is_update = edit.change.operation is Operation.UPDATE
    return edit.change.is_refused or (is_update and edit.comparison is not None and shrinks(edit.comparison))


_Line = tuple[SourceRef, str]
"""A place and its field."""

_Refusal = Callable[[_Line, Sequence[Edit], Kinds], Problem]


def _lines(edit: Edit) -> Iterator[_Line]:
    """Yield the lines that the differing immutable fields of an object come from."""
    comparison, is_found = edit.comparison, False
    if comparison is not None:
        paths = comparison.frozen or (_SIZE,)
        for field in (field for path in paths for field in fields_below(comparison.fields, path)):
            if field.why is not None and field.why.places:
                is_found = True
                yield _edited_line(field.why)
    if not is_found:
        yield edit.change.source or SourceRef(path=edit.change.path), ""


def _edited_line(why: Why) -> _Line:
    """Return the first origin of a value that was edited, or else its first origin."""
    at = next((at for at, place in enumerate(why.places) if place in why.edited), 0)
    return why.places[at], why.fields[at] if at < len(why.fields) else ""


_MODES, _SHARED = "spec.accessModes", "ReadWriteMany"


def _refusal_of(edit: Edit, kinds: Kinds) -> _Refusal:
    row = kinds.find(edit.change.key.group, edit.change.key.kind)
    if row.holds is Holds.VOLUME:
        return _claims_differ if edit.comparison and edit.comparison.frozen else _claims_shrink
    return _jobs_differ if row.life.has_generations else _others_differ


def _claims_shrink(line: _Line, edits: Sequence[Edit], _: Kinds) -> Problem:
    sizes = (edit.comparison.storage if edit.comparison else ("", "") for edit in edits)
    names = [f"{edit.change.key} from {old} to {new}" for edit, (old, new) in zip(edits, sizes, strict=True)]
    return _claim_problem(line, f"a volume cannot shrink: {_listed(names)}", "keep the size")


def _claims_differ(line: _Line, edits: Sequence[Edit], _: Kinds) -> Problem:
    message = f"{_frozen(edits)} of a claim cannot be changed: {_names(edits)}"
    if all(edit.comparison and _becomes_shared(edit.comparison) for edit in edits):
        names = ", ".join(edit.change.key.name for edit in edits[:_NAMED])
        return _claim_problem(line, f"pods on several nodes need {_SHARED}, but {message}", hint=_SHARE.format(names))
    return _claim_problem(line, message, "undo the change")


_SHARE = (
    f"keep the job on one node, or move the data of {{}}: add a PersistentVolumeClaim of another name with accessModes "
    f"[{_SHARED}], copy the data to it, and set claimName of the volume (storage.checkpoints, storage.workspace) in "
    "the job to the new name; the old claim can be deleted afterwards"
)


def _becomes_shared(comparison: Comparison) -> bool:
    modes = tuple(fields_below(comparison.fields, _MODES))
    return comparison.frozen == (_MODES,) and any(field.after == _SHARED and _is_computed(field) for field in modes)


def _claim_problem(line: _Line, message: str, what: str = "", *, hint: str = "") -> Problem:
    if not hint:
        hint = f"{what}; or use a claim of another name and copy the data to it: a new claim is empty, and deleting "
        hint += "the old one may destroy its data"
    return Problem(rule=CLAIM, place=line[0], field=line[1], message=message, hint=hint)


def _jobs_differ(line: _Line, edits: Sequence[Edit], _: Kinds) -> Problem:
    return _replace_problem(line, edits, "job", _CHOICES)


def _others_differ(line: _Line, edits: Sequence[Edit], kinds: Kinds) -> Problem:
    hint = "undo the change, or give the object another name and change what refers to it; with the annotation "
    hint += f"{ON_IMMUTABLE_CHANGE}: keep it stays as it is"
    if any(kinds.find(edit.change.key.group, edit.change.key.kind).life.is_stateful for edit in edits):
        hint += "; the data of an object does not move to an object of another name"
    return _replace_problem(line, edits, "object", hint)


def _replace_problem(line: _Line, edits: Sequence[Edit], noun: str, hint: str) -> Problem:
    reason = f"because the API server accepts {_frozen(edits)} only on a new object"
    rules = "; ".join(sorted({text for edit in edits if edit.comparison for text in edit.comparison.broken}))
    stated = f" ({rules})" if rules else ""
    message = f"{plural(len(edits), noun)} must be replaced, {reason}{stated}: {_names(edits)}"
    return Problem(rule=REFUSED, place=line[0], field=line[1], message=message, hint=hint)


def _frozen(edits: Iterable[Edit]) -> str:
    return ", ".join(sorted({path for edit in edits if edit.comparison for path in edit.comparison.frozen}))


def _names(edits: Sequence[Edit]) -> str:
    return _listed([str(edit.change.key) for edit in edits])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more

"""The deeds of a run, with their reasons, as lines for records, events, logs and statuses. No value is shown."""

from collections.abc import Sequence

from reconciler.errors import one_line
from reconciler.kube.values import plural
from reconciler.live.apply.results import Ending, StepResult
from reconciler.live.apply.steps import Verb
from reconciler.plan import Change, Drift, Plan
from reconciler.repo.config.drift import DriftAction

MOST_DEEDS = 30
"""Objects that a record names; the others are counted."""

_MAX_FIELDS = 3
_MAX_LENGTH = 300
_WORDS = {Verb.CREATE: "created", Verb.UPDATE: "updated", Verb.DELETE: "deleted", Verb.RECREATE: "recreated"}


def deeds(plan: Plan, folder: str, results: Sequence[StepResult]) -> tuple[str, ...]:
    """Return a line for each object that a run changed, such as `reverted Job/a/b: spec.x, set by kubectl-edit`."""
    changes = {change.path: change for change in plan.changes}
    changes |= {change.moved_from: change for change in plan.changes if change.moved_from}
    drift: dict[str, list[Drift]] = {}
    for one in plan.drift:
        if one.action == DriftAction.REVERT:
            drift.setdefault(one.path, []).append(one)
    done = [result for result in results if result.ending is Ending.DONE]
    told = [
        _deed(result, changes[path], drift.get(path, []))
        for result in done[:MOST_DEEDS]
        if (path := f"{folder}/{result.path}") in changes
    ]
    more = [f"and {plural(len(done) - MOST_DEEDS, 'other object')}"] if len(done) > MOST_DEEDS else []
    return (*told, *more)


def _deed(result: StepResult, change: Change, drift: Sequence[Drift]) -> str:
    word, reason = _WORDS[result.verb], _reason(result, change)
    if drift:
        fields = frozenset(one.field for one in drift)
        is_all = result.verb is Verb.CREATE or fields >= {field.path for field in change.fields}
        word = "reverted" if is_all else word
        reason = f"{_by(drift)}{'' if is_all else f'; {reason}'}"
    return one_line(f"{word} {result.key}: {reason}", _MAX_LENGTH)


def _reason(result: StepResult, change: Change) -> str:
    if result.verb is Verb.DELETE:
        moved = f"it moved to {change.path}" if change.moved_from else "no source defines it any more"
        return change.because[0].text or moved if change.because and not change.moved_from else moved
    fields = _listed([field.path for field in change.fields])
    source = f"{change.source}" if change.source is not None else "Git"
    return f"{fields} of {source}" if result.verb is Verb.UPDATE and fields else f"{source}"


def _by(drift: Sequence[Drift]) -> str:
    """Return which fields somebody changed, and who did."""
    who = ", ".join(dict.fromkeys(one.who for one in drift))
    if not any(one.field for one in drift):
        return "somebody deleted it"
    return f"{_listed([one.field for one in drift])} changed by {who}"


def _listed(fields: Sequence[str]) -> str:
    more = f" and {len(fields) - _MAX_FIELDS} more" if len(fields) > _MAX_FIELDS else ""
    return ", ".join(fields[:_MAX_FIELDS]) + more

"""What a plan says about objects and fields that the sources no longer define, and about problems of an object."""

from collections.abc import Iterable

from reconciler.core.causes import document_lines
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import ObjectKey
from reconciler.core.plan import Change, FieldChange, Operation, Plan
from reconciler.core.plan.explanation import ExplainedField, Explanation, ValueSource
from reconciler.core.plan.risks import KEPT
from reconciler.core.policy.verdict import Result
from reconciler.core.reasons import Why

_MOST_PROBLEMS = 5


def explain_absent(plan: Plan, folder: str, name: str) -> Explanation | None:
    """Explain an object that exists in the base and not in the head: deleted, moved, kept, or left as it is."""
    for change in plan.changes:
        if change.operation is Operation.DELETE and _names(change.path, folder, name):
            return Explanation(
                cluster=change.cluster,
                key=change.key,
                path=change.path,
                source=None,
                status=f"deleted: {change.because[0].text}",
                causes=tuple(_lines(change.because)),
            )
        if change.operation is Operation.MOVE and _names(change.moved_from, folder, name):
            identity = [field for field in change.fields if field.path in _IDENTITY]
            reasons = [field.why for field in identity if field.why is not None]
            return Explanation(
                cluster=change.cluster,
                key=_old_key(change, identity),
                path=change.moved_from,
                source=change.source,
                status=f"moved to {change.path}",
                causes=tuple(_lines(reasons or change.because)),
            )
    for risk in plan.risks:
        if risk.rule == KEPT and risk.place is not None and _names(risk.place.path, folder, name):
            path, status = risk.place.path, f"kept: {risk.message}"
            return Explanation(cluster=risk.cluster, key=risk.key, path=path, source=None, status=status)
    held = next((path for path in plan.held_back if _names(path, folder, name)), None)
    return _held_back(plan, folder, held) if held is not None else None


_IDENTITY = ("metadata.name", "metadata.namespace")


def _names(path: str, folder: str, name: str) -> bool:
    """Return whether a name or a path means the rendered file at `path`."""
    below = path.removeprefix(f"{folder}/")
    if name.removeprefix(f"{folder}/") == below:
        return True
    kind, *namespace, own = name.split("/") if "/" in name else ("", name)
    _, where, file = below.split("/", 2)
    prefix, _, rest = file.partition("-")
    return (
        prefix.partition(".")[0] == kind.lower()
        and rest == f"{own.replace(':', '~')}.yaml"
        and (not namespace or namespace == [where])
    )


def _old_key(change: Change, identity: Iterable[FieldChange]) -> ObjectKey:
    before = {field.path: field.before for field in identity if field.has_before}
    key = change.key
    return ObjectKey(
        group=key.group,
        kind=key.kind,
        namespace=str(before.get("metadata.namespace", key.namespace)),
        name=str(before.get("metadata.name", key.name)),
    )


def _held_back(plan: Plan, folder: str, path: str) -> Explanation:
    cluster, namespace, file = path.removeprefix(f"{folder}/").split("/", 2)
    kind, _, name = file.removesuffix(".yaml").partition("-")
    key = ObjectKey(group="", kind=kind, namespace="" if namespace == "_cluster" else namespace, name=name)
    return Explanation(
        cluster=cluster,
        key=key,
        path=path,
        source=None,
        status="left as it is, because its source has errors or waits for an answer",
        problems=tuple(map(str, plan.errors[:_MOST_PROBLEMS])),
    )


def removed_fields(plan: Plan, path: str, field: str) -> tuple[ExplainedField, ...]:
    """Explain a field that the base has and the head has not, as the plan prints it."""
    change = next((change for change in plan.changes if change.path == path), None)
    return tuple(
        ExplainedField(
            field=each.path,
            value=each.before,
            rule=each.why.rule if each.why is not None else "",
            formula="the sources do not set it any more",
            origins=tuple(_lines([each.why] if each.why is not None else [])),
            removed=True,
        )
        for each in (change.fields if change is not None else ())
        if not each.has_after and (each.path == field or each.path.startswith((f"{field}.", f"{field}[")))
    )


def _lines(reasons: Iterable[Why]) -> list[ValueSource]:
    """Return the edited lines of reasons, those of the base marked as removed; else the places of the reasons."""
    edited = [ValueSource(place=place) for why in reasons for place in why.edited]
    edited += [ValueSource(place=place, field="removed") for why in reasons for place in why.removed]
    return edited or [ValueSource(place=place) for why in reasons for place in why.places]


def problems_of(plan: Plan, manifest: Manifest) -> tuple[str, ...]:
    """Return the problems of an object: those in its source document, and the verdicts on it."""
    origins = manifest.origins(())
    lines = document_lines(origins[0].document) if origins else None
    problems = [
        str(problem)
        for problem in plan.problems
        if lines is not None and problem.place.path == lines.path and lines.first <= problem.place.line <= lines.last
    ]
    verdicts = [
        f"{verdict.place}: {verdict.message} [{verdict.rule}]"
        for verdict in plan.verdicts
        if (verdict.cluster, verdict.key) == (manifest.cluster, manifest.key) and verdict.result is not Result.EXCEPTED
    ]
    return (*problems, *verdicts)

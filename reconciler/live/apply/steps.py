"""Steps: the requests that carry out a plan, and what is left of a saved plan that was carried out in part."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey
from reconciler.plan.plan import Change, Operation, Plan


class Verb(StrEnum):
    """The action of a step on one object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RECREATE = "recreate"  # delete it, and create it again under its name


class PlannedObject(Struct, frozen=True, kw_only=True, order=True):
    """One object that a plan changes: the version that was planned on, and the one that it gets. Empty: none."""

    path: str  # below the rendered folder
    before: str = ""
    after: str = ""
    is_recreated: bool = False

    @property
    def verb(self) -> Verb:
        """The action on the object."""
        if self.is_recreated:
            return Verb.RECREATE
        if not self.after:
            return Verb.DELETE
        return Verb.UPDATE if self.before else Verb.CREATE


class Step(Struct, frozen=True, kw_only=True):
    """One object to create, update or delete, with what its order depends on.

    summary: of the desired object, or of the existing one that is deleted.
    before: of the object that is updated.
    replaces: path of the object that this one replaces, or that moves here.
    """

    verb: Verb
    summary: ObjectSummary
    before: ObjectSummary | None = None
    replaces: str = ""

    @property
    def path(self) -> str:
        """The path of the object below the rendered folder."""
        return self.summary.path

    @property
    def key(self) -> ObjectKey:
        """The object's identity."""
        return self.summary.key


def planned_objects(plan: Plan, folder: str) -> frozenset[PlannedObject]:
    """Return the objects that a plan changes. A move or replacement is two: the old one goes, the new one comes."""
    return frozenset(planned for change in plan.changes for planned in _of_change(change, folder))


def _of_change(change: Change, folder: str) -> Iterator[PlannedObject]:
    path = change.path.removeprefix(f"{folder}/")
    if change.moved_from:
        yield PlannedObject(path=change.moved_from.removeprefix(f"{folder}/"), before=change.digest_before)
        yield PlannedObject(path=path, after=change.digest_after)
    else:
        is_recreated = bool(change.recreated)
        yield PlannedObject(
            path=path, before=change.digest_before, after=change.digest_after, is_recreated=is_recreated
        )


_INPUTS = ("engine", "policies", "evidence")


def moved_inputs(saved: Plan, current: Plan) -> list[str]:
    """Return the inputs of a saved plan that are different now, in words."""
    sides = [
        f"the {side} ({was.label}): {was.tree} is now {now.tree}"
        for side, was, now in (("base", saved.base, current.base), ("head", saved.head, current.head))
        if was.tree != now.tree
    ]
    return sides + [
        f"{name}: {getattr(saved, name)} is now {getattr(current, name)}"
        for name in _INPUTS
        if getattr(saved, name) != getattr(current, name)
    ]


def moved_objects(saved: Iterable[PlannedObject], current: Iterable[PlannedObject]) -> list[str]:
    """Return the paths whose change is another than that of the saved plan.

    An object that the saved plan changes and the current one does not is as desired by now: an earlier run got there.
    One that the saved plan recreates may be missing, because an earlier run was interrupted between the two requests.
    """
    known = frozenset(saved)
    known |= {PlannedObject(path=one.path, after=one.after) for one in known if one.is_recreated}
    return sorted({planned.path for planned in current if planned not in known})


def steps_of(
    plan: Plan, folder: str, desired: Mapping[str, ObjectSummary], existing: Mapping[str, ObjectSummary]
) -> tuple[Step, ...]:
    """Return the steps of a plan, also of refused changes. `desired` and `existing` hold summaries by path."""
    steps: list[Step] = []
    for change in plan.changes:
        path, old = (name.removeprefix(f"{folder}/") for name in (change.path, change.moved_from))
        if change.operation is Operation.DELETE or old:
            steps.append(Step(verb=Verb.DELETE, summary=existing[old or path]))
        if change.operation is Operation.UPDATE or change.recreated or change.is_refused:
            verb = Verb.RECREATE if change.recreated else Verb.UPDATE
            steps.append(Step(verb=verb, summary=desired[path], before=existing[path]))
        elif change.operation is Operation.CREATE or old:
            steps.append(Step(verb=Verb.CREATE, summary=desired[path], replaces=old))
    return tuple(steps)

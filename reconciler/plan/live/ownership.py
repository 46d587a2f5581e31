"""Whose a live object is: ours, of another config repository, or of nobody that we know."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.kinds.manifests.ownership import LABEL, OWNER
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.values import enumerated
from reconciler.plan.live.choices import NO_CHOICES, LiveChoices
from reconciler.plan.live.inventory import Claims, InventoryClaim, claimants
from reconciler.plan.live.inventory_form import RELEASED
from reconciler.plan.live.managers import last_writer
from reconciler.plan.live.reading import LiveIdentity

CLAIMED = "live.claimed"
"""Rule of an object that another config repository applies as well."""

FOREIGN = "live.foreign"
"""Rule of an object of the same name that is not ours."""


class Ownership(Struct, frozen=True, kw_only=True, eq=False):
    """What the inventories of one cluster say, and the objects that a person chose to adopt.

    uids: those of our inventory. claims: those of others.
    """

    uids: Mapping[ObjectKey, frozenset[str]] = {}
    claims: Claims = {}
    choices: LiveChoices = NO_CHOICES

    def is_listed(self, one: LiveIdentity) -> bool:
        """Whether our inventory lists an object, or its creation was begun. Only those are ever deleted."""
        return not self._uids(one.key).isdisjoint({one.version.uid, ""})

    def applied(
        self, missing: Mapping[str, ObjectKey], *, without: Collection[str], base: Collection[str]
    ) -> dict[str, ObjectKey]:
        """Return the missing objects, by path, that our inventory lists with a UID: they existed once.

        base: paths of the objects that Git had before, if that is known; the others are new.
        """
        return {
            path: key
            for path, key in missing.items()
            if self.was_applied(key) and path not in without and (path in base or not base)
        }

    def was_applied(self, key: ObjectKey) -> bool:
        """Whether our inventory lists an object of this name with a UID: one that we applied, and did not release."""
        return any(uid not in ("", RELEASED) for uid in self._uids(key))

    def was_released(self, key: ObjectKey) -> bool:
        """Whether the object of this name was handed over."""
        return RELEASED in self._uids(key)

    def claims_of(self, key: ObjectKey, uid: str) -> tuple[InventoryClaim, ...]:
        """Return the other config repositories that list an object. A creation that was begun counts if it is new."""
        found = claimants(self.claims, key, uid)
        return tuple(claim for claim in found if claim.uid) if uid in self._uids(key) else found

    def leaves(self, key: ObjectKey) -> bool:
        """Whether an object of this name that is not ours stays as it is, without forbidding the plan."""
        if self.was_released(key):
            return not self.adopts(key)
        return self.was_applied(key) and not (self.adopts(key) or self.choices.matches(key))

    def adopts(self, key: ObjectKey) -> bool:
        """Whether a person chose to adopt an object by its name."""
        return self.choices.adopts(key, is_equal=False)

    def _uids(self, key: ObjectKey) -> frozenset[str]:
        return self.uids.get(key, frozenset())


def claimed(place: SourceRef, key: ObjectKey, source: str, claims: tuple[InventoryClaim, ...]) -> Problem:
    """Return the problem of an object that several config repositories define."""
    return Problem(
        rule=CLAIMED,
        place=place,
        message=f"{' and '.join(map(str, claims))} applied this object, and config repository {source} defines it, too",
        hint=f"define it in one of them; to take it over: reconciler plan --live --adopt {key}",
    )


_SHOWN = 5  # fields of one object


def foreign(
    place: SourceRef, key: ObjectKey, live: Mapping[str, Any], ownership: Ownership, changed: Sequence[str]
) -> Problem:
    """Return the problem of a live object that is not ours. `changed`: the fields that its adoption changes.

    It forbids the plan if Git asks for a name that somebody else has. No change of Git is to blame for an object that
    we had applied and that others took: then it only stays as it is, so that one object does not stop all others.
    """
    adopt = f"adopt the object: reconciler plan --live --adopt {key}"
    last = f"last written by {whose(live)}"
    if ownership.was_released(key):
        message, hint = "the object was released; it stays as it is", f"remove it from Git, or {adopt}"
    elif ownership.was_applied(key):
        message = f"the object that we applied was deleted, and another one has its name; {last}; it stays as it is"
        hint = f"delete it, remove it from Git, or {adopt}"
    else:
        more = [f"{len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else []
        effect = f"change {enumerated([*changed[:_SHOWN], *more])}" if changed else "change none of its fields"
        message = f"an object of this name exists on the cluster and is not ours (no label {LABEL}: {OWNER}); {last}; "
        message += f"adopting it would {effect}"
        hint = f"choose another name, or {adopt}"
    return Problem(
        rule=FOREIGN,
        place=place,
        message=message,
        hint=hint,
        severity=Severity.WARNING if ownership.leaves(key) else Severity.ERROR,
    )


def whose(live: Mapping[str, Any]) -> str:
    """Return who wrote an object last, besides us."""
    return last_writer(live) or "somebody unknown"

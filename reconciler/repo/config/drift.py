"""`spec.drift`: what happens to fields of live objects that others changed."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Violation
from reconciler.kube.secrets import mask_text
from reconciler.kube.times import is_date
from reconciler.kube.yaml import Document


class DriftAction(StrEnum):
    """The treatment of a drifted field."""

    REVERT = "revert"  # an apply sets it back
    ADOPT = "adopt"  # it stays, and an edit of the source is proposed
    IGNORE = "ignore"  # it stays until a rule expires


class DriftRule(Struct, frozen=True, kw_only=True):
    """One rule about drifted fields. Empty kind, namespace, name, fields or manager: any.

    fields: paths as plans print them, each with everything below it. expires: last day of the rule, YYYY-MM-DD.
    """

    action: DriftAction
    kind: str = ""
    namespace: str = ""
    name: str = ""
    fields: tuple[str, ...] = ()
    manager: str = ""
    reason: str = ""
    expires: str = ""
    place: SourceRef = SourceRef(path="reconciler.yaml")

    def covers(self, key: ObjectKey, field: str, managers: tuple[str, ...]) -> bool:
        """Return whether the rule is about a field of an object, which these managers changed."""
        return self.is_about(key) and self._covers_field(field) and (not self.manager or self.manager in managers)

    def is_about(self, key: ObjectKey) -> bool:
        """Return whether the rule is about fields of an object."""
        wanted = (self.kind, key.kind), (self.namespace, key.namespace), (self.name, key.name)
        return all(one in ("", other) for one, other in wanted)

    def _covers_field(self, field: str) -> bool:
        return not self.fields or any(field == one or field.startswith((f"{one}.", f"{one}[")) for one in self.fields)

    def is_expired(self, day: str) -> bool:
        """Return whether the rule has no effect on a day (YYYY-MM-DD)."""
        return bool(self.expires) and day > self.expires

    def __str__(self) -> str:
        target = "/".join(part or "*" for part in (self.kind, self.namespace, self.name)).removesuffix("/*/*")
        words = [str(self.action), target, ", ".join(self.fields) or "all fields"]
        words += [f"of {self.manager}"] if self.manager else []
        return " ".join([*words, *([f"through {self.expires}"] if self.expires else [])])


class DriftPolicy(Struct, frozen=True, kw_only=True):
    """The treatment of drift: the first rule that covers a field decides, and else `action`."""

    action: DriftAction = DriftAction.REVERT
    rules: tuple[DriftRule, ...] = ()

    def may_leave(self, key: ObjectKey, day: str) -> bool:
        """Return whether any drift of an object may be left as it is."""
        rules = (rule for rule in self.rules if rule.is_about(key) and not rule.is_expired(day))
        return self.action is not DriftAction.REVERT or any(rule.action is not DriftAction.REVERT for rule in rules)

    def rule_for(self, key: ObjectKey, field: str, managers: tuple[str, ...], day: str) -> DriftRule:
        """Return the rule that decides on a field; one without a reason if none covers it."""
        found = (rule for rule in self.rules if not rule.is_expired(day) and rule.covers(key, field, managers))
        return next(found, DriftRule(action=self.action))


def parse_drift(document: Document, spec: Mapping[str, Any]) -> DriftPolicy:
    """Read `spec.drift` of a document that its schema has accepted."""
    drift = spec.get("drift", {})
    return DriftPolicy(
        action=DriftAction(drift.get("action", DriftAction.REVERT)),
        rules=tuple(
            DriftRule(
                action=DriftAction(entry["action"]),
                kind=entry.get("kind", ""),
                namespace=entry.get("namespace", ""),
                name=entry.get("name", ""),
                fields=tuple(entry.get("fields", ())),
                manager=entry.get("manager", ""),
                reason=mask_text(entry.get("reason", "").strip()),
                expires=entry.get("expires", ""),
                place=document.at(("spec", "drift", "rules", position)),
            )
            for position, entry in enumerate(drift.get("rules", ()))
        ),
    )


def drift_violations(spec: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield what the schema cannot say: a rule that ignores drift needs a reason and a last day."""
    for position, entry in enumerate(spec.get("drift", {}).get("rules", ())):
        path = ("spec", "drift", "rules", position)
        expires = entry.get("expires", "")
        if expires and not is_date(expires):
            message = f"{expires[:40]!r} is not a date"
            yield Violation(rule="config.drift", path=(*path, "expires"), message=message, hint="write YYYY-MM-DD")
        missing = [name for name in ("reason", "expires") if not entry.get(name, "").strip()]
        if entry["action"] == DriftAction.IGNORE and missing:
            message = f"a rule that ignores drift needs {' and '.join(missing)}"
            hint = "state why Git is not right here, and until when: expires: YYYY-MM-DD"
            yield Violation(rule="config.drift", path=path, message=message, hint=hint)

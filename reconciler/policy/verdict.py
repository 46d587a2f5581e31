"""`Verdict`: the result of one rule for one object."""

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from reconciler.kube.objects import ObjectKey, SourceRef


class Result(StrEnum):
    """The result of a rule. Only `deny` and `error` block a commit; `excepted` is a denial with an exception."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"
    ERROR = "error"
    EXCEPTED = "excepted"


class Verdict(Struct, frozen=True, kw_only=True):
    """A rule that did not pass. `place` is the source of the object, not the rendered file.

    labels: those of the object, until exceptions have been applied; rules over all objects do not know them.
    cause: another object that `field` and `place` are of, until its line is known.
    """

    rule: str
    result: Result
    cluster: str
    key: ObjectKey
    place: SourceRef
    message: str
    hint: str = ""
    field: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    cause: ObjectKey | UnsetType = UNSET

    @property
    def sort_key(self) -> tuple[str, int, int, str, str, str]:
        """Order by place, then rule: the order of every listing."""
        return (self.place.path, self.place.line, self.place.column, self.rule, str(self.key), self.message)

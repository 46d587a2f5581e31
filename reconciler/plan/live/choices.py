"""The decisions of people and earlier passes about live objects, besides the repository."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from reconciler.kube.objects import ObjectKey


class ContestedField(Struct, frozen=True, kw_only=True, order=True):
    """A field that another controller keeps changing back: we no longer write it.

    An empty field is the whole object: somebody keeps deleting it, and we no longer create it.
    """

    cluster: str
    object: str  # such as `ConfigMap/team-a/settings`
    field: str


ALL = "all"
"""Stands for every object that is not ours."""


def is_pattern(word: str) -> bool:
    """Return whether a word names objects by a pattern such as `Deployment/team-a/*`, not one object."""
    return word == ALL or any(sign in word for sign in "*?[")


class LiveChoices(Struct, frozen=True, kw_only=True):
    """Decisions about live objects.

    adopt: objects that are not ours and become ours, such as `ConfigMap/team-a/settings`; patterns and `all` stand for
        objects of nobody else whose fields all stay as they are.
    contested: fields that stay as they are, because somebody keeps changing them back.
    reviewed: creations that their servers accepted in the dry run of a saved plan: blob ids by path.
    today: the day (YYYY-MM-DD) at which rules about drift expire; empty: the date of the plan.
    """

    adopt: frozenset[str] = frozenset()
    contested: frozenset[ContestedField] = frozenset()
    reviewed: Mapping[str, str] = {}
    today: str = ""

    def adopts(self, key: ObjectKey, *, is_equal: bool) -> bool:
        """Return whether an object becomes ours. is_equal: an apply changes none of its fields."""
        return str(key) in self.adopt or (is_equal and self.matches(key))

    def matches(self, key: ObjectKey) -> bool:
        """Return whether a pattern names an object."""
        patterns = ("*" if word == ALL else word for word in self.adopt if is_pattern(word))
        return any(fnmatchcase(str(key), pattern) for pattern in patterns)

    def is_contested(self, cluster: str, key: ObjectKey, field: str) -> bool:
        """Return whether a field is contested, or a part of one that is."""
        return ContestedField(cluster=cluster, object=str(key), field=field) in self.contested

    def contests(self, cluster: str, key: ObjectKey) -> bool:
        """Return whether any field of an object is contested."""
        return any((one.cluster, one.object) == (cluster, str(key)) for one in self.contested)


NO_CHOICES = LiveChoices()

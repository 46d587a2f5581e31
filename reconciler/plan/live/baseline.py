"""`LiveBaseline`: the objects of live clusters as what exists, and what their servers say to the changes.

`comparing.read_live` makes one. Nothing in it changes afterwards.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.ownership import is_kept
from reconciler.kinds.summary import summarize
from reconciler.kube.client.port import Body
from reconciler.kube.items import ListKeys
from reconciler.kube.objects import FieldPath, ObjectKey
from reconciler.kube.problems import Problem
from reconciler.kube.schemas import Catalogue
from reconciler.plan import Drift, LiveState
from reconciler.plan.baseline import ExistingObject
from reconciler.plan.differences import Quantities, in_notation_of
from reconciler.plan.live.additions import find_additions, read_names
from reconciler.plan.live.annotations import is_created_once
from reconciler.plan.live.controlled import ControlledField, as_sent, controlled_fields, without_controlled
from reconciler.plan.live.drift import DriftRules
from reconciler.plan.live.managers import trees_of_others
from reconciler.plan.live.projection import content_version, plain, without
from reconciler.plan.live.reading import LiveIdentity


class LiveFields(Struct, frozen=True, kw_only=True, eq=False):
    """The meaning of the fields of live objects: the kinds, whose controllers write some of them, and the schemas."""

    kinds: Kinds
    catalogue: Catalogue

    def controlled(self, live: Mapping[str, Any]) -> tuple[ControlledField, ...]:
        """Return the fields of a live object that other controllers write."""
        return controlled_fields(self.kinds, live)

    def additions(self, desired: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[FieldPath, ...]:
        """Return the paths of what people added to a live object beside ours."""
        if is_created_once(desired) or not trees_of_others(live):
            return ()
        controlled = [field.path for field in self.controlled(live)]
        return find_additions(read_names(self.kinds), desired, live, controlled)

    def list_keys(self, key: ObjectKey) -> ListKeys:
        """Return what tells the keys of the lists of an object."""
        return partial(self.catalogue.list_keys, key.group, key.kind)

    def quantities(self, key: ObjectKey) -> Quantities:
        """Return what tells which fields of an object are quantities."""
        return partial(self.catalogue.is_quantity, key.group, key.kind)

    def sent(
        self, desired: Mapping[str, Any], live: Mapping[str, Any], omitted: Sequence[FieldPath]
    ) -> Mapping[str, Any]:
        """Return what an apply sends of a desired object: neither omitted fields nor those of other controllers.

        Quantities are sent as they are stored: a rule that compares old and new values may find `"1"` and 1 different.
        """
        kind = self.kinds.of(live).id
        list_keys, is_quantity = partial(self.catalogue.list_keys, *kind), partial(self.catalogue.is_quantity, *kind)
        written = in_notation_of(live, without(desired, omitted), list_keys, is_quantity)
        return as_sent(written, live, self.controlled(live), list_keys)

    def version_of(self, live: Mapping[str, Any], omitted: Sequence[FieldPath]) -> str:
        """Return the version of a live object, in which what others may change at any time has no part."""
        return content_version(without_controlled(live, self.controlled(live)), omitted)


class LiveContent(Struct, frozen=True, kw_only=True, eq=False):
    """A live object as it was read, in JSON.

    compared: as it is compared with the desired one, without what servers and others add. counted: as GPUs are counted.
    Either is empty where it is the object as it is.
    """

    whole: bytes
    compared: bytes = b""
    counted: bytes = b""


class LiveObject(Struct, frozen=True, kw_only=True, eq=False):
    """The object at one path of a live cluster.

    version: the blob id of the desired content if it is as desired, or if an apply leaves it alone (`is_as_desired`);
        else the UID with a digest of the content.
    identity: of an object that is ours or becomes ours. content: None if it was not read, or is gone by now.
    foreign: the problem of an object that is not ours, or not ours alone.
    adopted: whose the object is that becomes ours, in words.
    left: drift that stays as it is, and `omitted` the fields that an apply does not send because of that.
    added: what others added and an apply removes.
    is_accepted: it differs, and its server takes the change.
    """

    version: str
    is_as_desired: bool = False
    identity: LiveIdentity | None = None
    content: LiveContent | None = None
    foreign: Problem | None = None
    adopted: str = ""
    left: tuple[Drift, ...] = ()
    omitted: tuple[FieldPath, ...] = ()
    added: tuple[FieldPath, ...] = ()
    is_accepted: bool = False


class Doubt(Struct, frozen=True, kw_only=True):
    """A refusal of a server (`is_refused`), or its silence, about a desired object or a kind."""

    path: str
    message: str
    field: str = ""
    hint: str = ""
    is_refused: bool = False


class LiveBaseline(Struct, frozen=True, kw_only=True, eq=False):
    """The objects of live clusters, by path. One that is as desired has the blob id of its desired content.

    versions: of all objects. found: those that are not as desired, or that keep drift. deleted: those that somebody
    deleted. rules: what decided about drift and adoption. warnings: of servers. released: objects of our inventories
    that are external now, by cluster. contents: what else is in namespaces that an apply deletes, by path.
    """

    fields: LiveFields
    rules: DriftRules
    versions: Mapping[str, str]
    found: Mapping[str, LiveObject]
    deleted: Mapping[str, tuple[Drift, ...]]
    doubts: tuple[Doubt, ...]
    warnings: Mapping[str, tuple[str, ...]]
    states: tuple[LiveState, ...]
    released: Mapping[str, tuple[ObjectKey, ...]] = {}
    contents: Mapping[str, tuple[str, ...]] = {}

    # As a `Baseline`.

    @property
    def sources(self) -> Mapping[str, str]:
        """Nothing: the objects are those of servers."""
        return {}

    def differing(self, desired: Mapping[str, str]) -> list[str]:
        """Return the paths of live objects that are not as desired."""
        return [path for path, version in self.versions.items() if desired.get(path) != version]

    def objects(self, paths: Iterable[str]) -> Mapping[str, ExistingObject]:
        """Summarize live objects."""
        return {path: self._summarized(path) for path in paths}

    def body(self, path: str) -> Mapping[str, Any] | None:
        """Return the live object as it is compared: without what servers and others add."""
        one = self.found.get(path)
        if one is None or one.content is None:
            return None
        return _decoded(one.content.compared) if one.content.compared else plain(_decoded(one.content.whole))

    def foreign(self, path: str) -> Problem:
        """Return the problem of a live object that is not ours, or not ours alone."""
        problem = self.found[path].foreign
        if problem is None:
            raise AssertionError("only an object that is not ours has such a problem")
        return problem

    # Of live clusters alone.

    def live(self, path: str) -> Body | None:
        """Return a live object as it was read, whole; None if it is gone or was not read."""
        one = self.found.get(path)
        return None if one is None or one.content is None else _decoded(one.content.whole)

    def identities(self) -> dict[str, LiveIdentity]:
        """Return the identities of all objects of ours that differ, by path."""
        return {
            path: one.identity for path, one in self.found.items() if one.identity is not None and not one.is_as_desired
        }

    def adopted(self) -> dict[str, str]:
        """Return whose the objects are that become ours, by path."""
        return {path: one.adopted for path, one in self.found.items() if one.adopted}

    def left(self) -> dict[str, tuple[Drift, ...]]:
        """Return the drift that stays as it is, by path."""
        return {path: one.left for path, one in self.found.items() if one.left}

    def omitted(self, path: str) -> tuple[FieldPath, ...]:
        """Return the fields of an object that an apply does not send."""
        return self.found[path].omitted if path in self.found else ()

    def added(self, path: str) -> tuple[FieldPath, ...]:
        """Return what others added to an object and an apply removes."""
        return self.found[path].added if path in self.found else ()

    def is_accepted(self, path: str) -> bool:
        """Return whether an object differs, and its server takes the change."""
        return path in self.found and self.found[path].is_accepted

    def sent(self, path: str, desired: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what an apply sends of a desired object: neither drift that stays nor fields of other controllers."""
        return self.fields.sent(desired, live, self.omitted(path))

    def version_of(self, path: str, live: Mapping[str, Any]) -> str:
        """Return the version of a live object, in which what others may change at any time has no part."""
        return self.fields.version_of(live, self.omitted(path))

    def _summarized(self, path: str) -> ExistingObject:
        one = self.found.get(path)
        is_owned = one is None or one.foreign is None
        if one is None or one.content is None:
            return ExistingObject(is_owned=is_owned, summary=None)
        body, cluster = plain(_decoded(one.content.counted or one.content.whole)), path.partition("/")[0]
        summary = summarize(self.fields.kinds, cluster=cluster, body=body, path=path, digest=one.version)
        return ExistingObject(is_owned=is_owned, summary=summary, is_kept=is_kept(self.body(path) or {}))


def _decoded(content: bytes) -> Body:
    body: Body = msgspec.json.decode(content)
    return body

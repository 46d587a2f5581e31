"""`LiveBaseline`: the objects of live clusters as what exists, and what their servers say to the changes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import UnsafePlan
from reconciler.index.build import CompiledRevision, Runtime
from reconciler.index.renderer import Renderer
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.manifests.ownership import LABEL, LABEL_PATH, OWNER, is_kept
from reconciler.kinds.summary import summarize
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.objects import FieldPath, ObjectKey, SourceRef, split_api_version
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.secrets import KnownSecrets, secret_leaves
from reconciler.kube.values import enumerated, pruned
from reconciler.plan import Drift, LiveState, LiveVersion
from reconciler.plan.baseline import Baseline, ExistingObject
from reconciler.plan.differences import differences
from reconciler.plan.live.annotations import is_created_once
from reconciler.plan.live.choices import NO_CHOICES, LiveChoices
from reconciler.plan.live.controlled import ControlledField, as_desired, as_sent, controlled_fields, without_controlled
from reconciler.plan.live.creations import Places, created_places, still_absent
from reconciler.plan.live.drift import DriftRules, absences, contested_deletions, settle, taken
from reconciler.plan.live.inventory import Claims, InventoryClaim, claimants, identity_of, place_of
from reconciler.plan.live.inventory_record import RELEASED
from reconciler.plan.live.managers import last_writer, without_given_up
from reconciler.plan.live.probe import Probe, ServerReply, changes_nothing, probe
from reconciler.plan.live.projection import content_version, holds, plain, project, without
from reconciler.plan.live.proofs import load_proofs, proof, save_proofs
from reconciler.plan.live.reading import (
    BodyReader,
    ClusterReading,
    LiveIdentity,
    Owned,
    ReadingScope,
    at_once,
    is_controlled,
    kind_token,
    read_clusters,
    version_of,
)

# Whose a live object is: ours, of another config repository, or of nobody that we know.


CLAIMED = "live.claimed"
"""Rule of an object that another config repository applies as well."""

FOREIGN = "live.foreign"
"""Rule of an object of the same name that is not ours."""


class Ownership(Struct, frozen=True, kw_only=True, eq=False):
    """The inventories of one cluster, and the objects that a person chose to adopt.

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


# What a server refuses or cannot say, as a plan reports it.


_HINTS = {
    ServerReply.NO_PLACE: "add its namespace or its CRD to the sources, or create it",
    ServerReply.REFUSED: "change the object, or what refuses it",
    ServerReply.GOING: "plan again when the namespace is gone",
    ServerReply.UNKNOWN: "plan again when the server can answer",
}


class Doubt(Struct, frozen=True, kw_only=True):
    """A refusal of a server (`is_refused`), or its silence, about a desired object or a kind."""

    path: str
    message: str
    field: str = ""
    hint: str = ""
    is_refused: bool = False


def doubt_of(path: str, answer: Probe, body: Mapping[str, Any]) -> Doubt:
    """Return why a dry run of a desired object failed, without its secrets."""
    return Doubt(
        path=path,
        message=KnownSecrets(secret_leaves(body)).mask(answer.message),
        field=answer.causes[0].field if len(answer.causes) == 1 else "",
        hint=_HINTS[answer.reply],
        is_refused=answer.reply not in (ServerReply.UNKNOWN, ServerReply.GOING),
    )


_CHUNK = 256  # source files that are rendered at one time


class DesiredCluster(Struct, frozen=True, kw_only=True, eq=False):
    """One cluster, and what is desired there.

    keys: desired objects by path. places: those that others wait for.
    reviewed: blob ids of creations that the server accepted in the dry run of a saved plan.
    ownership: whose the objects there are.
    """

    name: str
    live: LiveCluster
    index: CompiledRevision
    renderer: Renderer
    keys: Mapping[str, ObjectKey]
    places: Places
    reviewed: Mapping[str, str]
    ownership: Ownership = Ownership()


class LiveBaseline:
    """The objects of live clusters, by path. One that is as desired has the blob id of its desired content.

    rules: what decides about drift and adoption. existing: `rendered/` of the base.

    adopted: whose the objects are that become ours, in words. left: drift that stays as it is, and `omitted` the fields
    that an apply does not send because of that. deleted: objects that somebody deleted. All are by path.
    """

    def __init__(
        self,
        runtime: Runtime,
        clusters: Mapping[str, LiveCluster],
        folder: str,
        rules: DriftRules,
        existing: Baseline,
    ) -> None:
        self._runtime = runtime
        self._clusters = clusters
        self._folder = folder
        self.rules = rules
        self._existing = existing
        self.left: dict[str, tuple[Drift, ...]] = {}
        self.omitted: dict[str, tuple[FieldPath, ...]] = {}
        self.deleted: dict[str, tuple[Drift, ...]] = {}
        self.adopted: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._identities: dict[str, LiveIdentity] = {}
        self._foreign: dict[str, Problem] = {}
        self.accepted: set[str] = set()  # existing objects that differ, and whose server takes the change
        self._live: dict[str, bytes] = {}  # whole live objects
        self._projected: dict[str, bytes] = {}  # as they are compared
        self._counted: dict[str, bytes] = {}  # as GPUs are counted, where that is not the live object as it is
        self.doubts: list[Doubt] = []
        self.warnings: dict[str, tuple[str, ...]] = {}
        self.states: list[LiveState] = []

    # As a `Baseline`.

    @property
    def versions(self) -> Mapping[str, str]:
        """Blob ids of what is as desired, else UIDs with a digest of the content, by path."""
        return self._versions

    def differing(self, desired: Mapping[str, str]) -> list[str]:
        """Return the paths of live objects that are not as desired."""
        return [path for path, version in self._versions.items() if desired.get(path) != version]

    def objects(self, paths: Iterable[str]) -> Mapping[str, ExistingObject]:
        """Summarize live objects; those that are not read yet are read."""
        wanted = list(paths)
        self._fetch([path for path in wanted if path not in self._live and path in self._identities])
        return {path: self._object(path) for path in wanted}

    def body(self, path: str) -> Mapping[str, Any] | None:
        """Return the live object as it is compared: without what servers and others add."""
        raw = self._projected.get(path)
        if raw is None:
            live = self.live(path)
            return None if live is None else plain(live)
        body: Body = msgspec.json.decode(raw)
        return body

    def foreign(self, path: str) -> Problem:
        """Return the problem of a live object that is not ours, or not ours alone."""
        return self._foreign[path]

    # Of live clusters alone.

    def live(self, path: str) -> Body | None:
        """Return a live object as it was read, whole; None if it is gone or was not read."""
        raw = self._live.get(path)
        return None if raw is None else msgspec.json.decode(raw)

    def key(self, path: str) -> ObjectKey:
        """Return the identity of a live object that differs."""
        return self._identities[path].key

    def live_versions(self) -> dict[str, LiveVersion]:
        """Return the versions of all live objects that differ, by path."""
        return {path: one.version for path, one in self._identities.items()}

    def judge(self, one: DesiredCluster, reading: ClusterReading) -> None:
        """Compare one cluster, as it was read, with its desired objects; ask it about every create and update."""
        owned, keys = reading.owned, one.keys
        desired = {path: one.index.desired[path] for path in keys}
        missing = {path: key for path, key in keys.items() if path not in owned.identities}
        self.left |= (gone := contested_deletions(self.rules.choices, one.index, one.name, missing))
        ended = desired.keys() & one.index.context.finished().keys() | gone.keys()  # never applied again
        ownership = self._ownership(one.name, reading)
        one = replace(one, ownership=ownership)
        blind = self._doubt_kinds(one.name, owned, keys)
        before = load_proofs(self._runtime.cache, one.live.server)
        proofs: dict[str, tuple[str, str, str]] = {}
        for path, found in owned.identities.items():
            if path in ended or self._belongs_to_others(path, found, ownership, one.index, is_desired=path in desired):
                continue
            is_proven = path in desired and before.get(path) == proof(desired[path], found.version)
            if is_proven and not found.is_terminating and path not in self.adopted:
                proofs[path] = before[path]
                self._versions[path] = desired[path]
            elif path in desired or (not found.is_terminating and ownership.is_listed(found)):
                self._identities[path] = found
                self._versions[path] = f"{found.version.uid}/{found.version.resource_version}"
        for path in sorted(owned.taken.keys() & desired.keys() - ended):
            if ownership.leaves(keys[path]):
                self._meet(one, path, owned.taken[path])
        for path in (*blind, *ended):
            self._versions[path] = desired[path]
        known_already = proofs.keys() | blind | ended | self._foreign.keys()
        unchecked: list[str] = []
        asked = [path for path in keys if path not in known_already]
        for path in self._ask(one, self._to_ask(one, owned, asked, unchecked), unchecked):
            identity = self._identities.pop(path)
            if path not in self.left:  # the policy may decide otherwise next time
                proofs[path] = proof(desired[path], identity.version)
            self._versions[path] = desired[path]
        save_proofs(self._runtime.cache, one.live.server, before, proofs)
        applied = ownership.applied(missing, without=self._versions, base=self._existing.versions)
        self.deleted |= absences(one.index, one.name, applied)
        self.states.append(
            LiveState(
                cluster=one.name,
                server=one.live.server,
                version=reading.version,
                objects=len(owned.identities),
                unchecked=tuple(sorted(unchecked)),
                unknown=tuple(sorted(str(keys[path]) for path in blind)),
            )
        )

    @staticmethod
    def _to_ask(one: DesiredCluster, owned: Owned, paths: Sequence[str], unchecked: list[str]) -> list[str]:
        """Return what to ask the server about: without creations that it cannot judge yet, or has judged before."""
        new = {path: one.keys[path] for path in paths if path not in owned.identities}
        missing = one.places.missing(one.live, new)
        unchecked += [str(new[path]) for path in missing]
        known = {
            path: key
            for path, key in new.items()
            if path not in missing and one.reviewed.get(path) == one.index.desired[path]
        }
        unasked = missing | still_absent(one.live, known)
        return [path for path in paths if path not in unasked]

    def _ownership(self, name: str, reading: ClusterReading) -> Ownership:
        """Return what the inventories say: what is not in ours is never deleted, what is in another never changed."""
        if isinstance(reading.failure, UnsafePlan):
            self._doubt("", reading.failure.message, hint=reading.failure.hint, is_refused=True)
        elif reading.failure is not None:
            text = f"it is not known which objects of {name} are ours: {reading.failure.message}"
            self._doubt("", text, hint=f"allow `list` on ConfigMaps in {self._runtime.inventory_namespace}")
        found = reading.inventories
        return Ownership(uids=found.own.uids(), claims=found.claims, choices=self.rules.choices)

    def _belongs_to_others(
        self, path: str, one: LiveIdentity, ownership: Ownership, index: CompiledRevision, *, is_desired: bool
    ) -> bool:
        """Return whether another config repository applied an object. One that we define is a problem, unless adopted.

        What we define no more is theirs, and not deleted.
        """
        claims = ownership.claims_of(one.key, one.version.uid)
        if not claims or not is_desired:
            return bool(claims)
        if ownership.adopts(one.key):
            self.adopted[path] = " and ".join(map(str, claims))
            return False
        place = SourceRef(path=f"{self._folder}/{path}")
        self._foreign[path] = claimed(place, one.key, index.revision.config.name, claims)
        self._versions[path] = one.version.uid
        return True

    def _doubt_kinds(self, name: str, owned: Owned, keys: Mapping[str, ObjectKey]) -> set[str]:
        """Note which kinds could not be read, and return the desired objects of these kinds."""
        for (group, kind), message in sorted(owned.failed.items()):
            what = f"{kind}.{group}" if group else kind
            text = f"it is not known which objects of {what} exist on {name}: {message}"
            self.doubts.append(Doubt(path="", message=text, hint="allow `list` on them, or wait for the server"))
        return {path for path, key in keys.items() if (key.group, key.kind) in owned.failed}

    def _ask(self, one: DesiredCluster, paths: Sequence[str], unchecked: list[str]) -> Iterator[str]:
        """Compare desired objects with live ones and ask the server where that does not tell; yield those in sync."""
        keys, known = one.keys, {path: self._identities[path] for path in paths if path in self._identities}
        reader = BodyReader(one.live, known)
        for manifests in _rendered(one.renderer, paths):
            existing = {path: self._identities[path].key for path in manifests if path in self._identities}
            versions = {path: split_api_version(manifests[path].body["apiVersion"])[1] for path in existing}
            live = reader.read(existing, versions)
            for path in existing.keys() - live.keys():  # gone since it was listed
                del self._identities[path], self._versions[path]
            asked, ours = list[str](), live.keys() - self.adopted.keys()
            for path in manifests:
                body = manifests[path].body
                if path in live and self._identities[path].is_terminating:
                    self._keep(path, keys[path], live[path], body, None)
                    self._doubt(path, "the object is being deleted on the cluster", hint="plan again when it is gone")
                elif path in ours and (is_created_once(body) or self._holds(keys[path], body, live[path])):
                    yield path
                else:
                    asked.append(path)
            questions = self._questions({path: manifests[path] for path in asked}, live)
            answers = at_once(lambda body: probe(one.live, body), questions.values())
            for path, answer in zip(questions, answers, strict=True):
                if self._judge(one, path, manifests[path].body, live.get(path), answer, unchecked):
                    yield path

    def _holds(self, key: ObjectKey, body: Mapping[str, Any], live: Body) -> bool:
        """Return whether an apply would surely change nothing."""
        keys = self._list_keys(key)
        return holds(as_sent(body, live, self._controlled(live), keys), live, keys)

    def _controlled(self, live: Mapping[str, Any]) -> tuple[ControlledField, ...]:
        return controlled_fields(self._runtime.kinds, live)

    def _questions(self, manifests: Mapping[str, Manifest], live: Mapping[str, Body]) -> dict[str, Mapping[str, Any]]:
        """Return what is dry-run, by path. The objects of the base are read at one time."""
        self._existing.objects(path for path in manifests if path in live and path in self._existing.versions)
        return {
            path: self._settle(path, manifest, live[path]) if path in live else manifest.body
            for path, manifest in manifests.items()
        }

    def _settle(self, path: str, manifest: Manifest, live: Body) -> Mapping[str, Any]:
        """Return what an apply sends, and note the drift that it leaves."""
        before = self._existing.body(path) if path in self._existing.versions else None
        file = f"{self._folder}/{path}"
        fields = self._controlled(live)
        compared = as_desired(live, manifest.body, fields)
        settled = settle(self.rules, manifest, compared, before, self._runtime.catalogue, file)
        if settled.left:
            self.left[path], self.omitted[path] = settled.left, settled.omitted
            self._live[path] = msgspec.json.encode(live)
        return self.sent(path, settled.body, live)

    def _judge(  # noqa: PLR0917
        self,
        one: DesiredCluster,
        path: str,
        body: Mapping[str, Any],
        live: Body | None,
        answer: Probe,
        unchecked: list[str],
    ) -> bool:
        """Note what the server said to one object; return whether the object is in sync."""
        key = one.keys[path]
        met, answer = (None, answer) if live is not None or answer.is_new else self._in_the_way(one, path, body, answer)
        if answer.warnings:
            secrets = KnownSecrets(secret_leaves(body))
            self.warnings[path] = tuple(map(secrets.mask, answer.warnings))
        after = answer.result
        if answer.reply is ServerReply.ACCEPTED and live is not None and after is not None:
            after = without_given_up(live, after)
            is_quantity = partial(self._runtime.catalogue.is_quantity, key.group, key.kind)
            if path not in self.adopted and changes_nothing(live, after, self._list_keys(key), is_quantity):
                return True
            self.accepted.add(path)
        elif answer.reply is ServerReply.ACCEPTED and met is not None:
            live = met
            self._meet(one, path, live, self._changed(key, live, body, answer.result))
        elif answer.reply is not ServerReply.ACCEPTED and live is None and one.places.explain(key, answer):
            unchecked.append(str(key))
        elif answer.reply is not ServerReply.ACCEPTED:
            self.doubts.append(doubt_of(path, answer, body))
        if live is not None:
            self._keep(path, key, live, body, after)
        return False

    def _in_the_way(
        self, one: DesiredCluster, path: str, body: Mapping[str, Any], answer: Probe
    ) -> tuple[Body | None, Probe]:
        """Return an existing object that is not ours, and what the server says without the fields of controllers."""
        try:
            live = one.live.get(one.keys[path], version=split_api_version(body["apiVersion"])[1])
        except ClusterError:
            return None, answer  # the answer to the dry run says why
        if live is not None and self._controlled(live):
            answer = probe(one.live, self.sent(path, body, live))
        return live, answer

    def _meet(self, one: DesiredCluster, path: str, live: Body, changed: Sequence[str] | None = None) -> None:
        """Note an existing object that is not ours: it is adopted if a person chose to, and else in the way.

        changed: the fields that its adoption changes; None if they are not known.
        """
        key, ownership = one.keys[path], one.ownership
        if self.rules.choices.adopts(key, is_equal=changed == ()) and not is_controlled(live):
            self.adopted[path] = whose(live)
            self._identities[path] = LiveIdentity(key=key, version=version_of(live), is_terminating=False)
            return
        if ownership.leaves(key):
            what = "released" if ownership.was_released(key) else "another object of this name"
            self.left[path] = (taken(one.index, path, live, what),)
        self._foreign[path] = foreign(SourceRef(path=f"{self._folder}/{path}"), key, live, ownership, changed or ())
        self._versions[path] = version_of(live).uid

    def _changed(self, key: ObjectKey, live: Body, desired: Mapping[str, Any], result: Body | None) -> tuple[str, ...]:
        """Return the fields, besides our label, that an apply of an object that is not ours changes."""
        fields = self._controlled(live)
        before, after = (
            pruned(plain(as_desired(body, desired, fields)), LABEL_PATH) for body in (live, result or live)
        )
        is_quantity = partial(self._runtime.catalogue.is_quantity, key.group, key.kind)
        found = differences(before, after, list_keys=self._list_keys(key), is_quantity=is_quantity)
        return tuple(field.path for field in found)

    def _doubt(self, path: str, message: str, *, field: str = "", hint: str, is_refused: bool = False) -> None:
        self.doubts.append(Doubt(path=path, message=message, field=field, hint=hint, is_refused=is_refused))

    def _keep(self, path: str, key: ObjectKey, live: Body, desired: Mapping[str, Any], result: Body | None) -> None:
        self._remember(path, live)
        fields = self._controlled(live)
        compared = as_desired(live, desired, fields)
        after = None if result is None else as_desired(result, desired, fields)
        self._projected[path] = msgspec.json.encode(project(desired, compared, after, self._list_keys(key)))
        if fields:
            self._counted[path] = msgspec.json.encode(compared)

    def _remember(self, path: str, live: Body) -> None:
        self._live[path] = msgspec.json.encode(live)
        if path not in self._foreign:
            self._versions[path] = self.version_of(path, live)

    def sent(self, path: str, desired: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what an apply sends of a desired object: neither drift that stays nor fields of other controllers."""
        key = self._runtime.kinds.of(live).id
        own = without(desired, self.omitted.get(path, ()))
        return as_sent(own, live, self._controlled(live), partial(self._runtime.catalogue.list_keys, *key))

    def version_of(self, path: str, live: Mapping[str, Any]) -> str:
        """Return the version of a live object, in which what others may change at any time has no part."""
        return content_version(without_controlled(live, self._controlled(live)), self.omitted.get(path, ()))

    def _list_keys(self, key: ObjectKey) -> Callable[[FieldPath], tuple[str, ...] | None]:
        return lambda path: self._runtime.catalogue.list_keys(key.group, key.kind, path)

    def _fetch(self, paths: Sequence[str]) -> None:
        for name, cluster in self._clusters.items():
            wanted = {path: self._identities[path] for path in paths if path.startswith(f"{name}/")}
            for path, body in BodyReader(cluster, wanted).read({p: one.key for p, one in wanted.items()}, {}).items():
                self._remember(path, body)

    def _object(self, path: str) -> ExistingObject:
        raw = self._counted.get(path, self._live.get(path))
        if raw is None:
            return ExistingObject(is_owned=path not in self._foreign, summary=None)
        body: Body = msgspec.json.decode(raw)
        kinds, cluster = self._runtime.kinds, path.partition("/")[0]
        summary = summarize(kinds, cluster=cluster, body=plain(body), path=path, digest=self._versions[path])
        return ExistingObject(path not in self._foreign, summary, is_kept=is_kept(self.body(path) or {}))


def read_live(
    runtime: Runtime,
    clusters: Mapping[str, LiveCluster],
    index: CompiledRevision,
    renderer: Renderer,
    *,
    known: set[str],
    existing: Baseline,
    rules: DriftRules,
) -> LiveBaseline:
    """Read live clusters, by name, and ask them about every create and update.

    known: paths of rendered files in Git, whose kinds are looked at besides those of the sources.
    existing: `rendered/` of the base. rules: what decides about drift and adoption.
    """
    baseline = LiveBaseline(runtime, clusters, index.revision.config.rendered, rules, existing)
    keys: dict[str, dict[str, ObjectKey]] = {name: {} for name in clusters}
    for row in index.first_summaries():
        if row.cluster in keys and row.path in index.desired:
            keys[row.cluster][row.path] = row.key
    identity = identity_of(runtime.repository, index.revision.tree)
    wanted = {
        name: ReadingScope(
            place=place_of(index.revision.config.name, name, runtime.inventory_namespace, identity),
            kinds=frozenset((key.group, key.kind) for key in keys[name].values()),
            tokens=frozenset(kind_token(path) for path in known if path.startswith(f"{name}/")),
        )
        for name in clusters
    }
    for name, reading in read_clusters(clusters, runtime.kinds, wanted).items():
        one = DesiredCluster(
            name=name,
            live=clusters[name],
            index=index,
            renderer=renderer,
            keys=keys[name],
            places=created_places(runtime.kinds, keys[name].values()),
            reviewed=rules.choices.reviewed,
        )
        baseline.judge(one, reading)
    return baseline


def _rendered(renderer: Renderer, paths: Sequence[str]) -> Iterator[dict[str, Manifest]]:
    """Yield desired objects by path, those of some source files at one time."""
    groups = renderer.group(paths)
    sources = iter(groups)
    while chosen := list(islice(sources, _CHUNK)):
        compiled = zip(chosen, renderer.compile(chosen), strict=True)
        yield {path: objects[path].manifest for source, objects in compiled for path in groups[source]}

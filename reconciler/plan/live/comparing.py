"""The way to a live baseline: read the clusters, compare them with what is desired, ask about what may differ.

what we own there, and whose it is -> what needs no question -> dry runs of the others -> `LiveBaseline`
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import UnsafePlan
from reconciler.index.build import CompiledRevision
from reconciler.index.renderer import Renderer
from reconciler.kinds.aspects import Holds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.manifests.ownership import LABEL, LABEL_PATH, OWNER
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey, SourceRef, split_api_version
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.secrets import KnownSecrets, secret_leaves
from reconciler.kube.values import enumerated, pruned
from reconciler.plan import Drift, LiveState
from reconciler.plan.baseline import Baseline
from reconciler.plan.differences import differences
from reconciler.plan.live.additions import without_additions
from reconciler.plan.live.annotations import is_created_once
from reconciler.plan.live.baseline import Doubt, LiveBaseline, LiveContent, LiveFields, LiveObject
from reconciler.plan.live.choices import NO_CHOICES, LiveChoices
from reconciler.plan.live.controlled import as_desired
from reconciler.plan.live.creations import Places, created_places, still_absent
from reconciler.plan.live.drift import (
    DriftRules,
    SettledAdditions,
    absences,
    contested_deletions,
    settle,
    settle_additions,
    taken,
)
from reconciler.plan.live.inventory import Claims, InventoryClaim, Place, claimants, identity_of, place_of
from reconciler.plan.live.inventory_record import RELEASED
from reconciler.plan.live.managers import last_writer, without_given_up
from reconciler.plan.live.probe import Probe, ServerReply, changes_nothing, probe, probe_removal
from reconciler.plan.live.projection import holds, plain, project
from reconciler.plan.live.proofs import Proofs, load_proofs, proof, save_proofs
from reconciler.plan.live.reading import (
    BodyReader,
    ClusterReading,
    LiveIdentity,
    Owned,
    ReadingScope,
    at_once,
    contents_of,
    is_controlled,
    kind_token,
    read_clusters,
    version_of,
)
from reconciler.repo.config.external import is_external
from reconciler.repo.port import Cache, Repository


class Ownership(Struct, frozen=True, kw_only=True, eq=False):
    """The inventories of one cluster, and the objects that a person chose to adopt.

    uids: those of our inventory. claims: those of others.
    """

    uids: Mapping[ObjectKey, frozenset[str]] = {}
    claims: Claims = {}
    choices: LiveChoices = NO_CHOICES

    def is_listed(self, one: LiveIdentity) -> bool:
        """Return whether our inventory lists an object, or its creation was begun. Only those are ever deleted."""
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
        """Return whether our inventory lists an object of this name with a UID: we applied it, and still own it."""
        return any(uid not in ("", RELEASED) for uid in self._uids(key))

    def was_released(self, key: ObjectKey) -> bool:
        """Return whether the object of this name was handed over."""
        return RELEASED in self._uids(key)

    def claims_of(self, key: ObjectKey, uid: str) -> tuple[InventoryClaim, ...]:
        """Return the other config repositories that list an object. A creation that was begun counts if it is new."""
        found = claimants(self.claims, key, uid)
        return tuple(claim for claim in found if claim.uid) if uid in self._uids(key) else found

    def leaves(self, key: ObjectKey) -> bool:
        """Return whether an object of this name that is not ours stays as it is, without forbidding the plan."""
        if self.was_released(key):
            return not self.adopts(key)
        return self.was_applied(key) and not (self.adopts(key) or self.choices.matches(key))

    def adopts(self, key: ObjectKey) -> bool:
        """Return whether a person chose to adopt an object by its name."""
        return self.choices.adopts(key, is_equal=False)

    def _uids(self, key: ObjectKey) -> frozenset[str]:
        return self.uids.get(key, frozenset())


class DesiredCluster(Struct, frozen=True, kw_only=True, eq=False):
    """One cluster, what is desired there, and what decides about differences.

    place: of our inventory. keys: desired objects by path. places: those that others wait for. rules: what decides
    about drift and adoption. ownership: whose the objects there are. existing: `rendered/` of the base. cache: keeps
    what is known to be as desired.
    """

    name: str
    live: LiveCluster
    place: Place
    index: CompiledRevision
    renderer: Renderer
    keys: Mapping[str, ObjectKey]
    places: Places
    fields: LiveFields
    rules: DriftRules
    ownership: Ownership
    existing: Baseline
    cache: Cache

    def blob(self, path: str) -> str:
        """Return the blob id of a desired object."""
        return self.index.desired[path]

    def file(self, path: str) -> SourceRef:
        """Return the rendered file of an object."""
        return SourceRef(path=f"{self.index.revision.config.rendered}/{path}")

    def left_alone(self, path: str, left: tuple[Drift, ...] = ()) -> LiveObject:
        """Return a desired object that an apply leaves alone, whatever is on the cluster."""
        return LiveObject(version=self.blob(path), is_as_desired=True, left=left)


class ComparedCluster(Struct, frozen=True, kw_only=True, eq=False):
    """The objects of one cluster by path, and what else was found there (`LiveBaseline`)."""

    objects: Mapping[str, LiveObject]
    deleted: Mapping[str, tuple[Drift, ...]]
    doubts: tuple[Doubt, ...]
    warnings: Mapping[str, tuple[str, ...]]
    state: LiveState
    released: tuple[ObjectKey, ...] = ()
    contents: Mapping[str, tuple[str, ...]] = {}


class ObjectAnswer(Struct, frozen=True, kw_only=True, eq=False):
    """The outcome of comparing one desired object, and of its dry run.

    found: None if nothing has its name. is_unchecked: it waits for something that the plan itself creates.
    """

    found: LiveObject | None = None
    doubt: Doubt | None = None
    warnings: tuple[str, ...] = ()
    is_unchecked: bool = False


def read_live(
    repository: Repository,
    cache: Cache,
    clusters: Mapping[str, LiveCluster],
    index: CompiledRevision,
    renderer: Renderer,
    *,
    namespace: str,
    known: set[str],
    existing: Baseline,
    rules: DriftRules,
) -> LiveBaseline:
    """Read live clusters, by name, and ask them about every create and update.

    namespace: of the inventories. known: paths of rendered files in Git, whose kinds are looked at besides those of
    the sources. existing: `rendered/` of the base. rules: what decides about drift and adoption.
    """
    fields = LiveFields(kinds=index.engine.kinds, catalogue=index.engine.catalogue)
    keys = _desired_keys(index, clusters)
    identity = identity_of(repository, index.revision.tree)
    own = {name: place_of(index.revision.config.name, name, namespace, identity) for name in clusters}
    scopes = {name: _scope(name, place, keys[name], known) for name, place in own.items()}
    compared: list[ComparedCluster] = []
    for name, reading in read_clusters(clusters, fields.kinds, scopes).items():
        inventories = reading.inventories
        one = DesiredCluster(
            name=name,
            live=clusters[name],
            place=own[name],
            index=index,
            renderer=renderer,
            keys=keys[name],
            places=created_places(fields.kinds, keys[name].values()),
            fields=fields,
            rules=rules,
            ownership=Ownership(uids=inventories.own.uids(), claims=inventories.claims, choices=rules.choices),
            existing=existing,
            cache=cache,
        )
        compared.append(_compare(one, reading))
    return _together(fields, rules, compared)


def _together(fields: LiveFields, rules: DriftRules, compared: Sequence[ComparedCluster]) -> LiveBaseline:
    """Return the objects of all clusters as one baseline."""
    objects = {path: found for one in compared for path, found in one.objects.items()}
    return LiveBaseline(
        fields=fields,
        rules=rules,
        versions={path: found.version for path, found in objects.items()},
        found={path: found for path, found in objects.items() if found.left or not found.is_as_desired},
        deleted={path: drift for one in compared for path, drift in one.deleted.items()},
        doubts=tuple(doubt for one in compared for doubt in one.doubts),
        warnings={path: texts for one in compared for path, texts in one.warnings.items()},
        states=tuple(one.state for one in compared),
        released={one.state.cluster: one.released for one in compared if one.released},
        contents={path: found for one in compared for path, found in one.contents.items()},
    )


def _desired_keys(index: CompiledRevision, clusters: Collection[str]) -> dict[str, dict[str, ObjectKey]]:
    """Return the desired objects of clusters, by cluster and path."""
    keys: dict[str, dict[str, ObjectKey]] = {name: {} for name in clusters}
    for row in index.first_summaries():
        if row.cluster in keys and row.path in index.desired:
            keys[row.cluster][row.path] = row.key
    return keys


def _scope(name: str, place: Place, keys: Mapping[str, ObjectKey], known: Collection[str]) -> ReadingScope:
    """Return what to read of a cluster. keys: desired objects by path."""
    return ReadingScope(
        place=place,
        kinds=frozenset((key.group, key.kind) for key in keys.values()),
        tokens=frozenset(kind_token(path) for path in known if path.startswith(f"{name}/")),
    )


def _compare(one: DesiredCluster, reading: ClusterReading) -> ComparedCluster:
    """Compare one cluster, as it was read, with its desired objects; ask it about every create and update."""
    owned = reading.owned
    missing = {path: key for path, key in one.keys.items() if path not in owned.identities}
    before = load_proofs(one.cache, one.live.server)
    blind = {path for path, key in one.keys.items() if (key.group, key.kind) in owned.failed}
    objects = _left_alone(one, blind, missing)
    objects |= _listed(one, owned, before, without=objects.keys())
    open_paths = [path for path in one.keys if path not in objects or _may_differ(objects[path])]
    asked, waiting = _to_ask(one, open_paths, objects.keys())
    answers = dict(_ask(one, asked, objects))
    found = {**objects, **{path: answer.found for path, answer in answers.items()}}
    objects = {path: each for path, each in found.items() if each is not None}
    save_proofs(one.cache, one.live.server, before, _proofs(one, objects))
    objects |= _read_undesired(one, objects)
    applied = one.ownership.applied(missing, without=objects, base=one.existing.versions)
    waiting |= {path for path, answer in answers.items() if answer.is_unchecked}
    return ComparedCluster(
        objects=objects,
        deleted=absences(one.index, one.name, applied),
        doubts=(
            *_doubts_of_reading(one, reading),
            *(answer.doubt for answer in answers.values() if answer.doubt is not None),
        ),
        warnings={path: answer.warnings for path, answer in answers.items() if answer.warnings},
        state=LiveState(
            cluster=one.name,
            server=one.live.server,
            version=reading.version,
            objects=len(owned.identities),
            unchecked=tuple(sorted(str(one.keys[path]) for path in waiting)),
            unknown=tuple(sorted(str(one.keys[path]) for path in blind)),
            is_blind=reading.failure is not None,
        ),
        released=tuple(sorted(identity.key for identity in owned.identities.values() if _is_released(one, identity))),
        contents=_contents(one, objects),
    )


def _is_released(one: DesiredCluster, identity: LiveIdentity) -> bool:
    """Return whether an object of our inventory is external now, and no source defines it: others own it."""
    key = identity.key
    is_desired = one.fields.kinds.manifest_path(one.name, key) in one.keys
    config = one.index.revision.config
    is_ours = one.ownership.is_listed(identity)
    return is_ours and not is_desired and is_external(config, one.name, key.kind, key.namespace, key.name)


def _contents(one: DesiredCluster, objects: Mapping[str, LiveObject]) -> dict[str, tuple[str, ...]]:
    """Return what is in the namespaces that are not desired any more, besides what goes for itself."""
    gone = {path: found.identity.key for path, found in objects.items() if found.identity and path not in one.keys}
    kinds, known = one.fields.kinds, frozenset(gone.values())
    spaces = {path: key.name for path, key in gone.items() if kinds.find(key.group, key.kind).holds is Holds.OBJECTS}
    found = {path: contents_of(one.live, kinds, name, without=known) for path, name in spaces.items()}
    return {path: names for path, names in found.items() if names is not None}


def _may_differ(found: LiveObject) -> bool:
    """Return whether an object is ours, and not known to be as desired."""
    return found.identity is not None and not found.is_as_desired


def _proofs(one: DesiredCluster, objects: Mapping[str, LiveObject]) -> Proofs:
    """Return which objects are as desired, for the next run: not where drift stays, since the policy may change."""
    return {
        path: proof(one.blob(path), found.identity.version)
        for path, found in objects.items()
        if found.is_as_desired and found.identity is not None and not found.left
    }


def _doubts_of_reading(one: DesiredCluster, reading: ClusterReading) -> Iterator[Doubt]:
    """Yield what is not known of a cluster: which objects are ours, and which of some kinds exist."""
    failure = reading.failure
    if isinstance(failure, UnsafePlan):
        yield Doubt(path="", message=failure.message, hint=failure.hint, is_refused=True)
    elif failure is not None:
        text = f"it is not known which objects of {one.name} are ours: {failure.message}"
        yield Doubt(path="", message=text, hint=f"allow `list` on ConfigMaps in {one.place.namespace}")
    for (group, kind), message in sorted(reading.owned.failed.items()):
        what = f"{kind}.{group}" if group else kind
        text = f"it is not known which objects of {what} exist on {one.name}: {message}"
        yield Doubt(path="", message=text, hint="allow `list` on them, or wait for the server")


# What needs no question.


def _left_alone(one: DesiredCluster, blind: Collection[str], missing: Mapping[str, ObjectKey]) -> dict[str, LiveObject]:
    """Return the objects that an apply leaves alone: unknown ones, finished jobs, and what somebody keeps deleting."""
    contested = contested_deletions(one.rules.choices, one.index, one.name, missing)
    finished = one.keys.keys() & one.index.context.finished().keys()
    alone = {path: one.left_alone(path) for path in (*blind, *finished)}
    return alone | {path: one.left_alone(path, left) for path, left in contested.items()}


def _listed(one: DesiredCluster, owned: Owned, before: Proofs, *, without: Collection[str]) -> dict[str, LiveObject]:
    """Return the objects that were listed: those of others, those known to be as desired, and ours that may differ.

    What others applied and we define no more is theirs, and not deleted.
    """
    found: dict[str, LiveObject] = {}
    for path, identity in owned.identities.items():
        key, version, is_desired = identity.key, identity.version, path in one.keys
        claims = one.ownership.claims_of(key, version.uid)
        is_adopted = bool(claims) and is_desired and one.ownership.adopts(key)
        if path in without or (claims and not is_desired):
            continue
        if claims and not is_adopted:
            problem = claimed(one.file(path), key, one.index.revision.config.name, claims)
            found[path] = LiveObject(version=version.uid, foreign=problem)
        elif is_desired or _is_gone(one, identity):
            is_proven = is_desired and before.get(path) == proof(one.blob(path), version)
            is_as_desired = is_proven and not identity.is_terminating and not is_adopted
            found[path] = LiveObject(
                version=one.blob(path) if is_as_desired else f"{version.uid}/{version.resource_version}",
                is_as_desired=is_as_desired,
                identity=identity,
                adopted=" and ".join(map(str, claims)) if is_adopted else "",
            )
    for path in sorted(owned.taken.keys() & one.keys.keys() - set(without)):
        if one.ownership.leaves(one.keys[path]):
            found[path] = _foreign(one, path, owned.taken[path], ())
    return found


def _is_gone(one: DesiredCluster, identity: LiveIdentity) -> bool:
    """Return whether an object that no source defines is one that an apply deletes."""
    if identity.is_terminating or not one.ownership.is_listed(identity):
        return False
    return not _is_released(one, identity)


def _foreign(one: DesiredCluster, path: str, live: Body, changed: Sequence[str]) -> LiveObject:
    """Return an existing object that is not ours. changed: the fields that its adoption would change."""
    key = one.keys[path]
    what = "released" if one.ownership.was_released(key) else "another object of this name"
    return LiveObject(
        version=version_of(live).uid,
        foreign=foreign(one.file(path), key, live, one.ownership, changed),
        left=(taken(one.index, path, live, what),) if one.ownership.leaves(key) else (),
    )


# What the servers say to the other objects.


def _to_ask(one: DesiredCluster, paths: Sequence[str], existing: Collection[str]) -> tuple[list[str], set[str]]:
    """Return what to ask the server about, and the creations that it cannot judge yet.

    It is not asked about creations that it has judged before.
    """
    new = {path: one.keys[path] for path in paths if path not in existing}
    waiting, reviewed = one.places.missing(one.live, new), one.rules.choices.reviewed
    known = {path: key for path, key in new.items() if path not in waiting and reviewed.get(path) == one.blob(path)}
    unasked = waiting | still_absent(one.live, known)
    return [path for path in paths if path not in unasked], waiting


_CHUNK = 256  # source files that are rendered at one time


def _rendered(renderer: Renderer, paths: Sequence[str]) -> Iterator[dict[str, Manifest]]:
    """Yield desired objects by path, those of some source files at one time."""
    groups = renderer.group(paths)
    sources = iter(groups)
    while chosen := list(islice(sources, _CHUNK)):
        compiled = zip(chosen, renderer.compile(chosen), strict=True)
        yield {path: objects[path].manifest for source, objects in compiled for path in groups[source]}


def _ask(
    one: DesiredCluster, paths: Sequence[str], listed: Mapping[str, LiveObject]
) -> Iterator[tuple[str, ObjectAnswer]]:
    """Compare desired objects with live ones, and ask the server where that does not tell."""
    identities = _identities({path: listed[path] for path in paths if path in listed})
    reader = BodyReader(one.live, identities)
    for manifests in _rendered(one.renderer, paths):
        existing = {path: identities[path].key for path in manifests if path in identities}
        versions = {path: _version(manifests[path].body) for path in existing}
        live = reader.read(existing, versions)  # without those that are gone since they were listed
        asked: dict[str, Manifest] = {}
        for path, manifest in manifests.items():
            body = manifest.body
            if path in live and identities[path].is_terminating:
                doubt = Doubt(
                    path=path, message="the object is being deleted on the cluster", hint="plan again when it is gone"
                )
                yield path, ObjectAnswer(found=_read(one, path, listed[path], live[path], desired=body), doubt=doubt)
            elif path in live and not listed[path].adopted and _is_unchanged(one, path, body, live[path]):
                yield path, ObjectAnswer(found=_as_desired(one, path, listed[path], live[path]))
            else:
                asked[path] = manifest
        yield from _dry_run(one, asked, listed, live)


def _identities(objects: Mapping[str, LiveObject]) -> dict[str, LiveIdentity]:
    return {path: found.identity for path, found in objects.items() if found.identity is not None}


def _version(body: Mapping[str, Any]) -> str:
    return split_api_version(body["apiVersion"])[1]


def _is_unchanged(one: DesiredCluster, path: str, body: Mapping[str, Any], live: Body) -> bool:
    """Return whether an apply would surely change nothing."""
    if is_created_once(body):
        return True
    sent = one.fields.sent(body, live, ())
    return holds(sent, live, one.fields.list_keys(one.keys[path])) and not one.fields.additions(body, live)


def _dry_run(
    one: DesiredCluster,
    manifests: Mapping[str, Manifest],
    listed: Mapping[str, LiveObject],
    live: Mapping[str, Body],
) -> Iterator[tuple[str, ObjectAnswer]]:
    """Ask the server what an apply of some objects would do. Those in `live` exist and are ours."""
    one.existing.objects(path for path in manifests if path in live and path in one.existing.versions)  # at one time
    settled = {
        path: _settle(one, path, manifests[path], listed[path], live[path]) for path in manifests if path in live
    }
    stripped = _strip(one, {path: manifests[path] for path in settled}, live)
    sent = {path: settled[path][0] if path in settled else manifest.body for path, manifest in manifests.items()}
    replies = at_once(lambda body: probe(one.live, body), sent.values())
    for path, reply in zip(sent, replies, strict=True):
        body = manifests[path].body
        if path in settled:
            found = settled[path][1]
            if (stripping := stripped.get(path)) is not None and stripping.refusal is not None:
                doubt = doubt_of(path, stripping.refusal, live[path])
                yield path, ObjectAnswer(found=_read(one, path, found, live[path], desired=body), doubt=doubt)
                continue
            found = found if stripping is None else stripping.note(found)
            yield path, _updated(one, path, found, body, live[path], reply)
        else:
            yield path, _created(one, path, manifests[path], reply)


class Stripping(Struct, frozen=True, kw_only=True, eq=False):
    """The decision about additions to a live object. refusal: why the server keeps them."""

    settled: SettledAdditions = SettledAdditions()
    refusal: Probe | None = None

    def note(self, found: LiveObject) -> LiveObject:
        """Return an object with the additions that an apply removes, and those that stay."""
        return replace(
            found,
            left=(*found.left, *self.settled.left),
            omitted=(*found.omitted, *self.settled.omitted),
            added=self.settled.removed,
        )


def _strip(one: DesiredCluster, manifests: Mapping[str, Manifest], live: Mapping[str, Body]) -> dict[str, Stripping]:
    """Ask the server what becomes of objects to which others added something, by path."""
    added = {path: one.fields.additions(manifest.body, live[path]) for path, manifest in manifests.items()}
    paths = [path for path, found in added.items() if found]
    probes = at_once(lambda path: probe_removal(one.live, one.keys[path], live[path], added[path]), paths)
    return {
        path: Stripping(refusal=reply)
        if reply.result is None
        else Stripping(
            settled=settle_additions(
                one.rules,
                manifests[path],
                live[path],
                reply.result,
                added[path],
                one.fields.catalogue,
                one.file(path).path,
            )
        )
        for path, reply in zip(paths, probes, strict=True)
    }


def _settle(
    one: DesiredCluster, path: str, manifest: Manifest, found: LiveObject, live: Body
) -> tuple[Mapping[str, Any], LiveObject]:
    """Return what an apply sends, and the object with the drift that it leaves."""
    before = one.existing.body(path) if path in one.existing.versions else None
    compared = as_desired(live, manifest.body, one.fields.controlled(live))
    settled = settle(one.rules, manifest, compared, before, one.fields.catalogue, one.file(path).path)
    sent = one.fields.sent(settled.body, live, settled.omitted)
    return sent, replace(found, left=settled.left, omitted=settled.omitted)


def _updated(  # noqa: PLR0917
    one: DesiredCluster, path: str, found: LiveObject, body: Mapping[str, Any], live: Body, reply: Probe
) -> ObjectAnswer:
    """Return what the server said to the update of an object."""
    key, warnings = one.keys[path], _masked(body, reply.warnings)
    if reply.result is None:  # not accepted
        doubt = doubt_of(path, reply, body)
        return ObjectAnswer(found=_read(one, path, found, live, desired=body), doubt=doubt, warnings=warnings)
    after = without_additions(without_given_up(live, reply.result), live, found.added)
    if not found.adopted and changes_nothing(live, after, one.fields.list_keys(key), one.fields.quantities(key)):
        return ObjectAnswer(found=_as_desired(one, path, found, live), warnings=warnings)
    found = replace(found, is_accepted=True)
    return ObjectAnswer(found=_read(one, path, found, live, desired=body, result=after), warnings=warnings)


def _created(one: DesiredCluster, path: str, manifest: Manifest, reply: Probe) -> ObjectAnswer:
    """Return what the server said to a creation. An object that exists is adopted if a person chose to."""
    body = manifest.body
    met, reply = (None, reply) if reply.is_new else _in_the_way(one, path, body, reply)
    warnings = _masked(body, reply.warnings)
    if reply.reply is ServerReply.ACCEPTED:
        found = None if met is None else _met(one, path, met, manifest, reply.result)
        return ObjectAnswer(found=found, warnings=warnings)
    if one.places.explain(one.live, one.keys[path], reply):
        return ObjectAnswer(is_unchecked=True, warnings=warnings)
    return ObjectAnswer(doubt=doubt_of(path, reply, body), warnings=warnings)


def _in_the_way(one: DesiredCluster, path: str, body: Mapping[str, Any], reply: Probe) -> tuple[Body | None, Probe]:
    """Return an existing object that is not ours, and what the server says without the fields of controllers."""
    try:
        live = one.live.get(one.keys[path], version=_version(body))
    except ClusterError:
        return None, reply  # the answer to the dry run says why
    if live is not None and one.fields.controlled(live):
        reply = probe(one.live, one.fields.sent(body, live, ()))
    return live, reply


def _met(one: DesiredCluster, path: str, live: Body, manifest: Manifest, result: Body | None) -> LiveObject:
    """Return an existing object that is not ours: it is adopted if a person chose to, and else in the way."""
    key, body = one.keys[path], manifest.body
    stripping = _strip(one, {path: manifest}, {path: live}).get(path, Stripping())
    result = None if result is None else without_additions(result, live, stripping.settled.removed)
    changed = _changed(one.fields, key, live, body, result)
    if one.rules.choices.adopts(key, is_equal=not changed) and not is_controlled(live):
        identity = LiveIdentity(key=key, version=version_of(live), is_terminating=False)
        found = LiveObject(version=identity.version.uid, identity=identity, adopted=whose(live))
        found = stripping.note(found)
    else:
        found = _foreign(one, path, live, changed)
    return _read(one, path, found, live, desired=body, result=result)


def _changed(
    fields: LiveFields, key: ObjectKey, live: Body, desired: Mapping[str, Any], result: Body | None
) -> tuple[str, ...]:
    """Return the fields, besides our label, that an apply of an object that is not ours changes."""
    controlled = fields.controlled(live)
    before, after = (
        pruned(plain(as_desired(body, desired, controlled)), LABEL_PATH) for body in (live, result or live)
    )
    found = differences(before, after, list_keys=fields.list_keys(key), is_quantity=fields.quantities(key))
    return tuple(field.path for field in found)


def _masked(body: Mapping[str, Any], warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the warnings of a server without the secrets of an object."""
    return tuple(map(KnownSecrets(secret_leaves(body)).mask, warnings)) if warnings else ()


_HINTS = {
    ServerReply.NO_PLACE: "add its namespace or its CRD to the sources, or create it",
    ServerReply.REFUSED: "change the object, or what refuses it",
    ServerReply.GOING: "plan again when the namespace is gone",
    ServerReply.UNKNOWN: "plan again when the server can answer",
}


def doubt_of(path: str, answer: Probe, body: Mapping[str, Any]) -> Doubt:
    """Return why a dry run of a desired object failed, without its secrets."""
    return Doubt(
        path=path,
        message=KnownSecrets(secret_leaves(body)).mask(answer.message),
        field=answer.causes[0].field if len(answer.causes) == 1 else "",
        hint=_HINTS[answer.reply],
        is_refused=answer.reply not in (ServerReply.UNKNOWN, ServerReply.GOING),
    )


# What was read.


def _as_desired(one: DesiredCluster, path: str, found: LiveObject, live: Body) -> LiveObject:
    """Return an object that is as desired, perhaps but for drift that stays."""
    content = LiveContent(whole=msgspec.json.encode(live)) if found.left else None
    return replace(found, version=one.blob(path), is_as_desired=True, content=content)


def _read(
    one: DesiredCluster,
    path: str,
    found: LiveObject,
    live: Body,
    *,
    desired: Mapping[str, Any],
    result: Body | None = None,
) -> LiveObject:
    """Return a desired object with the live one that differs. result: of the dry run, if the server accepted it."""
    controlled = one.fields.controlled(live)
    compared = as_desired(live, desired, controlled)
    after = None if result is None else as_desired(result, desired, controlled)
    projected = project(desired, compared, after, one.fields.list_keys(one.keys[path]))
    return replace(
        found,
        version=found.version if found.foreign is not None else one.fields.version_of(live, found.omitted),
        content=LiveContent(
            whole=msgspec.json.encode(live),
            compared=msgspec.json.encode(projected),
            counted=msgspec.json.encode(compared) if controlled else b"",
        ),
    )


def _read_undesired(one: DesiredCluster, objects: Mapping[str, LiveObject]) -> dict[str, LiveObject]:
    """Read the objects of ours that are not desired any more; without those that are gone by now."""
    unread = {path: found for path, found in objects.items() if _may_differ(found) and found.content is None}
    identities = _identities(unread)
    bodies = BodyReader(one.live, identities).read({path: each.key for path, each in identities.items()}, {})
    return {
        path: replace(
            unread[path],
            version=one.fields.version_of(live, ()),
            content=LiveContent(whole=msgspec.json.encode(live)),
        )
        for path, live in bodies.items()
    }


# Whose a live object is: ours, of another config repository, or of nobody that we know.


CLAIMED = "live.claimed"
"""Rule of an object that another config repository applies as well."""

FOREIGN = "live.foreign"
"""Rule of an object of the same name that is not ours."""


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

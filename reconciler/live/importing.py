"""Sources from what runs: read live objects, write what a person would have written, and let the server verify it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision
from reconciler.kinds.aspects import Holds
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.kueue import WORKLOAD
from reconciler.kinds.records import RECORDS
from reconciler.kube.client.port import ApiResource, Body, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey, split_api_version
from reconciler.kube.schemas.catalogue import Catalogue
from reconciler.kube.values import enumerated, mapping, sequence, text
from reconciler.kube.yaml import write
from reconciler.plan.differences import differences
from reconciler.plan.live.authored import LeftOut, authored, why_left_out
from reconciler.plan.live.controlled import as_sent, controlled_fields
from reconciler.plan.live.managers import written_version
from reconciler.plan.live.probe import ServerReply, probe
from reconciler.plan.live.projection import plain
from reconciler.plan.live.reading import at_once, key_of
from reconciler.repo.config import Cluster, Config
from reconciler.repo.files import selects

_VERBS = frozenset(("list", "create", "patch"))


class ImportScope(Struct, frozen=True, kw_only=True):
    """The objects to import: kinds by a user's names (none: all but definitions of kinds), namespaces (none: all)."""

    kinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


class ImportedObject(Struct, frozen=True, kw_only=True):
    """The source of a live object. `path` is relative, such as `team-a/job-vit.yaml`.

    warning: why an apply would not leave the object as it is; empty if the server says that it changes nothing.
    is_verified: the server could say so.
    """

    key: ObjectKey
    path: str
    content: bytes
    warning: str = ""
    is_verified: bool = True


class Imported(Struct, frozen=True, kw_only=True):
    """The import of one cluster: sources, what is left out and why, and kinds that could not be read."""

    cluster: str
    objects: tuple[ImportedObject, ...] = ()
    left_out: tuple[tuple[ObjectKey, LeftOut], ...] = ()
    failures: Mapping[str, str] = {}

    @property
    def is_complete(self) -> bool:
        """True if everything could be read and verified."""
        return not self.failures and all(one.is_verified for one in self.objects)


class _ImportedCluster(Struct, frozen=True, kw_only=True, eq=False):
    """A cluster to read: the kinds, and the folder of its files."""

    cluster: str
    live: LiveCluster
    resources: Sequence[ApiResource]
    folder: str


def import_objects(
    index: CompiledRevision, clusters: Mapping[str, LiveCluster], scope: ImportScope, folders: Mapping[str, str]
) -> tuple[Imported, ...]:
    """Return the sources of the objects of live clusters.

    folders: where the files of each cluster are to be, below the root; a source there may be written again.
    Raises `ConfigError` for kinds that no cluster offers, and for namespaces that none has.
    """
    kinds = index.context.kinds
    offered = {name: _offered(kinds, index.context.catalogue, live) for name, live in clusters.items()}
    _require_known(scope.kinds, [row for rows in offered.values() for row in rows])
    _require_namespaces(kinds, clusters.values(), scope.namespaces)
    targets = [
        _ImportedCluster(cluster=name, live=live, resources=_chosen(kinds, offered[name], scope), folder=folders[name])
        for name, live in clusters.items()
    ]
    return tuple(at_once(lambda target: _import(index, target, scope), targets))


def misplaced(config: Config, folders: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the folders of clusters: a plan would not read them, or for other clusters."""
    for name, folder in folders.items():
        if not any(f"{folder}/".startswith(f"{source}/") for source in config.sources):
            yield f"{folder} is in no source folder; add it to spec.sources of reconciler.yaml"
        readers = [one.name for one in config.clusters if selects(one, f"{folder}/object.yaml", {})]
        if readers != [name]:
            others = f"would be rendered for {', '.join(readers)}" if readers else "would be rendered for no cluster"
            yield f"{folder} {others}; set select.folders of the cluster {name} and of the others in reconciler.yaml"


# Kinds.


def _offered(kinds: Kinds, catalogue: Catalogue, live: LiveCluster) -> list[ApiResource]:
    """Return the kinds that a server can list and apply, each in a version that `lint` knows, if there is one."""
    found: dict[tuple[str, str], ApiResource] = {}
    for row in live.discover().resources:
        served = catalogue.served(row.group, row.kind)
        known = served.versions if served is not None else ()
        first = found.get((row.group, row.kind))
        if row.verbs >= _VERBS and (first is None or (row.version in known and first.version not in known)):
            found[row.group, row.kind] = row
    return [row for row in found.values() if kinds.find(row.group, row.kind).source.refusal is None]


def _names(row: ApiResource) -> set[str]:
    """Return the names of a kind, as for kubectl, in lower case."""
    names = {row.kind.lower(), row.plural.lower()}
    return names | {f"{name}.{row.group}" for name in names if row.group}


def _require_known(wanted: Sequence[str], offered: Iterable[ApiResource]) -> None:
    names = {name: row.kind for row in offered for name in _names(row)}
    unknown = [word for word in wanted if word.lower() not in names]
    if unknown:
        hint = _nearest(names, [word.lower() for word in unknown]) or "name kinds that the cluster offers, such as Job"
        raise ConfigError(f"unknown kind: {', '.join(unknown)}", hint=hint)


def _require_namespaces(kinds: Kinds, clusters: Iterable[LiveCluster], wanted: Sequence[str]) -> None:
    """Raise `ConfigError` for namespaces that no cluster has. Those that cannot be listed are taken for good."""
    row = next(row for row in kinds.values() if row.holds is Holds.OBJECTS)
    known: dict[str, str] = {}
    for live in clusters if wanted else ():
        try:
            listed = live.list(live.resource(row.group, row.kind), metadata_only=True).objects
            known |= {name: name for name in (text(body["metadata"].get("name")) for body in listed)}
        except ClusterError:  # not every user may list namespaces
            return
    missing = [name for name in wanted if name not in known]
    if missing:
        verb = "does" if len(missing) == 1 else "do"
        raise ConfigError(
            f"--namespace: {enumerated(missing)} {verb} not exist",
            hint=_nearest(known, missing) or "name a namespace of the cluster",
        )


def _nearest(names: Mapping[str, str], words: Sequence[str]) -> str:
    """Return a question that names what is meant by words; empty if nothing is near."""
    near = [names[found[0]] for word in words if (found := get_close_matches(word, names, n=1))]
    return f"did you mean {enumerated(list(dict.fromkeys(near)))}?" if near else ""


def _chosen(kinds: Kinds, offered: Sequence[ApiResource], scope: ImportScope) -> list[ApiResource]:
    """Return the kinds to read. Definitions of kinds come with operators: they have to be named."""
    wanted = {word.lower() for word in scope.kinds}
    rows = [row for row in offered if row.namespaced or not scope.namespaces]
    if wanted:
        return [row for row in rows if not wanted.isdisjoint(_names(row))]
    return [row for row in rows if not _is_implicit(kinds, row)]


def _is_implicit(kinds: Kinds, resource: ApiResource) -> bool:
    kind = (resource.group, resource.kind)
    return kinds.find(*kind).holds is Holds.KINDS or resource.group in kinds.own_groups or kind in RECORDS


# Objects.


def _import(index: CompiledRevision, target: _ImportedCluster, scope: ImportScope) -> Imported:
    kinds, live, folder = index.context.kinds, target.live, f"{target.folder}/"
    bodies, failures = _read(live, kinds, target.resources, scope)
    defined = {row.key: row.place.path for row in index.first_summaries() if row.cluster == target.cluster}
    left_out: list[tuple[ObjectKey, LeftOut]] = []
    wanted: dict[ObjectKey, Body] = {}
    for key, body in bodies:
        reason = why_left_out(kinds, body)
        if reason is None and defined.get(key, folder).startswith(folder):
            wanted[key] = body
        else:
            left_out.append((key, reason or LeftOut.DEFINED))
    queued = _workloads(live, scope) if any(map(kinds.is_queued, wanted.values())) else {}
    catalogue = index.context.catalogue.with_definitions(_definitions(live, kinds, target.resources, wanted))
    writer = _Writer(live=live, kinds=kinds, catalogue=catalogue, queued=queued)
    return Imported(
        cluster=target.cluster,
        objects=tuple(at_once(writer.write, sorted(wanted.items(), key=lambda item: item[0]))),
        left_out=tuple(sorted(left_out)),
        failures=failures,
    )


def _read(
    live: LiveCluster, kinds: Kinds, resources: Sequence[ApiResource], scope: ImportScope
) -> tuple[list[tuple[ObjectKey, Body]], dict[str, str]]:
    """Read all objects. Of Secrets only the metadata is read."""

    def read(row: ApiResource) -> list[Body] | ClusterError:
        is_secret = kinds.find(row.group, row.kind).holds is Holds.SECRETS
        try:
            return [
                body
                for namespace in scope.namespaces or ("",)
                for body in live.list(row, namespace=namespace, metadata_only=is_secret).objects
            ]
        except ClusterError as error:
            return error

    found: list[tuple[ObjectKey, Body]] = []
    failures: dict[str, str] = {}
    for row, rows in zip(resources, at_once(read, resources), strict=True):
        if isinstance(rows, ClusterError):
            failures[f"{row.kind}.{row.group}" if row.group else row.kind] = rows.message
        else:
            found += [(key_of(row, body), body) for body in rows]
    return found, failures


def _workloads(live: LiveCluster, scope: ImportScope) -> dict[str, Body]:
    """Return the Workloads of Kueue by the UIDs of the objects that they stand for; none if they cannot be read."""
    try:
        row = live.resource(*WORKLOAD)
        found = [
            body for namespace in scope.namespaces or ("",) for body in live.list(row, namespace=namespace).objects
        ]
    except ClusterError:
        return {}
    owners = ((mapping(owner), body) for body in found for owner in sequence(body["metadata"].get("ownerReferences")))
    return {text(owner.get("uid")): body for owner, body in owners}


def _definitions(
    live: LiveCluster, kinds: Kinds, resources: Sequence[ApiResource], wanted: Iterable[ObjectKey]
) -> list[Body]:
    """Return the definitions of custom kinds on the server: their defaults are exactly those of the objects."""
    groups = {(key.group, key.kind) for key in wanted if key.group}
    definition: Kind = next(row for row in kinds.values() if row.holds is Holds.KINDS)
    names = [f"{row.plural}.{row.group}" for row in resources if (row.group, row.kind) in groups]

    def read(name: str) -> Body | None:
        try:
            return live.get(ObjectKey(group=definition.group, kind=definition.kind, namespace="", name=name))
        except ClusterError:  # not every user may read definitions
            return None

    return [body for body in at_once(read, names) if body is not None]


class _Writer(Struct, frozen=True, kw_only=True, eq=False):
    """Writes sources of objects of one cluster. `queued`: the Workloads of Kueue, by the UIDs of their objects."""

    live: LiveCluster
    kinds: Kinds
    catalogue: Catalogue
    queued: Mapping[str, Body]

    def write(self, item: tuple[ObjectKey, Body]) -> ImportedObject:
        """Return the source of one object: without defaults, or else with them, if the server then changes nothing."""
        key, body = item[0], self._as_written(*item)
        queued = self.queued.get(body["metadata"]["uid"])
        sources = (authored(self.kinds, self.catalogue, body, queued, has_defaults=choice) for choice in (False, True))
        source = next(sources)
        warning, is_verified = self._warning(key, body, source)
        if warning and is_verified and not self._warning(key, body, longer := next(sources))[0]:
            source, warning = longer, ""
        path = self.kinds.manifest_path("", key).removeprefix("/")
        return ImportedObject(key=key, path=path, content=write(source), warning=warning, is_verified=is_verified)

    def _as_written(self, key: ObjectKey, body: Body) -> Body:
        """Return an object in the version in which it was written, if that is known: it may have fields of its own."""
        written = written_version(body)
        group, version = split_api_version(written)
        served = self.catalogue.served(key.group, key.kind)
        is_known = served is not None and version in served.versions and group == key.group
        if written == body["apiVersion"] or not is_known or not self.live.discover().find(group, key.kind, version):
            return body
        try:
            return self.live.get(key, version=version) or body
        except ClusterError:
            return body

    def _warning(self, key: ObjectKey, body: Body, source: Mapping[str, Any]) -> tuple[str, bool]:
        """Return why an apply would not leave the object as it is, empty if it changes nothing, and if that is sure."""
        list_keys = partial(self.catalogue.list_keys, key.group, key.kind)
        answer = probe(self.live, as_sent(source, body, controlled_fields(self.kinds, body), list_keys))
        if answer.reply is not ServerReply.ACCEPTED or answer.result is None:
            is_sure = answer.reply is not ServerReply.UNKNOWN
            return f"{'the server refuses it' if is_sure else 'not verified'}: {answer.message}", is_sure
        fields = differences(
            plain(body),
            plain(answer.result),
            list_keys=list_keys,
            is_quantity=partial(self.catalogue.is_quantity, key.group, key.kind),
        )
        return f"an apply would change {', '.join(field.path for field in fields)}" if fields else "", True


def cluster_folders(clusters: Iterable[Cluster], folder: str) -> dict[str, str]:
    """Return the folder of each cluster: the named one, or of several clusters one each below it."""
    rows = list(clusters)
    return {one.name: f"{folder}/{one.name}" if len(rows) > 1 else folder for one in rows}

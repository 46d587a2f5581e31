"""Release objects: they leave the inventory with all of their content, so that somebody else can own them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec.structs import replace

from reconciler.errors import ConfigError, StalePlan
from reconciler.index.build import CompiledRevision
from reconciler.kinds.manifests.ownership import LABEL_PATH, is_owned
from reconciler.kube.client.port import MANAGER, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import mapping, sequence
from reconciler.live.apply import ApplyRun, emit_event, timestamp, who_am_i
from reconciler.live.apply.results import Record, Release, encode_record
from reconciler.live.apply.stored import add_record, change_inventory
from reconciler.plan.live.inventory import read_inventory
from reconciler.plan.live.inventory_record import RELEASED, Member, owns

_ATTEMPTS = 5
_CONFLICT = 409  # somebody wrote the object since it was read


def find_releases(runs: Mapping[str, ApplyRun], index: CompiledRevision, names: Sequence[str]) -> tuple[Release, ...]:
    """Return the objects of our inventories with these names, such as `ConfigMap/team-a/settings`.

    Raises `ConfigError` for names that no inventory lists, and for objects that are gone or that others replaced.
    """
    found: dict[str, list[Release | str]] = {name: [] for name in dict.fromkeys(names)}
    known: set[str] = set()
    for cluster, run in runs.items():
        for key, uids in sorted(read_inventory(run.live, run.place).uids().items()):
            known.add(str(key))
            if str(key) in found:
                found[str(key)].append(_release(run.live, index, cluster, key, uids))
    problems = [one for rows in found.values() for one in rows if isinstance(one, str)]
    problems += [_unknown(name, known) for name, rows in found.items() if not rows]
    if problems:
        raise ConfigError("; ".join(problems), hint="only objects that `reconciler apply` wrote can be released")
    return tuple(one for rows in found.values() for one in rows if isinstance(one, Release))


def release(run: ApplyRun, releases: Sequence[Release], *, commit: str) -> None:
    """Release objects of one cluster, and leave a record. The inventory decides whose they are, so it comes first."""
    record = Record(
        cluster=releases[0].cluster,
        server=run.live.server,
        user=who_am_i(run.live),
        plan="",
        commit=commit,
        base="",
        started=timestamp(run.clock),
        released=tuple(str(one.key) for one in releases),
    )
    run.log(encode_record(record))
    keys = [one.key for one in releases]
    change_inventory(run.live, run.place, remove=keys, add=[Member(key=key, uid=RELEASED) for key in keys])
    for key in keys:
        _let_go(run.live, key)
    record = replace(record, finished=timestamp(run.clock))
    add_record(run.live, run.place, record)
    emit_event(run, record)
    run.log(encode_record(record))


def _release(
    live: LiveCluster, index: CompiledRevision, cluster: str, key: ObjectKey, uids: frozenset[str]
) -> Release | str:
    """Return an object of the inventory that can be released, or why it cannot."""
    body = live.get(key)
    if body is None:
        return f"{key} does not exist on {cluster}"
    if RELEASED not in uids and not owns(uids, body, MANAGER):
        return f"{key} on {cluster} is not ours: it has another UID than the inventory lists"
    rows = [row for row in index.first_summaries() if row.cluster == cluster]
    source = next((row.place for row in rows if row.key == key), None)
    others = sum(row.place == source and row.key != key for row in rows)
    return Release(cluster=cluster, key=key, uid=body["metadata"]["uid"], source=source, others=others)


def _unknown(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"no inventory lists {name}{f' (did you mean {near[0]}?)' if near else ''}"


def _let_go(live: LiveCluster, key: ObjectKey) -> None:
    """Take our label and our field manager off an object; every value stays."""
    for _ in range(_ATTEMPTS):
        body = live.get(key)
        changes = [] if body is None else list(_our_marks(body))
        if body is None or not changes:
            return
        version = {"op": "replace", "path": "/metadata/resourceVersion", "value": body["metadata"]["resourceVersion"]}
        try:
            live.patch(key, [version, *changes])
        except ClusterError as error:
            if error.status != _CONFLICT:
                raise
            continue
        return
    raise StalePlan(f"{key} is released, but keeps its label: it changes too often", hint="run the command again")


def _our_marks(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a JSON patch that remove our marks."""
    if is_owned(body):
        yield {"op": "remove", "path": "/" + "/".join(str(part).replace("/", "~1") for part in LABEL_PATH)}
    entries = sequence(mapping(body["metadata"]).get("managedFields"))
    others = [entry for entry in entries if mapping(entry).get("manager") != MANAGER]
    if len(others) < len(entries):
        # A server takes an empty list for one that was left out, and a list of one empty entry for no managers.
        yield {"op": "replace", "path": "/metadata/managedFields", "value": others or [{}]}

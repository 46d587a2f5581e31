"""Release objects: they leave the inventory with all of their content, so that somebody else can own them."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision
from reconciler.kube.client.port import MANAGER, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.live.apply import ApplyRun, emit_event, timestamp, who_am_i
from reconciler.live.apply.results import Record, Release, encode_record
from reconciler.live.apply.stored import add_record, let_go
from reconciler.plan.live.inventory import read_inventory
from reconciler.plan.live.inventory_record import RELEASED, owns


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
    let_go(run.live, run.place, keys)
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

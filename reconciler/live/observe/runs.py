"""Finished jobs of a live cluster as evidence."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reconciler.kinds.facts import KindId
from reconciler.kinds.kind import Kinds
from reconciler.kinds.progress import ENDED
from reconciler.kube.objects import ObjectKey, split_api_version
from reconciler.kube.values import mapping, text
from reconciler.repo.evidence.runs import FinishedRun, FinishedRuns

Body = Mapping[str, Any]


def observe_runs(
    kinds: Kinds,
    known: FinishedRuns,
    bodies: Iterable[Body],
    *,
    is_rendered: Callable[[ObjectKey], bool],
    unread: Iterable[KindId] = (),
) -> FinishedRuns:
    """Return the finished jobs: those of the cluster, and earlier ones whose object is gone.

    A record lasts as long as the repository renders the job, unless a job of its name runs again. `unread` are kinds
    that could not be listed: what is known of them stays.
    """
    kept_kinds = frozenset(unread)
    ended: dict[ObjectKey, FinishedRun] = {}
    running: set[ObjectKey] = set()
    for body in bodies:
        run, key = _finished(kinds, body), key_of(body)
        if run is None:
            running.add(key)
        else:
            ended[key] = run
    earlier = {key: run for key, run in known.runs.items() if key not in running or (key.group, key.kind) in kept_kinds}
    found = {key: run for key, run in {**earlier, **ended}.items() if is_rendered(key)}
    return FinishedRuns(cluster=known.cluster, runs=found)


def key_of(body: Body) -> ObjectKey:
    """Return the identity of an object."""
    metadata = mapping(body.get("metadata"))
    group, _ = split_api_version(text(body.get("apiVersion")))
    return ObjectKey(
        group=group, kind=text(body.get("kind")), namespace=text(metadata.get("namespace")), name=text(metadata["name"])
    )


def _finished(kinds: Kinds, body: Body) -> FinishedRun | None:
    row, metadata = kinds.of(body), mapping(body.get("metadata"))
    progress = row.life.progress(body) if row.life.progress is not None else None
    if progress is None or progress.phase not in ENDED:
        return None
    created = text(metadata.get("creationTimestamp"))
    return FinishedRun(
        api_version=text(body.get("apiVersion")),
        key=key_of(body),
        uid=text(metadata.get("uid")),
        result=progress.phase.value,
        started_at=progress.started_at,
        finished_at=progress.finished_at or created,
    )

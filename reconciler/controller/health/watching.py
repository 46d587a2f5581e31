"""Watch the running jobs of a cluster, with their series in a file of the controller's folder."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from reconciler.app.health.fast_lane import LaneRound
from reconciler.app.health.jobs.running import JobWatch, look_at_jobs, tell_owners
from reconciler.app.health.state_store import StateStore
from reconciler.core.kinds.kind import Kinds
from reconciler.errors import one_line
from reconciler.ports.clock import Clock
from reconciler.ports.cluster import ClusterError, LiveCluster


def watch_jobs(
    file: Path, cluster: LiveCluster, store: StateStore, done: LaneRound, *, kinds: Kinds, clock: Clock
) -> LaneRound:
    """Look at the jobs, remember and tell what is new, and return the round with what is said about them.

    Without pods or the file the rest of the round goes on.
    """
    try:
        made = look_at_jobs(cluster, kinds, read_watch(file), done)
        if made is None:
            return done
        stored = store.read()
        state = made.state(stored.state)
        store.write(state, stored)  # first: what cannot be stored is told by the next look
        tell_owners(cluster, made, clock)
        write_watch(file, made.watch)
    except (ClusterError, OSError) as error:
        return replace(done, failures=(*done.failures, f"jobs cannot be watched: {one_line(str(error))}"))
    return replace(done, state=state, failures=(*done.failures, *made.proven.problems))


def read_watch(file: Path) -> JobWatch:
    """Return what is kept; a file that is missing or damaged is as good as none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=JobWatch)
    except (FileNotFoundError, msgspec.MsgspecError, RecursionError):
        return JobWatch()


def write_watch(file: Path, watch: JobWatch) -> None:
    """Replace the file, so that a crash leaves the old one or the new one."""
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(watch))
    new.replace(file)

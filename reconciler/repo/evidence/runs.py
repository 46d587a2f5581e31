"""`FinishedRuns` (`evidence/<cluster>/runs.yaml`): jobs that have ended, so that nothing creates them again."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath, ObjectKey, split_api_version
from reconciler.kube.problems import Problem, Violation
from reconciler.kube.violations import foreign_cluster
from reconciler.kube.yaml import Document, write

KIND = "FinishedRuns"
_API_VERSION = "gpureconciler.io/v1alpha1"
_HEADER = b"# Jobs that have ended. `reconciler observe` writes this file; remove an entry to run its job again.\n"


class FinishedRun(Struct, frozen=True, kw_only=True):
    """One job that has ended: how (`Succeeded`, `Failed` ...) and when (RFC 3339). `uid` is that of the object."""

    api_version: str
    key: ObjectKey
    uid: str
    result: str
    finished_at: str
    started_at: str = ""
    origin: FieldPath = ()  # where the evidence says so

    @property
    def mark(self) -> str:
        """The value of the annotation that marks the job."""
        return f"{self.result} {self.finished_at}"


class FinishedRuns(Struct, frozen=True, kw_only=True):
    """The finished jobs of one cluster, by identity. `document` is the evidence file."""

    cluster: str
    runs: Mapping[ObjectKey, FinishedRun] = {}
    document: Document | None = None


def parse_runs(document: Document, cluster: str) -> tuple[FinishedRuns | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted, for `cluster` (the folder it lies in)."""
    spec = document.data["spec"]
    found = [_run(entry, index) for index, entry in enumerate(spec.get("runs", ()))]
    problems = document.problems(_violations(spec, found, cluster))
    if problems:
        return None, problems
    return FinishedRuns(cluster=cluster, runs={run.key: run for run in found}, document=document), ()


def write_runs(runs: FinishedRuns) -> bytes:
    """Write the evidence file. Equal runs give equal bytes."""
    entries = [_entry(runs.runs[key]) for key in sorted(runs.runs)]
    spec = {"cluster": runs.cluster, "runs": entries}
    return _HEADER + write({"apiVersion": _API_VERSION, "kind": KIND, "metadata": {"name": runs.cluster}, "spec": spec})


def _run(entry: Mapping[str, Any], index: int) -> FinishedRun:
    group, _ = split_api_version(entry["apiVersion"])
    return FinishedRun(
        api_version=entry["apiVersion"],
        key=ObjectKey(group=group, kind=entry["kind"], namespace=entry.get("namespace", ""), name=entry["name"]),
        uid=entry.get("uid", ""),
        result=entry["result"],
        finished_at=entry["finishedAt"],
        started_at=entry.get("startedAt", ""),
        origin=("spec", "runs", index),
    )


def _entry(run: FinishedRun) -> dict[str, Any]:
    entry = {
        "apiVersion": run.api_version,
        "kind": run.key.kind,
        "namespace": run.key.namespace,
        "name": run.key.name,
        "uid": run.uid,
        "result": run.result,
        "startedAt": run.started_at,
        "finishedAt": run.finished_at,
    }
    return {name: value for name, value in entry.items() if value}


def _violations(spec: Mapping[str, Any], runs: list[FinishedRun], cluster: str) -> Iterator[Violation]:
    yield from foreign_cluster(spec, cluster)
    seen: set[ObjectKey] = set()
    for run in runs:
        if run.key in seen:
            message = f"{run.key} is listed twice"
            yield Violation(rule="evidence.duplicate-run", path=run.origin, message=message, hint="remove one")
        seen.add(run.key)

"""Preemption in Git: policies, Kaiwo's defaults and annotations, earlier suspensions; and the edits."""

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.compile import compile_document
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.pods import SUSPEND
from reconciler.kinds.preemption import (
    CONFIG,
    POLICY,
    PREFIX,
    IdleRules,
    PreemptionPolicy,
    read_preemption_policy,
    with_annotations,
    with_config,
    with_duration,
    with_policy,
)
from reconciler.kinds.workloads import NAMESPACE
from reconciler.kube.objects import ObjectKey
from reconciler.kube.problems import Problem, Violation
from reconciler.kube.values import annotation, with_value
from reconciler.kube.yaml import Document, read
from reconciler.live.preemption.decide import PreemptionCandidate, WorkloadVerdict
from reconciler.repo.config import Cluster
from reconciler.repo.evidence.utilisation import GpuWorkload
from reconciler.repo.files import selects
from reconciler.repo.port import Repository

REASON = "gpureconciler.io/preemption"
"""Annotation beside `gpureconciler.io/suspend`: policy, time, GPUs and reason of a suspension."""

_RECORD = re.compile(r"(?P<policy>\S+) (?P<time>\S+Z) (?P<gpus>[0-9]+) GPUs?: ")
_WORDS = (POLICY[1].encode(), CONFIG[1].encode(), PREFIX.encode(), REASON.encode())


class PreemptionSources(Struct, frozen=True, kw_only=True):
    """The sources of one cluster. workloads: the document of each workload, by what it is on the cluster."""

    policies: tuple[PreemptionPolicy, ...]
    candidates: tuple[PreemptionCandidate, ...]
    workloads: Mapping[ObjectKey, Document]
    spent: tuple[tuple[str, dt.datetime, int], ...]
    problems: tuple[Problem, ...]


class SuspendedFile(Struct, frozen=True, kw_only=True):
    """An edited file, and what could not be suspended: reasons by workload."""

    edits: Mapping[str, bytes]
    refused: Mapping[ObjectKey, str]


def read_sources(
    repository: Repository, index: CompiledRevision, cluster: Cluster, workloads: Iterable[GpuWorkload]
) -> PreemptionSources:
    """Return the policies of a cluster, and the workloads that they may suspend: those that Git has."""
    running = {one.key: one for one in workloads}
    paths = {key: index.context.kinds.manifest_path(cluster.name, key) for key in running}
    files = {index.sources[path] for path in paths.values() if path in index.sources}
    documents = list(_documents(repository, index, cluster, files))
    policies = tuple(
        sorted(
            (read_preemption_policy(one) for one in documents if (one.group, one.kind) == POLICY),
            key=lambda one: one.name,
        )
    )
    found = {
        key: document
        for document in documents
        if document.source.path in files
        for key in _renders(index, cluster, document)
        if key in running
    }
    chain = _Chain(documents)
    candidates = [one for key in sorted(found) if (one := chain.candidate(running[key], found[key], policies))]
    return PreemptionSources(
        policies=policies,
        candidates=tuple(candidates),
        workloads=found,
        spent=tuple(_spent(documents)),
        problems=tuple(dict.fromkeys(chain.problems)),
    )


def _documents(
    repository: Repository, index: CompiledRevision, cluster: Cluster, files: set[str]
) -> Iterator[Document]:
    """Yield the documents of the cluster that say something about preemption, and those of workloads."""
    sources = index.revision.files.sources
    for path, raw in read_files(repository, sources, sorted(sources)):
        if path in files or any(word in raw for word in _WORDS):
            for document in read(path, raw).documents:
                if selects(cluster, path, document.metadata.get("labels")):
                    yield document


def _renders(index: CompiledRevision, cluster: Cluster, document: Document) -> Iterator[ObjectKey]:
    for one in compile_document(index.context, document).objects:
        if one.manifest.cluster == cluster.name:
            yield one.manifest.key


class _Chain:
    """The rules of workloads: built-in, KaiwoConfig, policy, namespace, workload; the later ones win, key by key."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.problems: list[Problem] = []
        rows = list(documents)
        self._base = IdleRules()
        for one in rows:
            if (one.group, one.kind) == CONFIG:
                self._base = self._checked(one, with_config(self._base, one))
        self._namespaces = {one.key.name: one for one in rows if (one.group, one.kind) == NAMESPACE}

    def candidate(
        self, workload: GpuWorkload, document: Document, policies: Iterable[PreemptionPolicy]
    ) -> PreemptionCandidate | None:
        """Return a workload with the first policy that applies to it; None if none does."""
        namespace = self._namespaces.get(workload.namespace)
        for policy in policies:
            if policy.namespaces and workload.namespace not in policy.namespaces:
                continue
            if policy.kinds and not {workload.kind, document.kind} & set(policy.kinds):
                continue
            rules = self._checked(policy.document, with_policy(self._base, policy.document))
            if namespace is not None:
                rules = self._checked(namespace, with_annotations(rules, namespace))
            rules = self._checked(document, with_annotations(rules, document))
            rules = self._checked(document, with_duration(rules, document))
            if policy.is_selecting or rules.is_enabled is not None or rules.duration_seconds is not None:
                return PreemptionCandidate(workload=workload, rules=rules, policy=policy)
        return None

    def _checked(self, document: Document, made: tuple[IdleRules, list[Violation]]) -> IdleRules:
        rules, violations = made
        self.problems += document.problems(violations)
        return rules


def _spent(documents: Iterable[Document]) -> Iterator[tuple[str, dt.datetime, int]]:
    """Yield what was suspended before, as the annotations say."""
    for document in documents:
        record = _RECORD.match(annotation(document.data, REASON))
        if record is not None:
            yield record["policy"], dt.datetime.fromisoformat(record["time"]), int(record["gpus"])


def suspend(
    index: CompiledRevision,
    cluster: Cluster,
    sources: PreemptionSources,
    verdicts: Iterable[WorkloadVerdict],
    time: str,
) -> SuspendedFile:
    """Return the files in which the chosen workloads are suspended.

    A workload that cannot be suspended without being deleted stays, and so does all that was chosen for the same one.
    """
    chosen = [one for one in verdicts if one.is_suspended]
    changes: dict[ObjectKey, tuple[Document, dict[str, Any]]] = {}
    refused: dict[ObjectKey, str] = {}
    for one in chosen:
        key = one.candidate.workload.key
        document = sources.workloads[key]
        noted = with_value(document.data, ("metadata", "annotations", REASON), _record(one, time))
        edited = suspended_data(index, cluster, document, key, noted)
        if edited is None:
            refused[key] = "it cannot be suspended without being deleted"
        else:
            changes[key] = (sources.workloads[key], edited)
    for one in chosen:
        key = one.candidate.workload.key
        if key in changes and _is_lost(one, chosen, refused):
            del changes[key]
            refused[key] = f"another workload that {one.wanted_for} needs cannot be suspended"
    by_file: dict[str, list[tuple[Document, dict[str, Any]]]] = {}
    for document, data in changes.values():
        by_file.setdefault(document.source.path, []).append((document, data))
    edits = {path: edit_source(rows[0][0].text, rows).content for path, rows in sorted(by_file.items())}
    return SuspendedFile(edits=edits, refused=refused)


def _is_lost(one: WorkloadVerdict, chosen: Iterable[WorkloadVerdict], refused: Mapping[ObjectKey, str]) -> bool:
    """Return whether the demand that a workload is suspended for does not start all the same."""
    return one.wanted_for is not None and any(
        other.wanted_for == one.wanted_for and other.candidate.workload.key in refused for other in chosen
    )


def _record(verdict: WorkloadVerdict, time: str) -> str:
    workload = verdict.candidate.workload
    gpus = f"{workload.gpus} GPU{'' if workload.gpus == 1 else 's'}"
    return f"{verdict.candidate.policy.name} {time} {gpus}: {verdict.reason}"


def suspended_data(
    index: CompiledRevision, cluster: Cluster, document: Document, key: ObjectKey, noted: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the data of a document that suspends its workload: by the annotation, else by `spec.suspend`.

    None if neither does. noted: its data with what is to be noted besides.
    """
    for path, value in ((("metadata", "annotations", SUSPEND), "true"), (("spec", "suspend"), True)):
        data: dict[str, Any] = with_value(noted, path, value)
        content = edit_source(document.text, [(document, data)])
        if content.problems:
            continue
        edited = [one for one in read(document.source.path, content.content).documents if one.key == document.key]
        for one in edited:
            rendered = {
                row.manifest.key: row.summary
                for row in compile_document(index.context, one).objects
                if row.manifest.cluster == cluster.name
            }
            if key in rendered and rendered[key].suspended:
                return data
    return None

"""Typed dependencies: what a compiled file used besides its own bytes, recorded while it is compiled."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.index.context import Context
from reconciler.kinds.aspects import Dependents
from reconciler.kinds.facts import KindId
from reconciler.kinds.kind import FaultyRowError, Kinds
from reconciler.kube.objects import ObjectKey
from reconciler.kube.reasons import Origin
from reconciler.kube.yaml import Document
from reconciler.repo.config import Cluster
from reconciler.repo.evidence.runs import FinishedRun
from reconciler.repo.versions import ComponentVersion
from reconciler.sizing.answers import Answer, Answers
from reconciler.sizing.inventory import Inventory
from reconciler.sizing.tables import SizingTables


class DefinitionDependency(Struct, frozen=True, array_like=True, tag="definition"):
    """One definition, such as a queue. A definition that was not found is a dependency too."""

    group: str
    kind: str
    cluster: str
    namespace: str
    name: str


class NamesDependency(Struct, frozen=True, array_like=True, tag="names"):
    """The names of all definitions of a kind in a namespace."""

    group: str
    kind: str
    cluster: str
    namespace: str


class InventoryDependency(Struct, frozen=True, array_like=True, tag="inventory"):
    """The nodes of a cluster. The time they were read is not part of it."""

    cluster: str


class AnswerDependency(Struct, frozen=True, array_like=True, tag="answer"):
    """A sizing engine's recorded answer to one question. An empty question: whether any answer is recorded."""

    cluster: str
    engine: str
    question: str


class FileDependency(Struct, frozen=True, array_like=True, tag="file"):
    """A configuration file of the repository that a launch line names."""

    path: str


class PathsDependency(Struct, frozen=True, array_like=True, tag="paths"):
    """The paths of all configuration files that a launch line may name."""


class FolderDependency(Struct, frozen=True, array_like=True, tag="folder"):
    """The files of a folder that a document carries to its pods."""

    path: str


class GenerationDependency(Struct, frozen=True, array_like=True, tag="generation"):
    """The suffix under which an object runs, by the path under its own name. Objects without one do not record it."""

    path: str


class RunDependency(Struct, frozen=True, array_like=True, tag="run"):
    """The recorded end of a job, by its path. Jobs that are not recorded do not depend on it."""

    path: str


class RunsDependency(Struct, frozen=True, array_like=True, tag="runs"):
    """A dependency on the recorded finished jobs of a cluster."""

    cluster: str


class VersionDependency(Struct, frozen=True, array_like=True, tag="version"):
    """The version of a component that a cluster runs, and how it is known."""

    cluster: str
    component: str


class ServedDependency(Struct, frozen=True, array_like=True, tag="served"):
    """The definitions of an API group that a cluster serves, as the evidence says."""

    cluster: str
    group: str


_Named = GenerationDependency | RunDependency | RunsDependency | VersionDependency | ServedDependency

Dependency = (
    DefinitionDependency
    | NamesDependency
    | InventoryDependency
    | AnswerDependency
    | FileDependency
    | PathsDependency
    | FolderDependency
    | _Named
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Dependency, ...])


class RecordingLookup:
    """Answers what rendering and sizing ask for besides the document, and records each question as a dependency."""

    def __init__(self, context: Context, cluster: Cluster, dependencies: set[Dependency]) -> None:
        self._context = context
        self._cluster = cluster
        self._dependencies = dependencies

    @property
    def cluster(self) -> Cluster:
        """The cluster that is rendered for."""
        return self._cluster

    @property
    def kinds(self) -> Kinds:
        """The registry of kinds."""
        return self._context.kinds

    @property
    def tables(self) -> SizingTables:
        """The shipped tables of models and GPUs."""
        return self._context.tables

    def inventory(self) -> Inventory | None:
        """Return the measured nodes of the cluster; None without evidence."""
        self._dependencies.add(InventoryDependency(self._cluster.name))
        return self._context.evidence.inventories.get(self._cluster.name)

    def defined(self, kind: KindId, namespace: str, name: str) -> Any | None:
        """Return the intent of a definition that the cluster selects; None if there is none."""
        if self.kinds.find(*kind).source.dependents is not Dependents.NAMED:
            raise FaultyRowError(
                f"{kind[1]} ({kind[0]}) is looked up, but its row has no `dependents=Dependents.NAMED`", kind
            )
        self._dependencies.add(DefinitionDependency(*kind, self._cluster.name, namespace, name))
        definition = self._context.definitions.get((self._cluster.name, kind, namespace), {}).get(name)
        return definition.intent if definition is not None else None

    def defined_names(self, kind: KindId, namespace: str) -> tuple[str, ...]:
        """Return the sorted names of all definitions of a kind in a namespace."""
        self._dependencies.add(NamesDependency(*kind, self._cluster.name, namespace))
        return tuple(sorted(self._context.definitions.get((self._cluster.name, kind, namespace), ())))

    def version(self, component: str) -> ComponentVersion:
        """Return the version of a component that the cluster runs, as far as is known."""
        self._dependencies.add(VersionDependency(self._cluster.name, component))
        return self._context.version(self._cluster.name, component)

    def generation(self, key: ObjectKey) -> str:
        """Return the suffix of the generation in which an object runs; empty if it runs under its own name."""
        generations = self._context.generations
        if not generations:
            return ""
        path = self._context.kinds.manifest_path(self._cluster.name, key)
        suffix = generations.get(path, "")
        if suffix:
            self._dependencies.add(GenerationDependency(path))
        return suffix

    def finished(self, key: ObjectKey) -> FinishedRun | None:
        """Return the recorded end of a job; None if it has not ended."""
        runs = self._context.evidence.runs.get(self._cluster.name)
        run = runs.runs.get(key) if runs is not None else None
        if run is not None:
            self._dependencies.add(RunDependency(self._context.kinds.manifest_path(self._cluster.name, key)))
        return run

    def origin(self, run: FinishedRun) -> Origin | None:
        """Return the place of the end of a job in the evidence."""
        document = self._context.evidence.runs[self._cluster.name].document
        return None if document is None else Origin(document=document, field=run.origin)

    def has_runs(self) -> bool:
        """Return whether finished jobs of the cluster are recorded."""
        self._dependencies.add(RunsDependency(self._cluster.name))
        return self._cluster.name in self._context.evidence.runs

    def answers(self) -> Answers:
        """Return the recorded answers of the cluster's sizing engine; each question asked becomes a dependency."""
        engine = self._cluster.sizing.engine
        known = self._context.evidence.answers.get(self._cluster.name)
        recorded = _RecordedAnswers(self, known.recorded if known is not None else {})
        return Answers(engine=engine, recorded=recorded)

    def answer(self, engine: str, question: str) -> None:
        """Record that the answer to a question was looked up."""
        self._dependencies.add(AnswerDependency(self._cluster.name, engine, question))

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all configuration files that a launch line may name."""
        self._dependencies.add(PathsDependency())
        return tuple(self._context.files)

    def file(self, path: str) -> Document | None:
        """Return a configuration file; None if there is none at this path."""
        self._dependencies.add(FileDependency(path))
        found = self._context.files.get(path)
        return found.document if found is not None else None

    def folder(self, path: str) -> dict[str, bytes]:
        """Return the files of a folder that a document carries to its pods, by path below it."""
        self._dependencies.add(FolderDependency(path))
        return self._context.carried.contents(path)


class _RecordedAnswers(Mapping[tuple[str, str], Answer]):
    """Answers by engine and question. Every access becomes a dependency."""

    def __init__(self, lookup: RecordingLookup, answers: Mapping[tuple[str, str], Answer]) -> None:
        self._lookup = lookup
        self._answers = answers

    def __getitem__(self, key: tuple[str, str]) -> Answer:
        """Return one answer."""
        self._lookup.answer(*key)
        return self._answers[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield the questions that are answered."""
        for key in self._answers:
            self._lookup.answer(*key)
            yield key

    def __len__(self) -> int:
        """Count the answers. Callers only ask whether there are any."""
        self._lookup.answer("", "")
        return len(self._answers)


def encode_dependencies(dependencies: AbstractSet[Dependency]) -> bytes:
    """Encode a set of dependencies: equal sets give equal bytes. The empty set is empty."""
    return _encoder.encode(sorted(dependencies, key=_encoder.encode)) if dependencies else b""


def decode_dependencies(encoded: bytes) -> tuple[Dependency, ...]:
    """Decode a set of dependencies."""
    return _decoder.decode(encoded) if encoded else ()


class DependencyDigests:
    """Digests of what dependencies are worth in one context. Computed once each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sets: dict[bytes, str] = {}

    def of(self, encoded: bytes) -> str:
        """Return the digest of an encoded set, together with the context that every file depends on."""
        if encoded not in self._sets:
            values = [self._value(dependency) for dependency in decode_dependencies(encoded)]
            self._sets[encoded] = sha256(repr((self._context.digest, values)).encode()).hexdigest()
        return self._sets[encoded]

    def of_all(self, encoded_sets: Iterable[bytes]) -> dict[bytes, str]:
        """Return the digest of each distinct encoded set."""
        return {encoded: self.of(encoded) for encoded in dict.fromkeys(encoded_sets)}

    def _value(self, dependency: Dependency) -> object:
        context = self._context
        match dependency:
            case DefinitionDependency():
                key = (dependency.cluster, (dependency.group, dependency.kind), dependency.namespace)
                definition = context.definitions.get(key, {}).get(dependency.name)
                return definition.digest if definition is not None else None
            case NamesDependency():
                key = (dependency.cluster, (dependency.group, dependency.kind), dependency.namespace)
                return sorted(context.definitions.get(key, ()))
            case InventoryDependency():
                return self.inventories.get(dependency.cluster)
            case AnswerDependency():
                return self._answer(dependency)
            case FileDependency() | PathsDependency() | FolderDependency():
                return self._of_files(dependency)
            case _:
                return self._of_names(dependency)

    def _of_names(self, dependency: _Named) -> object:
        if isinstance(dependency, ServedDependency):
            return self._context.served.digest(dependency.cluster, dependency.group)
        if isinstance(dependency, VersionDependency):
            known = self._context.config.cluster(dependency.cluster)
            return None if known is None else repr(self._context.version(known.name, dependency.component))
        if isinstance(dependency, RunsDependency):
            return dependency.cluster in self._context.evidence.runs
        if isinstance(dependency, RunDependency):
            return repr(self._runs.get(dependency.path))
        return self._context.generations.get(dependency.path, "")

    @cached_property
    def _runs(self) -> Mapping[str, FinishedRun]:
        return self._context.finished()

    @cached_property
    def inventories(self) -> dict[str, str]:
        """Digests of the inventories by cluster."""
        return {cluster: _digest_inventory(found) for cluster, found in self._context.evidence.inventories.items()}

    def _of_files(self, dependency: FileDependency | PathsDependency | FolderDependency) -> object:
        if isinstance(dependency, FolderDependency):
            return sorted(self._context.carried.digests(dependency.path).items())
        if isinstance(dependency, PathsDependency):
            return self._paths
        found = self._context.files.get(dependency.path)
        return found.digest if found is not None else None

    @cached_property
    def _paths(self) -> str:
        return sha256("\0".join(self._context.files).encode()).hexdigest()

    def _answer(self, dependency: AnswerDependency) -> object:
        answers = self._context.evidence.answers.get(dependency.cluster)
        if answers is None or not dependency.engine:
            return bool(answers is not None and answers.recorded)
        return repr(answers.recorded.get((dependency.engine, dependency.question)))


def _digest_inventory(inventory: Inventory) -> str:
    """Digest the nodes and their places, which is the whole file except for the value of `takenAt`."""
    taken_at = inventory.taken_at.encode()
    text = inventory.document.text if inventory.document is not None else b""
    head = f"{len(taken_at)} {inventory.document.source if inventory.document is not None else ''}\n".encode()
    digest = sha256(head + text.replace(taken_at, b"", 1))
    digest.update(_encoder.encode(inventory.nodes))
    return digest.hexdigest()

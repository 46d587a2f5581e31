"""The context in which every source file is compiled: configuration, definitions, evidence, policies, schemas."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.checking import PolicyChecker
from reconciler.index.evidence import Evidence, read_evidence
from reconciler.index.parsed import ParsedFile
from reconciler.index.served import ServedKinds
from reconciler.kinds.aspects import Dependents, Holds
from reconciler.kinds.facts import KindId
from reconciler.kinds.health import POLICY, QUARANTINE, policy_of, quarantine_of
from reconciler.kinds.health.jobs import HealthOfJobs
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.wrapped import wrapped_manifests
from reconciler.kube.objects import format_path
from reconciler.kube.problems import Problem
from reconciler.kube.schemas import Catalogue
from reconciler.kube.secrets import mask_findings
from reconciler.kube.yaml import Document
from reconciler.nodehealth.policy import PolicyBook
from reconciler.nodehealth.quarantine import NodeQuarantine
from reconciler.policy.admission import PolicySet, ServerView, Subject, is_mutation
from reconciler.policy.approval import Approval, read_approvals
from reconciler.policy.exceptions import PolicyException
from reconciler.policy.rule_book import RuleBook, load_rules
from reconciler.repo.config import Cluster, Config
from reconciler.repo.config.external import External
from reconciler.repo.evidence.runs import FinishedRun
from reconciler.repo.files import BlobIds, below, selects
from reconciler.repo.versions import ComponentVersion, component_version
from reconciler.sizing.inventory import with_quarantined
from reconciler.sizing.tables import SizingTables


class Definition:
    """A document that other documents look up, and its digest."""

    def __init__(self, document: Document, digest: str, row: Kind | None = None) -> None:
        self.document = document
        self.digest = digest
        self._row = row

    @cached_property
    def intent(self) -> Any:
        """The parsed document, or the document itself if its kind has no parser. Parsed on the first use."""
        if self._row is None or self._row.source.parse is None:
            return self.document
        intent = self._row.source.parse(self.document).intent
        if intent is None:
            raise TypeError(f"{self.document.source} is not valid")
        return intent


class CarriedFiles(Struct, frozen=True, kw_only=True, eq=False):
    """The files of folders that source documents carry to their pods: blob ids by path, and what reads them."""

    blobs: BlobIds = {}
    read: Callable[[Iterable[str]], Iterable[bytes]] = lambda _: ()

    def digests(self, folder: str) -> BlobIds:
        """Return the blob ids of the files below a folder."""
        return below(self.blobs, folder)

    def contents(self, folder: str) -> dict[str, bytes]:
        """Return the files below a folder, by path below it."""
        found = self.digests(folder)
        names = (path.removeprefix(f"{folder}/") for path in found)
        return dict(zip(names, self.read(found.values()), strict=True))


Definitions = Mapping[tuple[str, KindId, str], Mapping[str, Definition]]
"""By cluster, kind and namespace (empty for cluster-scoped kinds), then by name."""


class Context(Struct, frozen=True, kw_only=True):
    """Everything a file needs besides its own bytes. `digest` covers what every file depends on.

    The rest is covered by typed dependencies: definitions, evidence, `files`, which launch lines name, and `carried`.
    """

    config: Config
    clusters: tuple[Cluster, ...]
    kinds: Kinds
    catalogue: Catalogue
    tables: SizingTables
    rules: RuleBook
    approvals: tuple[Approval, ...]
    checker: PolicyChecker
    object_format: str
    digest: str
    definitions: Definitions
    evidence: Evidence
    files: Mapping[str, Definition]
    carried: CarriedFiles
    namespaces: Mapping[tuple[str, str], Mapping[str, Any]]
    problems: tuple[Problem, ...]
    served: ServedKinds
    asks_servers: bool = False  # dry runs of live clusters decide what other versions of a definition may have
    health_of_jobs: Mapping[str, HealthOfJobs] = {}  # by cluster
    generations: Mapping[str, str] = {}  # suffixes by the path of the object under its own name

    @property
    def policies(self) -> PolicySet:
        """The admission policies."""
        return self.rules.policies

    @property
    def exceptions(self) -> tuple[PolicyException, ...]:
        """The exceptions from rules."""
        return self.rules.exceptions

    def version(self, cluster: str, component: str) -> ComponentVersion:
        """Return the version of a component (`kube.schemas.components`) that a cluster runs, as far as is known."""
        (known,) = (one for one in self.config.clusters if one.name == cluster)
        evidence = self.evidence.definitions.get(cluster)
        observed = {} if evidence is None else evidence.versions
        return component_version(component, known, observed=observed, shipped=self.catalogue.archive.versions)

    def finished(self) -> dict[str, FinishedRun]:
        """Return the recorded ends of jobs by the path of each job."""
        return {
            self.kinds.manifest_path(cluster, run.key): run
            for cluster, found in self.evidence.runs.items()
            for run in found.runs.values()
        }

    def subject(self, manifest: Manifest, old: Mapping[str, Any] | None) -> Subject:
        """Return what policies are evaluated on, when a manifest replaces `old` (None: is created)."""
        wrapped = tuple(
            (format_path(path), Subject(inner, None, self._namespace(inner)))
            for path, inner in wrapped_manifests(self.kinds, manifest, old)
        )
        return Subject(manifest, old, self._namespace(manifest), wrapped=wrapped)

    def deletion(self, manifest: Manifest) -> Subject:
        """Return what policies are evaluated on when an existing object is deleted."""
        return Subject(manifest, None, self._namespace(manifest), deletes=True)

    def _namespace(self, manifest: Manifest) -> Mapping[str, Any] | None:
        return self.namespaces.get((manifest.cluster, manifest.key.namespace))


def quarantines_of(definitions: Definitions, cluster: str) -> dict[str, NodeQuarantine]:
    """Return the quarantines of a cluster by their names."""
    found = definitions.get((cluster, QUARANTINE, ""))
    return {name: quarantine_of(one.document) for name, one in found.items()} if found else {}


def _health_of_jobs(clusters: tuple[Cluster, ...], definitions: Definitions) -> dict[str, HealthOfJobs]:
    """Return what base policies change in jobs, by cluster; clusters where nothing changes are not in the mapping."""
    rules = {}
    for cluster in clusters:
        found = [one.document for one in definitions.get((cluster.name, POLICY, ""), {}).values()]
        if not found:
            continue
        book = PolicyBook(map(policy_of, found))
        health = HealthOfJobs(rule=book.base.jobs, document=min(found, key=lambda one: policy_of(one).rank))
        if health.changes:
            rules[cluster.name] = health
    return rules


def _without_quarantined(evidence: Evidence, definitions: Definitions) -> Evidence:
    """Return the evidence whose inventories lack the nodes that Git keeps out of use."""
    inventories = dict(evidence.measured)
    for cluster, inventory in evidence.measured.items():
        taken = {one.node for one in quarantines_of(definitions, cluster).values() if one.takes_node}
        inventories[cluster] = with_quarantined(inventory, taken) if taken else inventory
    return replace(evidence, inventories=inventories)


def is_launch_configuration(data: Mapping[str, Any]) -> bool:
    """Return whether a document is a configuration file that launch lines name. Such files are never rendered."""
    if "kind" in data or "apiVersion" in data:
        return False
    from reconciler.launch import is_configuration  # noqa: PLC0415 - imports all frameworks, which few runs need

    return is_configuration(data)


def may_define(raw: bytes, kinds: Kinds, *, always: bool = False) -> bool:
    """Return whether a file may hold a definition. False positives are possible, false negatives are not.

    always: one that is needed even where no file looks up a kind of which few do (`Source.looked_up`).
    Compilation refuses definitions whose kind is written with escapes, which this would miss.
    """
    return b"apiVersion" not in raw or any(
        kind in raw and (not words or (not always and any(word in raw for word in words)))
        for kind, words in kinds.definition_words
    )


def build_context(
    config: Config,
    *,
    engine: str,
    object_format: str,
    kinds: Kinds,
    catalogue: Catalogue,
    tables: SizingTables,
    shipped: Sequence[Document],
    policies: Sequence[ParsedFile],
    evidence: Sequence[ParsedFile],
    approvals: Sequence[ParsedFile],
    definitions: Sequence[ParsedFile],
    clusters: tuple[Cluster, ...],
    checker: PolicyChecker,
    carried: CarriedFiles,
) -> Context:
    """Evaluate the small files that matter to all others. Problems are collected, never raised."""
    documents = [document for file in definitions for document in file.documents]
    approved, approval_problems = read_approvals([document for file in approvals for document in file.valid])
    measured = read_evidence(config, clusters, kinds, evidence)
    catalogue, bodies = _with_definitions(config, kinds, catalogue, documents)
    rules = _rules(config, catalogue, shipped, policies, documents, checker=checker)
    found = _definitions(clusters, definitions, kinds, catalogue)
    jobs = _health_of_jobs(clusters, found)
    of_files = (problem for file in (*policies, *approvals) for problem in file.problems)
    return Context(
        config=config,
        clusters=clusters,
        kinds=kinds,
        catalogue=catalogue,
        tables=tables,
        rules=rules,
        approvals=approved,
        checker=checker,
        object_format=object_format,
        digest=_digest(engine, config, (rules.policies, jobs), definitions, kinds),
        definitions=found,
        evidence=_without_quarantined(measured, found),
        served=ServedKinds(catalogue, measured.definitions, bodies),
        health_of_jobs=jobs,
        files=_launch_configurations(definitions),
        carried=carried,
        namespaces=_namespaces(clusters, documents, kinds),
        problems=mask_findings((*of_files, *measured.problems, *rules.problems, *approval_problems)),
    )


def _with_definitions(
    config: Config, kinds: Kinds, catalogue: Catalogue, documents: Iterable[Document]
) -> tuple[Catalogue, list[dict[str, Any]]]:
    """Return the catalogue with the definitions of the repository, and these; only clusters have external ones."""
    bodies = [one.data for one in documents if kinds.find(one.group, one.kind).holds is Holds.KINDS]
    return catalogue.with_external(_external_definitions(config, kinds)).with_definitions(bodies), bodies


def _rules(
    config: Config,
    catalogue: Catalogue,
    shipped: Sequence[Document],
    policies: Iterable[ParsedFile],
    definitions: Iterable[Document],
    *,
    checker: PolicyChecker,
) -> RuleBook:
    """Return the rules, which see objects as the servers of these kinds hand them over."""
    requesters = {one.name: one.applied_by for one in config.clusters if one.applied_by is not None}
    own = [document for file in policies for document in file.valid]
    own += filter(is_mutation, definitions)  # it is in force once it is applied
    return load_rules(
        own,
        config.rules,
        shipped=shipped,
        check=checker.check,
        server=ServerView(stored=catalogue.stored, served=catalogue.resource, requesters=requesters),
    )


def _digest(
    engine: str,
    config: Config,
    rules: tuple[PolicySet, Mapping[str, HealthOfJobs]],
    definitions: Sequence[ParsedFile],
    kinds: Kinds,
) -> str:
    """Digest what every file depends on. Of definitions those are the global ones, such as namespaces.

    Of health policies it is what they change in jobs, so that a threshold compiles no file again.
    """
    policies, jobs = rules
    health = sorted((cluster, repr(one.rule), str(one.document.source)) for cluster, one in jobs.items())
    all_depend = sorted(
        digest
        for file in definitions
        for document, digest in zip(file.documents, file.digests, strict=True)
        if kinds.find(document.group, document.kind).source.dependents is Dependents.ALL
    )
    return sha256(repr((engine, config, policies.digest, all_depend, health)).encode()).hexdigest()


def _launch_configurations(files: Iterable[ParsedFile]) -> dict[str, Definition]:
    return {
        file.path: Definition(document, digest)
        for file in files
        for document, digest in zip(file.documents, file.digests, strict=True)
        if is_launch_configuration(document.data)
    }


def _namespaces(
    clusters: tuple[Cluster, ...], documents: Iterable[Document], kinds: Kinds
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the Namespaces by cluster and name."""
    return {
        (cluster.name, document.key.name): document.data
        for document in documents
        if kinds.find(document.group, document.kind).holds is Holds.OBJECTS
        for cluster in clusters
        if selects(cluster, document.source.path, document.metadata.get("labels"))
    }


def _external_definitions(config: Config, kinds: Kinds) -> Iterator[str]:
    """Return the names of the definitions that a cluster has and this repository lacks."""
    defining = {row.kind for row in kinds.definitions if row.holds is Holds.KINDS}
    return (name for cluster in config.clusters for kind in defining for name in External(cluster).names_of(kind))


def _definitions(
    clusters: tuple[Cluster, ...], files: Iterable[ParsedFile], kinds: Kinds, catalogue: Catalogue
) -> Definitions:
    """Return the valid definitions. Of two with one name the first file counts; compilation reports invalid ones."""
    found: dict[tuple[str, KindId, str], dict[str, Definition]] = {}
    for file in files:
        for document, is_valid, digest in zip(file.documents, file.is_valid, file.digests, strict=True):
            row = kinds.find(document.group, document.kind)
            if row.source.dependents is not Dependents.NAMED or not is_valid:
                continue
            key, definition = document.key, Definition(document, digest, row)
            is_namespaced = catalogue.is_namespaced(key.group, key.kind) is not False
            for cluster in clusters:
                if selects(cluster, document.source.path, document.metadata.get("labels")):
                    namespace = (key.namespace or cluster.namespace) if is_namespaced else ""
                    found.setdefault((cluster.name, row.id, namespace), {}).setdefault(key.name, definition)
    return found

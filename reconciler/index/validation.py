"""Validate documents and rendered objects by what the clusters serve that they are for.

Evidence decides about kinds of CustomResourceDefinitions, each cluster about its own; without it the definitions that
ship do. What was looked up is recorded as a dependency.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from reconciler.index.context import Context
from reconciler.index.dependencies import Dependency, ServedDependency
from reconciler.index.served import KnownKind
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath, split_api_version
from reconciler.kube.problems import Problem, Severity, Violation
from reconciler.kube.schemas.catalogue import OWN_GROUPS
from reconciler.kube.schemas.messages import UNKNOWN_FIELD
from reconciler.kube.values import enumerated, value_at
from reconciler.kube.yaml import Document
from reconciler.repo.config import Cluster

OF_VERSIONS = frozenset((UNKNOWN_FIELD, "schema.unknown-version"))
"""Rules about what other versions of a definition have."""


def validated(
    context: Context,
    document: Document,
    clusters: Iterable[Cluster],
    dependencies: set[Dependency],
    path: FieldPath = (),
) -> Sequence[Problem]:
    """Return what the API servers of clusters refuse in a document, or in the object at a path in it."""
    body = value_at(document.data, path)
    api_version, kind = str(body.get("apiVersion", "")), str(body.get("kind", ""))
    group, _ = split_api_version(api_version)
    known: dict[KnownKind | None, list[str]] = {}
    problems: list[Problem] = []
    if context.served.is_observed(group, kind):
        for cluster in clusters:
            dependencies.add(ServedDependency(cluster.name, group))
            known.setdefault(context.served.find(cluster.name, group, kind), []).append(cluster.name)
            if context.served.lacks(cluster.name, group, kind):
                problems.append(_not_served(document, path, cluster.name, kind, group))
    for one, names in known.items() or ((None, []),):
        if one is None:
            problems += context.catalogue.validate(document, path)
        elif one.problems:
            problems += one.problems
        else:
            words = _servers(names, group, one)
            found = one.catalogue.validate(document, path)
            problems += (replace(each, message=_of(each.rule, each.message, words)) for each in found)
    if context.asks_servers and group not in OWN_GROUPS:
        problems = [_left_to_server(problem) for problem in problems]
    return problems


def rendered_violations(
    context: Context, manifest: Manifest, dependencies: set[Dependency]
) -> Iterator[Violation | Problem]:
    """Yield what the API server of its cluster refuses in a rendered object."""
    group, kind = manifest.key.group, manifest.key.kind
    known = None
    if context.served.is_observed(group, kind):
        dependencies.add(ServedDependency(manifest.cluster, group))
        known = context.served.find(manifest.cluster, group, kind)
    if known is None:
        yield from context.catalogue.violations(manifest.body)
    elif known.problems:
        yield from known.problems
    else:
        words = _servers([manifest.cluster], group, known)
        found = known.catalogue.violations(manifest.body)
        yield from (replace(one, message=_of(one.rule, one.message, words)) for one in found)


def _servers(names: Sequence[str], group: str, known: KnownKind) -> str:
    versions = enumerated([f"{group}/{version}" for version in known.versions])
    clusters = f"cluster {names[0]} serves" if len(names) == 1 else f"clusters {enumerated(names)} serve"
    return f"{clusters} {versions}"


def _of(rule: str, message: str, words: str) -> str:
    """Return a message that says whose definition it is about."""
    return f"{message} ({words})" if rule.startswith("schema.") else message


def _left_to_server(problem: Problem) -> Problem:
    """Return what another version of a definition may have as a warning: the dry run refuses it if it must."""
    if problem.rule not in OF_VERSIONS or problem.severity is not Severity.ERROR:
        return problem
    return replace(problem, severity=Severity.WARNING, hint=f"{problem.hint}; the dry run of the server decides")


def _not_served(document: Document, path: FieldPath, cluster: str, kind: str, group: str) -> Problem:
    place = (*path, "kind")
    return Violation(
        rule="schema.not-served",
        path=place,
        message=f"cluster {cluster} serves other kinds of {group}, and no {kind}",
        hint="install its CustomResourceDefinition, or run `reconciler observe` if the cluster has it",
        severity=Severity.WARNING,
    ).at(document.at(place))

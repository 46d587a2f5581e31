"""Referenced objects exist: in this repository, in the cluster by `external`, or in every cluster."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

from msgspec.structs import replace

from reconciler.kinds.aspects import Holds
from reconciler.kinds.facts import KindId, QueueRole
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.manifests.generations import base_name
from reconciler.kinds.summary import ObjectSummary, Reference
from reconciler.kube.objects import ObjectKey
from reconciler.policy.references.rules import Evaluation
from reconciler.repo.config.external import External

# Claims that several workloads write to.


_MAX_NAMES = 3


def check_claims(evaluation: Evaluation, rows: Sequence[ObjectSummary]) -> None:
    """Report the folders of claims that workloads of several documents write to, each at the first of them.

    The objects that one document renders belong together, and a claim that a queue defines is for all its jobs.
    """
    writers: dict[tuple[str, str, str], list[tuple[ObjectSummary, Reference]]] = {}
    for row in rows:
        for reference in row.references:
            for folder in reference.writes:
                writers.setdefault((reference.namespace, reference.name, folder), []).append((row, reference))
    several = {what: found for what, found in writers.items() if len({row.place for row, _ in found}) > 1}
    if not several:
        return
    queues = {row.place for row in rows if row.queue_role is not QueueRole.NONE and not row.is_workload}
    own = {(row.namespace, row.name) for row in rows if row.place in queues}
    for (namespace, name, folder), found in sorted(several.items()):
        if (namespace, name) in own:
            continue
        first = {row.place: (row, reference) for row, reference in reversed(found)}
        (row, reference), *others = (first[place] for place in sorted(first))
        names = ", ".join(_name(evaluation, other) for other, _ in others[:_MAX_NAMES])
        more = f" and {len(others) - _MAX_NAMES} more" if len(others) > _MAX_NAMES else ""
        where = f"folder {folder!r} of claim {name}" if folder else f"claim {name}"
        verb = "does" if len(others) == 1 else "do"
        evaluation.report(
            "reference.shared-claim",
            row,
            f"writes to {where}, and so {verb} {names}{more}",
            hint="give each workload a claim or a subPath of its own, or mount the claim with readOnly",
            field=reference.field,
        )


def _name(evaluation: Evaluation, row: ObjectSummary) -> str:
    """Return the name of a workload without the suffix of its generation, which changes with each replacement."""
    has_generations = evaluation.kinds.find(row.group, row.kind).life.has_generations
    return str(replace(row.key, name=base_name(row.name)) if has_generations else row.key)


class ReferenceTargets:
    """The objects that a rule requires to exist where others refer to them, by kind, namespace and name."""

    def __init__(self, kinds: Kinds, rows: Iterable[ObjectSummary]) -> None:
        wanted = {row.id for row in kinds.values() if row.naming.rule or row.holds is Holds.OBJECTS}
        self.known = {
            ((row.group, row.kind), row.namespace, row.name) for row in rows if (row.group, row.kind) in wanted
        }

    @cached_property
    def names(self) -> Mapping[tuple[KindId, str], list[str]]:
        """Names by kind and namespace."""
        names: dict[tuple[KindId, str], list[str]] = {}
        for kind, namespace, name in self.known:
            names.setdefault((kind, namespace), []).append(name)
        return names

    @cached_property
    def namespaces(self) -> Mapping[tuple[KindId, str], str]:
        """The first namespace that has an object of a kind and name."""
        first: dict[tuple[KindId, str], str] = {}
        for kind, namespace, name in self.known:
            first[kind, name] = min(namespace, first.get((kind, name), namespace))
        return first


def check_existence(evaluation: Evaluation, rows: Sequence[ObjectSummary]) -> None:
    """Check every reference, and every namespace that holds objects."""
    known = ReferenceTargets(evaluation.kinds, rows)
    check_references(evaluation, rows, known)
    check_claims(evaluation, rows)
    external = External(evaluation.cluster)
    for kind in evaluation.kinds.values():
        if kind.holds is Holds.OBJECTS:
            _check_namespaces(evaluation, rows, kind, known, external)


def check_references(evaluation: Evaluation, rows: Iterable[ObjectSummary], targets: ReferenceTargets) -> None:
    """Check that what objects refer to is among the targets or external."""
    external, known = External(evaluation.cluster), targets.known
    for row in rows:
        for reference in row.references:
            if ((reference.group, reference.kind), reference.namespace, reference.name) not in known:
                _check_reference(evaluation, row, reference, targets, external)


def _existing(evaluation: Evaluation, kind: Kind) -> tuple[str, ...]:
    """Return the names that every cluster of the backend has, in every namespace."""
    backends = dict(kind.naming.existing_with)
    return (*kind.naming.existing, *backends.get(evaluation.cluster.backend, ()))


def _check_reference(
    evaluation: Evaluation, row: ObjectSummary, reference: Reference, targets: ReferenceTargets, external: External
) -> None:
    target = evaluation.kinds.find(reference.group, reference.kind)
    kind, namespace, name = reference.kind, reference.namespace, reference.name
    if name in _existing(evaluation, target) or external.has(kind, namespace, name):
        return
    rule = "reference.parent" if target.id == (row.group, row.kind) else target.naming.rule
    if not rule or not evaluation.is_enabled(rule):
        return
    whole = f"{namespace}/{name}" if namespace else name
    message = f"refers to {kind} {whole}, which is neither in this repository nor in `external` of "
    message += evaluation.cluster.name
    elsewhere = targets.namespaces.get((target.id, name))
    declare = f"add the {kind}, or add {kind}/{whole} to spec.clusters[].external if the cluster has it"
    if elsewhere is not None and not target.is_cluster_scoped:
        hint = f"namespace {elsewhere} has one of this name, but references stay within a namespace; {declare}"
    else:
        names = targets.names.get((target.id, namespace), ())
        suggestion = evaluation.suggest(name, chain(names, external.names_of(kind)))
        hint = f"{suggestion} if not, {declare}" if suggestion else declare
    evaluation.report(rule, row, message, hint=hint, field=reference.field)


def _check_namespaces(
    evaluation: Evaluation, rows: Sequence[ObjectSummary], kind: Kind, targets: ReferenceTargets, external: External
) -> None:
    """Check namespaces if the repository manages any: many repositories leave them to another team."""
    managed = {name for known_kind, _, name in targets.known if known_kind == kind.id}
    if not managed and not evaluation.cluster.has_external(kind.kind):
        return
    present = {*managed, *_existing(evaluation, kind), ""}
    missing: dict[str, list[ObjectSummary]] = {}
    for row in rows:
        if row.namespace not in present:
            missing.setdefault(row.namespace, []).append(row)
    for namespace, inside in sorted(missing.items()):
        if external.has(kind.kind, "", namespace):
            continue
        first = min(inside, key=lambda row: row.place)
        suggestion = evaluation.suggest(namespace, chain(managed, external.names_of(kind.kind)))
        declare = f"add the Namespace, or add Namespace/{namespace} to spec.clusters[].external if the cluster has it"
        evaluation.report_object(
            "reference.namespace",
            ObjectKey(group=kind.group, kind=kind.kind, namespace="", name=namespace),
            first.place,
            f"{len(inside)} object{'' if len(inside) == 1 else 's'} in it, but neither this repository nor `external`"
            " has the namespace",
            hint=f"{suggestion} if not, {declare}" if suggestion else declare,
        )

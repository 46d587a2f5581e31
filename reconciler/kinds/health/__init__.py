"""Node health (`gpureconciler.io`): policies, and quarantines of nodes. Both are rendered as they are written."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from reconciler.kinds.aspects import Dependents, Life, Lookup, Source
from reconciler.kinds.kind import Kind
from reconciler.kinds.manifests.plain import render_plain
from reconciler.kinds.rendered import Rendered
from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.patterns import later
from reconciler.kube.problems import Parsed, Problem, Severity
from reconciler.kube.values import mapping
from reconciler.kube.yaml import Document
from reconciler.nodehealth.policy import (
    REVIEWED_ONLY,
    CheckMode,
    FabricTest,
    HealthPolicy,
    Lane,
    NetworkTest,
    PolicyDocument,
    read_policy,
)
from reconciler.nodehealth.quarantine import NodeQuarantine, read_quarantine
from reconciler.repo.config.config import GROUP

POLICY = (GROUP, "HealthPolicy")
QUARANTINE = (GROUP, "NodeQuarantine")
REPORT = (GROUP, "NodeHealthReport")

_MAX_TTL = 86400.0
_MAX_TEST_NAME = 40  # with the name of the policy: names of pods and services have 63 characters
_TEST_NAME = later(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_XID = later(r"0|[1-9][0-9]{0,8}")  # as the kernel prints it


class PolicyIntent(Struct, frozen=True, kw_only=True):
    """A HealthPolicy, and the document that says it."""

    document: Document
    policy: PolicyDocument


class QuarantineIntent(Struct, frozen=True, kw_only=True):
    """A NodeQuarantine, and the document that says it."""

    document: Document
    quarantine: NodeQuarantine


def parse_policy(document: Document) -> Parsed[PolicyIntent]:
    """Read a HealthPolicy that its schema has accepted."""
    spec, name = mapping(document.data.get("spec")), document.key.name
    problems = tuple(_policy_problems(document, read_policy(name, spec)))
    return _parsed(PolicyIntent(document=document, policy=policy_of(document)), problems)


def policy_of(document: Document) -> PolicyDocument:
    """Return the policy of a document, whatever problems it has besides its schema."""
    return policy_from(document.key.name, mapping(document.data.get("spec")))


def policy_from(name: str, spec: Mapping[str, Any]) -> PolicyDocument:
    """Return the policy with this name and spec."""
    labels = mapping(mapping(spec.get("selector")).get("nodeLabels"))
    return PolicyDocument(name=name, node_labels=labels, spec=spec)


def quarantine_of(document: Document) -> NodeQuarantine:
    """Return the quarantine of a document."""
    return read_quarantine(document.key.name, mapping(document.data.get("spec")), document.source)


def parse_quarantine(document: Document) -> Parsed[QuarantineIntent]:
    """Read a NodeQuarantine that its schema has accepted."""
    quarantine = quarantine_of(document)
    problems: tuple[Problem, ...] = ()
    if not quarantine.uid:
        message = "names no `nodeUID`, so a new node of the same name would be kept out of use as well"
        problems = (_problem(document, ("spec",), message, "add `nodeUID`", Severity.WARNING),)
    return _parsed(QuarantineIntent(document=document, quarantine=quarantine), problems)


def _parsed(intent: Any, problems: tuple[Problem, ...]) -> Parsed[Any]:
    failed = any(problem.severity is Severity.ERROR for problem in problems)
    return Parsed(intent=None if failed else intent, problems=problems)


def _render_quarantine(intent: QuarantineIntent, lookup: Lookup) -> Rendered:
    return Rendered(manifests=(render_plain(intent.document, lookup.cluster, namespaced=False),))


def _render_policy(intent: PolicyIntent, lookup: Lookup) -> Rendered:
    policy = render_plain(intent.document, lookup.cluster, namespaced=False)
    if "networkTests" not in intent.policy.spec:
        return Rendered(manifests=(policy,))
    from reconciler.kinds.health.network import network_manifests  # noqa: PLC0415 - few policies declare tests

    return Rendered(manifests=(policy, *network_manifests(intent.document, lookup)))


def _policy_problems(document: Document, policy: HealthPolicy) -> Iterator[Problem]:
    yield from _unknown_names(document, policy)
    yield from _bad_xids(document, policy)
    life, preflight = policy.lifecycle, policy.jobs.preflight
    if life.confirmations > life.of:
        field: FieldPath = ("spec", "lifecycle", "confirmations")
        message = f"{life.confirmations} of {life.of} reports can never agree"
        yield _problem(document, field, message, "make `of` at least as large")
    if life.ttl > _MAX_TTL:
        message = "is longer than 24h, the most that the fast lane may do without a merge"
        yield _problem(document, ("spec", "lifecycle", "ttl"), message, "set 24h or less")
    if preflight.jobs != "none" and not preflight.image:
        field = ("spec", "jobs", "preflight")
        yield _problem(document, field, "there is no image, so no job could be checked", "set `image`")
    elif preflight.image and "@sha256:" not in preflight.image:
        field = ("spec", "jobs", "preflight", "image")
        message, hint = "names no digest, so it may change without a review", "write it as IMAGE@sha256:DIGEST"
        yield _problem(document, field, message, hint, Severity.WARNING)
    for index, driver in enumerate(policy.expected.denied_drivers):
        if driver in policy.expected.drivers:
            field = ("spec", "expected", "deniedDrivers", index)
            yield _problem(document, field, f"driver {driver} is allowed as well", "remove it from one of the lists")
    yield from _lane_problems(document, policy)
    yield from _network_problems(document, policy)


def _lane_problems(document: Document, policy: HealthPolicy) -> Iterator[Problem]:
    for kind, rules in (("checks", policy.checks), ("xid", policy.xid)):
        for name, rule in rules.items():
            if rule.lane is Lane.FAST and rule.mode in (CheckMode.SHADOW, CheckMode.PROPOSE):
                field = ("spec", kind, name, "lane")
                message = f"the fast lane acts only with mode enforce, and the mode is {rule.mode}"
                yield _problem(document, field, message, "set `mode: enforce`, or `lane: reviewed`", Severity.WARNING)
            if rule.lane is Lane.FAST and name in REVIEWED_ONLY:
                message = "is about two nodes and cannot tell which of them is at fault, so a person decides"
                yield _problem(document, ("spec", kind, name, "lane"), message, "set `lane: reviewed`")


def _network_problems(document: Document, policy: HealthPolicy) -> Iterator[Problem]:
    for name, test in policy.network_tests.items():
        yield from _test_problems(document, ("spec", "networkTests", name), test)
        if len(f"{policy.name}{name}") > _MAX_TEST_NAME:
            message = f"is too long together with the name of the policy, {policy.name}"
            hint = f"use at most {_MAX_TEST_NAME} characters for both"
            yield _problem(document, ("spec", "networkTests", name), message, hint)


def _test_problems(document: Document, field: FieldPath, test: NetworkTest) -> Iterator[Problem]:
    if not _TEST_NAME.fullmatch(str(field[-1])):
        yield _problem(document, field, "is no part of a name of Kubernetes", "use lower case, digits and `-`")
    if len(set(test.nodes)) < len(test.nodes):
        yield _problem(document, (*field, "nodes"), "names a node twice", "name each node once")
    is_write = test.test is FabricTest.IB_WRITE
    if is_write and len(test.nodes) != 2:  # noqa: PLR2004 - a pair
        yield _problem(document, (*field, "nodes"), "ib_write_bw runs between two nodes", "name two nodes")
    if is_write and not test.rate and not test.floor:
        yield _problem(document, field, "nothing is known to compare its result with", "set `rate` or `floor`")
    if not is_write and len(test.nodes) * test.gpus < 2:  # noqa: PLR2004 - an all-reduce
        yield _problem(document, (*field, "gpus"), "an all-reduce of one GPU measures nothing", "set 2 or more")
    if "@sha256:" not in test.image:
        message, hint = "names no digest, so it may change without a review", "write it as IMAGE@sha256:DIGEST"
        yield _problem(document, (*field, "image"), message, hint, Severity.WARNING)


def _unknown_names(document: Document, policy: HealthPolicy) -> Iterator[Problem]:
    """Report checks and limits that do not exist: a rule with a typing error would silently do nothing."""
    from reconciler.nodehealth import catalogue, limits  # noqa: PLC0415 - only repositories with a policy need them

    for name, rule in policy.checks.items():
        if name not in catalogue.BY_ID:
            yield _unknown(document, ("spec", "checks", name), name, catalogue.BY_ID)
            continue
        for limit in rule.limits:
            if limit not in catalogue.BY_ID[name].limits:
                field = ("spec", "checks", name, "limits", limit)
                yield _unknown(document, field, limit, catalogue.BY_ID[name].limits, f"of {name}", noun="limit")
            elif limit not in limits.limit_names(name):
                field = ("spec", "checks", name, "limits", limit)
                message = "has no effect: agents judge by the catalogue, and this limit is not judged again"
                hint = f"limits with an effect: {', '.join(sorted(limits.limit_names(name))) or 'none of this check'}"
                yield _problem(document, field, message, hint, Severity.WARNING)
    for index, name in enumerate(policy.jobs.preflight.checks):
        if name not in catalogue.BY_ID:
            yield _unknown(document, ("spec", "jobs", "preflight", "checks", index), name, catalogue.BY_ID)


def _bad_xids(document: Document, policy: HealthPolicy) -> Iterator[Problem]:
    """Report keys that no message of the kernel contains: their rules would silently do nothing."""
    for code in policy.xid:
        if not _XID.fullmatch(code):
            plain = code.strip().lstrip("0")
            hint = f"write it as {plain}" if _XID.fullmatch(plain) else "use a number, as in NVIDIA's catalogue of Xids"
            yield _problem(document, ("spec", "xid", code), f"{code!r} is not the number of an Xid", hint)


def _unknown(
    document: Document, field: FieldPath, name: str, known: Iterable[str], of: str = "", *, noun: str = "check"
) -> Problem:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known)) or 'none'}"
    return _problem(document, field, f"unknown {noun} {name!r}{of and f' {of}'}", hint)


def _problem(
    document: Document, path: FieldPath, message: str, hint: str, severity: Severity = Severity.ERROR
) -> Problem:
    rule = "health.policy" if document.kind == POLICY[1] else "health.quarantine"
    place, field = document.at(path), format_path(path)
    return Problem(rule=rule, place=place, field=field, message=message, hint=hint, severity=severity)


KINDS = (
    Kind(
        group=GROUP,
        kind=POLICY[1],
        is_cluster_scoped=True,
        source=Source(parse=parse_policy, render=_render_policy, dependents=Dependents.NAMED),
    ),
    Kind(
        group=GROUP,
        kind=QUARANTINE[1],
        is_cluster_scoped=True,
        source=Source(parse=parse_quarantine, render=_render_quarantine, dependents=Dependents.NAMED),
        life=Life(never_moves=True),
    ),
)

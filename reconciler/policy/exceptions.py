"""`PolicyException` files: permission for one object, or for those of a selector, to break a rule until a date."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.secrets import mask_text
from reconciler.kube.values import mapping, plural
from reconciler.kube.yaml import Document
from reconciler.policy.verdict import Result, Verdict

KIND, GROUP = "PolicyException", "gpureconciler.io"
PLAN = ObjectKey(group=GROUP, kind="Plan", namespace="", name="plan")
"""What verdicts about a plan as a whole are about."""
_DATE = later(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")


class ExceptionInForce(Struct, frozen=True, kw_only=True):
    """An exception file that is valid on the date of the plan; `used` is False if it excepts nothing."""

    rule: str
    target: str
    reason: str
    owner: str
    expires: str  # YYYY-MM-DD
    place: SourceRef
    used: bool = True


class ObjectSelector(Struct, frozen=True, kw_only=True):
    """The objects of some kinds and namespaces (empty: all) that have some labels."""

    kinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def selects(self, verdict: Verdict) -> bool:
        """Return whether the object of a verdict is one of them. Plans are named, never selected."""
        key = verdict.key
        return (
            key != PLAN
            and (not self.kinds or key.kind in self.kinds)
            and (not self.namespaces or key.namespace in self.namespaces)
            and set(self.labels) <= set(verdict.labels)
        )

    def __str__(self) -> str:
        """Return `Job, Pod in team-a with team=vision`."""
        kinds = ", ".join(self.kinds) or "all kinds"
        inside = f" in {', '.join(self.namespaces)}" if self.namespaces else ""
        having = f" with {', '.join(f'{name}={value}' for name, value in self.labels)}" if self.labels else ""
        return f"{kinds}{inside}{having}"


class PolicyException(Struct, frozen=True, kw_only=True):
    """An exception from `rule` for one object, or for those of `selector`.

    It is valid in one cluster or all (empty), through the day `expires`.
    """

    rule: str
    kind: str
    namespace: str
    name: str
    selector: ObjectSelector | None
    cluster: str
    reason: str
    owner: str
    expires: str
    place: SourceRef
    expires_place: SourceRef

    def covers(self, verdict: Verdict) -> bool:
        """Return whether the exception applies to this verdict."""
        if self.rule != verdict.rule or self.cluster not in ("", verdict.cluster):
            return False
        if self.selector is not None:
            return self.selector.selects(verdict)
        key = ObjectKey(group=verdict.key.group, kind=self.kind, namespace=self.namespace, name=self.name)
        return key == verdict.key

    @property
    def is_about_plans(self) -> bool:
        """True if it is about plans as a whole. Most plans do not need one, so that it is never unused."""
        return self.kind == PLAN.kind

    @property
    def target(self) -> str:
        """The object: `Job/team-a/train`, or `Job/team-a/train (west)` for one cluster; or what is selected."""
        name = "/".join(part for part in (self.kind, self.namespace, self.name) if part)
        name = name if self.selector is None else str(self.selector)
        return f"{name} ({self.cluster})" if self.cluster else name


class Excepted(NamedTuple):
    """The result of `apply_exceptions`."""

    verdicts: tuple[Verdict, ...]
    in_force: tuple[ExceptionInForce, ...]
    problems: tuple[Problem, ...]


def load_exceptions(
    documents: Sequence[Document], rules: Collection[str]
) -> tuple[tuple[PolicyException, ...], tuple[Problem, ...]]:
    """Read the PolicyExceptions among `documents`. One with a problem has no effect.

    `rules` are the ids of all rules that exist, enabled or not.
    """
    exceptions: list[PolicyException] = []
    problems: list[Problem] = []
    for document in documents:
        if document.kind == KIND and document.key.group == GROUP:
            own_problems: list[Problem] = []
            exception = _read(document, own_problems)
            if exception.rule and exception.rule not in rules:
                message = f"unknown rule {exception.rule[:80]!r}"
                own_problems.append(_invalid(document, ("spec", "rule"), message, suggest_rule(exception.rule, rules)))
            problems.extend(own_problems)
            if not own_problems:
                exceptions.append(exception)
    return tuple(exceptions), tuple(problems)


def _read(document: Document, problems: list[Problem]) -> PolicyException:
    def text(*path: str, required: bool = True) -> str:
        node: Any = document.data
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        if isinstance(node, str) and (node.strip() or not required):
            return node.strip()
        if required or node is not None:
            problems.append(
                _invalid(
                    document,
                    path,
                    "is required" if node is None else "must be a non-empty string",
                    "set it to a non-empty string",
                )
            )
        return ""

    expires = text("spec", "expires")
    if expires and not _DATE.fullmatch(expires):
        problems.append(_invalid(document, ("spec", "expires"), f"{expires[:40]!r} is not a date", "write YYYY-MM-DD"))
    selector = _selector(mapping(document.data.get("spec")).get("selector"))
    return PolicyException(
        rule=text("spec", "rule"),
        kind=text("spec", "object", "kind", required=selector is None),
        namespace=text("spec", "object", "namespace", required=False),
        name=text("spec", "object", "name", required=selector is None),
        selector=selector,
        cluster=text("spec", "object" if selector is None else "selector", "cluster", required=False),
        reason=mask_text(text("spec", "reason")),
        owner=mask_text(text("spec", "owner")),
        expires=expires,
        place=document.source,
        expires_place=document.at(("spec", "expires")),
    )


def _selector(written: Any) -> ObjectSelector | None:
    """Return the selector that a schema has accepted."""
    if not isinstance(written, dict):
        return None
    return ObjectSelector(
        kinds=tuple(written.get("kinds", ())),
        namespaces=tuple(written.get("namespaces", ())),
        labels=tuple(sorted(written.get("labels", {}).items())),
    )


def _invalid(document: Document, path: tuple[str, ...], message: str, hint: str = "") -> Problem:
    return document.problem("policy.exception-invalid", path, message, hint)


def suggest_rule(name: str, rules: Collection[str]) -> str:
    """Return a hint for the name of a rule that does not exist."""
    similar = get_close_matches(name, sorted(rules), n=1)
    return f"did you mean {similar[0]}?" if similar else "see docs/reference/rules.md for the shipped rules"


def apply_exceptions(verdicts: Iterable[Verdict], exceptions: Sequence[PolicyException], date: str) -> Excepted:
    """Apply exceptions on `date` (YYYY-MM-DD; from the head commit or the user, because plans do not use the clock).

    An expired exception is an error, an unused one a warning. A rule that could not be evaluated can be excepted like
    a denial.
    """
    valid = [exception for exception in exceptions if date <= exception.expires]
    by_target: dict[tuple[str, ...], list[PolicyException]] = {}
    for exception in valid:
        object_key = (exception.kind, exception.namespace, exception.name) if exception.selector is None else ()
        by_target.setdefault((exception.rule, *object_key), []).append(exception)
    problems = [_expired(exception, date) for exception in exceptions if date > exception.expires]
    used: dict[PolicyException, set[tuple[str, ObjectKey]]] = {}
    marked = []
    for verdict in verdicts:
        target = (verdict.rule, verdict.key.kind, verdict.key.namespace, verdict.key.name)
        possible = (*by_target.get(target, ()), *by_target.get((verdict.rule,), ()))
        covering = [one for one in possible if one.covers(verdict)]
        for one in covering:
            used.setdefault(one, set()).add((verdict.cluster, verdict.key))
        marked.append(replace(verdict, result=Result.EXCEPTED if covering else verdict.result, labels=()))
    problems += [_unused(one) for one in valid if one not in used and not one.is_about_plans]
    in_force = [
        _in_force(exception, len(used.get(exception, ())))
        for exception in sorted(valid, key=lambda exception: exception.place)
    ]
    ordered = sorted(problems, key=lambda problem: problem.sort_key)
    return Excepted(tuple(marked), tuple(in_force), tuple(ordered))


def _in_force(exception: PolicyException, objects: int) -> ExceptionInForce:
    count = "" if exception.selector is None else f" ({plural(objects, 'object')})"
    return ExceptionInForce(
        rule=exception.rule,
        target=f"{exception.target}{count}",
        reason=exception.reason,
        owner=exception.owner,
        expires=exception.expires,
        place=exception.place,
        used=bool(objects) or exception.is_about_plans,
    )


def _expired(exception: PolicyException, date: str) -> Problem:
    return Problem(
        rule="policy.exception-expired",
        place=exception.expires_place,
        field="spec.expires",
        message=f"the exception from {exception.rule} for {exception.target} expired on {exception.expires} "
        f"(the plan's date is {date})",
        hint=f"fix the object and remove this file, or ask {exception.owner} to extend it",
    )


def _unused(exception: PolicyException) -> Problem:
    return Problem(
        rule="policy.exception-unused",
        place=exception.place,
        message=f"the exception from {exception.rule} for {exception.target} is not used",
        hint="remove the file, or correct its rule or object",
        severity=Severity.WARNING,
    )

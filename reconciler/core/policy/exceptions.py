"""Exceptions are files too: which rule, which object, why, whose, until when."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.documents import Document
from reconciler.core.objects import ObjectKey, SourceRef, format_path
from reconciler.core.policy.verdict import Result, Verdict
from reconciler.core.problems import Problem, Severity

KIND, GROUP = "PolicyException", "gpureconciler.io"
_DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")


class ExceptionInForce(Struct, frozen=True, kw_only=True):
    """An exception file that allows a denial, and until when."""

    rule: str
    target: str
    reason: str
    owner: str
    expires: str  # YYYY-MM-DD
    place: SourceRef
    used: bool = True


class PolicyException(Struct, frozen=True, kw_only=True):
    """What one file allows: `rule` for one object, in one cluster or (empty) in all, through the day `expires`."""

    rule: str
    kind: str
    namespace: str
    name: str
    cluster: str
    reason: str
    owner: str
    expires: str
    place: SourceRef
    expires_place: SourceRef

    def covers(self, verdict: Verdict) -> bool:
        """Whether the file speaks of this verdict."""
        named = ObjectKey(group=verdict.key.group, kind=self.kind, namespace=self.namespace, name=self.name)
        return (self.rule, named) == (verdict.rule, verdict.key) and self.cluster in ("", verdict.cluster)

    @property
    def target(self) -> str:
        """The object for people: `Job/team-a/train` or, of one cluster, `Job/team-a/train (west)`."""
        name = "/".join(part for part in (self.kind, self.namespace, self.name) if part)
        return f"{name} ({self.cluster})" if self.cluster else name


class Excepted(NamedTuple):
    """What `apply_exceptions` returns."""

    verdicts: tuple[Verdict, ...]
    in_force: tuple[ExceptionInForce, ...]
    problems: tuple[Problem, ...]


def load_exceptions(documents: Sequence[Document]) -> tuple[tuple[PolicyException, ...], tuple[Problem, ...]]:
    """Read every PolicyException among `documents`; one with a problem allows nothing."""
    found: list[PolicyException] = []
    problems: list[Problem] = []
    for document in documents:
        if document.kind == KIND and document.key.group == GROUP:
            wrong: list[Problem] = []
            exception = _read(document, wrong)
            problems.extend(wrong)
            if not wrong:
                found.append(exception)
    return tuple(found), tuple(problems)


def _read(document: Document, problems: list[Problem]) -> PolicyException:
    def text(*path: str, required: bool = True) -> str:
        node: Any = document.data
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        if isinstance(node, str) and (node.strip() or not required):
            return node.strip()
        if required or node is not None:
            problems.append(_invalid(document, path, "is missing" if node is None else "must be a string with text"))
        return ""

    expires = text("spec", "expires")
    if expires and not _DATE.fullmatch(expires):
        problems.append(_invalid(document, ("spec", "expires"), f"{expires[:40]!r} is not a date", "write YYYY-MM-DD"))
    return PolicyException(
        rule=text("spec", "rule"),
        kind=text("spec", "object", "kind"),
        namespace=text("spec", "object", "namespace", required=False),
        name=text("spec", "object", "name"),
        cluster=text("spec", "object", "cluster", required=False),
        reason=text("spec", "reason"),
        owner=text("spec", "owner"),
        expires=expires,
        place=document.source,
        expires_place=document.at(("spec", "expires")),
    )


def _invalid(document: Document, path: tuple[str, ...], message: str, hint: str = "") -> Problem:
    place = document.at(path)
    return Problem(rule="policy.exception-invalid", place=place, field=format_path(path), message=message, hint=hint)


def apply_exceptions(verdicts: Iterable[Verdict], exceptions: Sequence[PolicyException], date: str) -> Excepted:
    """Mark what exceptions allow on `date` (YYYY-MM-DD, from the head commit or the user: a plan knows no clock).

    An expired exception is an error, one that allows nothing a warning. A rule that could not be evaluated may be
    excepted like a denial: a person has looked at it.
    """
    valid = [one for one in exceptions if date <= one.expires]
    problems = [_expired(one, date) for one in exceptions if date > one.expires]
    used: set[PolicyException] = set()
    marked = []
    for verdict in verdicts:
        covering = [one for one in valid if one.covers(verdict)]
        used.update(covering)
        marked.append(replace(verdict, result=Result.EXCEPTED) if covering else verdict)
    problems += [_unused(one) for one in valid if one not in used]
    in_force = [_in_force(one, used=one in used) for one in sorted(valid, key=lambda one: one.place)]
    ordered = sorted(problems, key=lambda problem: problem.sort_key)
    return Excepted(tuple(marked), tuple(in_force), tuple(ordered))


def _in_force(one: PolicyException, *, used: bool) -> ExceptionInForce:
    return ExceptionInForce(
        rule=one.rule,
        target=one.target,
        reason=one.reason,
        owner=one.owner,
        expires=one.expires,
        place=one.place,
        used=used,
    )


def _expired(one: PolicyException, date: str) -> Problem:
    return Problem(
        rule="policy.exception-expired",
        place=one.expires_place,
        field="spec.expires",
        message=f"the exception from {one.rule} for {one.target} expired on {one.expires} (judged on {date})",
        hint=f"ask {one.owner} to fix the object and remove this file, or to renew it with a later date",
    )


def _unused(one: PolicyException) -> Problem:
    return Problem(
        rule="policy.exception-unused",
        place=one.place,
        message=f"no verdict of {one.rule} on {one.target} needs this exception",
        hint="remove the file, or correct the rule or the object it names",
        severity=Severity.WARNING,
    )

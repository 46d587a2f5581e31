"""Evaluate admission policies: the shipped ones here, those of the repository in a child with limits.

A policy that exceeds a limit on one object is not evaluated on any further one, so a run ends in bounded time. What it
would have said is unknown then: `first_exceeded` leaves one error for each such policy, at the first object. The
objects after it are evaluated in the next run, which finds the same first object.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reconciler.index.limited import MAX_EXCEEDED, run_limited
from reconciler.kube.secrets import mask_findings
from reconciler.policy.admission import PolicySet, Subject
from reconciler.policy.verdict import Verdict

_HINT = "make the expressions of the policy cheaper: an API server limits their cost too"


class PolicyFindings(NamedTuple):
    """The verdicts on one object; `exceeded` are errors of policies that exceed a limit on this object or before."""

    verdicts: tuple[Verdict, ...] = ()
    exceeded: tuple[Verdict, ...] = ()


_NOTHING = PolicyFindings()


class PolicyEvaluator:
    """Evaluates the policies of one run, and remembers which of them exceed a limit."""

    def __init__(self, policies: PolicySet) -> None:
        self._shipped = policies.shipped
        self._own = policies.own
        self._exceeded: dict[str, str] = {}  # by rule: the limit

    def evaluate(self, subjects: Sequence[Subject]) -> list[PolicyFindings]:
        """Return an evaluation for each subject with what it wraps, in order."""
        if not any(subject.wrapped for subject in subjects):
            return self._evaluate_all(subjects)
        every = [one for subject in subjects for one in (subject, *(inner for _, inner in subject.wrapped))]
        found = iter(self._evaluate_all(every))
        return [
            join([next(found), *(_of_wrapper(next(found), subject, field) for field, _ in subject.wrapped)])
            for subject in subjects
        ]

    def _evaluate_all(self, subjects: Sequence[Subject]) -> list[PolicyFindings]:
        found = {index: PolicyFindings(_evaluate(self._shipped, subject)) for index, subject in enumerate(subjects)}
        wanted = [index for index, one in enumerate(subjects) if self._own.may_match(one)]
        for index, own in zip(wanted, self._evaluate_own([subjects[index] for index in wanted]), strict=True):
            found[index] = PolicyFindings((*found[index].verdicts, *own.verdicts), own.exceeded)
        return [
            PolicyFindings(mask_findings(one.verdicts, [subject.manifest.body, subject.old or {}]), one.exceeded)
            for one, subject in zip(found.values(), subjects, strict=True)
        ]

    def _evaluate_own(self, subjects: Sequence[Subject]) -> list[PolicyFindings]:
        evaluated: list[PolicyFindings] = []
        while len(evaluated) < len(subjects):
            policies = self._own.without(self._exceeded)
            rest = subjects[len(evaluated) :]
            found, exceeded = self._run([(policies, subject) for subject in rest])
            evaluated += (self._evaluation(*pair) for pair in zip(rest, found, strict=False))
            if exceeded:
                evaluated.append(self._evaluate_each(policies, rest[len(found)]))
        return evaluated

    def _evaluate_each(self, policies: PolicySet, subject: Subject) -> PolicyFindings:
        """Evaluate one policy after the other, to find those that exceed a limit."""
        rules = list(policies.rules)
        verdicts: list[Verdict] = []
        while rules:
            found, exceeded = self._run([(policies.only(rule), subject) for rule in rules])
            verdicts += (verdict for of_rule in found for verdict in of_rule)
            if exceeded:
                self._exceeded[rules[len(found)]] = exceeded
            if len(self._exceeded) == MAX_EXCEEDED:
                limit = f"{MAX_EXCEEDED} other policies exceed a limit"
                self._exceeded.update((rule, limit) for rule in self._own.rules if rule not in self._exceeded)
                break
            rules = rules[len(found) + bool(exceeded) :]
        return self._evaluation(subject, tuple(verdicts))

    def _evaluation(self, subject: Subject, verdicts: tuple[Verdict, ...]) -> PolicyFindings:
        if not self._exceeded:
            return PolicyFindings(verdicts) if verdicts else _NOTHING
        errors = tuple(
            verdict
            for rule, limit in self._exceeded.items()
            for verdict in self._own.only(rule).unevaluated(subject, message=limit, hint=_HINT)
        )
        return PolicyFindings(verdicts, errors)

    def _run(self, tasks: Sequence[tuple[PolicySet, Subject]]) -> tuple[list[tuple[Verdict, ...]], str]:
        programs = self._own.programs
        before = set(programs.made)

        def learned() -> bytes:
            return msgspec.msgpack.encode({key: raw for key, raw in programs.made.items() if key not in before})

        done = run_limited(lambda index: _encoder.encode(_evaluate(*tasks[index])), len(tasks), learned=learned)
        if done.learned:
            programs.add(_programs.decode(done.learned))
        return [_verdicts.decode(raw) for raw in done.results], done.exceeded


def _evaluate(policies: PolicySet, subject: Subject) -> tuple[Verdict, ...]:
    return policies.evaluate(subject)


def _of_wrapper(found: PolicyFindings, wrapper: Subject, field: str) -> PolicyFindings:
    """Return what was found in a wrapped object as what was found in the wrapper, at the same places."""

    def moved(verdict: Verdict) -> Verdict:
        inner = f"{field}.{verdict.field}" if verdict.field else field
        message = f"{verdict.key.kind} {verdict.key.name}: {verdict.message}"
        return replace(verdict, key=wrapper.manifest.key, field=inner, message=message)

    return PolicyFindings(tuple(map(moved, found.verdicts)), tuple(map(moved, found.exceeded)))


def join(evaluations: Sequence[PolicyFindings]) -> PolicyFindings:
    """Return the verdicts and errors of several evaluations."""
    return PolicyFindings(
        tuple(verdict for one in evaluations for verdict in one.verdicts),
        tuple(verdict for one in evaluations for verdict in one.exceeded),
    )


def first_exceeded(errors: Iterable[Verdict]) -> dict[str, Verdict]:
    """Return the first error of each policy that exceeds a limit, by rule; `errors` are in the order of evaluation."""
    first: dict[str, Verdict] = {}
    for error in errors:
        first.setdefault(error.rule, error)
    return first


_encoder = msgspec.msgpack.Encoder()
_verdicts = msgspec.msgpack.Decoder(tuple[Verdict, ...])
_programs = msgspec.msgpack.Decoder(dict[str, bytes])

"""What a run did to which object and why, and how long a change took, without the reverts of drift."""

import pytest

from reconciler.controller.loop import count_pass
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.live.apply.deeds import MOST_DEEDS, deeds
from reconciler.live.apply.results import Ending, StepResult
from reconciler.live.apply.steps import Verb
from reconciler.plan import Change, Drift, FieldChange, Operation, Plan
from reconciler.plan.plan import Revision
from reconciler.web.metrics import Metrics

_DRIFT = "data.a changed by kubectl-edit (Update, 2026-01-01T00:00:00Z)"


def _key(name: str) -> ObjectKey:
    return ObjectKey(group="", kind="ConfigMap", namespace="a", name=name)


def _plan(operation: Operation, *fields: str, drifted: tuple[str, ...] = (), count: int = 1) -> Plan:
    changes = tuple(
        Change(
            operation=operation,
            cluster="main",
            key=_key(f"c{number}"),
            path=f"rendered/main/a/configmap-c{number}.yaml",
            source=None if operation is Operation.DELETE else SourceRef(path="jobs/c.yaml", line=3),
            fields=tuple(FieldChange(path=field, before="secret", after="other") for field in fields),
        )
        for number in range(count)
    )
    drift = tuple(
        Drift(
            cluster="main",
            key=changes[0].key,
            path=changes[0].path,
            field=field,
            live="secret",
            has_live=bool(field),
            managers=("kubectl-edit (Update, 2026-01-01T00:00:00Z)",),
        )
        for field in drifted
    )
    side = Revision(label="main")
    return Plan(engine="e", base=side, head=side, evidence="", policies="", changes=changes, drift=drift)


@pytest.mark.parametrize(
    ("plan", "verb", "expected"),
    [
        (_plan(Operation.UPDATE, "data.a", drifted=("data.a",)), Verb.UPDATE, f"reverted ConfigMap/a/c0: {_DRIFT}"),
        (
            _plan(Operation.UPDATE, "data.a", "data.b", drifted=("data.a",)),
            Verb.UPDATE,
            f"updated ConfigMap/a/c0: {_DRIFT}; data.a, data.b of jobs/c.yaml:3",
        ),
        (_plan(Operation.UPDATE, "data.b"), Verb.UPDATE, "updated ConfigMap/a/c0: data.b of jobs/c.yaml:3"),
        (_plan(Operation.CREATE), Verb.CREATE, "created ConfigMap/a/c0: jobs/c.yaml:3"),
        (_plan(Operation.CREATE, drifted=("",)), Verb.CREATE, "reverted ConfigMap/a/c0: somebody deleted it"),
        (_plan(Operation.DELETE), Verb.DELETE, "deleted ConfigMap/a/c0: no source defines it any more"),
    ],
)
def test_each_object_is_named_with_the_reason(plan: Plan, verb: Verb, expected: str) -> None:
    """F-144: without a value; what was not done is not told."""
    done = StepResult(verb=verb, key=_key("c0"), path="main/a/configmap-c0.yaml", ending=Ending.DONE)
    (line,) = deeds(plan, "rendered", [done])
    assert line.startswith(expected)
    assert "secret" not in line
    other = StepResult(verb=verb, key=_key("c0"), path="main/a/configmap-c0.yaml", ending=Ending.DENIED)
    assert deeds(plan, "rendered", [other]) == ()


def test_the_others_are_counted() -> None:
    plan = _plan(Operation.CREATE, count=MOST_DEEDS + 5)
    results = [
        StepResult(verb=Verb.CREATE, key=one.key, path=one.path.removeprefix("rendered/"), ending=Ending.DONE)
        for one in plan.changes
    ]
    told = deeds(plan, "rendered", results)
    assert (len(told), told[-1]) == (MOST_DEEDS + 1, "and 5 other objects")


@pytest.mark.parametrize(("is_applied", "observed"), [(False, 1), (True, 0)])
def test_a_revert_of_drift_is_no_late_change(is_applied: bool, observed: int) -> None:
    """F-144: the age of the commit says nothing about a pass that sets back what others edited since."""
    metrics = Metrics()
    source = ConfigSource(namespace="a", name="b", url="u", mode=Mode.APPLY)
    outcome = PassOutcome(
        committed_at="2026-01-01T00:00:00Z", operations={"configured success": 1}, is_applied=is_applied
    )
    count_pass(metrics, source, outcome, 1.0, 1_800_000_000.0)
    text = metrics.exposition("")[1].decode()
    assert text.count('reconciler_commit_to_applied_seconds_count{mode="apply"} 1.0') == observed

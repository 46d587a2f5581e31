"""A policy that takes too long or too much memory is an error of that policy; all others are evaluated."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from reconciler.cli.main import run
from reconciler.index import limited
from tests.cli.fleet import Fleet
from tests.system.child import ROOT
from tests.system.hostile_policies import EXPRESSIONS, LOOP, TIME, hostile, policy

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: default, labels: {team: x}}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: 'registry.example.com/a:1'}]}
"""
PROBES = ("probe-a", "probe-b", "probe-c")
MAX_MEMORY = 500 << 20
"""Bytes that the program and its limited child hold at most."""
MAX_SECONDS = 8
"""Processor time of the program with all its children."""

PATIENCE = 0.2
"""Seconds that each policy has in most tests, a fifth of its time."""

_CODE = """
import resource, sys
from reconciler.cli.main import run
from reconciler.index import limited
limited.SECONDS = float(sys.argv[1])
code = run(sys.argv[2:])
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(one.ru_utime + one.ru_stime for one in used), used[1].ru_maxrss << 10, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each policy less time, for commands that run in this process."""
    monkeypatch.setattr("reconciler.index.limited.SECONDS", PATIENCE)


def _jobs(*names: str) -> str:
    return "---\n".join(JOB.replace("NAME", name) for name in names)


def _policies(*bodies: list[dict[str, Any]]) -> str:
    return yaml.safe_dump_all([document for body in bodies for document in body])


def _denies(name: str, job: str) -> list[dict[str, Any]]:
    return policy(name, f"object.metadata.name != '{job}'", [], {})


def _told(fleet: Fleet, *arguments: str, code: int = 4) -> dict[str, Any]:
    ran = fleet.run(*(arguments or ("lint",)), "-o", "json")
    assert ran.code == code, (ran.code, ran.err)
    told: dict[str, Any] = json.loads(ran.out)
    return told


def _of(told: Mapping[str, Any], rule: str) -> list[tuple[str, str, str]]:
    return [(one["key"]["name"], one["result"], one["message"]) for one in told["verdicts"] if one["rule"] == rule]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_policy_over_its_limits_is_one_error_and_the_others_are_evaluated(name: str, fleet: Fleet) -> None:
    body, limit = EXPRESSIONS[name]
    seconds_each = PATIENCE if limit == TIME else limited.SECONDS
    fleet.write("jobs/probes.yaml", _jobs(*PROBES))
    fleet.write(
        "policies/p.yaml", _policies(_denies("a", "probe-a"), policy("hostile", *body), _denies("z", "probe-c"))
    )
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(seconds_each), "lint", "--repo", str(fleet.root), "-o", "json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    told = json.loads(done.stdout)
    seconds, largest_child = map(float, done.stderr.split()[-2:])
    found = _of(told, "hostile")
    assert {result for _, result, _ in found} == {"error"}
    assert all(message.startswith("not evaluated: ") and limit in message for _, _, message in found), found
    assert len(found) == 1 or "cost limit" in limit  # the budget of the engine is a result like any other
    assert [name for name, _, _ in _of(told, "a")] == ["probe-a"]
    assert [name for name, _, _ in _of(told, "z")] == ["probe-c"]
    assert seconds < MAX_SECONDS
    assert largest_child < MAX_MEMORY


def test_the_text_names_the_policy_the_object_and_the_limit(fleet: Fleet) -> None:
    fleet.write("jobs/probes.yaml", _jobs(*PROBES))
    fleet.write("policies/p.yaml", _policies(policy("hostile", *LOOP)))
    ran = fleet.run("plan")
    text = " ".join(ran.out.split())
    assert ran.code == 4
    assert f"not evaluated: takes more than 1 s of {TIME}" in text
    assert "hostile" in text
    assert "an API server limits their cost too" in text


@pytest.mark.usefixtures("patience")
def test_the_same_errors_in_every_order_of_runs(fleet: Fleet) -> None:
    """A file whose policies were cut short is evaluated again: what an earlier run found changes no result."""
    limited = policy("hostile", "object.metadata.name != 'job-m' || " + LOOP[0], *LOOP[1:])
    fleet.write("policies/p.yaml", _policies(limited, _denies("other", "job-z")))
    for name in ("job-b", "job-m", "job-z"):
        fleet.write(f"jobs/{name}.yaml", _jobs(name))
    cold = _told(fleet)
    assert [name for name, _, _ in _of(cold, "hostile")] == ["job-m"]
    assert _told(fleet) == cold
    for name in ("job-n", "job-a"):
        fleet.write(f"jobs/{name}.yaml", _jobs(name))
    warm = _told(fleet)
    assert warm["verdicts"] == _told(fleet, "lint", "--cache", "off")["verdicts"]
    (fleet.root / "jobs/job-m.yaml").unlink()
    assert _of(_told(fleet), "hostile") == []
    assert _told(fleet)["verdicts"] == _told(fleet, "lint", "--cache", "off")["verdicts"]


@pytest.mark.usefixtures("patience")
def test_updates_have_the_same_limits(fleet: Fleet) -> None:
    fleet.write("jobs/probes.yaml", _jobs(*PROBES))
    fleet.git("add", "--all")
    fleet.git("commit", "--quiet", "--message", "jobs")
    assert fleet.run("commit").code == 0
    guarded = policy("hostile", "oldObject == null || " + LOOP[0], *LOOP[1:])
    fleet.write("policies/p.yaml", _policies(guarded, _denies("other", "probe-b")))
    fleet.write("jobs/probes.yaml", _jobs(*PROBES).replace("a:1", "a:2"))
    told = _told(fleet, "plan")
    assert [name for name, _, _ in _of(told, "hostile")] == ["probe-a"]
    assert [name for name, _, _ in _of(told, "other")] == ["probe-b"]


@pytest.mark.usefixtures("patience")
def test_an_exception_does_not_hide_what_was_not_evaluated(fleet: Fleet) -> None:
    fleet.write("jobs/probes.yaml", _jobs(*PROBES))
    fleet.write("policies/p.yaml", _policies(policy("hostile", *LOOP)))
    fleet.write(
        "policies/e.yaml",
        "apiVersion: gpureconciler.io/v1alpha1\nkind: PolicyException\nmetadata: {name: e}\n"
        "spec: {rule: hostile, object: {kind: Job, namespace: default, name: probe-a}, reason: r, owner: o, "
        "expires: '2099-01-01'}\n",
    )
    ((_, result, message),) = _of(_told(fleet), "hostile")
    assert (result, TIME in message) == ("error", True)


@pytest.mark.usefixtures("patience")
def test_ignored_failures_do_not_hide_it_either(fleet: Fleet) -> None:
    """With `failurePolicy: Ignore` one prepared object could switch the policy off for all others."""
    fleet.write("jobs/probes.yaml", _jobs(*PROBES))
    ignoring = policy("hostile", LOOP[0], LOOP[1], {"failurePolicy": "Ignore"})
    fleet.write("policies/p.yaml", _policies(ignoring))
    assert [result for _, result, _ in _of(_told(fleet), "hostile")] == ["error"]


@pytest.mark.usefixtures("patience")
def test_many_hostile_policies_end_too(fleet: Fleet) -> None:
    fleet.write("jobs/probes.yaml", _jobs("probe"))
    fleet.write("policies/p.yaml", _policies(*(policy(f"hostile-{n:02}", *LOOP) for n in range(20))))
    told = _told(fleet)
    said = [message for n in range(20) for _, _, message in _of(told, f"hostile-{n:02}")]
    assert [TIME in message for message in said] == [True] * 10 + [False] * 10
    assert all("10 other policies exceed a limit" in message for message in said[10:])


def test_checking_has_limits_too(fleet: Fleet) -> None:
    """Expressions that are no CEL at all must not hold up the check."""
    fleet.write(
        "policies/p.yaml", _policies(policy("quotes", *hostile('"' * 99_999 + "&& true")), _denies("other", "x"))
    )
    told = _told(fleet, code=3)
    assert [problem["rule"] for problem in told["problems"]] == ["policy.cel"]


def test_nothing_is_forked_without_policies_of_the_repository(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped rules are evaluated in the process, and unchanged files are not evaluated at all."""
    assert run(["plan", "--repo", str(fleet.root)]) == 0
    fleet.write("policies/p.yaml", _policies(_denies("other", "x")))
    assert run(["plan", "--repo", str(fleet.root)]) == 0
    monkeypatch.setattr("reconciler.index.limited.run_limited", None)
    monkeypatch.setattr("reconciler.index.evaluator.run_limited", None)
    monkeypatch.setattr("reconciler.index.checking.run_limited", None)
    assert run(["plan", "--repo", str(fleet.root)]) == 0
    (fleet.root / "policies/p.yaml").unlink()
    fleet.write("jobs/probes.yaml", _jobs(*PROBES))
    assert run(["plan", "--repo", str(fleet.root)]) == 0

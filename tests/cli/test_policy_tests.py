"""`reconciler test`: examples of what users' own rules say, with places, formats and exit codes."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.plan.codec import from_json
from reconciler.plan.plan_policies import plan_object
from reconciler.policy.examples import PLAN_DEFINITION
from tests.cli.fleet import Fleet, Ran, run_verb
from tests.cli.test_policies_about_plans import POLICY

_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: team-label}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}
    namespaceSelector: {matchExpressions: [{key: gpu, operator: NotIn, values: ["no"]}]}
  validations:
    - expression: "request.operation == 'DELETE' ? request.userInfo.username == 'admin' : object.metadata.?labels.?team.hasValue()"
      message: has no label team
    - expression: "oldObject == null || object == null || oldObject.metadata.labels.team == object.metadata.labels.team"
      message: another team
    - expression: "object == null || object.?data.orValue({}).size() <= int(params.data.most)"
      messageExpression: "'has more than ' + params.data.most + ' keys'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: team-label}
spec:
  policyName: team-label
  validationActions: [%s]
  paramRef: {name: limits, namespace: ops, parameterNotFoundAction: Deny}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: ops}
data: {most: "2"}
"""
_GOOD = "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: a, labels: {team: x}}}"
_BAD = "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, namespace: a}}"
_LIMITS = "{apiVersion: v1, kind: ConfigMap, metadata: {name: limits, namespace: ops}, data: {most: '0'}}"
_SPACE = "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {gpu: %s}}}"
_YES, _NO = _SPACE % "'yes'", _SPACE % "'no'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder with the policy, which commands run in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "team.yaml").write_text(_POLICY % "Deny")
    return tmp_path


def write(folder: Path, *examples: str, head: str = "") -> Path:
    lines = "".join(f"    - {example}\n" for example in examples)
    text = f"apiVersion: gpureconciler.io/v1alpha1\nkind: PolicyTest\nmetadata: {{name: t}}\nspec:\n{head}  examples:\n{lines}"
    path = folder / "tests" / "team.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    return run_verb(capsys, ["test", *arguments])


def test_a_file_that_is_named_twice_counts_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder, f"{{object: {_GOOD}, namespace: {_YES}, expect: pass}}")
    for names in ((path, path), (path, path.parent), ("tests", f"{path.parent}/../tests/team.yaml")):
        assert "1 example: 1 as expected, 0 not" in ran(capsys, *map(str, names)).out


@pytest.mark.parametrize(
    ("example", "actual"),
    [
        (f"object: {_GOOD}, namespace: {_YES}", "pass"),
        (f"object: {_BAD}, namespace: {_YES}, message: no label team", "deny"),
        (f"object: {_GOOD}, namespace: {_NO}", "skip"),
        (f"object: {_GOOD}", "error"),
        (f"object: {_GOOD}, oldObject: {_GOOD.replace('team: x', 'team: b')}, namespace: {_YES}", "deny"),
        (f"object: {_GOOD}, oldObject: {_GOOD}, namespace: {_YES}", "pass"),
        (f"oldObject: {_GOOD}, namespace: {_YES}", "error"),
        (f"oldObject: {_GOOD}, namespace: {_YES}, appliedBy: {{user: admin}}", "pass"),
        (f"oldObject: {_GOOD}, namespace: {_YES}, appliedBy: {{user: other}}, message: 'deletion: has'", "deny"),
        (
            f"object: {_GOOD[:-1]}, data: {{a: b}}}}, namespace: {_YES}, params: [{_LIMITS}], message: more than 0 keys",
            "deny",
        ),
        ("object: {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a}}", "skip"),
    ],
)
def test_an_example_is_judged(folder: Path, capsys: pytest.CaptureFixture[str], example: str, actual: str) -> None:
    write(folder, f"{{{example}, expect: {actual}}}")
    passed = ran(capsys)
    assert passed.code == 0, passed.out + passed.err
    assert "1 example: 1 as expected, 0 not" in passed.out
    other = "warn"
    write(folder, f"{{{example}, expect: {other}}}")
    failed = ran(capsys)
    assert failed.code == 4
    assert f"expected {other}, got {actual}" in failed.out
    assert "tests/team.yaml:6:" in failed.out
    assert "1 of 1 examples is not as expected" in failed.err


def test_actions_and_messages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policies" / "team.yaml").write_text(_POLICY % "Warn")
    write(folder, f"{{object: {_BAD}, namespace: {_YES}, expect: warn, message: something else}}")
    failed = ran(capsys)
    assert failed.code == 4
    assert "expected a message with 'something else', got: has no label team" in failed.out


def test_files_and_folders_hold_several_objects(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = folder / "tests" / "good"
    objects.mkdir(parents=True)
    (objects / "two.yaml").write_text(f"{_GOOD}\n---\n{_GOOD.replace('good', 'better')}\n")
    (objects / "more.json").write_text(
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "j", "namespace": "a", "labels": {"team": "x"}}}'
    )
    write(folder, f"{{name: all, object: good, namespace: {_YES}, expect: pass}}")
    passed = ran(capsys, "tests", "-o", "json")
    assert passed.code == 0, passed.out + passed.err
    found = json.loads(passed.out)
    assert (found["passed"], found["failed"]) == (3, 0)
    assert [one["subject"] for one in found["examples"]] == [
        "ConfigMap/a/j",
        "ConfigMap/a/good",
        "ConfigMap/a/better",
    ]


def test_junit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        folder,
        f"{{name: fine, object: {_GOOD}, namespace: {_YES}, expect: pass}}",
        f"{{name: 'not <fine>', object: {_BAD}, namespace: {_YES}, expect: pass}}",
    )
    failed = ran(capsys, "-o", "junit")
    assert failed.code == 4
    root = ET.fromstring(failed.out)  # noqa: S314 - our own output
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    (case,) = root.findall(".//testcase[failure]")
    assert case.get("name") == "not <fine> ConfigMap/a/bad"
    assert "expected pass, got deny: has no label team" in str(case.find("failure").text)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("head", "example", "words"),
    [
        ("", "{object: missing.yaml, expect: pass}", "tests/team.yaml:6:16: tests/missing.yaml does not exist"),
        ("", "{object: ../../../etc/hostname, expect: pass}", "is not below"),
        ("", f"{{object: {_GOOD}, expect: fine}}", "tests/team.yaml:6:"),
        ("", f"{{object: {_GOOD}}}", "expect"),
        ("", "{expect: pass}", "object"),
        ("  rule: other\n", f"{{object: {_GOOD}, expect: pass}}", "there is no enabled policy 'other'"),
        ("  policies: [../policies/none.yaml]\n", f"{{object: {_GOOD}, expect: pass}}", "tests/team.yaml:5:14: policies/none.yaml"),
        ("", "{object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dta: {}}, expect: pass}", "tests/team.yaml:6:71"),
        ("  settings: {team-label: {action: block}}\n", f"{{object: {_GOOD}, expect: pass}}", "unknown action 'block'"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_place(
    folder: Path, capsys: pytest.CaptureFixture[str], head: str, example: str, words: str
) -> None:
    write(folder, example, head=head)
    refused = ran(capsys)
    assert refused.code == 3, refused.out + refused.err
    assert words in refused.err
    assert refused.out == ""


def test_a_policy_that_a_server_refuses_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policies" / "team.yaml").write_text((_POLICY % "Deny").replace("object == null ||", "objct == null ||"))
    write(folder, f"{{object: {_GOOD}, expect: pass}}")
    refused = ran(capsys)
    assert refused.code == 3
    assert "policies/team.yaml:" in refused.err


def test_without_tests_nothing_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = ran(capsys, "policies")
    assert refused.code == 2
    assert "no document of kind PolicyTest found" in refused.err
    assert ran(capsys).code == 2


def test_shipped_rules_are_tested_with_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}, spec: {containers: [{name: c, image: i:1, resources: {limits: {nvidia.com/gpu: 8}}}]}}"
    head = "  rule: max-gpus-per-job\n  settings: {max-gpus-per-job: {action: warn, parameters: {max: 4}}}\n"
    write(folder, f"{{object: {job}, expect: warn, message: requests 8 GPUs}}", head=head)
    passed = ran(capsys)
    assert passed.code == 0, passed.out + passed.err


_JOBS = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: team-label}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [batch, kubeflow.org], apiVersions: [v1], operations: ["*"], resources: [jobs, pytorchjobs]}
  validations:
    - expression: object != null && (oldObject == null || oldObject.metadata.name == object.metadata.name)
      message: it stays
    - expression: object == null || object.metadata.?labels[?'team'].orValue('') == 'x'
      message: has no label team
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: team-label}
spec: {policyName: team-label, validationActions: [Deny]}
"""
_QUEUE = (
    "{apiVersion: torchrun.ai/v1alpha1, kind: TorchrunQueue, metadata: {name: h100}, spec: {image: 'a:1',"
    " nodeResources: {gpus: 8}, queue: {name: h100, resources: {gpu: {quota: 32}}}}}"
)


def _torchrun(name: str = "vit", team: str = "x", queue: str = "h100") -> str:
    return (
        f"{{apiVersion: torchrun.ai/v1alpha1, kind: TorchrunJob, metadata: {{name: {name}, labels: {{team: {team}}}}},"
        f" spec: {{jobQueue: {queue}, numGPUs: 16, command: python a.py}}}}"
    )


_WRAPPER = (
    "{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: w, namespace: a}, spec: {components:"
    " [{template: {apiVersion: batch/v1, kind: Job, metadata: {name: inner}, spec: {template: {spec: {restartPolicy: Never,"
    " containers: [{name: a, image: 'a:1'}]}}}}}]}}"
)


@pytest.mark.parametrize(
    ("example", "actual"),
    [
        (f"object: {_torchrun()}", "pass"),
        (f"object: {_torchrun(team='b')}, message: 'PyTorchJob/default/vit: has no label team'", "deny"),
        (f"oldObject: {_torchrun()}, message: 'PyTorchJob/default/vit: deletion: it stays'", "deny"),
        (f"object: {_torchrun(team='x')}, oldObject: {_torchrun(team='b')}", "pass"),
        (f"object: {_torchrun(name='a')}, oldObject: {_torchrun()}, message: it stays", "deny"),
        (f"object: {_QUEUE}", "skip"),
        (f"object: {_WRAPPER}, message: has no label team", "deny"),
    ],
)
def test_an_example_is_judged_by_what_it_becomes(
    folder: Path, capsys: pytest.CaptureFixture[str], example: str, actual: str
) -> None:
    (folder / "policies" / "team.yaml").write_text(_JOBS)
    (folder / "queues").mkdir()
    (folder / "queues" / "h100.yaml").write_text(_QUEUE)
    write(folder, f"{{{example}, expect: {actual}}}", head="  sources: [../queues]\n")
    passed = ran(capsys)
    assert passed.code == 0, passed.out + passed.err


def test_our_own_kinds_are_rendered_for_the_cluster_that_a_test_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under plain Kubernetes, a TorchrunJob becomes a Job."""
    (folder / "policies" / "team.yaml").write_text(_JOBS)
    (folder / "jobs").mkdir()
    (folder / "jobs" / "queue.yaml").write_text(_QUEUE)
    (folder / "reconciler.yaml").write_text(
        "apiVersion: gpureconciler.io/v1alpha1\nkind: ReconcilerConfig\nmetadata: {name: f}\nspec:\n  clusters:\n"
        "    - {name: first}\n    - {name: second, backend: none, select: {folders: [queues]}}\n"
    )
    write(
        folder, f"{{object: {_torchrun(team='b')}, expect: deny, message: Job/default/vit}}", head="  cluster: second\n"
    )
    passed = ran(capsys)
    assert passed.code == 0, passed.out + passed.err
    write(folder, f"{{object: {_torchrun()}, expect: pass}}", head="  cluster: third\n")
    failed = ran(capsys)
    assert failed.code == 3
    assert "tests/team.yaml:5:12: there is no cluster 'third' in reconciler.yaml; clusters: first, second" in failed.err


def test_what_cannot_be_rendered_is_an_error_of_the_test(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policies" / "team.yaml").write_text(_JOBS)
    write(folder, f"{{object: {_torchrun(queue='none-such')}, expect: pass}}")
    failed = ran(capsys)
    assert failed.code == 3
    assert "tests/team.yaml:6:" in failed.err
    assert "none-such" in failed.err


_PLAN = "{apiVersion: gpureconciler.io/v1alpha1, kind: Plan, metadata: {name: plan}, gpus: {%s: 9}}"


def test_a_policy_about_plans_has_examples_of_their_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policies" / "team.yaml").write_text(POLICY % ("object.gpus.delta <= 8", "Warn"))
    write(
        folder,
        f"{{object: {_PLAN % 'delta'}, expect: warn, message: the plan is too large}}",
        f"{{object: {_GOOD}, expect: skip}}",
    )
    passed = ran(capsys)
    assert passed.code == 0, passed.out + passed.err
    write(folder, f"{{object: {_PLAN % 'deltas'}, expect: warn}}")
    failed = ran(capsys)
    assert failed.code == 3
    assert "gpus.deltas: unknown field; did you mean delta?" in failed.err


def test_every_figure_of_a_plan_may_be_in_an_example(fleet: Fleet) -> None:
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    fleet.run("plan", "--out", str(fleet.root / "plan.json"))
    figures = plan_object(from_json((fleet.root / "plan.json").read_bytes()))
    assert all(figures[field] for field in ("gpus", "queues", "capacity", "changes", "risks"))
    catalogue = Catalogue(resources).with_definitions([dict(PLAN_DEFINITION)])
    assert not list(catalogue.violations(figures))

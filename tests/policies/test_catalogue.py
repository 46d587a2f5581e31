"""The shipped rules: each says why, each has examples both ways, and the examples come out as their folder says."""

import os
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.cel import Activation, Program
from reconciler.kube.yaml import read
from reconciler.policy.admission import Subject, load
from reconciler.policy.verdict import Result
from reconciler.repo.config import RuleSetting
from tests.kinds.kaiwo import kaiwo_cases
from tests.policies.catalogue import (
    ABOUT_PLANS,
    EXAMPLES,
    OPTIONAL,
    POLICIES,
    RULES,
    SERVER,
    Example,
    catalogue,
    rendered,
    shipped,
    verdicts,
)
from tools.rules.__main__ import README, listed, sources, written
from tools.rules.pods import unjudged

CATALOGUE = catalogue()
ANNOTATIONS = ("title", "reason", "hint", "severity", "field")
ACTIONS = {"error": "Deny", "warning": "Warn"}


def _policy(rule: str) -> dict[str, object]:
    found: dict[str, object] = next(iter(yaml.safe_load_all((POLICIES / rule / "rule.yaml").read_text())))
    return found


def test_the_catalogue_compiles_as_an_api_server_would_compile_it() -> None:
    """Checked here once, as a user's own policies are, so that nobody's plan pays for it."""
    policies, problems = load(shipped(), {})  # as a repository's own, of which none is off by default
    assert problems == ()
    assert policies.rules == RULES
    assert CATALOGUE.problems == ()


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_says_why_and_what_to_do(rule: str) -> None:
    metadata = _policy(rule)["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["name"] == rule
    notes = {key.removeprefix("gpureconciler.io/"): value for key, value in metadata["annotations"].items()}
    own = {"title", "reason", "hint", "severity", "default"} if rule in ABOUT_PLANS else set(ANNOTATIONS)
    own |= {"default"} if rule in OPTIONAL else set()
    assert set(notes) == own
    assert notes["severity"] in ACTIONS
    for key in ("reason", "hint"):
        assert re.fullmatch(r"[A-Z].*\.\n?", notes[key], re.DOTALL), f"{key} is a sentence"


@pytest.mark.parametrize("rule", RULES)
def test_severity_and_action_agree(rule: str) -> None:
    policy, binding = list(yaml.safe_load_all((POLICIES / rule / "rule.yaml").read_text()))[:2]
    severity = policy["metadata"]["annotations"]["gpureconciler.io/severity"]
    assert binding["spec"]["validationActions"] == [ACTIONS[severity]]
    assert binding["spec"]["policyName"] == rule


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_examples_both_ways(rule: str) -> None:
    found = [example.verdict for example in EXAMPLES if example.rule == rule]
    assert found.count("pass") >= 2
    assert found.count("fail") >= 2


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_examples_come_out_as_their_folder_says(example: Example) -> None:
    found = verdicts(CATALOGUE, example.document)
    assert [one for one in found if one.result is Result.ERROR] == []
    own = [one for one in found if one.rule == example.rule]
    assert bool(own) == (example.verdict == "fail")
    for one in own:
        assert one.message
        assert "failed expression" not in one.message
        assert one.hint
        assert one.place.line >= (1 if one.rule in ABOUT_PLANS else 2)


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.verdict == "pass"], ids=str)
def test_what_passes_one_rule_is_denied_by_no_other(example: Example) -> None:
    assert [one for one in verdicts(CATALOGUE, example.document) if one.result is Result.DENY] == []


def test_messages(request: pytest.FixtureRequest) -> None:
    """What a reviewer reads, word for word, of the first failing example of each rule; a server says the same of all."""
    first = {example.rule: example for example in reversed(EXAMPLES) if example.verdict == "fail"}
    lines = [
        f"{example}: {one.result} {one.message} ({one.field or '-'})"
        for example in reversed(first.values())
        for one in verdicts(CATALOGUE, example.document)
        if one.rule == example.rule
    ]
    golden, text = Path(__file__).with_name("messages.txt"), "\n".join(lines) + "\n"
    if os.environ.get("GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("rule", sources())
def test_rules_are_what_their_sources_make(rule: str) -> None:
    """`make docs` writes them; a rule without a source finds no pods and has no source to keep up with."""
    assert (POLICIES / rule / "rule.yaml").read_text() == written(rule)


def test_rules_that_find_pods_have_a_source() -> None:
    generated = {"objects", "roles", "containers", "gpus"}
    finding = set()
    for rule in RULES:
        spec = _policy(rule)["spec"]
        assert isinstance(spec, dict)
        if generated & {one["name"] for one in spec.get("variables", ())}:
            finding.add(rule)
    assert finding <= set(sources()) <= set(RULES)


def _job(image: str = "pytorch/pytorch:2.0.1-cuda11.7-cudnn8-runtime", parallelism: int = 1) -> str:
    return f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: train, namespace: team-a, labels: {{team: a, kai.scheduler/queue: a}}}}
spec:
  parallelism: {parallelism}
  ttlSecondsAfterFinished: 60
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: trainer
          image: {image}
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""


def _of(text: str, settings: dict[str, RuleSetting] | None = None) -> list[tuple[str, Result]]:
    (document,) = read("jobs/train.yaml", text.encode()).documents
    return [(one.rule, one.result) for one in verdicts(catalogue(settings), document)]


def test_images_of_the_torchrun_examples_pass() -> None:
    assert _of(_job()) == []
    assert _of(_job("pytorch/pytorch:latest")) == [("pinned-images", Result.WARN)]


def test_settings_switch_a_rule_off_or_harden_it() -> None:
    job = _job("pytorch/pytorch:latest")
    assert _of(job, {"pinned-images": RuleSetting(enabled=False)}) == []
    assert _of(job, {"pinned-images": RuleSetting(action="deny")}) == [("pinned-images", Result.DENY)]
    assert _of(job, {"pinned-images": RuleSetting(action="audit")}) == [("pinned-images", Result.AUDIT)]


def test_settings_set_parameters() -> None:
    """A ConfigMap holds strings: numbers are written, lists joined."""
    assert _of(_job(parallelism=9), {"max-gpus-per-job": RuleSetting(parameters={"max": 8})}) == [
        ("max-gpus-per-job", Result.DENY)
    ]
    labels = RuleSetting(parameters={"labels": ["team", "cost-center"]})
    assert _of(_job(), {"ownership-labels": labels}) == [("ownership-labels", Result.WARN)]


def test_optional_rules_are_off_until_settings_name_them() -> None:
    policies = load([], {}, shipped=shipped(), server=SERVER).policies
    assert set(RULES) - set(policies.rules) == set(OPTIONAL)
    assert not policies.about_plans.rules
    named = load([], {ABOUT_PLANS[0]: RuleSetting(parameters={"max": 8})}, shipped=shipped()).policies
    assert named.about_plans.rules == ABOUT_PLANS[:1]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"ownership-labels": RuleSetting(parameters={"labels": ["x" * 100] * 100})},
            "the value is too long (limit 4,096 characters)",
        ),
        (
            {"max-gpus-per-job": RuleSetting(parameters={"maximum": 8})},
            "no parameter 'maximum'; known parameters: max",
        ),
        ({"no-privileged": RuleSetting(parameters={"max": 8})}, "has no parameters; remove them"),
        ({"no-privileged": RuleSetting(action="block")}, "unknown action 'block'; allowed values: deny, warn, audit"),
    ],
)
def test_wrong_settings_are_problems(settings: dict[str, RuleSetting], words: str) -> None:
    (problem,) = catalogue(settings).problems
    assert problem.rule == "policy.setting"
    assert words in str(problem)


@pytest.mark.parametrize(
    ("namespaces", "found"),
    [("kaiwo", []), (["kaiwo", "team-a"], [Result.DENY]), ("*", [Result.DENY])],
)
def test_kaiwo_manages_the_namespaces_that_are_named(namespaces: str | list[str], found: list[Result]) -> None:
    """F-078: by default the one of Kaiwo's own command; a queue of another scheduler is one, too."""
    settings = {"kaiwo-managed": RuleSetting(parameters={"namespaces": namespaces})}
    unqueued = _job().replace(", kai.scheduler/queue: a", "")
    assert [result for rule, result in _of(unqueued, settings) if rule == "kaiwo-managed"] == found
    assert "kaiwo-managed" not in dict(_of(_job(), settings))


@pytest.mark.parametrize("example", [one for one in EXAMPLES if str(one).startswith("kaiwo-adoption-fail")], ids=str)
def test_the_kaiwo_job_that_is_shown_is_the_job(example: Example) -> None:
    """F-078: written as the message and the hint say, it renders the same pods in the same queue."""
    (verdict,) = [one for one in verdicts(CATALOGUE, example.document) if one.rule == "kaiwo-adoption"]
    written = yaml.safe_load(verdict.message.partition("with spec: ")[2])
    assert written["job"] == {"spec": "the spec of the Job"}
    old = example.document.data
    labels = {"team": old["metadata"]["labels"]["team"]}
    body = {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {**old["metadata"], "labels": labels},
        "spec": {**written, "job": {"spec": old["spec"]}},
    }
    new = kaiwo_cases.rendered(yaml.safe_dump(body)).one("Job")
    queue = "kueue.x-k8s.io/queue-name"
    assert new["metadata"]["labels"][queue] == old["metadata"]["labels"].get(queue, "kaiwo")
    assert new["spec"].get("completions") == old["spec"].get("completions")
    (container,), (before,) = (one["spec"]["template"]["spec"]["containers"] for one in (new, old))
    assert container["image"] == before["image"]
    limits = [one.get("resources", {}).get("limits", {}).get(kaiwo_cases.GPU) for one in (container, before)]
    assert str(limits[0]) == str(limits[1])


def test_a_secret_is_never_quoted() -> None:
    """The verdict holds not one value."""
    secret = "hunter2-canary"
    text = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: n}}\nstringData: {{password: {secret}}}\n"
    (document,) = read("jobs/secret.yaml", text.encode()).documents
    (verdict,) = verdicts(CATALOGUE, document)
    assert (verdict.rule, verdict.result) == ("no-secrets-in-git", Result.DENY)
    assert secret not in str(verdict)


def test_a_repository_may_replace_a_shipped_rule() -> None:
    """A policy of the same name takes the place of ours, binding and parameters included."""
    own = (POLICIES / "no-host-network" / "rule.yaml").read_text().replace("[Deny]", "[Warn]")
    policies = load(read("policies/own.yaml", own.encode()).documents, {}, shipped=shipped(), server=SERVER)
    assert policies.problems == ()
    example = next(one for one in EXAMPLES if str(one) == "no-host-network-fail-host-pid")
    (verdict,) = policies.policies.evaluate(Subject(rendered(example.document), None, None))
    assert (verdict.rule, verdict.result) == ("no-host-network", Result.WARN)


def test_the_readme_lists_every_rule() -> None:
    """Run `make docs` if this fails."""
    page = README.read_text()
    assert listed(page) == page
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == list(RULES)
    assert listed(page.replace("| `no-privileged` |", "| `no-rule` |")) == page


@cache
def _matched(rule: str) -> set[tuple[str, str]]:
    spec = _policy(rule)["spec"]
    assert isinstance(spec, dict)
    entries = spec["matchConstraints"]["resourceRules"]
    return {(group, name) for one in entries for group in one["apiGroups"] for name in one["resources"]}


_ABOUT_PODS = {"gpu-request-equals-limit", "no-host-network", "no-host-path", "no-literal-secrets", "no-privileged",
               "pinned-images"}  # fmt: skip


def test_every_kind_with_pods_is_judged_or_named() -> None:
    """The rules about pods judge the same kinds, those about jobs all jobs; the README names what none judges."""
    with_pods = {one for one, row in BUILT_IN.items() if row.pods.read or row.pods.components or row.pods.provides}
    resources = {(group, kind): (group, _plural(group, kind)) for group, kind in with_pods}
    judged = {rule: {one for one in with_pods if resources[one] in _matched(rule)} for rule in RULES}
    every = judged["no-privileged"]
    machines = {one for one in with_pods if one[0] == "kubevirt.io"}
    unread = {one for one in with_pods if one[1] in ("RAGEngine", "SeldonDeployment", "Workspace")}
    assert {rule for rule in RULES if judged[rule] == every} >= _ABOUT_PODS
    jobs = {one for one in every if one[0] in _JOBS and (one[1].endswith("Job") or one[1] in ("JobSet", "AppWrapper"))}
    assert judged["deadline-or-ttl"] == jobs - {("trainer.kubeflow.org", "TrainJob")}  # it has neither field
    assert judged["max-gpus-per-job"] >= jobs
    running = {one for one in every if not BUILT_IN[one].pods.provides} | machines
    assert judged["gpu-job-in-queue"] == judged["kaiwo-managed"] == running
    assert judged["ownership-labels"] == running | unread
    unnamed = {kind for _, kind in unjudged(BUILT_IN)}
    assert unnamed <= {kind for _, kind in with_pods - every - machines}
    text = README.read_text().partition("No rule finds")[2].partition("apply the rules")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", text)) <= unnamed


_JOBS = {"batch", "jobset.x-k8s.io", "kubeflow.org", "ray.io", "batch.volcano.sh", "workload.codeflare.dev",
         "trainer.kubeflow.org"}  # fmt: skip


@cache
def _plural(group: str, kind: str) -> str:
    served = SERVER.served(group, kind)
    return served.plural if served else ""


def test_variables_that_rules_share_are_evaluated_once_for_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that count GPUs do so by the same variables."""
    evaluated: list[int] = []
    evaluate = Program.evaluate

    def noted(program: Program, activation: Activation) -> object:
        evaluated.append(id(program))
        return evaluate(program, activation)

    monkeypatch.setattr(Program, "evaluate", noted)
    assert _of(_job()) == []
    assert evaluated
    assert len(evaluated) == len(set(evaluated))


def test_overrides_of_earlier_trainers_are_judged() -> None:
    """The field `podSpecOverrides` was replaced by `podTemplateOverrides`, and that by `runtimePatches`."""
    text = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train, namespace: default, labels: {team: a}}
spec:
  runtimeRef: {name: torch}
  podSpecOverrides: [{targetJobs: [{name: node}], volumes: [{name: data, hostPath: {path: /data}}]}]
"""
    assert _of(text) == [("no-host-path", Result.DENY)]
    later = text.replace("podSpec", "podTemplate").replace("volumes: [", "spec: {volumes: [").replace("}}]}]", "}}]}}]")
    assert _of(later) == [("no-host-path", Result.DENY)]

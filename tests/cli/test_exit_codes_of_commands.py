"""The exit codes of each command, provoked in a repository that a user could have."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.cli import main
from tests.cli.fleet import Fleet, run_verb

VIT = "jobs/vision/vit.yaml"
PRIVILEGED = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {team: x}}\nspec:\n"
    "  containers: [{name: c, image: 'a:1', securityContext: {privileged: true}}]\n"
)


def clean(_: Fleet) -> None:
    """Leave the new repository as it is."""


def edited(fleet: Fleet) -> None:
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 32")
    fleet.commit()


def broken(fleet: Fleet) -> None:
    fleet.write(VIT, "kind: [\n")
    fleet.commit()


def broken_policy(fleet: Fleet) -> None:
    head = "apiVersion: gpureconciler.io/v1alpha1\nkind: HealthPolicy\nmetadata: {name: fleet}\n"
    fleet.write("queues/health.yaml", f"{head}spec: {{checks: {{nonsense: {{mode: enforce}}}}}}\n")
    fleet.commit()


def broken_test(fleet: Fleet) -> None:
    fleet.edit("tests/rules.yaml", "expect: pass", "expect: nothing")


def failing_test(fleet: Fleet) -> None:
    fleet.edit("tests/rules.yaml", "expect: pass", "expect: deny")


def denied(fleet: Fleet) -> None:
    fleet.write("jobs/pod.yaml", PRIVILEGED)
    fleet.commit()


def emptied(fleet: Fleet) -> None:
    for path in (fleet.root / "jobs").rglob("*.yaml"):
        path.unlink()
    fleet.commit()


def stale(fleet: Fleet) -> None:
    edited(fleet)


def saved(fleet: Fleet) -> None:
    edited(fleet)
    fleet.run("plan", "--base", "HEAD~1", "--out", str(fleet.root.parent / "plan.json"))


def saved_denied(fleet: Fleet) -> None:
    denied(fleet)
    fleet.run("plan", "--base", "HEAD~1", "--out", str(fleet.root.parent / "plan.json"))


def saved_broken(fleet: Fleet) -> None:
    broken(fleet)
    fleet.run("plan", "--base", "HEAD~1", "--out", str(fleet.root.parent / "plan.json"))


def forged(fleet: Fleet) -> None:
    saved(fleet)
    plan = fleet.root.parent / "plan.json"
    plan.write_text(plan.read_text().replace("vit", "vat"))


def conflicting(fleet: Fleet) -> None:
    edited(fleet)
    fleet.git("checkout", "--quiet", "-b", "other", "HEAD~1")
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 24")
    fleet.commit()
    with pytest.raises(Exception, match="merge"):
        fleet.git("merge", "main")


def without_settings(fleet: Fleet) -> None:
    (fleet.root / "reconciler.yaml").unlink()
    fleet.commit()


def damaged(fleet: Fleet) -> None:
    (fleet.root / ".git/HEAD").write_text("garbage\n")


def uncommitted(fleet: Fleet) -> None:
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 32")


CASES: tuple[tuple[str, int, Callable[[Fleet], None]], ...] = (
    ("new job x --output -", 0, clean),
    ("new job x --queue nope", 2, clean),
    ("new queue x --gpu nope", 2, clean),
    ("new job x", 2, without_settings),
    ("new job x", 6, damaged),
    ("lint", 0, clean),
    ("lint --width wide", 2, clean),
    ("lint", 2, without_settings),
    ("lint", 3, broken),
    ("lint", 4, denied),
    ("lint", 6, damaged),
    ("lint --revision nowhere", 6, clean),
    ("test", 0, clean),
    ("test policies", 2, clean),
    ("test", 3, broken_test),
    ("test", 4, failing_test),
    ("plan", 0, clean),
    ("plan --exit-code", 0, clean),
    ("plan", 0, uncommitted),
    ("plan --exit-code", 1, uncommitted),
    ("plan --nonsense", 2, clean),
    ("plan", 2, without_settings),
    ("plan", 3, broken),
    ("plan", 4, denied),
    ("plan --base HEAD~1", 5, emptied),
    ("plan", 6, damaged),
    ("plan --out /nonexistent/folder/plan.json", 6, clean),
    ("render", 0, clean),
    ("render --to .", 2, clean),
    ("render", 3, broken),
    ("render", 6, damaged),
    ("commit", 0, edited),
    ("commit --branch", 2, clean),
    ("commit", 2, without_settings),
    ("commit", 3, broken),
    ("commit", 4, denied),
    ("commit", 5, emptied),
    ("commit --plan ../plan.json", 5, forged),
    ("commit", 6, damaged),
    ("commit --branch bad..name", 2, edited),
    ("probe --check nvml.init", 0, clean),
    ("probe --check nonsense", 2, clean),
    ("probe --replay missing.json", 2, clean),
    ("health --offline", 0, clean),
    ("health --offline", 2, without_settings),
    ("health --offline", 3, broken_policy),
    ("health --offline", 6, damaged),
    ("health nowhere --offline", 2, clean),
    ("agent --interval 1", 2, clean),
    ("apply missing.json", 2, clean),
    ("apply ../plan.json", 2, saved),
    ("apply ../plan.json", 5, forged),
    ("history --kubeconfig missing", 2, clean),
    ("rollback HEAD", 0, clean),
    ("rollback HEAD --nonsense", 2, clean),
    ("rollback nowhere", 6, clean),
    ("resolve", 0, clean),
    ("resolve --nonsense", 2, clean),
    ("resolve", 5, conflicting),
    ("resolve", 6, damaged),
    ("verify", 0, clean),
    ("verify --date tomorrow", 2, clean),
    ("verify", 3, broken),
    ("verify", 4, denied),
    ("verify", 5, stale),
    ("verify", 6, damaged),
    ("verify --revision nowhere", 6, clean),
    ("approve --reason x --expires 2000-01-01", 2, emptied),
    ("approve --reason x --base HEAD~1", 0, emptied),
    ("approve --reason x", 6, damaged),
    ("explain PyTorchJob/vit", 0, clean),
    ("explain PyTorchJob/nope", 2, clean),
    ("explain PyTorchJob/vit", 6, damaged),
    ("import --kubeconfig missing", 2, clean),
    ("import", 6, damaged),
    ("observe --kubeconfig missing", 2, clean),
    ("observe", 6, damaged),
    ("status --kubeconfig missing", 2, clean),
    ("status", 6, damaged),
    ("drift --kubeconfig missing", 2, clean),
    ("drift", 6, damaged),
    ("release --kubeconfig missing Job/a/b", 2, clean),
    ("release", 2, clean),
    ("release Job/a/b", 6, damaged),
    ("report queues", 0, clean),
    ("report queues", 6, damaged),
    ("report cost --window soon", 2, clean),
    ("propose", 0, clean),
    ("propose --nonsense", 2, clean),
    ("propose", 6, damaged),
    ("controller --config missing.yaml", 2, clean),
    ("controller --workers none", 2, clean),
    ("size jobs/language/llama-lora.yaml", 0, clean),
    ("size jobs/language/llama-lora.yaml --gpu nope", 2, clean),
    ("size missing.yaml", 2, clean),
    ("size jobs/vision/vit.yaml", 3, broken),
    ("size ask --model nope --gpu NVIDIA-L40S", 2, clean),
    ("size write", 0, clean),
    ("size record", 0, clean),
    ("show ../plan.json", 0, saved),
    ("show missing.json", 2, clean),
    ("show ../plan.json", 3, saved_broken),
    ("show ../plan.json", 4, saved_denied),
    ("show ../plan.json", 5, forged),
    ("schema TorchrunJob", 0, clean),
    ("schema Nope", 2, clean),
    ("version", 0, clean),
    ("version -o xml", 2, clean),
    ("completion bash", 0, clean),
    ("completion tcsh", 2, clean),
    ("init new-fleet", 0, clean),
    ("init .", 2, clean),
    ("init /proc/nope", 6, clean),
)  # fmt: skip


@pytest.mark.parametrize(("line", "code", "arrange"), CASES, ids=[f"{line}-{code}" for line, code, _ in CASES])
def test_exit_code(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, line: str, code: int, arrange: Callable[[Fleet], None]
) -> None:
    arrange(fleet)
    monkeypatch.chdir(fleet.root)
    ran = run_verb(fleet.capture, shlex.split(line))
    assert ran.code == code, f"{line}: exit code {ran.code}\n{ran.out[-1000:]}\n{ran.err}"
    assert "bug" not in ran.err
    assert bool(ran.err.strip()) or code in {0, 1}


@pytest.mark.parametrize("command", main.COMMANDS)
def test_a_flag_that_does_not_exist_is_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_verb(capsys, [command, "--nonsense"])
    assert (ran.code, "reconciler" in ran.err) == (2, True)


def test_every_exit_code_is_provoked() -> None:
    assert {line.split()[0] for line, _, _ in CASES} <= main.COMMANDS.keys()
    assert {code for _, code, _ in CASES} == {0, 1, 2, 3, 4, 5, 6}


def test_no_repository_is_an_outside_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for command in ("lint", "plan", "commit", "verify", "render", "resolve", "new job x", "explain Job/x"):
        ran = run_verb(capsys, command.split())
        assert ran.code == 6, command
        assert "is not in a Git repository" in ran.err

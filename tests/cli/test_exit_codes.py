"""Every documented exit code, met as a user meets it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.cli import main
from reconciler.settings import NAMES, PREFIX
from tests.cli.fleet import Fleet, run_verb


def test_0_done(fleet: Fleet) -> None:
    assert fleet.run("plan").code == 0


def test_1_changes_pending_only_when_asked(fleet: Fleet) -> None:
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    assert fleet.run("plan").code == 0
    assert fleet.run("plan", "--exit-code").code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "--nonsense"], "--nonsense"),
        (["plan", "-o", "xml"], "xml"),
        (["plan", "--width", "wide"], "whole number"),
        (["plan", "--date", "tomorrow"], "2026-01-31"),
        (["plan", "--date", "2026-02-30"], "'2026-02-30' is not a date"),
        (["plan", "--color", "pink"], "pink"),
        (["health", "--offline", "--watch", "--interval", "nan"], "nan is not a finite number"),
        (["health", "--offline", "--watch", "--interval", "inf"], "inf is not a finite number"),
        (["health", "--offline", "--watch", "--interval", "1e300"], "1e+300 is not in the range"),
        (["propose", "--share", "nan"], "nan is not a finite number"),
    ],
)
def test_2_bad_flag(fleet: Fleet, arguments: list[str], words: str) -> None:
    ran = fleet.run(*arguments)
    assert ran.code == 2
    assert words in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["probe", "record", "never.json", "--sweeps", "2", "--interval", "-5"], "-5.0 is not in the range"),
        (
            ["size", "ask", "--model", "llama3.1-8b", "--gpu", "NVIDIA-L40S", "--safety", "nan"],
            "nan is not a finite number",
        ),
    ],
)
def test_2_bad_flag_without_a_repository(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    ran = run_verb(capsys, arguments)
    assert ran.code == 2
    assert words in ran.err


def test_2_today_is_not_a_date_in_a_file(fleet: Fleet) -> None:
    """The same commit gives the same plan on every day."""
    assert fleet.run("plan", "--date", "today").code == 0
    fleet.edit("reconciler.yaml", "spec:\n", "spec:\n  defaults: {date: today}\n")
    fleet.commit()
    ran = fleet.run("plan")
    assert ran.code == 2
    assert "spec.defaults.date: 'today' is not a date" in ran.err


def test_2_unknown_verb(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_verb(capsys, ["plna"])
    assert ran.code == 2
    assert "'plan'" in ran.err


def test_2_no_config_repository(tmp_path: Path, fleet: Fleet) -> None:
    other = Fleet(tmp_path / "plain", fleet.capture)
    other.root.mkdir()
    other.git("init", "--quiet")
    ran = other.run("plan")
    assert ran.code == 2
    assert "reconciler init" in ran.err


@pytest.mark.parametrize("name", sorted(NAMES))
def test_settings_from_the_environment(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """F-124: each setting has a variable; a value that is not allowed is an error that names it."""
    wrong = {
        "base": "no-such-branch",
        "revision": "no-such-branch",
        "cluster": "no-such-cluster",
        "output": "xml",
        "color": "pink",
        "width": "wide",
        "date": "tomorrow",
        "cache": "maybe",
        "processes": "-1",
        "server_patience": "forever",
        "log_level": "loud",
        "log_format": "xml",
    }
    monkeypatch.setenv(PREFIX + name.upper(), wrong.get(name, ""))
    ran = fleet.run("plan")
    if name in wrong:
        assert ran.code in (2, 6), ran.err
        assert wrong[name] in ran.err
    else:
        assert ran.code == 0, ran.err


def test_flags_win_over_environment_over_file(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-124: precedence, and a misspelt variable or default is never passed over in silence."""
    fleet.edit("reconciler.yaml", "spec:\n", "spec:\n  defaults: {output: json}\n")
    assert fleet.run("plan").out.startswith("{")
    monkeypatch.setenv("RECONCILER_OUTPUT", "markdown")
    assert fleet.run("plan").out.startswith("<!--")
    assert fleet.run("plan", "-o", "text").out[0] not in "{<"
    monkeypatch.setenv("RECONCILER_OUTPT", "json")
    misspelt = fleet.run("plan")
    assert misspelt.code == 2
    assert "RECONCILER_OUTPUT" in misspelt.err


def test_a_pull_request_does_not_choose_what_is_judged(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults of `cluster`, `date` and `base` count once the base has them; other defaults count at once."""
    fleet.edit(
        "reconciler.yaml",
        "    - name: main\n",
        "    - name: staging\n      select: {folders: [jobs/staging]}\n    - name: main\n",
    )
    fleet.commit()
    fleet.run("commit")
    fleet.git("checkout", "--quiet", "-b", "change")
    fleet.edit("reconciler.yaml", "spec:\n", "spec:\n  defaults: {cluster: staging, output: name}\n")
    (fleet.root / "jobs/vision/vit.yaml").unlink()
    fleet.commit()
    planned = fleet.run("plan", "--revision", "HEAD", "--base", "main")
    assert "vit" in planned.out
    assert "spec.defaults.cluster is not used" in planned.err
    monkeypatch.setenv("RECONCILER_BASE", "main")
    assert fleet.run("verify").code == 5
    assert fleet.run("plan", "--revision", "HEAD", "--cluster", "staging").out == ""
    fleet.git("checkout", "--quiet", "main")
    fleet.git("merge", "--quiet", "change")
    assert fleet.run("plan", "--revision", "HEAD").out == ""


def test_3_invalid_input_shows_all_and_the_rest_of_the_plan(fleet: Fleet) -> None:
    """All problems of all files at once; one bad file does not hide the plan of the others, nor is it committed."""
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    fleet.write("jobs/bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nbogus: 1\n")
    fleet.write("jobs/worse.yaml", "a: [1\n")
    ran = fleet.run("plan")
    assert ran.code == 3
    assert "jobs/bad.yaml:4" in ran.out
    assert "jobs/worse.yaml" in ran.out
    assert "Queue" in ran.out
    fleet.commit()
    head = fleet.git("rev-parse", "HEAD")
    assert fleet.run("commit").code == 3
    assert fleet.git("rev-parse", "HEAD") == head


def test_3_the_last_line_counts_denials_as_well(fleet: Fleet) -> None:
    """The first line of `lint` counts them among the errors."""
    fleet.write("jobs/bad.yaml", "kind: [\n")
    fleet.write("jobs/s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2hunter2}\n")
    ran = fleet.run("lint")
    assert (ran.code, ran.out.startswith("2 errors in 2 files")) == (3, True)
    assert ran.err == "error: 1 error and 1 policy denial in the repository, shown above\n"


def test_3_a_broken_file_deletes_nothing(fleet: Fleet) -> None:
    """What a file rendered before stays while the file has errors."""
    fleet.write("jobs/vision/vit.yaml", "kind: [\n")
    ran = fleet.run("plan", "-o", "name")
    assert ran.code == 3
    assert "vit" not in "".join(line for line in ran.out.splitlines() if "delete" in line)


_BROKEN = {"syntax": "kind: [\n", "empty": " \n", "conflict": "<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> main\n"}


@pytest.mark.parametrize("how", _BROKEN)
@pytest.mark.parametrize(
    "path",
    [
        "jobs/vision/vit.yaml",
        "jobs/language/llama-lora.yaml",
        "queues/h100.yaml",
        "evidence/main/nodes.yaml",
        "policies/own.yaml",
    ],
)
def test_3_a_broken_file_is_no_absence_of_changes(fleet: Fleet, path: str, how: str) -> None:
    """The headline says that the plan is incomplete, what stays is named, and nothing is deleted."""
    fleet.write(path, _BROKEN[how])
    ran = fleet.run("plan")
    assert ran.code == 3
    assert ran.out.startswith("Incomplete plan: ")
    assert "No change" not in ran.out
    assert path in ran.out
    names = fleet.run("plan", "-o", "name").out
    assert "delete" not in names
    if path == "jobs/vision/vit.yaml":
        assert "rendered/main/default/pytorchjob-vit.yaml" in ran.out
    assert "\n### Incomplete plan" in fleet.run("plan", "-o", "markdown").out
    assert fleet.run("lint").code == 3


def test_4_policy_denied(fleet: Fleet) -> None:
    fleet.write(
        "jobs/pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {team: x}}\nspec:\n  hostNetwork: true\n"
        "  containers: [{name: c, image: 'a:1', securityContext: {privileged: true}}]\n",
    )
    ran = fleet.run("plan")
    assert ran.code == 4, ran.out
    assert "no-privileged" in ran.out


def test_4_an_exception_allows_until_it_expires(fleet: Fleet) -> None:
    fleet.write(
        "jobs/pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {team: x}}\nspec:\n"
        "  containers: [{name: c, image: 'a:1', securityContext: {privileged: true}}]\n",
    )
    fleet.write(
        "policies/allow.yaml",
        "apiVersion: gpureconciler.io/v1alpha1\nkind: PolicyException\nmetadata: {name: allow}\nspec:\n"
        "  rule: no-privileged\n  object: {kind: Pod, namespace: default, name: p}\n"
        "  reason: driver install\n  owner: ops@example.com\n  expires: '2026-12-01'\n",
    )
    allowed = fleet.run("plan", "--date", "2026-11-30")
    assert allowed.code == 0, allowed.out
    assert "ops@example.com" in allowed.out
    assert fleet.run("plan", "--date", "2026-12-02").code == 3


def test_5_over_budget_until_this_very_plan_is_approved(fleet: Fleet) -> None:
    """The plan is shown in full, then refused, until it is approved; another edit voids the approval."""
    for path in (fleet.root / "jobs").rglob("*.yaml"):
        path.unlink()
    ran = fleet.run("plan")
    assert ran.code == 5
    assert "vit" in ran.out
    assert fleet.run("approve", "--reason", "the fleet is empty").code == 0
    assert fleet.run("plan").code == 0
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 33")
    assert fleet.run("plan").code == 5


def test_5_verify_refuses_an_edited_rendered_file(fleet: Fleet) -> None:
    fleet.edit("rendered/main/_cluster/queue.scheduling.run.ai-h100.yaml", "32", "33")
    fleet.commit()
    ran = fleet.run("verify")
    assert ran.code == 5
    assert "reconciler commit" in ran.err


def test_6_the_outside(fleet: Fleet, tmp_path: Path) -> None:
    assert fleet.run("plan", "--revision", "nowhere").code == 6
    folder = tmp_path / "no-git"
    folder.mkdir()
    ran = run_verb(fleet.capture, ["plan", "--repo", str(folder)])
    assert ran.code == 6
    assert "git" in ran.err.lower()


def test_70_a_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(**_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(main.reconciler, "main", broken)
    ran = run_verb(capsys, ["plan"])
    assert ran.code == 70
    assert "bug" in ran.err


def test_interrupt_leaves_no_trace(fleet: Fleet) -> None:
    """Ctrl-C ends with 130 and one line."""
    code = "import os,signal,sys\nfrom reconciler.cli import main\n"
    code += "main.reconciler.main = lambda **k: os.kill(os.getpid(), signal.SIGINT)\nsys.exit(main.run(['plan']))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 128 + signal.SIGINT
    assert "Traceback" not in ran.stderr


def test_a_reader_that_has_seen_enough_is_neither_success_nor_pending_changes(fleet: Fleet) -> None:
    """`plan | head` ends as other programs do (141), without a word."""
    read, write = os.pipe()
    os.close(read)
    call = [sys.executable, "-m", "reconciler", "plan", "--repo", str(fleet.root), "-o", "json"]
    ran = subprocess.run(call, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("end", ["closed", "full"])
@pytest.mark.parametrize(("arguments", "code"), [(["lint"], 3), (["plan", "--nonsense"], 2)])
def test_an_error_that_nobody_reads_keeps_its_exit_code(
    fleet: Fleet, end: str, arguments: list[str], code: int
) -> None:
    """`lint 2>&1 | head -1` does not end with 1, which would mean that changes are pending."""
    fleet.write("jobs/bad.yaml", "kind: [\n")
    if end == "closed":
        read, write = os.pipe()
        os.close(read)
    else:
        write = os.open("/dev/full", os.O_WRONLY)
    call = [sys.executable, "-m", "reconciler", *arguments, "--repo", str(fleet.root)]
    ran = subprocess.run(call, stdout=subprocess.DEVNULL, stderr=write, check=False)
    os.close(write)
    assert ran.returncode == code


@pytest.mark.parametrize("stderr", ["&-", "/dev/full"])
def test_an_error_without_a_place_to_print_it_is_no_bug_and_not_pending_changes(fleet: Fleet, stderr: str) -> None:
    fleet.edit("rendered/main/_cluster/queue.scheduling.run.ai-h100.yaml", "32", "33")
    fleet.commit()
    call = f'exec "$0" -m reconciler verify --repo "$1" 2>{stderr}'
    ran = subprocess.run(["sh", "-c", call, sys.executable, str(fleet.root)], capture_output=True, check=False)
    assert ran.returncode == 5


def test_foreign_files_in_rendered_are_errors_and_stay(fleet: Fleet) -> None:
    """F-142: what we did not render is never removed, nor overwritten."""
    fleet.write(
        "rendered/main/default/configmap-theirs.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\n"
    )
    fleet.commit()
    ran = fleet.run("plan")
    assert ran.code == 3
    assert "rendered/main/default/configmap-theirs.yaml" in ran.out
    assert fleet.run("commit").code == 3
    assert (fleet.root / "rendered/main/default/configmap-theirs.yaml").exists()


def test_help_is_useful_and_light() -> None:
    """Every verb explains itself with examples; the top level imports neither YAML nor schemas nor Git."""
    probe = (
        "import sys\nfrom reconciler.cli.main import run\nrun(['--help'])\nprint(sorted(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    for verb in main.COMMANDS:
        assert verb in ran.stdout
    for heavy in ("yaml", "msgspec", "jsonschema_rs", "git", "rich", "reconciler.plan.opening", "asyncio"):
        assert f"'{heavy}'" not in ran.stderr


@pytest.mark.parametrize("verb", sorted(main.COMMANDS))
def test_help_of_each_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_verb(capsys, [verb, "--help"])
    assert ran.code == 0
    assert "Usage: reconciler" in ran.out
    assert "Examples:" in ran.out

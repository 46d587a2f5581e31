"""`submit` of a local folder to a torchrun queue (F-059), and what any change on a branch of its own respects."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.fleet import Fleet

README = Path(__file__).resolve().parents[1] / "data/torchrun-commands.txt"
WORDS = ("submit", "--queue", "h100", "--gpus", "8", "-u", "ada", "python train.py")
CODE = {"train.py": "print(1)\n", ".hidden": "A=1\n", "lib/part.py": "x = 1\n"}


@pytest.fixture
def project(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    for name, text in CODE.items():
        fleet.write(f"../project/{name}", text)
    fleet.write("../project/.git/config", "[core]\n")
    monkeypatch.chdir(fleet.root.parent / "project")
    return fleet


def test_f_059_the_local_folder_is_carried_and_mounted(project: Fleet) -> None:
    before = project.git("status", "--porcelain", "--branch")
    ran = project.run(*WORDS)
    assert ran.code == 0, ran.out + ran.err
    assert "branch submit/ada-project" in ran.out
    assert project.git("status", "--porcelain", "--branch") == before
    project.git("checkout", "--quiet", "submit/ada-project")
    folder = project.root / "jobs/ada-project.files"
    carried = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert carried == CODE
    assert project.run("commit").code == 0
    job = yaml.safe_load((project.root / "rendered/main/default/job-ada-project.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert {"name": "workload-files", "mountPath": "/app"} in container["volumeMounts"]
    assert container["workingDir"] == "/app"
    (volume,) = [one for one in pod["volumes"] if one["name"] == "workload-files"]
    data = yaml.safe_load((project.root / "rendered/main/default/configmap-ada-project.yaml").read_text())["data"]
    assert {item["path"]: data[item["key"]] for item in volume["configMap"]["items"]} == CODE


def test_f_059_an_edit_is_a_new_commit_and_nothing_is_none(project: Fleet) -> None:
    assert project.run(*WORDS).code == 0
    tip = project.git("rev-parse", "submit/ada-project")
    assert project.run(*WORDS).out.startswith("nothing to submit")
    assert project.git("rev-parse", "submit/ada-project") == tip
    project.write("../project/train.py", "print(2)\n")
    (project.root / "../project/lib/part.py").unlink()
    assert project.run(*WORDS).code == 0
    assert project.git("show", "submit/ada-project:jobs/ada-project.files/train.py") == "print(2)"
    assert "part.py" not in project.git("ls-tree", "-r", "--name-only", "submit/ada-project")
    assert project.git("rev-list", "--count", "main..submit/ada-project") == "1"


def test_f_059_the_lines_of_the_readme_run_as_printed(project: Fleet) -> None:
    project.edit("queues/h100.yaml", "name: h100\n", "name: h100-training\n")
    project.git("rm", "-rq", "rendered")
    for path in (project.root / "jobs").rglob("*.yaml"):
        path.write_text(path.read_text().replace("h100", "h100-training"))
    project.commit()
    assert project.run("commit").code == 0
    for line in README.read_text().splitlines():
        if line.startswith("#"):
            continue
        kubectl, torchrun, *words = shlex.split(line)
        assert (kubectl, torchrun) == ("kubectl", "torchrun")
        ran = project.run(*words)
        assert ran.code == 0, ran.out + ran.err
    (branch,) = project.git("branch", "--list", "submit/*", "--format=%(refname:short)").split()
    document = yaml.safe_load(project.git("show", f"{branch}:{branch.replace('submit', 'jobs')}.yaml"))
    assert document["spec"]["command"] == "python train.py --epochs 20"


def test_the_branch_is_pushed_and_no_one_is_overwritten(project: Fleet) -> None:
    remote = project.root.parent / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    assert "no remote origin" in project.run(*WORDS, "--push").err
    project.git("remote", "add", "origin", str(remote))
    project.git("branch", "-D", "submit/ada-project")
    ran = project.run(*WORDS, "--push")
    assert ran.code == 0, ran.err
    assert f"Pushed to {remote}" in ran.out
    tip = project.git("rev-parse", "submit/ada-project")
    assert project.git("ls-remote", str(remote), "refs/heads/submit/ada-project").startswith(tip)
    project.git("commit-tree", "-m", "mine", "-p", tip, f"{tip}^{{tree}}")
    theirs = project.git("commit-tree", "-m", "mine", "-p", tip, "main^{tree}")
    project.git("update-ref", "refs/heads/submit/ada-project", theirs)
    refused = project.run(*WORDS)
    assert (refused.code, "did not create" in refused.err) == (5, True)
    assert project.git("rev-parse", "submit/ada-project") == theirs


def test_a_branch_that_is_checked_out_is_left_alone(project: Fleet) -> None:
    assert project.run(*WORDS).code == 0
    project.git("checkout", "--quiet", "submit/ada-project")
    project.write("../project/train.py", "print(3)\n")
    refused = project.run(*WORDS)
    assert (refused.code, "is checked out" in refused.err) == (5, True)
    assert project.git("status", "--porcelain") == ""


def test_uncommitted_edits_of_the_user_are_not_part_of_it(project: Fleet) -> None:
    project.write("jobs/broken.yaml", "apiVersion: v1\nkind: [\n")
    project.git("add", "jobs/broken.yaml")
    before = project.git("status", "--porcelain")
    assert project.run(*WORDS).code == 0
    assert project.git("status", "--porcelain") == before
    assert "broken" not in project.git("ls-tree", "-r", "--name-only", "submit/ada-project")


def test_a_torchrun_job_is_deleted_with_its_folder(project: Fleet) -> None:
    assert project.run(*WORDS).code == 0
    project.git("merge", "--quiet", "--ff-only", "submit/ada-project")
    assert project.run("commit").code == 0
    ran = project.run("delete", "job/ada-project", "--claims")
    assert ran.code == 0, ran.out + ran.err
    assert "ada-project" not in project.git("ls-tree", "-r", "--name-only", "delete/ada-project", "jobs")
    kept = project.run("delete", "job/vit")
    assert kept.code == 0, kept.out + kept.err
    assert "The claims stay: " in kept.out
    claims = project.git("show", "delete/vit:jobs/vision/vit-claims.yaml")
    assert {one["kind"] for one in yaml.safe_load_all(claims)} == {"PersistentVolumeClaim"}


def test_a_file_with_other_objects_is_not_replaced(project: Fleet) -> None:
    more = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"
    path = project.root / "jobs/vision/vit.yaml"
    path.write_text(path.read_text() + more)
    project.commit()
    refused = project.run(*WORDS, "--name", "vit")
    assert refused.code == 2
    assert "jobs/vision/vit.yaml defines 1 other object, too, such as ConfigMap/default/other" in refused.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("submit",), 2, "nothing to submit; name a folder"),
        (("submit", "-i", "a/b", "-q", "absent"), 2, "queue 'absent' does not exist; queues: h100"),
        (("submit", "--ray", "-q", "h100", "x"), 2, "runs TorchrunJobs"),
        (("submit", "-i", "a/b", "-v", "--quiet"), 2, "contradict"),
        (("submit", "-f", "x.yaml", "-g", "8"), 2, "--file is a whole workload"),
        (("submit", "-p", "absent", "-q", "h100"), 2, "absent is not a folder"),
        (("submit", "-q", "h100", "--name", "No_Name", "x"), 2, "is not a name"),
        (("submit", "-q", "h100", "-n", "team-x", "x"), 3, "create it with --create-namespace"),
        (("delete", "vit"), 2, "is not TYPE/NAME"),
    ],
)
def test_wrong_flags(project: Fleet, words: tuple[str, ...], code: int, message: str) -> None:
    ran = project.run(*words)
    assert ran.code == code
    assert message in ran.err


def test_a_plain_kind_is_submitted_as_it_is(project: Fleet) -> None:
    vit = yaml.safe_load((project.root / "rendered/main/default/pytorchjob-vit.yaml").read_text())
    vit["metadata"] = {"name": "other", "labels": {"team": "vision", "kai.scheduler/queue": "h100"}}
    path = project.write("../other.yaml", yaml.safe_dump(vit))
    ran = project.run("submit", "-f", str(path))
    assert ran.code == 0, ran.out + ran.err
    assert project.git("show", "submit/other:jobs/other.yaml") == path.read_text().strip()
    shutil.copy(path, project.root / "jobs/other.yaml")
    document = path.read_text()
    path.write_text(f"{document}---\n{document.replace('name: other', 'name: second')}")
    several = project.run("submit", "-f", str(path))
    assert several.code == 0, several.out + several.err
    assert "name: second" in project.git("show", "submit/other-and-1-more:jobs/second.yaml")

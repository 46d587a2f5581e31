"""Two commands in a repository that exists: `init --existing`, then `plan`, which shows the next pull request as GPUs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.cli.main import run
from tests.adopting import repositories
from tests.cli.fleet import Fleet

Make = Callable[[Path], None]
EDITS = {
    "flux": ("apps/base/vision/jobs.yaml", "nvidia.com/gpu: 2", "nvidia.com/gpu: 4", 3),
    "argo": ("teams/speech/jobs.yaml", "nvidia.com/gpu: 2", "nvidia.com/gpu: 4", 1),
    "helm": ("charts/fleet/values.yaml", "gpus: 2", "gpus: 4", 1),
    "plain": ("teams/speech/job-0.yaml", "nvidia.com/gpu: 2", "nvidia.com/gpu: 4", 1),
}


def initialize(fleet: Fleet) -> int:
    return run(["init", "--existing", str(fleet.root)])


def adopt(fleet: Fleet, make: Make) -> None:
    """Commit the repository, and its `reconciler.yaml`."""
    make(fleet.root)
    fleet.commit("as it is")
    assert initialize(fleet) == 0
    fleet.commit("reconciler.yaml")


@pytest.mark.parametrize("name", EDITS)
def test_two_commands_and_no_file_moves(adopted: Fleet, name: str) -> None:
    """F-150."""
    make: Make = getattr(repositories, name)
    make(adopted.root)
    adopted.commit("as it is")
    assert initialize(adopted) == 0
    assert adopted.git("status", "--porcelain") == "?? reconciler.yaml"
    first = (adopted.root / "reconciler.yaml").read_bytes()
    planned = adopted.run("plan")
    assert planned.code == 0, planned.out + planned.err
    assert planned.out.startswith("No changes\n")
    count = 3 * (20 + 8 + 1) if name == "flux" else 60 + 24 + 1
    assert f"{count} unchanged" in planned.out
    assert initialize(adopted) == 0
    assert (adopted.root / "reconciler.yaml").read_bytes() == first


@pytest.mark.parametrize("name", EDITS)
def test_a_pull_request_is_shown_as_gpus_at_the_edited_line(adopted: Fleet, name: str) -> None:
    """F-151, F-152: the place is the line that was edited, and nothing besides it changes."""
    adopt(adopted, getattr(repositories, name))
    adopted.git("switch", "--quiet", "--create", "more")
    path, old, new, clusters = EDITS[name]
    text = (adopted.root / path).read_text()
    number = text[: text.index(old)].count("\n") + 1
    (adopted.root / path).write_text(text.replace(old, new, 1))
    adopted.commit("more GPUs")
    planned = adopted.run("plan", "--base", "main", "--revision", "HEAD")
    more = 2 * (15 if name == "helm" else 1) * clusters
    assert "immutable.refused" in planned.out, "a Job's pods are those of a new one"
    assert f"{path}:{number}:" in planned.out
    assert f"+{more} GPUs requested" in planned.out, planned.out
    assert "reconciler.yaml" not in adopted.git("diff", "--name-only", "main")


def test_a_build_that_fails_is_one_error_and_deletes_nothing(adopted: Fleet) -> None:
    adopt(adopted, repositories.argo)
    adopted.edit("teams/vision/kustomization.yaml", "  - jobs.yaml", "  - jbos.yaml")
    planned = adopted.run("plan", "--base", "main")
    assert planned.code == 3
    assert "teams/vision/kustomization.yaml" in planned.out
    assert "jbos.yaml" in planned.out
    assert "build.failed" in planned.out
    assert "deleted" not in planned.out


def test_commit_and_verify_say_why_there_is_nothing_to_do(adopted: Fleet) -> None:
    adopt(adopted, repositories.plain)
    committed = adopted.run("commit")
    assert (committed.code, "spec.rendered is none" in committed.err) == (0, True)
    verified = adopted.run("verify")
    assert (verified.code, "nothing to verify: spec.rendered is none" in verified.out) == (0, True)


def test_switching_to_rendered_files_changes_no_object(adopted: Fleet) -> None:
    adopt(adopted, repositories.helm)
    adopted.edit("reconciler.yaml", "rendered: none", "rendered: rendered")
    planned = adopted.run("plan", "--base", "main")
    assert planned.code == 0, planned.out + planned.err
    assert planned.out.startswith("1 setting changes\n85 unchanged\n"), planned.out
    assert "rendered: none → rendered" in planned.out
    adopted.commit("rendered")
    committed = adopted.run("commit")
    assert committed.code == 0, committed.out + committed.err
    assert len(adopted.files()) == 85
    assert adopted.run("verify").code == 0


def test_a_chart_at_the_root(adopted: Fleet) -> None:
    for path, content in {
        "Chart.yaml": "apiVersion: v2\nname: a\nversion: 0.1.0\n",
        "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n",
    }.items():
        (adopted.root / path).parent.mkdir(exist_ok=True)
        (adopted.root / path).write_text(content)
    adopted.commit("as it is")
    planned = adopted.run("plan", "--sources", ".")
    assert planned.code == 0, planned.out + planned.err
    assert "1 unchanged" in planned.out
    assert initialize(adopted) == 0
    planned = adopted.run("plan")
    assert planned.code == 0, planned.out
    assert "1 unchanged" in planned.out


def test_an_overlay_that_a_pull_request_removes(adopted: Fleet) -> None:
    """The plan lists what it deletes, and names the entry of spec.sources that is left."""
    adopt(adopted, repositories.argo)
    adopted.git("switch", "--quiet", "--create", "less")
    adopted.git("rm", "-r", "--quiet", "teams/vision")
    adopted.commit("without vision")
    planned = adopted.run("plan", "--base", "main")
    assert planned.code == 3, planned.out + planned.err
    assert "build.missing" in planned.out
    assert "teams/vision has no kustomization.yaml" in planned.out


def test_what_is_in_another_repository_is_left_out(adopted: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """A path of the same name in this one is something else."""
    repositories.argo(adopted.root)
    adopted.git("remote", "add", "origin", "git@git.example.com:fleet")
    adopted.edit("argocd/shared.yaml", "https://git.example.com/fleet.git", "https://git.example.com/shared.git")
    adopted.commit("as it is")
    capsys.readouterr()
    assert initialize(adopted) == 0
    out = capsys.readouterr().out
    assert "it is in another repository: https://git.example.com/shared.git" in out
    assert "found     teams/vision (build: kustomize)" in out


def test_what_a_delivery_adds_is_reviewed(adopted: Fleet) -> None:
    """F-150, F-151: a pull request that changes variables or values in an object of Flux changes the plan."""
    adopt(adopted, repositories.flux)
    assert "QUOTA" not in (adopted.root / "reconciler.yaml").read_text()
    adopted.git("switch", "--quiet", "--create", "more")
    adopted.edit("clusters/beta/apps.yaml", 'QUOTA: "101"', 'QUOTA: "151"')
    planned = adopted.run("plan", "--base", "main", "--width", "200")
    assert "4 updated" in planned.out, planned.out
    assert "101 → 151" in planned.out
    assert "alpha" not in planned.out.partition("Objects")[2]


def test_values_of_a_release_are_reviewed_at_their_line(adopted: Fleet) -> None:
    adopt(adopted, repositories.helm)
    adopted.git("switch", "--quiet", "--create", "more")
    adopted.edit("releases/fleet.yaml", "quota: 72", "quota: 80")
    planned = adopted.run("plan", "--base", "main", "--width", "200")
    assert "72 → 80" in planned.out, planned.out
    assert "because releases/fleet.yaml:15:14" in planned.out


def test_a_delivery_that_is_gone_is_an_error_and_deletes_nothing(adopted: Fleet) -> None:
    adopt(adopted, repositories.flux)
    (adopted.root / "clusters/gamma/apps.yaml").unlink()
    planned = adopted.run("plan", "--base", "main", "--width", "200")
    assert planned.code == 3
    assert "clusters/gamma/apps.yaml has no object that delivers apps/gamma" in planned.out
    assert "deleted" not in planned.out

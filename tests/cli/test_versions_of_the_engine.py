"""Which version renders a repository: pinned by `init`, recorded by `commit`, named by `verify`."""

from pathlib import Path

import pytest

from reconciler import version
from reconciler.version import __version__
from tests.cli.fleet import Fleet, run_verb


def test_init_pins_the_running_version_for_all_pipelines(fleet: Fleet) -> None:
    assert f"\ngpu-reconciler=={__version__}\n" in (fleet.root / "requirements.txt").read_text()
    for path in (".github/workflows/plan.yaml", ".gitea/workflows/plan.yaml", ".gitlab-ci.yml"):
        text = (fleet.root / path).read_text()
        assert 'install: "-r requirements.txt"' in text
        assert "pip install gpu-reconciler" not in text


def test_init_takes_a_source(tmp_path: Path, fleet: Fleet) -> None:
    source = "git+https://git.example.com/gpu-reconciler.git@v9"
    assert run_verb(fleet.capture, ["init", str(tmp_path / "other"), "--source", source]).code == 0
    assert f"gpu-reconciler @ {source}\n" in (tmp_path / "other/requirements.txt").read_text()
    refused = run_verb(fleet.capture, ["init", str(tmp_path / "third"), "--source", source[:-3]])
    assert (refused.code, (tmp_path / "third").exists()) == (2, False)
    assert f"{source[:-3]}@v{__version__}" in refused.err


@pytest.mark.parametrize("is_committed", [False, True])
def test_verify_names_the_version_that_rendered(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    """Both by the first commit of `init` and by one of `commit`, also after a forge squashed it."""
    if is_committed:
        fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
        fleet.commit()
        assert fleet.run("commit").code == 0
        body = fleet.git("log", "-1", "--format=%B")
        assert f"Reconciler-Engine: {__version__}+" in body
        fleet.git("reset", "--quiet", "--soft", "HEAD~2")
        fleet.git("commit", "--quiet", "--message", f"vit (#12)\n\n* edit\n\n* {body}\n\nCo-authored-by: A <a@b>")
    assert fleet.run("verify").code == 0
    fleet.edit("rendered/main/_cluster/queue.scheduling.run.ai-h100.yaml", "32", "33")
    fleet.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    assert "do not edit rendered/ by hand" in fleet.run("verify").err
    monkeypatch.setattr(version, "__version__", "9.0.0")
    ran = fleet.run("verify")
    assert ran.code == 5
    assert f"it was rendered by {__version__}+" in ran.err
    assert "and this is 9.0.0+" in ran.err
    assert "pip install -r requirements.txt" in ran.err


def test_init_says_when_an_index_may_lack_the_version(
    tmp_path: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = {"folder": {"url": "file:///home/me/r", "dir_info": {}}, "index": None}
    for name, record in records.items():
        monkeypatch.setattr("reconciler.resources.direct_url", lambda record=record: record)
        printed = run_verb(fleet.capture, ["init", str(tmp_path / name)]).out
        assert ("was installed from a folder" in printed) == (name == "folder")
    commit = {"url": "https://git.example.com/r.git", "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}
    monkeypatch.setattr("reconciler.resources.direct_url", lambda: commit)
    assert "was installed" not in run_verb(fleet.capture, ["init", str(tmp_path / "git")]).out
    pin = f"gpu-reconciler @ git+https://git.example.com/r.git@{'a' * 40}\n"
    assert pin in (tmp_path / "git/requirements.txt").read_text()

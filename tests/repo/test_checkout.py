"""The commit in the user's own checkout: the user's hooks, identity, signing key and configuration count."""

import shutil
import subprocess
from pathlib import Path

import pytest

from reconciler.repo.checkout import InitResult, commit_new_folder
from tests.fakes.gitrepo import Sandbox


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a home with a Git configuration of its own, and nothing of the machine's."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("AUTHOR", "COMMITTER"):
        for part in ("NAME", "EMAIL"):
            monkeypatch.delenv(f"GIT_{name}_{part}", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    configure("user.name", "Grace Hopper")
    configure("user.email", "grace@example.com")
    return home


def configure(name: str, value: str) -> None:
    subprocess.run(["git", "config", "--global", name, value], check=True)


def new_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    folder.mkdir()
    (folder / "reconciler.yaml").write_text("kind: Fleet\n")
    return folder


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def hook(home: Path, name: str, script: str) -> None:
    """Install a hook the way users share them: by `kube.hooksPath`."""
    hooks = home / "hooks"
    hooks.mkdir(exist_ok=True)
    path = hooks / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    configure("core.hooksPath", str(hooks))


@pytest.mark.usefixtures("user")
def test_the_user_is_the_author(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    made = commit_new_folder(folder, files=1, engine="1")
    assert isinstance(made, InitResult)
    assert (made.uncommitted, made.inside) == ("", "")
    assert git(folder, "log", "-1", "--format=%an <%ae>|%cn") == "Grace Hopper <grace@example.com>|Grace Hopper"
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "branch", "--show-current") == "main"


def test_hooks_of_the_user_run(tmp_path: Path, user: Path) -> None:
    hook(user, "pre-commit", f"touch {user}/pre-commit-ran")
    hook(user, "commit-msg", 'echo "Reviewed-by: a hook" >> "$1"')
    folder = new_folder(tmp_path)
    assert commit_new_folder(folder, files=1, engine="1").uncommitted == ""
    assert (user / "pre-commit-ran").exists()
    assert "Reviewed-by: a hook" in git(folder, "log", "-1", "--format=%B")


def test_a_hook_that_rejects_the_commit_leaves_the_files(tmp_path: Path, user: Path) -> None:
    hook(user, "pre-commit", "echo 'no commits on Fridays' >&2; exit 1")
    folder = new_folder(tmp_path)
    made = commit_new_folder(folder, files=1, engine="1")
    assert made.uncommitted == "git failed: no commits on Fridays"
    assert made.next_commands[1].startswith("git add")
    assert git(folder, "status", "--porcelain") == "A  reconciler.yaml"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_the_commit_is_signed_with_the_key_of_the_user(tmp_path: Path, user: Path) -> None:
    key = user / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text().split()
    (user / "signers").write_text(f"grace@example.com {public[0]} {public[1]}\n")
    for name, value in {
        "gpg.format": "ssh",
        "user.signingkey": f"{key}.pub",
        "commit.gpgSign": "true",
        "gpg.ssh.allowedSignersFile": str(user / "signers"),
    }.items():
        configure(name, value)
    folder = new_folder(tmp_path)
    assert commit_new_folder(folder, files=1, engine="1").uncommitted == ""
    assert "BEGIN SSH SIGNATURE" in git(folder, "cat-file", "-p", "HEAD")
    assert git(folder, "log", "-1", "--format=%G? %GS") == "G grace@example.com"


def test_signing_that_fails_is_reported(tmp_path: Path, user: Path) -> None:
    """A commit that the user wants signed is never made unsigned."""
    configure("gpg.format", "ssh")
    configure("user.signingkey", str(user / "no-such-key"))
    configure("commit.gpgSign", "true")
    folder = new_folder(tmp_path)
    assert commit_new_folder(folder, files=1, engine="1").uncommitted.startswith("git failed: ")


def test_a_folder_inside_a_repository_is_left_to_the_user(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "outer")
    box.commit({"a": b"1"})
    folder = box.folder / "gpu" / "fleet"
    folder.mkdir(parents=True)
    made = commit_new_folder(folder, files=3, engine="1")
    assert (made.inside, made.files) == ("gpu/fleet", 3)
    assert "existing repository" in made.uncommitted
    assert not (folder / ".git").exists()

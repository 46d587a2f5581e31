"""Fetching from and pushing to a real Git server over smart HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import ConfigError, RemoteError, RemoteUnavailable, StalePlan
from reconciler.repo.git.remote import Credentials, GitRemote, RemoteLimits, checked_url
from reconciler.repo.port import Draft
from tests.fakes.gitrepo import Sandbox, environment
from tests.live.controller.gitserver import PASSWORD, USER, GitServer, git_server

MAIN = "refs/heads/main"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "server") as started:
        yield started


@pytest.fixture
def person(server: GitServer, tmp_path: Path) -> Sandbox:
    box = server.clone(tmp_path / "person")
    box.commit({"reconciler.yaml": b"kind: x\n"})
    box.git("push", "-q", "origin", "main")
    return box


def _remote(server: GitServer, folder: Path, **options: object) -> GitRemote:
    return GitRemote(folder / "mirror", server.url, environ=environment(folder / "home"), **options)  # type: ignore[arg-type]


def _commit(remote: GitRemote, parent: str, files: dict[str, bytes | None]) -> str:
    made = remote.repository().commit(
        Draft(parent=parent, files=files, message="Render\n", branch="main", replaces=parent)
    )
    assert made is not None
    return made


def test_a_branch_is_fetched_and_read_without_a_checkout(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    remote = _remote(server, tmp_path)
    tip = server.tip()
    assert remote.tips([MAIN, "refs/heads/none"]) == {MAIN: tip}
    assert remote.fetch([MAIN, "refs/heads/none"]) == {MAIN: tip}
    repository = remote.repository()
    assert [*repository.tree(tip)] == ["reconciler.yaml"]
    assert sorted(path.name for path in (tmp_path / "mirror").iterdir()) == [".git", "lock"]
    before = len(server.requests)
    assert remote.fetch([MAIN]) == {MAIN: tip}
    assert {name for name in server.requests[before:] if "upload-pack" in name} == {
        "info/refs?service=git-upload-pack".rpartition("/")[2],
        "git-upload-pack",
    }


def test_a_forced_push_and_a_deleted_branch_are_followed(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    remote = _remote(server, tmp_path)
    person.git("push", "-q", "origin", "main:topic")
    assert remote.fetch([MAIN, "refs/heads/topic"]).keys() == {MAIN, "refs/heads/topic"}
    person.git("commit", "-q", "--amend", "-m", "other")
    person.git("push", "-q", "--force", "origin", "main", ":topic")
    assert remote.fetch([MAIN, "refs/heads/topic"]) == {MAIN: person.git("rev-parse", "HEAD")}
    assert remote.repository().branch("topic") is None


def test_a_push_moves_the_branch_from_where_it_was_seen(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    remote = _remote(server, tmp_path)
    tip = remote.fetch([MAIN])[MAIN]
    made = _commit(remote, tip, {"rendered/a.yaml": b"a\n"})
    remote.push("main", made, expected=tip)
    assert server.tip() == made
    remote.push("new", made, expected=None)
    assert server.tip("new") == made


def test_a_push_never_overwrites_what_others_pushed(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    remote = _remote(server, tmp_path)
    tip = remote.fetch([MAIN])[MAIN]
    made = _commit(remote, tip, {"rendered/a.yaml": b"a\n"})
    theirs = person.commit({"b.yaml": b"b\n"})
    person.git("push", "-q", "origin", "main", "main:new")
    for branch, expected in (("main", tip), ("new", None)):
        with pytest.raises(StalePlan, match="moved"):
            remote.push(branch, made, expected=expected)
        assert server.tip(branch) == theirs
    assert remote.fetch([MAIN])[MAIN] == theirs, "our own commit is dropped from the mirror"


def test_a_protected_branch_names_the_reason(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    remote = _remote(server, tmp_path)
    tip = remote.fetch([MAIN])[MAIN]
    server.hook("echo 'GH006: Protected branch update failed' >&2; exit 1")
    with pytest.raises(RemoteError) as refused:
        remote.push("main", _commit(remote, tip, {"a": b"a"}), expected=tip)
    assert (refused.value.reason, refused.value.retryable) == ("PushRejected", False)
    assert server.tip() == tip


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("down", "RemoteUnavailable"),
        ("busy", "RemoteUnavailable"),
        ("html", "RefNotFound"),
        ("corrupt", "CorruptData"),
        ("cut", "RemoteUnavailable"),
    ],
)
def test_faults_of_the_server_are_told_apart(
    server: GitServer, person: Sandbox, tmp_path: Path, fault: str, reason: str
) -> None:
    remote = _remote(server, tmp_path)
    server.fault = fault
    with pytest.raises(RemoteUnavailable) as failed:
        remote.fetch([MAIN])
    assert failed.value.reason == reason, failed.value
    server.fault = ""
    assert remote.fetch([MAIN]) == {MAIN: server.tip()}


@pytest.mark.parametrize("fault", ["slow", "trickle"])
def test_a_server_that_does_not_answer_in_time_is_left(
    server: GitServer, person: Sandbox, tmp_path: Path, fault: str
) -> None:
    """It sends nothing at all, or so slowly that the deadline of the whole request passes."""
    remote = _remote(server, tmp_path, limits=RemoteLimits(seconds=1.0))
    server.fault = fault
    with pytest.raises(RemoteUnavailable) as failed:
        remote.fetch([MAIN])
    assert failed.value.reason == "TimedOut"


def test_a_repository_over_the_limit_is_not_fetched(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    person.commit({"noise": bytes((i * i * 7919 + i // 251) % 256 for i in range(400_000))})
    person.git("config", "core.compression", "0")
    person.git("push", "-q", "origin", "main")
    server.git("config", "core.compression", "0")
    remote = _remote(server, tmp_path, limits=RemoteLimits(file_bytes=20_000))
    with pytest.raises(RemoteError) as failed:
        remote.fetch([MAIN])
    assert failed.value.reason == "LimitExceeded", failed.value


def test_a_damaged_mirror_is_made_again(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    remote = _remote(server, tmp_path)
    remote.fetch([MAIN])
    (tmp_path / "mirror/.git/HEAD").write_text("nonsense")
    person.commit({"b": b"b"})
    person.git("push", "-q", "origin", "main")
    assert remote.fetch([MAIN]) == {MAIN: server.tip()}
    assert {*remote.repository().tree(server.tip())} == {"reconciler.yaml", "b"}


def test_what_a_killed_git_left_does_not_block(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    remote = _remote(server, tmp_path)
    remote.fetch([MAIN])
    left = tmp_path / "mirror/.git/refs/heads/main.lock"
    left.write_text("")
    person.commit({"b": b"b"})
    person.git("push", "-q", "origin", "main")
    assert remote.fetch([MAIN]) == {MAIN: server.tip()}


def test_credentials_are_used_and_never_shown(tmp_path: Path) -> None:
    with git_server(tmp_path / "server", private=True) as server:
        person = server.clone(tmp_path / "person")
        person.commit({"reconciler.yaml": b"x"})
        person.git("push", "-q", "origin", "main")
        allowed = Credentials.from_secret({"username": USER.encode(), "password": PASSWORD.encode() + b"\n"})
        assert _remote(server, tmp_path, credentials=allowed).fetch([MAIN]) == {MAIN: server.tip()}
        wrong = Credentials(username=USER, password="canary-wr0ng-password")
        for credentials in (wrong, Credentials()):
            with pytest.raises(RemoteError) as refused:
                _remote(server, tmp_path / "other", credentials=credentials).fetch([MAIN])
            assert refused.value.reason == "AuthenticationFailed"
            assert "canary" not in f"{refused.value}{refused.value.__cause__}{credentials!r}"
        config = (tmp_path / "mirror/.git/config").read_text()
        assert PASSWORD not in config
        assert server.url not in config


@pytest.mark.parametrize(
    "url",
    ["file:///etc", "/etc", "ext::sh -c id", "https://", "-oProxyCommand=id@h:p", "ssh://-oProxyCommand=id/x",
     "https://user:canary@host/x", "http://host/x", "git://host/x", "https://host/a b", "ssh://git@host/x"],
)  # fmt: skip
def test_unsafe_urls_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        checked_url(url, Credentials(password="x"))
    assert "canary" not in str(refused.value)


_SSH = """\
#!/bin/sh
# Stands for the network alone: checks what OpenSSH would need, then runs the command on this machine.
for argument in "$@"; do case "$argument" in
  -oIdentityFile=*) cat "${argument#-oIdentityFile=}" > LOG.key; stat -c %a "${argument#-oIdentityFile=}" > LOG.mode;;
esac; last="$argument"; done
echo "$@" >> LOG.arguments
exec sh -c "$last"
"""


def test_ssh_uses_the_key_of_the_secret_and_checks_the_host(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    log = tmp_path / "ssh"
    (programs / "ssh").write_text(_SSH.replace("LOG", str(log)))
    (programs / "ssh").chmod(0o755)
    environ = environment(tmp_path / "home")
    environ |= {"PATH": f"{programs}:{environ['PATH']}", "GIT_SSH_COMMAND": "false", "SSH_ASKPASS": "false"}
    credentials = Credentials.from_secret({"identity": b"canary-key", "known_hosts": b"host ssh-ed25519 AAAA"})
    remote = GitRemote(tmp_path / "mirror", f"ssh://git@host{server.bare}", environ=environ, credentials=credentials)
    tip = remote.fetch([MAIN])[MAIN]
    made = _commit(remote, tip, {"rendered/a.yaml": b"a\n"})
    remote.push("main", made, expected=tip)
    assert server.tip() == made
    arguments = Path(f"{log}.arguments").read_text()
    assert "-oStrictHostKeyChecking=yes" in arguments
    assert "-oBatchMode=yes" in arguments
    assert "canary" not in arguments
    assert Path(f"{log}.key").read_text() == "canary-key\n"
    assert Path(f"{log}.mode").read_text() == "600\n"
    key = arguments.split("-oIdentityFile=")[1].split()[0]
    assert not Path(key).exists(), "the key is removed with the request"

"""Git over ssh: OpenSSH of this machine against a real SSH server."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from reconciler.errors import RemoteUnavailable
from reconciler.repo.git.remote import Credentials, GitRemote, RemoteLimits
from tests.cluster.fixtures import left_out
from tests.cluster.server import wait_until
from tests.fakes.gitrepo import Sandbox, environment
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import controller
from tests.live.controller.sshserver import SshServer, ssh_server
from tests.live.controller.test_controller import config, wait_for
from tests.live.controller.test_pass import job, push
from tests.live.controller.test_remote import MAIN, _commit

__all__ = ["config"]


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshServer]:
    if shutil.which("ssh") is None:
        left_out("no OpenSSH on PATH")
    with ssh_server(tmp_path) as running:
        yield running


def remote(ssh: SshServer, server: GitServer, folder: Path, **changes: bytes) -> GitRemote:
    secret = {"identity": ssh.identity, "known_hosts": ssh.known_hosts} | changes
    return GitRemote(
        folder / "mirror",
        ssh.url(server.bare),
        environ=environment(folder / "home"),
        credentials=Credentials.from_secret(secret),
        limits=RemoteLimits(seconds=10),
    )


def test_fetch_and_push(ssh: SshServer, server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    """A key of the Secret, a host that is known, and no shell: git asks for two commands."""
    opened = remote(ssh, server, tmp_path)
    tip = opened.fetch([MAIN])[MAIN]
    assert tip == server.tip()
    made = _commit(opened, tip, {"rendered/a.yaml": b"a\n"})
    opened.push("main", made, expected=tip)
    assert server.tip() == made
    assert {command.split()[0] for command in ssh.commands} == {"git-upload-pack", "git-receive-pack"}
    assert server.requests == [], "nothing went over HTTP"


def test_a_host_that_is_not_known_is_not_spoken_to(
    ssh: SshServer, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """Another key than known_hosts has, or none at all: no command is sent."""
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key()
    for known in (b"[127.0.0.1]:%d " % ssh.port + other, b"other.example.com " + other):
        with pytest.raises(RemoteUnavailable) as error:
            remote(ssh, server, tmp_path, known_hosts=known).fetch([MAIN])
        assert (error.value.reason, error.value.hint) == ("HostKeyUnknown", "add the key of the host to known_hosts")
    assert ssh.commands == []


def test_a_key_that_is_refused(ssh: SshServer, server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_private_key()
    with pytest.raises(RemoteUnavailable) as error:
        remote(ssh, server, tmp_path, identity=other).fetch([MAIN])
    assert error.value.reason == "AuthenticationFailed"
    assert ssh.commands == []


def test_a_server_that_stops_answering(ssh: SshServer, server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    ssh.is_silent = True
    secret = {"identity": ssh.identity, "known_hosts": ssh.known_hosts}
    slow = GitRemote(
        tmp_path / "mirror",
        ssh.url(server.bare),
        environ=environment(tmp_path / "home"),
        credentials=Credentials.from_secret(secret),
        limits=RemoteLimits(seconds=1),
    )
    started = time.monotonic()
    with pytest.raises(RemoteUnavailable) as error:
        slow.fetch([MAIN])
    assert error.value.reason == "TimedOut"
    assert time.monotonic() - started < 10


def test_a_controller_commits_over_ssh(
    ssh: SshServer, server: GitServer, person: Sandbox, config: object, tmp_path: Path
) -> None:
    """The whole way: the Secret is a folder, the source an ssh URL, and what is merged is rendered and pushed."""
    folder = tmp_path / "secrets/deploy-key"
    folder.mkdir(parents=True)
    (folder / "identity").write_bytes(ssh.identity)
    (folder / "known_hosts").write_bytes(ssh.known_hosts)
    source = {"url": ssh.url(server.bare), "mode": "commit", "secretRef": {"name": "deploy-key"}}
    path = config(fleet=source)  # type: ignore[operator]
    with controller(tmp_path / "c", "--config", str(path), "--secrets", str(tmp_path / "secrets")) as running:
        wait_for(running, "reconciled")
        tip = push(person, job("blue"))
        wait_until(lambda: server.tip() != tip, "the commit of the controller")
        assert server.git("rev-parse", "main^") == tip
        assert "PRIVATE KEY" not in running.log.read_text()

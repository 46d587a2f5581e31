"""A real SSH server on loopback that runs git for one key, as Git servers do."""

import asyncio
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

_COMMANDS = ("git-upload-pack", "git-receive-pack")


@dataclass(kw_only=True)
class SshServer:
    """A server: `identity` lets in, `known_hosts` names its key, `commands` are those that it ran."""

    folder: Path
    port: int = 0
    host_key: asyncssh.SSHKey = field(default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519"))
    client_key: asyncssh.SSHKey = field(default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519"))
    commands: list[str] = field(default_factory=list)
    is_silent: bool = False

    @property
    def identity(self) -> bytes:
        return self.client_key.export_private_key()

    @property
    def known_hosts(self) -> bytes:
        return f"[127.0.0.1]:{self.port} ".encode() + self.host_key.export_public_key()

    def url(self, path: Path) -> str:
        return f"ssh://git@127.0.0.1:{self.port}{path}"

    async def serve(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        """Run the command of a session, if it is one of git."""
        command = process.command or ""
        self.commands.append(command)
        words = shlex.split(command)
        if self.is_silent:
            await asyncio.sleep(30)
        if len(words) != 2 or words[0] not in _COMMANDS:
            process.stderr.write(b"only git is allowed\n")
            process.exit(128)
            return
        child = await asyncio.create_subprocess_exec(
            *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
        process.exit(await child.wait())
        await process.wait_closed()


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Run a server until the block ends."""
    server = SshServer(folder=folder)
    loop = asyncio.new_event_loop()
    started = threading.Event()

    async def start() -> asyncssh.SSHAcceptor:
        keys = asyncssh.import_authorized_keys(server.client_key.export_public_key().decode())
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[server.host_key],
            authorized_client_keys=keys,
            password_auth=False,
            process_factory=server.serve,
            encoding=None,
        )

    def run() -> None:
        asyncio.set_event_loop(loop)
        listener = loop.run_until_complete(start())
        server.port = listener.get_port()
        started.set()
        loop.run_forever()
        listener.close()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=run, name="ssh", daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)

"""`GitRemote`: fetching from and pushing to a Git server, with limits, and without prompts, helpers or redirects."""

import base64
import fcntl
import os
import posixpath
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from msgspec import Struct

from reconciler.errors import (
    ConfigError,
    RemoteError,
    RemoteUnavailable,
    RepositoryError,
    StalePlan,
    one_line,
    printable,
)
from reconciler.processes import ChildCommand, ChildProcess, ProcessUnavailable
from reconciler.repo.git.command import Git, RepositoryLocation
from reconciler.repo.git.repository import GitRepository

# What a failed request to a Git server means: its reason for conditions, and what to do about it.


class Failure(Struct, frozen=True, kw_only=False):
    """A kind of failure: words of git or of its transports, the reason, and a hint."""

    words: tuple[str, ...]
    reason: str
    hint: str = ""
    retryable: bool = True


FAILURES = (
    Failure(
        ("Authentication failed", "could not read Username", "could not read Password", "error: 401", "error: 403",
         "Permission denied", "Invalid username or password"),
        "AuthenticationFailed",
        "check the credentials in the Secret of the source, and what they are allowed to do",
    ),
    Failure(("Host key verification failed",), "HostKeyUnknown", "add the key of the host to known_hosts"),
    Failure(
        ("SSL certificate problem", "server certificate verification failed", "certificate subject name"),
        "CertificateInvalid",
        "add the certificate authority as ca.crt to the Secret",
    ),
    Failure(("error: 404", "epository not found", "does not appear to be a git repository"), "RepositoryNotFound",
            "check spec.url, and that the credentials may read it"),
    Failure(("find remote ref",), "RefNotFound", "check spec.ref"),
    Failure(("protected branch", "GH006", "not allowed to push", "You are not allowed"), "PushRejected",
            "let this account push to the branch, or name another in spec.commit.branch", retryable=False),
    Failure(("hook declined", "remote rejected", "pre-receive"), "PushRejected",
            "the server refuses the commit; see its rules for this branch", retryable=False),
    Failure(("redirect", "error: 301", "error: 302", "error: 307", "error: 308"), "Redirected",
            "redirects are not followed: set spec.url to the new address", retryable=False),
    Failure(("File too large", "File size limit", "exceeds", "SIGXFSZ", "signal 25"), "LimitExceeded",
            "the repository is larger than the limit of the controller (--max-repository)", retryable=False),
    Failure(("No space left",), "DiskFull", "free some space in the state folder"),
    Failure(("Operation too slow", "timed out", "Timeout", "Could not resolve host", "Failed to connect", "Connection",
             "Couldn't connect", "error: 429", "error: 5", "hung up", "unexpected disconnect", "early EOF",
             "Empty reply", "RPC failed", "HTTP/2 stream", "expected flush", "transfer closed"), "RemoteUnavailable",
            "the Git server did not respond; the request is retried"),
    Failure(("corrupt", "bad object", "bad pack", "index-pack", "inflate", "unpack", "missing blob", "not a git rep",
             "protocol error", "bad line length", "invalid", "bad sha1", "missing necessary objects"), "CorruptData",
            "the data of the server or of the mirror is damaged; the mirror is recreated"),
)  # fmt: skip
"""The first match counts."""


def remote_error(verb: str, lines: Sequence[str]) -> RemoteError:
    """Return the error of a failed request; `lines` are what git printed."""
    text = "\n".join(lines)
    failure = next((known for known in FAILURES if any(word in text for word in known.words)), None)
    told = [line for line in lines if line.startswith(("fatal: ", "error: ", "remote: "))]
    line = next((line for line in told if failure and any(word in line for word in failure.words)), None)
    chosen = line or (told or list(lines) or ["it gave no reason"])[-1]
    message = f"git {verb}: {one_line(chosen.removeprefix('fatal: ').removeprefix('error: ').removeprefix('remote: '))}"
    if failure is None:
        return RemoteUnavailable(message)
    kind = RemoteUnavailable if failure.retryable else RemoteError
    return kind(message, hint=failure.hint, reason=failure.reason)


_NO_BRANCH = "refs/reconciler/none"  # where HEAD points: no branch of the mirror is checked out

_MEMORY_BYTES = 1 << 30

_MAX_PACKS = 40

_OID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1 or SHA-256

_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

_SHORT_SSH = re.compile(r"(?P<user>[\w.-]+)@(?P<host>[\w.-]+):(?P<path>[^/].*)")  # git's short form of an ssh URL


class Credentials(Struct, frozen=True, kw_only=True):
    """Credentials of a remote, by the keys that Flux uses in its Secrets. Never shown."""

    username: str = ""
    password: str = ""
    bearer_token: str = ""
    identity: bytes = b""  # an SSH private key
    known_hosts: bytes = b""
    ca_certificate: bytes = b""

    def __repr__(self) -> str:
        return "Credentials(***)"

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> "Credentials":
        """Read the data of a Secret, or of a folder with one file for each key."""

        def text(key: str) -> str:
            return data.get(key, b"").decode("utf-8", "replace").strip("\r\n")

        return cls(
            username=text("username"),
            password=text("password"),
            bearer_token=text("bearerToken"),
            identity=data.get("identity", b""),
            known_hosts=data.get("known_hosts", b""),
            ca_certificate=data.get("ca.crt", b""),
        )

    @property
    def authorization(self) -> str:
        """The value of the HTTP header; empty without a token or password."""
        if self.bearer_token:
            return f"Bearer {self.bearer_token}"
        if self.password:
            pair = f"{self.username or 'git'}:{self.password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return ""


class RemoteLimits(Struct, frozen=True, kw_only=True):
    """Limits of one request: its time, and the size of each file (such as a pack) that it writes."""

    seconds: float = 120.0
    file_bytes: int = 1 << 30


class GitRemote:
    """A Git server and a mirror in a folder that belongs to it alone. Requests are made one at a time."""

    def __init__(
        self,
        folder: Path,
        url: str,
        *,
        environ: Mapping[str, str],
        credentials: Credentials | None = None,
        limits: RemoteLimits | None = None,
    ) -> None:
        self._folder = folder
        self._credentials = credentials or Credentials()
        self._url = checked_url(url, self._credentials)
        self._limits = limits or RemoteLimits()
        self._environ = {**environ, "GIT_CEILING_DIRECTORIES": str(folder.absolute().parent)}

    def repository(self, path: str = "", *, identity: Mapping[str, str] | None = None) -> GitRepository:
        """Open the mirror; `path` is the folder of `reconciler.yaml`, `identity` the variables of the author.

        Raises `ConfigError` for a path that leads out of it.
        """
        top = self._folder.absolute()
        git = Git(folder=top, environ={**self._environ, **(identity or {})})
        inside = folder_inside(path)
        form = git.run("rev-parse", "--show-object-format").decode().strip()
        return GitRepository(
            RepositoryLocation(
                git=git,
                top=top,
                git_dir=top / ".git",
                prefix=f"{inside}/" if inside else "",
                object_format=form,
                is_shallow=False,
            )
        )

    def tips(self, refs: Sequence[str]) -> Mapping[str, str]:
        """Ask the server alone; the mirror is not touched."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        output = self._request("ls-remote", "--quiet", "--end-of-options", self._url, *refs, folder=self._folder.parent)
        found: dict[str, str] = {}
        for line in output:
            oid, tab, name = line.partition("\t")
            if tab and name in refs and _OID.fullmatch(oid):
                found[name] = oid
        return found

    def fetch(self, refs: Sequence[str]) -> Mapping[str, str]:
        """Fetch what differs. A mirror that is damaged is made again, once."""
        with self._locked():
            wanted = self.tips(refs)
            if refs[0] not in wanted:  # git reads any web page as an empty repository
                hint = "check spec.ref, and that spec.url is the address of a Git repository"
                raise RemoteUnavailable(f"the server has no {one_line(refs[0])}", hint=hint, reason="RefNotFound")
            try:
                return self._update(refs, wanted)
            except RepositoryError as error:
                if isinstance(error, RemoteError) and error.reason != "CorruptData":
                    raise
                shutil.rmtree(self._folder / ".git", ignore_errors=True)
                return self._update(refs, wanted)

    def _update(self, refs: Sequence[str], wanted: Mapping[str, str]) -> Mapping[str, str]:
        self._prepare(wanted)
        known = self._local(refs)
        if stale := [ref for ref in refs if ref in known and ref not in wanted]:
            git = Git(folder=self._folder, environ=self._environ)
            git.run("update-ref", "--stdin", data=(f"delete {ref}\n".encode() for ref in stale))
        missing = [ref for ref in refs if ref in wanted and known.get(ref) != wanted[ref]]
        if missing:
            options = ("--quiet", "--force", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
            refspecs = [f"+{ref}:{ref}" for ref in missing]
            self._request("fetch", *options, "--no-auto-maintenance", "--end-of-options", self._url, *refspecs)
            self._repack()
        return self._local(refs)

    def _prepare(self, wanted: Mapping[str, str]) -> None:
        """Create the mirror, or remove what a killed git left in it."""
        git_dir = self._folder / ".git"
        if git_dir.is_dir():
            for pattern in ("**/*.lock", "objects/pack/tmp_*", "objects/*/tmp_obj_*"):
                for left in git_dir.glob(pattern):
                    left.unlink(missing_ok=True)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        sha256_length = 64
        form = "sha256" if any(len(oid) == sha256_length for oid in wanted.values()) else "sha1"
        git = Git(folder=self._folder, environ=self._environ)
        git.run("init", "--quiet", "--template=", f"--object-format={form}", "--", ".")
        git.run("symbolic-ref", "HEAD", _NO_BRANCH)

    def _local(self, refs: Sequence[str]) -> dict[str, str]:
        git = Git(folder=self._folder, environ=self._environ)
        listing = git.run("for-each-ref", "--format=%(objectname) %(refname)", *refs).decode("utf-8", "surrogateescape")
        pairs = (line.split(" ", 1) for line in listing.splitlines())
        return {name: oid for oid, name in pairs if name in refs}

    def _repack(self) -> None:
        if sum(1 for _ in (self._folder / ".git/objects/pack").glob("*.pack")) > _MAX_PACKS:
            git = Git(folder=self._folder, environ=self._environ)
            git.run("repack", "-a", "-d", "-q")

    def push(self, branch: str, commit: str, *, expected: str | None) -> None:
        """Push one commit to one branch, by compare and swap on the server."""
        self._move(branch, commit, expected)

    def remove(self, branch: str, *, expected: str) -> None:
        """Remove one branch from the server, if it still is at `expected`."""
        self._move(branch, "", expected)

    def _move(self, branch: str, commit: str, expected: str | None) -> None:
        ref = f"refs/heads/{branch}"
        options = ("--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
        lease = f"--force-with-lease={ref}:{expected or ''}"
        with self._locked():
            output = self._request(
                "push", *options, lease, "--end-of-options", self._url, f"{commit}:{ref}", accept=(0, 1)
            )
        rejected = next((line for line in output if line.startswith("!\t")), "")
        if not rejected and not any(line.startswith((" \t", "+\t", "*\t", "=\t", "-\t")) for line in output):
            raise remote_error("push", output)
        if "(stale info)" in rejected or "(fetch first)" in rejected or "cannot lock ref" in rejected:
            raise StalePlan(f"branch {branch} moved during the push")
        if rejected:
            raise remote_error("push", [rejected.rpartition("\t")[2], *output])

    # -- requests ------------------------------------------------------------------------------------------------------

    def _request(
        self, verb: str, *arguments: str, accept: Sequence[int] = (0,), folder: Path | None = None
    ) -> list[str]:
        """Run a git command that uses the network and return the last lines that it printed."""
        with self._environment() as environ:
            command = ChildCommand(
                name=f"git {verb}",
                argv=("git", verb, *arguments),
                folder=folder or self._folder,
                environ=environ,
                memory_bytes=_MEMORY_BYTES,
                file_bytes=self._limits.file_bytes,
            )
            child = ChildProcess(command, interactive=False)
            try:
                code = child.wait(self._limits.seconds)
            except ProcessUnavailable as error:
                raise RemoteUnavailable(f"{error.message}: {self._shown}", reason="TimedOut") from error
            finally:
                child.end()
        if code not in accept:
            raise remote_error(verb, child.messages())
        return child.messages()

    @property
    def _shown(self) -> str:
        return self._url  # `checked_url` rejects one that holds a password

    @contextmanager
    def _environment(self) -> Iterator[dict[str, str]]:
        """Yield the environment of one request; keys and certificates are in a private folder until it ends."""
        scheme = self._url.partition("://")[0]
        settings = [("http.followRedirects", "false"), ("http.lowSpeedLimit", "500"), ("http.lowSpeedTime", "30")]
        with TemporaryDirectory(prefix="reconciler-") as name:
            folder = Path(name)
            if self._credentials.authorization and scheme != "ssh":
                settings.append(("http.extraHeader", f"Authorization: {self._credentials.authorization}"))
            if self._credentials.ca_certificate:
                settings.append(("http.sslCAInfo", _private(folder / "ca.crt", self._credentials.ca_certificate)))
            if scheme == "ssh":
                settings.append(("core.sshCommand", self._ssh_command(folder)))
            git = Git(folder=self._folder, environ=self._environ).with_config(*settings)
            yield git.hardened_environment() | {"GIT_ALLOW_PROTOCOL": scheme}

    def _ssh_command(self, folder: Path) -> str:
        key = _private(folder / "identity", self._credentials.identity)
        hosts = _private(folder / "known_hosts", self._credentials.known_hosts)
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "15",
            "GlobalKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
            "IdentityFile": key,
            "ServerAliveInterval": "10",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": hosts,
        }
        return shlex.join(["ssh", "-F", "/dev/null", *(f"-o{name}={value}" for name, value in options.items())])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the mirror; the system releases it when the process ends, even by a crash."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise RemoteUnavailable("another process is using the mirror", reason="Busy") from error
        finally:
            os.close(lock)


def _private(path: Path, content: bytes) -> str:
    """Write a file that only this user can read, and return its path. OpenSSH wants keys to end in a line break."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(content if content.endswith(b"\n") else content + b"\n")
    return str(path)


def folder_inside(path: str) -> str:
    """Return the path of a folder below the top of a repository, empty for the top; `./a` and `/a/` are both `a`.

    Raises `ConfigError` for one outside.
    """
    folder = posixpath.normpath(path.strip("/") or ".")
    if folder == ".." or folder.startswith("../"):
        message = f"spec.path leads out of the repository: {printable(path)}"
        raise ConfigError(message, hint="name the folder of reconciler.yaml")
    return "" if folder == "." else folder


def checked_url(url: str, credentials: Credentials) -> str:
    """Return the URL of a Git server for git. Raises `ConfigError` for one that is not safe to use."""
    if short := _SHORT_SSH.fullmatch(url):
        url = f"ssh://{short['user']}@{short['host']}/{short['path']}"
    wrong = ConfigError(
        "the URL of the repository is not valid", hint="write https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH"
    )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise wrong from None  # its message holds the URL, and with it a password
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in {"https", "http", "ssh"} or not host or host.startswith("-") or not is_plain:
        raise wrong
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        raise ConfigError(
            "the URL of the repository contains credentials", hint="put them into a Secret (spec.secretRef)"
        )
    if parts.scheme == "http" and credentials.authorization and host not in _LOCAL_HOSTS:
        raise ConfigError("credentials would be sent over http without encryption", hint="use https or ssh")
    if parts.scheme == "ssh" and not (credentials.identity and credentials.known_hosts):
        raise ConfigError("ssh needs a key and known hosts", hint="put identity and known_hosts into the Secret")
    return url


def remove_mirror(folder: Path) -> None:
    """Remove the mirror of a source that no longer exists."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)

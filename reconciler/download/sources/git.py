"""Git repositories, by the git program: the files of one commit, without a checkout.

Credentials are in the environment of the child that needs them: not in its arguments, not in the address, not on disk.
"""

import os
import posixpath
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from reconciler.download.config import STATE, DownloadConfig, GitDownload, below
from reconciler.download.items import (
    CHUNK_BYTES,
    Content,
    Contents,
    FileMode,
    Item,
    ItemPlace,
    MissingPackage,
    RemoteFile,
    SourceFailure,
    failure,
    git_blob,
    read_secrets,
)
from reconciler.processes import ChildCommand, ChildProcess, ProcessUnavailable, without_credentials

_FETCH_SECONDS = 6 * 3600.0
_MEMORY_BYTES = 8 << 30
_LIST_BYTES = 256 << 20
_WHOLE = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_MODES = {"100644": FileMode.PLAIN, "100755": FileMode.EXECUTABLE, "120000": FileMode.LINK}
_FINAL = (
    "not found", "Authentication failed", "could not read Username", "Permission denied", "does not appear to be a git",
    "access denied", "403", "unadvertised object", "not our ref", "couldn't find remote ref", "Not a valid object name",
)  # fmt: skip
_LFS = "filter=lfs"
_USER = "git"  # where only a token is given: servers ignore the name beside it
_HELPER = (
    """!f() { test "$1" = get && printf 'username=%s\\npassword=%s\\n' "$DOWNLOAD_USER" "$DOWNLOAD_PASSWORD"; }; f"""
)


def items(config: DownloadConfig, workers: int) -> Iterator[Item]:  # noqa: ARG001 - one fetch gets all files
    """Yield an item for each repository."""
    if config.git and shutil.which("git") is None:
        raise MissingPackage("git is not installed", hint="install git, or use the image of this program")
    for one in config.git:
        secrets = read_secrets(config.secrets, {"username": one.username, "token": one.token})
        place = ItemPlace.of(one.repository, one, Path(config.root), below(one.target_path))
        store = Path(config.root, STATE, f".git-{place.digest[:16]}")
        yield GitItem(place=place, config=one, user=secrets["username"], token=secrets["token"], store=store)


class GitItem(Struct, frozen=True, kw_only=True):
    """A repository. `store` is the bare repository that holds what was fetched, until the item is complete."""

    place: ItemPlace
    config: GitDownload
    user: str
    token: str
    store: Path

    def __repr__(self) -> str:
        return f"GitItem({self.place.label})"

    def resolve(self) -> str:
        """Return the commit, from the configuration or the server; empty for a short one."""
        one = self.config
        if one.commit:
            return one.commit if _WHOLE.fullmatch(one.commit) else ""
        wanted = f"refs/heads/{one.branch}" if one.branch else "HEAD"
        for line in self._git("ls-remote", "--", one.repository, wanted).splitlines():
            commit, _, name = line.partition("\t")
            if name == wanted:
                return commit
        raise SourceFailure(f"there is no branch {one.branch}" if one.branch else "it has no commits", is_final=True)

    def find(self) -> Contents:
        """Fetch the commit and list its files."""
        commit = self._fetch(self.resolve())
        path = below(self.config.path)
        kind = self._stored("cat-file", "-t", f"{commit}:{path}").strip()
        listed = self._stored("ls-tree", "-r", "-l", "-z", "--full-tree", commit, *([path] if path else []))
        files, notes = [], []
        for line in filter(None, listed.split("\0")):
            fields, _, name = line.partition("\t")
            mode, _, digest, size = fields.split()
            if mode in _MODES:
                inside = posixpath.basename(name) if kind == "blob" else name[len(path) :].lstrip("/")
                files.append(_file(inside, digest, int(size), _MODES[mode]))
            else:
                notes.append(f"the submodule {name} is not fetched")
            if posixpath.basename(name) == ".gitattributes" and _LFS in self._stored("cat-file", "blob", digest):
                notes.append(f"{name} names files of Git LFS, of which only the pointers are fetched")
        return Contents(version=commit, files=tuple(files), notes=tuple(notes))

    @contextmanager
    def read(self, file: RemoteFile, offset: int) -> Iterator[Content]:  # noqa: ARG002 - from the start: it is local
        """Read a file of the fetched commit."""
        argv = ["git", "--git-dir", str(self.store), "cat-file", "blob", file.key]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env=self._environ()) as process:
            assert process.stdout is not None  # noqa: S101 - opened above
            stream = process.stdout
            try:
                chunks = iter(lambda: stream.read(CHUNK_BYTES), b"")
                yield Content(chunks=chunks, checksum=git_blob(file.key, file.size))
            finally:
                process.kill()

    def finish(self, contents: Contents) -> None:  # noqa: ARG002 - the same for all
        """Delete what was fetched: the files are written."""
        shutil.rmtree(self.store, ignore_errors=True)

    def _fetch(self, commit: str) -> str:
        """Fetch a commit alone; everything, where the server allows nothing else or the commit is a short one."""
        self._git("init", "--quiet", "--bare", "--template=", str(self.store))
        if commit and self._has(commit):
            return commit
        fetch = ("fetch", "--quiet", "--no-tags")
        if commit:
            try:
                self._stored(*fetch, "--depth=1", "--", self.config.repository, commit)
            except SourceFailure as error:
                if not error.is_final:
                    raise
            else:
                return commit
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        self._stored(*fetch, "--", self.config.repository, *refs)
        wanted = commit or self.config.commit
        if not self._has(wanted):
            raise SourceFailure(f"no branch and no tag has a commit {wanted}", is_final=True)
        return self._stored("rev-parse", "--verify", f"{wanted}^{{commit}}").strip()

    def _has(self, commit: str) -> bool:
        try:
            self._stored("cat-file", "-e", f"{commit}^{{commit}}")
        except SourceFailure:
            return False
        return True

    def _stored(self, *argv: str) -> str:
        return self._git("--git-dir", str(self.store), *argv)

    def _git(self, *argv: str) -> str:
        """Run git and return its output. Raises `SourceFailure`."""
        command = ChildCommand(
            name="git", argv=["git", *argv], folder=Path("/"), environ=self._environ(), memory_bytes=_MEMORY_BYTES
        )
        child = ChildProcess(command, interactive=True)
        try:
            code, output = child.collect(seconds=_FETCH_SECONDS, max_bytes=_LIST_BYTES)
        except ProcessUnavailable as error:
            raise failure(error) from None
        finally:
            child.end()
        if code:
            message = child.last_message() or f"git ended with {code}"
            status = 404 if any(words in message for words in _FINAL) else 0
            raise failure(RuntimeError(message), status=status, secrets=(self.token,))
        return output.decode("utf-8", "surrogateescape")

    def _environ(self) -> Mapping[str, str]:
        """Return the environment of git: no configuration but ours, and credentials for this server alone."""
        environ = without_credentials(os.environ)
        settings = {
            "protocol.ext.allow": "never",
            "core.hooksPath": os.devnull,
            "gc.auto": "0",
            "credential.helper": "",
        }
        if self.token:
            parts = urlsplit(self.config.repository)
            settings[f"credential.{parts.scheme}://{parts.netloc}.helper"] = _HELPER
            environ |= {"DOWNLOAD_USER": self.user or _USER, "DOWNLOAD_PASSWORD": self.token}
        for index, (name, value) in enumerate(settings.items()):
            environ |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
        return environ | {
            "GIT_CONFIG_COUNT": str(len(settings)),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
            "LC_ALL": "C",
        }


def _file(name: str, digest: str, size: int, mode: FileMode) -> RemoteFile:
    try:
        return RemoteFile(key=digest, name=below(name), size=size, version=digest, mode=mode)
    except ValueError as error:
        raise SourceFailure(f"the file {name!r} {error}", is_final=True) from None

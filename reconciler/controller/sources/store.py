"""`SourceStore`: where sources come from and where their status goes; `FileStore` is a file and a folder."""

import base64
import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from reconciler.controller.sources.source import ConfigSource, parse_source
from reconciler.controller.sources.status import SourceStatus
from reconciler.errors import ConfigError, InvalidInput, OutsideError
from reconciler.kinds.own import SOURCE
from reconciler.kube.problems import Problem
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.repo.checkout_files import read_file, write_file

_MAX_SECRET_BYTES = 1 << 20  # an API server takes no larger Secret


class SourceStore(Protocol):
    """The sources, their secrets and their status. Safe to use from any thread."""

    def load(self) -> tuple[ConfigSource, ...]:
        """Return all sources. Raises an error if they are not known, so that the last ones stay."""
        ...

    def status(self, source: ConfigSource) -> SourceStatus:
        """Return the status that was saved last."""
        ...

    def save(self, source: ConfigSource, status: SourceStatus) -> None:
        """Save the status of a source, whoever wrote it before."""
        ...

    def secret(self, source: ConfigSource, name: str) -> dict[str, bytes]:
        """Return the data of a Secret beside a source. Raises `ConfigError` if there is none."""
        ...

    def record_event(self, source: ConfigSource, *, warning: bool, reason: str, message: str) -> None:
        """Publish an event about a source."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait until sources may have changed, at most `seconds`."""
        ...

    def close(self) -> None:
        """End the wait of another thread."""
        ...


class FileStore:
    """Sources in a YAML file; Secrets are folders with a file for each key; statuses are files in the state folder."""

    def __init__(self, path: Path, *, state: Path, secrets: Path | None, catalogue: Catalogue) -> None:
        self._path, self._state, self._secrets = path, state, secrets
        self._catalogue = catalogue
        self._closed = threading.Event()
        self._seen = b""

    def load(self) -> tuple[ConfigSource, ...]:
        """Read the file. Raises `InvalidInput` with all problems."""
        raw = read_file(self._path)
        reading = read(str(self._path), raw)
        problems = list(reading.problems)
        sources: dict[str, ConfigSource] = {}
        for document in reading.documents:
            found = [*self._catalogue.validate(document)] or _wrong_kind(document)
            problems += found
            if not found:
                source = _from_document(document)
                if source.key in sources:
                    message = f"{source.key} is defined twice"
                    place = document.at(("metadata", "name"))
                    problems.append(Problem(rule="source.duplicate", place=place, message=message, hint="rename one"))
                sources[source.key] = source
        if problems:
            raise InvalidInput(problems, where="in these files")
        self._seen = raw
        return tuple(sources.values())

    def status(self, source: ConfigSource) -> SourceStatus:
        """Read the status file; a damaged one counts as none."""
        try:
            return msgspec.json.decode(self._status_path(source).read_bytes(), type=SourceStatus)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return SourceStatus()

    def save(self, source: ConfigSource, status: SourceStatus) -> None:
        """Write the status file, completely or not at all."""
        path = self._status_path(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps(status.body(), indent=2, ensure_ascii=False) + "\n")

    def _status_path(self, source: ConfigSource) -> Path:
        return self._state / "status" / f"{source.namespace}_{source.name}.json"

    def secret(self, source: ConfigSource, name: str) -> dict[str, bytes]:
        """Read the folder `NAMESPACE/NAME` or `NAME` of the Secrets."""
        if self._secrets is None:
            raise ConfigError(f"Secret {name} of {source.key} is not known", hint="name a folder with --secrets")
        if "/" in name or name.startswith("."):
            raise ConfigError(f"Secret {name!r} of {source.key}: the name is not valid")
        folders = [self._secrets / source.namespace / name, self._secrets / name]
        folder = next((folder for folder in folders if folder.is_dir()), None)
        if folder is None:
            raise ConfigError(f"Secret {name} of {source.key} is not a folder of {self._secrets}")
        try:
            files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
            return {path.name: path.read_bytes() for path in files if path.stat().st_size <= _MAX_SECRET_BYTES}
        except OSError as error:
            raise OutsideError(f"Secret {name} of {source.key} cannot be read: {error.strerror}") from error

    def record_event(self, source: ConfigSource, *, warning: bool, reason: str, message: str) -> None:
        """Do nothing: the log has it."""

    def wait(self, seconds: float) -> None:
        """Wait until the file has other content, looking once a second."""
        for _ in range(max(round(seconds), 1)):
            if self._closed.wait(1.0) or self._content() != self._seen:
                return

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return self._seen

    def close(self) -> None:
        """End the wait."""
        self._closed.set()


def _from_document(document: Document) -> ConfigSource:
    """Read a source; the digest of its specification is its generation, because a file counts none."""
    body: dict[str, Any] = document.data
    spec = json.dumps(body["spec"], sort_keys=True).encode()
    generation = int.from_bytes(hashlib.sha256(spec).digest()[:4], "big") + 1
    return parse_source({**body, "metadata": {**body["metadata"], "generation": generation}})


def _wrong_kind(document: Document) -> Sequence[Problem]:
    if (document.group, document.kind) == SOURCE:
        return ()
    message = f"{document.kind} is not a {SOURCE[1]}"
    return (Problem(rule="layout.kind", place=document.at(("kind",)), message=message, hint="remove it"),)


def decode_secret(data: dict[str, str]) -> dict[str, bytes]:
    """Decode the data of a Secret object."""
    return {key: base64.b64decode(value) for key, value in data.items()}

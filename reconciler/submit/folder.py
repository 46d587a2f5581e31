"""The folder of a workload: its entrypoint, its variables, and the files that its pods get."""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.errors import ConfigError, InvalidInput
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Violation
from reconciler.kube.secrets import mask_text
from reconciler.kube.values import text
from reconciler.kube.yaml import read
from reconciler.repo.checkout_files import read_file

ENTRYPOINT, SERVE_CONFIG, ENV, TEMPLATE, OLD_CONFIG = "entrypoint", "serveconfig", "env", "template", "kaiwoconfig"
_NOT_CARRIED = frozenset((ENTRYPOINT, SERVE_CONFIG, ENV, TEMPLATE, OLD_CONFIG))
_SKIPPED_FOLDERS = frozenset((".git", "__pycache__"))
MAX_BYTES = 950_000
"""The longest file that is carried: a ConfigMap holds 1 MiB."""


class WorkloadVariables(Struct, frozen=True, kw_only=True):
    """The variables of containers, and the Secrets that they mount, as fields of a workload."""

    env: tuple[Mapping[str, Any], ...] = ()
    secret_volumes: tuple[Mapping[str, Any], ...] = ()


class WorkloadFolder(Struct, frozen=True, kw_only=True):
    """The content of a folder: `carried` are the files for the pods, `skipped` says what they do not get, and why."""

    entrypoint: str = ""
    serve_config: str = ""
    variables: WorkloadVariables = WorkloadVariables()
    template: bytes | None = None
    carried: Mapping[str, bytes] = {}
    skipped: tuple[str, ...] = ()


def read_workload(folder: Path, overlay: Path | None = None, *, deep: bool = False) -> WorkloadFolder:
    """Read a folder: its top level, or (`deep`) also its subfolders. Of files with one name, the overlay's counts."""
    files: dict[str, bytes] = {}
    skipped: list[str] = []
    for one in filter(None, (folder, overlay)):
        for path in _listed(one, skipped, deep=deep):
            _add(path, path.relative_to(one).as_posix(), files, skipped)
    env = files.get(ENV)
    env_path = next((one / ENV for one in (overlay, folder) if one is not None and (one / ENV).is_file()), folder)
    return WorkloadFolder(
        entrypoint=joined_entrypoint(_words(ENTRYPOINT, files)),
        serve_config=_words(SERVE_CONFIG, files).strip(),
        variables=read_variables(str(env_path), env) if env is not None else WorkloadVariables(),
        template=files.get(TEMPLATE),
        carried={name: content for name, content in sorted(files.items()) if name not in _NOT_CARRIED},
        skipped=tuple(skipped),
    )


def _listed(folder: Path, skipped: list[str], *, deep: bool) -> Iterator[Path]:
    for top, folders, names in os.walk(_existing(folder)):
        kept = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        if kept and not deep:
            skipped += [f"{Path(top, name)}: folders inside the folder are not carried" for name in kept]
        folders[:] = kept if deep else []
        yield from (Path(top, name) for name in sorted(names))


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise ConfigError(f"--path: {folder} is not a folder", hint="name the folder of the workload")
    return folder


def _add(path: Path, name: str, files: dict[str, bytes], skipped: list[str]) -> None:
    """Add one file, or say why it is left out. What a link leads to elsewhere is not the user's code."""
    if not path.is_file() or (path.is_symlink() and not path.resolve().is_relative_to(path.parent.resolve())):
        skipped.append(f"{path}: not a regular file of this folder")
        return
    size = path.stat().st_size
    content = read_file(path) if size <= MAX_BYTES else b""
    if size > MAX_BYTES:
        skipped.append(f"{path}: {size:,} bytes; files of more than {MAX_BYTES:,} bytes are not carried")
    elif b"\0" in content:
        skipped.append(f"{path}: binary files are not carried")
    else:
        files[name] = content
        decoded = content.decode("utf-8", "replace")
        if name != ENV and mask_text(decoded) != decoded:
            skipped.append(f"{path}: looks like it contains a credential, which everyone who reads the branch can see")


def _words(name: str, files: Mapping[str, bytes]) -> str:
    return files.get(name, b"").decode("utf-8", "replace")


# The entrypoint: a script, or a command whose flags have lines of their own.


def joined_entrypoint(script: str) -> str:
    """Return an entrypoint in which lines that begin with a dash continue the command before them.

    Other lines stay as they are: a comment ends with its line, and two commands are two. A here-document is left alone.
    """
    lines: list[str] = []
    last = -1  # the line of the last command
    for line in script.strip().splitlines():
        is_flag = line.lstrip().startswith("-") and last >= 0 and "<<" not in script
        if is_flag and not lines[last].rstrip().endswith("\\"):
            lines[last] = f"{_without_comment(lines[last]).rstrip()} {line.strip()}"
            continue
        lines.append(line.rstrip())
        if line.strip() and not line.lstrip().startswith("#"):
            last = len(lines) - 1
    return "\n".join(lines)


_QUOTED_OR_COMMENT = re.compile(r"""('[^']*'|"(?:\\.|[^"\\])*"|\\.)|(?<!\S)#.*""")


def _without_comment(line: str) -> str:
    """Return a line of a script without the comment at its end, which would swallow what is appended."""
    return _QUOTED_OR_COMMENT.sub(lambda found: found[1] or "", line)


# The variables: a list in which each item is a value, a value of a Secret, or a Secret that is mounted.


def read_variables(path: str, raw: bytes) -> WorkloadVariables:
    """Read an `env` file. Raises `InvalidInput` with all its problems."""
    reading = read(path, raw)
    problems = list(reading.problems)
    env: list[Mapping[str, Any]] = []
    volumes: list[Mapping[str, Any]] = []
    for document in reading.documents:
        rows = document.data.get("envVars")
        if not isinstance(rows, list) or set(document.data) != {"envVars"}:
            problems += document.problems([_wrong((), "must have the list `envVars` and nothing else")])
            continue
        problems += document.problems(_read_rows(rows, env, volumes))
    if problems:
        raise InvalidInput(problems, where=f"in {path}")
    return WorkloadVariables(env=tuple(env), secret_volumes=tuple(volumes))


def _read_rows(rows: list[Any], env: list[Mapping[str, Any]], volumes: list[Mapping[str, Any]]) -> Iterator[Violation]:
    for number, row in enumerate(rows):
        place: FieldPath = ("envVars", number)
        match row:
            case {"name": str(name), "value": value, **rest} if not rest and not isinstance(value, dict | list):
                env.append({"name": name, "value": _scalar(value)})
            case {"fromSecret": {"name": str(name), "secret": str(secret), "key": str(key), **rest}, **others} if not (
                rest or others
            ):
                env.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
            case {
                "mountSecret": {"name": str(name), "secret": str(secret), "key": str(key), "path": str(path), **rest},
                **others,
            } if path.startswith("/") and not (rest or others):
                volume = _volume_name(secret, {str(one["name"]) for one in volumes})
                target = {"key": key, "subPath": posixpath.basename(path), "mountPath": path}
                volumes.append({"name": volume, "secretName": secret, **target})
                env.append({"name": name, "value": path})
            case _:
                yield _wrong(place, "is none of {name, value}, {fromSecret: {name, secret, key}}, {mountSecret: …}")
                continue
        if text(env[-1]["name"]) in {text(one["name"]) for one in env[:-1]}:
            yield _wrong(place, f"{env[-1]['name']} is set twice")


def _scalar(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _volume_name(secret: str, taken: set[str]) -> str:
    """Return a name for the volume of a Secret: of two mounts of one Secret, each has its own."""
    name, number = f"{secret}-volume", 1
    while name in taken:
        number += 1
        name = f"{secret}-volume-{number}"
    return name


def _wrong(path: FieldPath, message: str) -> Violation:
    hint = "mountSecret has name, secret, key, and an absolute path; see docs/submitting.md"
    return Violation(rule="submit.env", path=path, message=message, hint=hint)

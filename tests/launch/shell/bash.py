"""Runs scripts in bash, where `accelerate` prints its arguments, and in the interpreter."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.launch.shell.documents import WrittenFiles
from reconciler.launch.shell.expansion import UNKNOWN, Field, Variables
from reconciler.launch.shell.interpreter import interpret

Calls = list[tuple[str, ...]]
_STUB = "accelerate() { printf 'CALL\\0'; [ $# -eq 0 ] || printf '=%s\\0' \"$@\"; }; set -f\n"
_REFUSALS = (
    *(b"syntax error", b"unexpected EOF", b"bad substitution", b"division by 0", b"less than 0", b"error token"),
    *(
        b"cannot assign",
        b"not a valid identifier",
        b"readonly variable",
        b"indirect expansion",
        b"invalid variable name",
    ),
)
_PROGRAM = "#!/bin/sh\nprintf 'CALL\\0'\n[ $# -eq 0 ] || printf '=%s\\0' \"$@\"\n"


def bash_calls(script: str, env: Mapping[str, str], arguments: Sequence[str] = ()) -> Calls | None:
    """Return the arguments of every call that bash makes; None where it rejects the script."""
    return _run(["bash", "-c", _STUB + script, "name", *arguments], env)


def bash_program_calls(folder: Path, script: str, env: Mapping[str, str]) -> Calls | None:
    """Do the same with a program `accelerate` in the path, which `env`, `nohup` and `exec` can start."""
    program = folder / "accelerate"
    if not program.exists():
        program.write_text(_PROGRAM)
        program.chmod(0o755)
    return _run(["bash", "-c", script], {"PATH": f"{folder}:{os.environ['PATH']}", **env})


def _run(argv: Sequence[str], env: Mapping[str, str]) -> Calls | None:
    path = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(argv, env={**path, **env}, capture_output=True, check=False, timeout=20)
    if any(message in done.stderr for message in _REFUSALS):
        return None
    calls: list[list[str]] = []
    for piece in done.stdout.decode("utf-8", "surrogateescape").split("\0"):
        if piece.endswith("CALL") and piece[0] != "=":
            calls.append([])
        elif piece.startswith("="):
            calls[-1].append(piece[1:])
    return [tuple(call) for call in calls]


def our_calls(script: str, env: Mapping[str, str | None], arguments: Sequence[str] = ()) -> list[list[Field]]:
    """Return the arguments of every `accelerate` that the interpreter finds."""
    calls: list[list[Field]] = []

    def on_command(fields: Sequence[Field], _variables: Variables) -> None:
        if fields[0].text == "accelerate":
            calls.append(list(fields[1:]))

    interpret(script, Variables.from_env(env, tuple(arguments), "name"), on_command, WrittenFiles())
    return calls


def matches(ours: Sequence[Field], real: Sequence[str]) -> bool:
    """Whether our arguments, with their unknown parts, match those of bash."""
    pattern = ""
    for field in ours:
        pieces = [re.escape(piece) for piece in field.text.split(UNKNOWN)]
        pattern += f"(?:{'.*'.join(pieces)}\0)?" if field.may_split else "[^\0]*".join(pieces) + "\0"
    return re.fullmatch(pattern, "".join(f"{word}\0" for word in real), re.DOTALL) is not None


def known(calls: Sequence[Sequence[Field]]) -> Calls | None:
    """Return calls as plain words; None where one is unknown."""
    if any(UNKNOWN in field.text for call in calls for field in call):
        return None
    return [tuple(field.text for field in call) for call in calls]

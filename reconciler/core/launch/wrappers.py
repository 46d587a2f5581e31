"""Programs that start another program: `env`, `sudo`, `nohup`, `tini --`, `uv run` and similar ones."""

import re
from collections.abc import Sequence

from msgspec import Struct

from reconciler.core.launch.shell.expansion import Field
from reconciler.core.launch.shell.variables import UNKNOWN

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class _WrapperProgram(Struct, frozen=True):
    """What stands between its name and the program: a verb, flags (`valued` take a value), positional words.

    `assigns`: `NAME=value` words set variables for the program.
    """

    verb: str = ""
    valued: frozenset[str] = frozenset()
    words: int = 0
    assigns: bool = False


def _valued(*options: str) -> frozenset[str]:
    return frozenset(options)


_WRAPPERS = {
    "env": _WrapperProgram(valued=_valued("-u", "--unset", "-C", "--chdir"), assigns=True),
    "sudo": _WrapperProgram(valued=_valued("-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T"), assigns=True),
    "nohup": _WrapperProgram(),
    "time": _WrapperProgram(valued=_valued("-f", "-o", "--format", "--output")),
    "exec": _WrapperProgram(valued=_valued("-a")),
    "command": _WrapperProgram(),
    "builtin": _WrapperProgram(),
    "setsid": _WrapperProgram(),
    "stdbuf": _WrapperProgram(valued=_valued("-i", "-o", "-e")),
    "nice": _WrapperProgram(valued=_valued("-n", "--adjustment")),
    "ionice": _WrapperProgram(valued=_valued("-c", "-n", "-p")),
    "timeout": _WrapperProgram(valued=_valued("-k", "-s", "--kill-after", "--signal"), words=1),
    "numactl": _WrapperProgram(
        valued=_valued("-N", "-m", "-i", "-C", "-p", "--cpunodebind", "--membind", "--physcpubind")
    ),
    "taskset": _WrapperProgram(words=1),
    "tini": _WrapperProgram(valued=_valued("-p", "-e")),
    "dumb-init": _WrapperProgram(valued=_valued("-r", "--rewrite")),
    "catchsegv": _WrapperProgram(),
    "unbuffer": _WrapperProgram(),
    "xvfb-run": _WrapperProgram(valued=_valued("-n", "-s", "--server-args", "--server-num")),
    "uv": _WrapperProgram(
        verb="run", valued=_valued("--with", "--extra", "--python", "-p", "--project", "--env-file", "--group")
    ),
    "poetry": _WrapperProgram(verb="run"),
    "pipenv": _WrapperProgram(verb="run"),
    "pixi": _WrapperProgram(verb="run", valued=_valued("-e", "--environment", "--manifest-path")),
    "conda": _WrapperProgram(verb="run", valued=_valued("-n", "--name", "-p", "--prefix", "--cwd")),
    "mamba": _WrapperProgram(verb="run", valued=_valued("-n", "--name", "-p", "--prefix", "--cwd")),
    "micromamba": _WrapperProgram(verb="run", valued=_valued("-n", "--name", "-p", "--prefix", "--cwd")),
    "nsys": _WrapperProgram(verb="profile", valued=_valued("-o", "-t", "-w", "-f", "-s", "-c", "-x")),
    "ncu": _WrapperProgram(valued=_valued("-o", "-k", "-c", "-s")),
    "compute-sanitizer": _WrapperProgram(valued=_valued("--tool")),
    "opentelemetry-instrument": _WrapperProgram(valued=_valued("--service_name", "--traces_exporter")),
}


def program_name(text: str) -> str:
    """Return the last part of a program's path."""
    return text.rpartition("/")[2]


def unwrap(fields: Sequence[Field]) -> tuple[Sequence[Field], dict[str, str | None]]:
    """Return the words from the wrapped program on, and the variables set for it alone (None: unknown)."""
    assignments: dict[str, str | None] = {}
    while fields and (wrapper := _WRAPPERS.get(program_name(fields[0].text))) is not None:
        at = _skip(fields, wrapper, assignments)
        if at is None:
            break
        fields = fields[at:]
    return fields, assignments


def _skip(fields: Sequence[Field], wrapper: _WrapperProgram, assignments: dict[str, str | None]) -> int | None:
    at, words = 1, wrapper.words
    if wrapper.verb:
        if len(fields) < 2 or fields[1].text != wrapper.verb:  # noqa: PLR2004 - a program and its verb
            return None
        at = 2
    while at < len(fields):
        text = fields[at].text
        if text == "--":
            at += 1
            break
        if text.startswith("-") and text != "-":
            at += 2 if text in wrapper.valued else 1
        elif wrapper.assigns and (match := _ASSIGNMENT.fullmatch(text)):
            assignments[match[1]] = None if UNKNOWN in match[2] else match[2]
            at += 1
        elif words:
            words -= 1
            at += 1
        else:
            break
    return at

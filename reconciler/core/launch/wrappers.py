"""Programs that only start another one: `env`, `sudo`, `nohup`, `tini --`, `uv run` and their like."""

import re
from collections.abc import Sequence

from msgspec import Struct

from reconciler.core.launch.shell.expansion import Field
from reconciler.core.launch.shell.variables import UNKNOWN

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class _Wrapper(Struct, frozen=True):
    """What stands between its name and the program: a verb, options (those with a value named), words."""

    verb: str = ""
    valued: frozenset[str] = frozenset()
    words: int = 0
    assigns: bool = False


def _valued(*options: str) -> frozenset[str]:
    return frozenset(options)


_WRAPPERS = {
    "env": _Wrapper(valued=_valued("-u", "--unset", "-C", "--chdir"), assigns=True),
    "sudo": _Wrapper(valued=_valued("-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T"), assigns=True),
    "nohup": _Wrapper(),
    "time": _Wrapper(valued=_valued("-f", "-o", "--format", "--output")),
    "exec": _Wrapper(valued=_valued("-a")),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
    "setsid": _Wrapper(),
    "stdbuf": _Wrapper(valued=_valued("-i", "-o", "-e")),
    "nice": _Wrapper(valued=_valued("-n", "--adjustment")),
    "ionice": _Wrapper(valued=_valued("-c", "-n", "-p")),
    "timeout": _Wrapper(valued=_valued("-k", "-s", "--kill-after", "--signal"), words=1),
    "numactl": _Wrapper(valued=_valued("-N", "-m", "-i", "-C", "-p", "--cpunodebind", "--membind", "--physcpubind")),
    "taskset": _Wrapper(words=1),
    "tini": _Wrapper(valued=_valued("-p", "-e")),
    "dumb-init": _Wrapper(valued=_valued("-r", "--rewrite")),
    "catchsegv": _Wrapper(),
    "unbuffer": _Wrapper(),
    "xvfb-run": _Wrapper(valued=_valued("-n", "-s", "--server-args", "--server-num")),
    "uv": _Wrapper(
        verb="run", valued=_valued("--with", "--extra", "--python", "-p", "--project", "--env-file", "--group")
    ),
    "poetry": _Wrapper(verb="run"),
    "pipenv": _Wrapper(verb="run"),
    "pixi": _Wrapper(verb="run", valued=_valued("-e", "--environment", "--manifest-path")),
    "conda": _Wrapper(verb="run", valued=_valued("-n", "--name", "-p", "--prefix", "--cwd")),
    "mamba": _Wrapper(verb="run", valued=_valued("-n", "--name", "-p", "--prefix", "--cwd")),
    "micromamba": _Wrapper(verb="run", valued=_valued("-n", "--name", "-p", "--prefix", "--cwd")),
    "nsys": _Wrapper(verb="profile", valued=_valued("-o", "-t", "-w", "-f", "-s", "-c", "-x")),
    "ncu": _Wrapper(valued=_valued("-o", "-k", "-c", "-s")),
    "compute-sanitizer": _Wrapper(
        valued=_valued(
            "--tool",
        )
    ),
    "opentelemetry-instrument": _Wrapper(valued=_valued("--service_name", "--traces_exporter")),
}


def program_name(text: str) -> str:
    """Return the last part of a program's path."""
    return text.rpartition("/")[2]


def unwrap(fields: Sequence[Field]) -> tuple[Sequence[Field], dict[str, str | None]]:
    """Return the words from the real program on, and the variables that were set for it alone (None: not known)."""
    assigned: dict[str, str | None] = {}
    while fields and (wrapper := _WRAPPERS.get(program_name(fields[0].text))) is not None:
        at = _skip(fields, wrapper, assigned)
        if at is None:
            break
        fields = fields[at:]
    return fields, assigned


def _skip(fields: Sequence[Field], wrapper: _Wrapper, assigned: dict[str, str | None]) -> int | None:
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
        elif wrapper.assigns and (found := _ASSIGNMENT.fullmatch(text)):
            assigned[found[1]] = None if UNKNOWN in found[2] else found[2]
            at += 1
        elif words:
            words -= 1
            at += 1
        else:
            break
    return at

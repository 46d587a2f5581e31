"""The tables in `lines/`: scripts, variables, files, and the expected result.

A case begins with `## name`. `%env NAME=value` is a variable of the container, `%from NAME` one from a reference,
`%file path` begins a file of the repository. Lines with `=>` are expected: launcher, framework and program; facts;
defaults; one line for each diagnostic.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from reconciler.launch import ParsedLaunch

TABLES = sorted((Path(__file__).parent / "lines").glob("*.txt"))


class LaunchCase(Struct, frozen=True, kw_only=True):
    name: str
    script: str
    env: dict[str, str | None]
    files: dict[str, bytes]
    expected: tuple[str, ...]


def cases() -> list[LaunchCase]:
    """Return all cases of all tables."""
    return [case for path in TABLES for case in _cases(path.read_text())]


def _cases(text: str) -> Iterator[LaunchCase]:
    for block in f"\n{text}".split("\n## ")[1:]:
        name, _, rest = block.partition("\n")
        script: list[str] = []
        env: dict[str, str | None] = {}
        files: dict[str, list[str]] = {}
        expected: list[str] = []
        target = script
        for line in rest.split("\n"):
            if line.startswith("%env "):
                key, _, value = line.removeprefix("%env ").partition("=")
                env[key] = value
            elif line.startswith("%from "):
                env[line.removeprefix("%from ")] = None
            elif line.startswith("%file "):
                target = files.setdefault(line.removeprefix("%file "), [])
            elif line.startswith("=>"):
                expected.append(line)
            else:
                target.append(line)
        contents = {path: "\n".join([*lines, ""]).encode() for path, lines in files.items()}
        yield LaunchCase(
            name=name, script="\n".join(script).strip("\n"), env=env, files=contents, expected=tuple(expected)
        )


def shown(parsed: ParsedLaunch) -> tuple[str, ...]:
    """Format a result as in the tables."""
    lines: list[str] = []
    if (launch := parsed.launch) is not None:
        lines.append(f"=> {launch.launcher.name} {launch.framework.name or '-'} {launch.line.invocation.name}")
        lines.append("=> " + " ".join(f"{name}={fact.value}" for name, fact in sorted(launch.facts.items())))
        lines.append("=> default " + " ".join(f"{name}={fact.value}" for name, fact in sorted(launch.defaults.items())))
    lines += [f"=> {diagnostic.rule} {diagnostic.message}" for diagnostic in parsed.diagnostics]
    return tuple(line.rstrip() for line in lines)

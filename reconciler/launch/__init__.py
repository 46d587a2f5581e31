"""The launch line of a training, usable alone: the shell script, the launcher, the framework, and the facts they state.

In: the text of a script. Out: facts, each with its place; nothing is executed. `parse_launch` reads a line,
`edit_launch` sets flags on it. Read `parse` first, then `shell` (what bash would run), `launchers` and `frameworks`.
"""

from reconciler.launch.edit import NotEditable, edit_launch, script_flag
from reconciler.launch.facts import Diagnostic, Fact, Span
from reconciler.launch.flags import FlagReview, FlagTable, review_flags
from reconciler.launch.framework import Command, Framework, Launcher, LaunchLine, Overrides, ProcessFlags
from reconciler.launch.frameworks import FRAMEWORKS, is_configuration
from reconciler.launch.launch import Launch, ParsedLaunch
from reconciler.launch.parse import parse_launch
from reconciler.launch.search import find_launch_line
from reconciler.launch.settings import FileReader, resolve_file

__all__ = [
    "FRAMEWORKS",
    "Command",
    "Diagnostic",
    "Fact",
    "FileReader",
    "FlagReview",
    "FlagTable",
    "Framework",
    "Launch",
    "LaunchLine",
    "Launcher",
    "NotEditable",
    "Overrides",
    "ParsedLaunch",
    "ProcessFlags",
    "Span",
    "edit_launch",
    "find_launch_line",
    "is_configuration",
    "parse_launch",
    "resolve_file",
    "review_flags",
    "script_flag",
]

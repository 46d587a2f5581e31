"""The launch line of a training job: the shell script, the launcher, the framework, and the facts they state.

`parse_launch` reads the line, `edit_launch` sets flags on it. Both are pure: nothing is executed.
"""

from reconciler.core.launch.edit import NotEditable, ProcessFlags, edit_launch, process_flags, script_flag
from reconciler.core.launch.facts import Diagnostic, Fact, Launcher, Span
from reconciler.core.launch.files import is_configuration, resolve_file
from reconciler.core.launch.launch import Launch, ParsedLaunch
from reconciler.core.launch.options import Option, flag_name, script_arguments
from reconciler.core.launch.reading import parse_launch
from reconciler.core.launch.search import LaunchLine, find_launch_line
from reconciler.core.launch.settings import FileReader

__all__ = [
    "Diagnostic",
    "Fact",
    "FileReader",
    "Launch",
    "LaunchLine",
    "Launcher",
    "NotEditable",
    "Option",
    "ParsedLaunch",
    "ProcessFlags",
    "Span",
    "edit_launch",
    "find_launch_line",
    "flag_name",
    "is_configuration",
    "parse_launch",
    "process_flags",
    "resolve_file",
    "script_arguments",
    "script_flag",
]

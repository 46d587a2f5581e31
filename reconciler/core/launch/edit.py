"""Sets flags on a launch line byte for byte: only the tokens of those flags differ afterwards."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.launch.dialects import Dialect, dialect_of
from reconciler.core.launch.facts import Launcher, Span
from reconciler.core.launch.launch import Launch
from reconciler.core.launch.options import Arguments, Option, flag_name, script_arguments
from reconciler.core.launch.place import Place
from reconciler.core.launch.shell.expansion import Field

_NEEDS_NO_QUOTES = re.compile(r"(?:[A-Za-z0-9_./:=,+@%-]|\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\})*")
_PROCESS_FLAGS = {
    Launcher.ACCELERATE: ("--num_processes", "--num_machines"),
    Launcher.TORCHRUN: ("--nproc_per_node", "--nnodes"),
    Launcher.DEEPSPEED: ("--num_gpus", "--num_nodes"),
}
_COUNTS_ALL_PROCESSES = frozenset({Launcher.ACCELERATE})
_TUNE = "tune run"
_LITGPT = "litgpt"


class NotEditable(ValueError):
    """The line's words are not written where they could be changed; `Launch.not_editable` says so beforehand."""


class ProcessFlags(Struct, frozen=True, kw_only=True):
    """The flags that say how many processes and machines there are; empty where a line has none.

    `in_all`: the first counts the processes of all machines, not those of one. `script`: both belong to the script.
    """

    processes: str
    machines: str
    in_all: bool
    script: bool = False


class _Edit(Struct, frozen=True):
    span: Span
    text: str
    inserts: tuple[str, ...] = ()  # items to be put behind the item of `span` (argument lists)


def process_flags(launch: Launch) -> ProcessFlags:
    """Return the launcher's own names for the number of processes and machines."""
    if launch.launcher is Launcher.DEEPSPEED and launch.line.invocation.option("include", "i"):
        return ProcessFlags(processes="", machines="", in_all=False)  # it names each device, and allows no number
    if launch.launcher in _PROCESS_FLAGS:
        processes, machines = _PROCESS_FLAGS[launch.launcher]
        return ProcessFlags(processes=processes, machines=machines, in_all=launch.launcher in _COUNTS_ALL_PROCESSES)
    if launch.line.invocation.command == _TUNE:
        return ProcessFlags(processes="--nproc_per_node", machines="--nnodes", in_all=False)
    if launch.line.invocation.command == _LITGPT:
        return ProcessFlags(processes="--devices", machines="--num_nodes", in_all=False, script=True)
    return ProcessFlags(processes="", machines="", in_all=False)


def script_flag(launch: Launch, fact: str) -> str:
    """Return the framework's own name for a fact (`batch`, `accumulation`), as `edit_launch` takes it; empty: none.

    Names without dashes are `name=value` words (torchtune, recipes of LLaMA-Factory).
    """
    arguments, dialect = _script(launch)
    names = dialect.names.get(fact, ())
    written = {option.name for option in arguments.options}
    name = next((name for name in names if name in written), names[0] if names else "")
    takes_words = dialect.family == "torchtune" or (
        dialect.family == "llama-factory"
        and any(field.text.endswith((".yaml", ".yml", ".json")) for field in arguments.words)
    )
    return name if takes_words or not name else f"--{name}"


def edit_launch(
    launch: Launch, launcher_flags: Mapping[str, str], script_flags: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return `command` and `args` with flags set: those of the launcher, and those of the script or module.

    A flag that stands on the line gets the new value where it stands; a new one goes behind the launcher's word or the
    module, written as its neighbours are. In a script, values may refer to variables (`$NAME`); argument lists take
    them letter by letter. Raises NotEditable.
    """
    if launch.not_editable:
        raise NotEditable(launch.not_editable)
    invocation, place = launch.line.invocation, launch.line.place
    fields = invocation.fields
    arguments, _ = _script(launch)
    before = invocation.first_word_of_program - 1
    launcher = _Section(place, fields[invocation.head], fields[before], invocation.arguments.options)
    launcher.opaque = bool(invocation.arguments.loose)
    script = _Section(place, fields[invocation.program], fields[-1], arguments.options)
    script.opaque = bool(arguments.loose)
    script.behind = bool(arguments.words)
    script.words = tuple(fields[invocation.program + 1 :])
    edits = [
        *launcher.edits(launcher_flags, joined=_joins(invocation.arguments.options, arguments.options)),
        *script.edits(script_flags, joined=_joins(arguments.options, invocation.arguments.options)),
    ]
    return _applied(launch.command, "command", edits), _applied(launch.args, "args", edits)


def _script(launch: Launch) -> tuple[Arguments, Dialect]:
    invocation = launch.line.invocation
    arguments = script_arguments(invocation.fields, invocation.program + 1)
    dialect = dialect_of(launch.program, {option.name for option in arguments.options})
    if dialect.single:
        arguments = script_arguments(invocation.fields, invocation.program + 1, single=True)
    return arguments, dialect


def _joins(options: Sequence[Option], others: Sequence[Option]) -> bool:
    """Tell whether flags are written `--name=value` here; without an example, they are."""
    for some in (options, others):
        styles = [option.joined is not None for option in some if option.joined is not None or option.values]
        if styles:
            return 2 * sum(styles) >= len(styles)
    return True


class _Section:
    """One program's share of the line: new flags go behind `early`, or behind `late` to have the last word."""

    def __init__(self, place: Place, early: Field, late: Field, options: Sequence[Option]) -> None:
        self.place = place
        self.early = early
        self.late = late
        self.options = options
        self.words: tuple[Field, ...] = ()
        self.opaque = False
        self.behind = False  # words that belong to no flag: in front of them, a flag might take one for its value

    def edits(self, flags: Mapping[str, str], *, joined: bool) -> list[_Edit]:
        new: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        edits: list[_Edit] = []
        for flag, value in flags.items():
            text = _quoted(value) if self.place.script else value
            edit, late = self._replaced(flag, text)
            if edit is not None:
                edits.append(edit)
            else:
                new[late].append((flag, text))
        for late, items in new.items():
            if items:
                edits.append(self._inserted(items, late=late, joined=joined))
        return edits

    def _replaced(self, flag: str, text: str) -> tuple[_Edit | None, bool]:
        """Return the edit of a flag that stands on the line; else whether a new one must come last."""
        if not flag.startswith("-"):
            return self._replaced_word(flag, text), True
        name = flag_name(flag)
        option = next((option for option in reversed(self.options) if option.name == name), None)
        if option is None or self.opaque:
            return None, option is not None or self.opaque or self.behind
        spelt = option.flag.text.partition("=")[0]
        word = option.values[0] if option.values else option.flag
        span = self.place.span(word)
        if span is None or self.place.span(option.flag) is None:
            return None, True
        return _Edit(span, text if option.values else f"{spelt}={text}"), False

    def _replaced_word(self, name: str, text: str) -> _Edit | None:
        word = next((word for word in reversed(self.words) if word.text.startswith(f"{name}=")), None)
        span = self.place.span(word) if word is not None else None
        if word is None or span is None:
            return None
        return _Edit(span, f"{name}={text}")

    def _inserted(self, flags: Sequence[tuple[str, str]], *, late: bool, joined: bool) -> _Edit:
        anchor = self.late if late else self.early
        # A word that gave several still ends where it is written.
        span = self.place.span(replace(anchor, whole=True))
        if span is None:
            raise NotEditable("the end of the line comes out of a variable")
        items: list[str] = []
        for flag, text in flags:
            items += [f"{flag}={text}"] if joined or not flag.startswith("-") else [flag, text]
        if not self.place.script:
            return _Edit(replace(span, start=span.end), "", tuple(items))
        return _Edit(replace(span, start=span.end), "".join(f" {item}" for item in items))


def _quoted(value: str) -> str:
    """Write a value for the shell: references to variables are expanded, all else stands for itself."""
    if value and _NEEDS_NO_QUOTES.fullmatch(value):
        return value
    return "'" + value.replace("'", "'\\''") + "'"


def _applied(items: Sequence[str], field: str, edits: Sequence[_Edit]) -> tuple[str, ...]:
    changed = [[item] for item in items]
    for edit in sorted((edit for edit in edits if edit.span.field == field), key=lambda edit: edit.span, reverse=True):
        cell = changed[edit.span.index]
        cell[0] = cell[0][: edit.span.start] + edit.text + cell[0][edit.span.end :]
        cell[1:1] = edit.inserts
    return tuple(text for cell in changed for text in cell)

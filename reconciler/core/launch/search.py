"""Finds the one launch line among all that a container would start."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from reconciler.core.launch.facts import Diagnostic, Launcher, Span
from reconciler.core.launch.launchers import Invocation, take_apart
from reconciler.core.launch.options import flag_name
from reconciler.core.launch.place import Item, Place, shown, without_secrets
from reconciler.core.launch.settings import FileReader
from reconciler.core.launch.shell.expansion import Field
from reconciler.core.launch.shell.kubernetes import expand
from reconciler.core.launch.shell.syntax import Command, ShellError
from reconciler.core.launch.shell.variables import LOOSE, MAX_LENGTH, UNKNOWN, Variables
from reconciler.core.launch.shell.walk import walk
from reconciler.core.launch.wrappers import program_name, unwrap

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
_SHELL_FLAG = re.compile(r"[-+]([A-Za-z]+)")
_SHELL_VALUED = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_MAX_NESTED = 4
_MAX_ITEMS = 10_000
_LOOKED_FOR = (
    "`accelerate launch`, `torchrun`, `deepspeed`, `python -m torch.distributed.run`, `llamafactory-cli train`, "
    "`axolotl train`, `tune run`, `litgpt finetune`, `trl sft` or a Python script"
)
_TRAINING_FLAGS = frozenset(
    (
        *("model_name_or_path", "per_device_train_batch_size", "max_seq_length", "peft_method", "base_model"),
        *("micro_batch_size", "gradient_accumulation_steps", "model_name", "model_max_length", "finetuning_type"),
    )
)
_TRAINING_MODULE = re.compile(
    r"tuning[./]sft_trainer.*|axolotl\.cli\.train|.*(?:train|finetune|fine_tune|sft|run_clm).*"
)


class LaunchLine(Struct, frozen=True):
    """A launch line with its place, and the variables that its program sees (None: not known)."""

    invocation: Invocation
    place: Place
    env: Mapping[str, str | None]


def find_launch_line(
    command: tuple[str, ...], args: tuple[str, ...], env: Mapping[str, str | None], files: FileReader
) -> LaunchLine | Diagnostic:
    """Return the launch line; a diagnostic where there is none, where there are several, or the text is no script.

    `env` holds the values as the container gets them: after `container_env`.
    """
    written = [("command", number, text) for number, text in enumerate(command)]
    written += [("args", number, text) for number, text in enumerate(args)]
    if (diagnostic := _unfit(written)) is not None:
        return diagnostic
    items = tuple(Item(field, number, text, expand(text, env)) for field, number, text in written)
    fields = [Field(item.expanded.text, number, number, why=_why(item)) for number, item in enumerate(items)]
    search = _Search(files)
    try:
        search.consider(fields, env, Place(items))
    except ShellError as error:
        return search.refused(error)
    return search.choose()


def _unfit(written: Sequence[tuple[str, int, str]]) -> Diagnostic | None:
    """Refuse what the kernel would: no argument holds a NUL or is over 128 KiB (MAX_ARG_STRLEN)."""
    if len(written) > _MAX_ITEMS:
        return Diagnostic(rule="launch.text", message=f"over {_MAX_ITEMS} arguments", hint="use a script")
    for field, number, text in written:
        span = Span(field=field, index=number, start=0, end=0)
        if len(text) >= MAX_LENGTH:
            message = f"the argument has {len(text)} characters; the kernel takes no more than {MAX_LENGTH - 1}"
            return Diagnostic(rule="launch.text", message=message, hint="put the script into a file", span=span)
        if "\0" in text or (not text.isascii() and _SURROGATE.search(text)):
            message = "the argument holds a character that no argument can hold (NUL, or half a surrogate pair)"
            return Diagnostic(rule="launch.text", message=message, hint="remove it", span=span)
    return None


_SURROGATE = re.compile("[\ud800-\udfff]")


def _why(item: Item) -> str:
    names = item.expanded.unknown
    return f"`{names[0]}` comes from a reference (valueFrom), or is too long" if names else ""


class _Search:
    def __init__(self, files: FileReader) -> None:
        self.files = files
        self.sure: list[LaunchLine] = []  # started by something that only starts trainings
        self.scripts: list[LaunchLine] = []  # plain Python
        self.depth = 0
        self.place = Place()
        self.missing: Diagnostic | None = None

    def consider(self, fields: Sequence[Field], env: Mapping[str, str | None], place: Place) -> None:
        """Look at one program that would be started."""
        fields, assigned = unwrap(fields)
        if not fields:
            return
        name = program_name(fields[0].text)
        if name in _SHELLS:
            self._shell(fields, {**env, **assigned}, place)
            return
        invocation = take_apart(fields)
        if invocation is None:
            if UNKNOWN in name and _has_training_flags(fields):
                self.missing = _unknown_program(fields, place)
            return
        known = self.scripts if invocation.launcher is Launcher.PYTHON else self.sure
        known.append(LaunchLine(invocation, place, {**env, **assigned} if assigned else env))

    def _shell(self, fields: Sequence[Field], env: Mapping[str, str | None], place: Place) -> None:
        at = 2 if program_name(fields[0].text) == "busybox" else 1
        runs_text = False
        while at < len(fields) and fields[at].text[:1] in {"-", "+"} and fields[at].text not in {"-", "--"}:
            text = fields[at].text
            runs_text |= (found := _SHELL_FLAG.fullmatch(text)) is not None and text[0] == "-" and "c" in found[1]
            takes = text in _SHELL_VALUED or (found is not None and found[1].endswith(("o", "O")))
            at += 2 if takes else 1
        at += at < len(fields) and fields[at].text in {"-", "--"}
        if at >= len(fields):
            return
        if runs_text:
            rest = tuple(LOOSE if field.loose else field.text for field in fields[at + 1 :])
            self._text(fields[at], Variables.of_container(env, rest[1:], rest[0] if rest else "sh"), place)
        else:
            self._file(fields[at:], env)

    def _text(self, field: Field, variables: Variables, place: Place) -> None:
        if not place.script and place.items and field.start >= 0:
            inner = Place((place.items[field.start],), script=True)
        else:
            inner = Place(source=place.source or "a script inside a script")
        self._walk(field.text, variables, inner)

    def _file(self, fields: Sequence[Field], env: Mapping[str, str | None]) -> None:
        path = fields[0].text
        raw = None if UNKNOWN in path else self.files(path)
        if raw is None:
            message = f"the script `{shown(path)}` is not in the repository, so that what it launches is not known"
            hint = "put the script into the repository or into the container's args, or set the variables AUTOCONF_*"
            self.missing = Diagnostic(rule="launch.script-file", message=message, hint=hint)
            return
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self.missing = Diagnostic(
                rule="launch.script-file", message=f"`{shown(path)}` is no text", hint="correct it"
            )
            return
        if "\0" in text or len(text) > MAX_LENGTH:
            message = f"`{shown(path)}` is no script, or over {MAX_LENGTH} characters long"
            self.missing = Diagnostic(rule="launch.script-file", message=message, hint="correct it")
            return
        rest = tuple(LOOSE if field.loose else field.text for field in fields[1:])
        self._walk(text, Variables.of_container(env, rest, path), Place(source=f"the file {shown(path)}"))

    def _walk(self, text: str, variables: Variables, place: Place) -> None:
        if text == UNKNOWN:
            return
        self.depth += 1
        if self.depth > _MAX_NESTED:
            raise ShellError("shells start each other too often", 0)
        self.place = place

        def sink(fields: Sequence[Field], variables: Variables, _: Command) -> None:
            if program_name(fields[0].text) not in _NEVER:
                self.consider(fields, variables.environment(), place)

        walk(text, variables, sink)
        self.depth -= 1

    def refused(self, error: ShellError) -> Diagnostic:
        """Return why a script could not be read, with the place."""
        span = None
        if self.place.items:
            item = self.place.items[0]
            at = item.expanded.place(error.at, error.at) or (0, 0)
            span = Span(field=item.field, index=item.index, start=at[0], end=at[1])
        where = f" (in {self.place.source})" if self.place.source else ""
        return Diagnostic(
            rule="launch.shell",
            message=f"the shell script cannot be read: {error.message}{where}",
            hint="correct the script; `bash -n` says the same of it",
            span=span,
        )

    def choose(self) -> LaunchLine | Diagnostic:
        """Return the only line; trainings that something launches come before plain Python scripts."""
        lines = self.sure or [line for line in self.scripts if _trains(line)] or self.scripts
        if not lines:
            if self.missing is not None:
                return self.missing
            hint = "set the variables AUTOCONF_* and a command that is one of these, or leave the job out of sizing"
            return Diagnostic(rule="launch.none", message=f"no launch line: looked for {_LOOKED_FOR}", hint=hint)
        if len(lines) == 1:
            return lines[0]
        first, second = lines[0], lines[1]
        shown_lines = " and ".join(f"`{_shown(line)}`" for line in (first, second))
        return Diagnostic(
            rule="launch.several",
            message=f"{len(lines)} launch lines: {shown_lines}",
            hint="keep one launch line in a container, or leave the job out of sizing",
            span=second.place.span(second.invocation.fields[0], second.invocation.fields[-1]),
        )


_NEVER = frozenset({"cd", "echo", "[", "test", "mkdir", "cp", "rm", "ls", "cat", "pip", "printf", "sleep", "true", ":"})
"""Programs that need no second look."""


def _shown(line: LaunchLine) -> str:
    return without_secrets(line.place.written(line.invocation.fields))


def _trains(line: LaunchLine) -> bool:
    invocation = line.invocation
    if _TRAINING_MODULE.fullmatch(invocation.name):
        return True
    return _has_training_flags(invocation.fields[invocation.program + 1 :])


def _has_training_flags(fields: Sequence[Field]) -> bool:
    return any(
        flag_name(field.text.partition("=")[0]) in _TRAINING_FLAGS for field in fields if field.text.startswith("--")
    )


def _unknown_program(fields: Sequence[Field], place: Place) -> Diagnostic:
    message = f"which program `{without_secrets(place.written(fields))}` starts is not known: {fields[0].why}"
    hint = "write the program out, or give the variable a literal value in the container's env"
    return Diagnostic(rule="launch.unknown-program", message=message, hint=hint, span=place.span(fields[0]))

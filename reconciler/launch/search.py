"""Finds the one launch line among the programs that a container would start."""

import re
from collections.abc import Mapping, Sequence

from reconciler.launch.container import ContainerArgument, SourceMap, expand_references, shorten
from reconciler.launch.facts import Diagnostic, Span
from reconciler.launch.framework import Framework, LaunchLine
from reconciler.launch.frameworks import FRAMEWORKS
from reconciler.launch.launchers import LAUNCHERS, parse_invocation, program_name, unwrap
from reconciler.launch.settings import FileReader, flag_name
from reconciler.launch.shell.ast import ShellError
from reconciler.launch.shell.documents import WrittenFiles
from reconciler.launch.shell.expansion import MAX_LENGTH, UNKNOWN, UNKNOWN_WORDS, Field, Variables
from reconciler.launch.shell.interpreter import interpret

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
_SHELL_FLAG = re.compile(r"[-+]([A-Za-z]+)")
_SHELL_FLAGS_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})  # the next word is no script
_MAX_NESTED_SHELLS = 4
_MAX_ARGUMENTS = 10_000
_TRAINING_FLAGS = frozenset(
    (
        *("model_name_or_path", "per_device_train_batch_size", "max_seq_length", "peft_method", "base_model"),
        *("micro_batch_size", "gradient_accumulation_steps", "model_name", "model_max_length", "finetuning_type"),
    )
)
_TRAINING_SCRIPT = re.compile(r".*(?:train|finetune|fine_tune|sft|run_clm).*")
_KNOWN_SCRIPTS = {
    "run_train.sh": (
        "CONFIG_FILE",
        (
            'torchrun --nproc_per_node="${NGPU:-8}" -m "${TRAIN_FILE:-torchtitan.train}" '
            '--job.config_file "$CONFIG_FILE" "$@"'
        ),
    )
}
"""What scripts of frameworks start that are usually called from their repository, and the variable that tells them from
others of the same name: that of torchtitan, without logging and rendezvous."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_OTHER_PROGRAMS = frozenset(
    {"cd", "echo", "[", "test", "mkdir", "cp", "rm", "ls", "cat", "pip", "printf", "sleep", "true", ":"}
)
"""Frequent commands that are skipped immediately."""


def find_launch_line(
    command: tuple[str, ...],
    args: tuple[str, ...],
    env: Mapping[str, str | None],
    files: FileReader,
    frameworks: tuple[Framework, ...] = FRAMEWORKS,
) -> LaunchLine | Diagnostic:
    """Return the launch line, or why there is none: no line, several lines, or a script that cannot be parsed.

    `env` holds the values as the container gets them, after `expand_env`.
    """
    arguments = [
        (field, index, text)
        for field, items in (("command", command), ("args", args))
        for index, text in enumerate(items)
    ]
    if (diagnostic := _check_limits(arguments)) is not None:
        return diagnostic
    items = tuple(
        ContainerArgument(field, index, text, expand_references(text, env)) for field, index, text in arguments
    )
    fields = [Field(item.expanded.text, number, number, reason=_reason(item)) for number, item in enumerate(items)]
    search = _Search(files, frameworks)
    try:
        search.visit(fields, env, SourceMap(items))
    except ShellError as error:
        return search.syntax_error(error)
    return search.choose()


def _check_limits(arguments: Sequence[tuple[str, int, str]]) -> Diagnostic | None:
    """Reject what the kernel rejects: NUL in an argument, or more than 128 KiB (MAX_ARG_STRLEN)."""
    if len(arguments) > _MAX_ARGUMENTS:
        message = f"more than {_MAX_ARGUMENTS:,} arguments"
        return Diagnostic(rule="launch.text", message=message, hint="put the command into a script")
    for field, index, text in arguments:
        span = Span(field=field, index=index, start=0, end=0)
        if len(text) >= MAX_LENGTH:
            message = f"the argument has {len(text):,} characters; the kernel accepts {MAX_LENGTH - 1:,}"
            return Diagnostic(rule="launch.text", message=message, hint="put the script into a file", span=span)
        if "\0" in text or (not text.isascii() and _SURROGATE.search(text)):
            message = "the argument contains a character that no argument can hold (NUL or an unpaired surrogate)"
            return Diagnostic(rule="launch.text", message=message, hint="remove the character", span=span)
    return None


def _reason(item: ContainerArgument) -> str:
    names = item.expanded.unknown
    return f"`{names[0]}` comes from a reference (valueFrom), or is too long" if names else ""


class _Search:
    def __init__(self, files: FileReader, frameworks: tuple[Framework, ...]) -> None:
        self.written = WrittenFiles()
        self.files = read_with(self.written, files)
        self.frameworks = frameworks
        self.broken: Diagnostic | None = None  # a line whose flags stand alone
        self.starts_tasks = False  # below `srun`, which starts one process or several
        self.launched: list[LaunchLine] = []  # by a launcher, or a framework's own command
        self.scripts: list[LaunchLine] = []  # Python scripts
        self.depth = 0
        self.source = SourceMap()
        self.diagnostic: Diagnostic | None = None

    def visit(self, fields: Sequence[Field], env: Mapping[str, str | None], source: SourceMap) -> None:
        """Look at one program that would be started."""
        outer, (fields, assignments, tasks) = self.starts_tasks, unwrap(fields)
        if not fields:
            return
        self.starts_tasks = outer or tasks
        self._visit_program(fields, {**env, **assignments} if assignments else env, source)
        self.starts_tasks = outer

    def _visit_program(self, fields: Sequence[Field], env: Mapping[str, str | None], source: SourceMap) -> None:
        name = program_name(fields[0].text)
        if name in _SHELLS:
            self._visit_shell(fields, env, source)
            return
        if fields[0].text.startswith("-"):
            self.broken = self.broken or _lost_flags(fields, source)
            return
        if _known_script(name, env):
            self._visit_file(fields[0].text, _words(fields[1:]), env)
            return
        invocation = parse_invocation(fields, self.frameworks)
        if invocation is None:
            if UNKNOWN in name and _has_training_flags(fields):
                self.diagnostic = _unknown_program(fields, source)
            return
        if invocation.launcher.starts_one_process and self.starts_tasks:
            self.diagnostic = _unknown_tasks(fields, source)
            return
        lines = self.scripts if invocation.launcher.starts_one_process else self.launched
        lines.append(LaunchLine(invocation, source, env, self.files, self.written.changes))

    def _visit_shell(self, fields: Sequence[Field], env: Mapping[str, str | None], source: SourceMap) -> None:
        at = 2 if program_name(fields[0].text) == "busybox" else 1
        runs_text = False
        while at < len(fields) and fields[at].text[:1] in {"-", "+"} and fields[at].text not in {"-", "--"}:
            text = fields[at].text
            match = _SHELL_FLAG.fullmatch(text)
            runs_text |= match is not None and text[0] == "-" and "c" in match[1]
            has_value = text in _SHELL_FLAGS_WITH_VALUE or (match is not None and match[1].endswith(("o", "O")))
            at += 2 if has_value else 1
        at += at < len(fields) and fields[at].text in {"-", "--"}
        if at >= len(fields):
            return
        arguments = _words(fields[at + 1 :])
        if not runs_text:
            self._visit_file(fields[at].text, arguments, env)
            return
        variables = Variables.from_env(env, arguments[1:], arguments[0] if arguments else "sh")
        start = fields[at].start
        if not source.script and source.items and start >= 0:
            inner = SourceMap((source.items[start],), script=True)
        else:
            inner = SourceMap(title=source.title or "a nested script")
        self._interpret(fields[at].text, variables, inner)

    def _visit_file(self, path: str, arguments: tuple[str, ...], env: Mapping[str, str | None]) -> None:
        raw = None if UNKNOWN in path else self.files(path)
        if raw is None and (known := _known_script(program_name(path), env)):
            raw = known.encode()
        text, problem, hint = "", "", "correct the file"
        if raw is None:
            problem = "was not found, so what it launches is unknown"
            hint = "add the script, or write it into the container's args, or set the variables AUTOCONF_*"
        else:
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                problem = "is not UTF-8 text"
            if "\0" in text or len(text) > MAX_LENGTH:
                problem = f"is not a script, or longer than {MAX_LENGTH:,} characters"
        if problem:
            message = f"the script `{shorten(path)}` {problem}"
            self.diagnostic = Diagnostic(rule="launch.script-file", message=message, hint=hint)
        else:
            source = SourceMap(title=f"the file {shorten(path)}")
            self._interpret(text, Variables.from_env(env, arguments, path), source)

    def _interpret(self, text: str, variables: Variables, source: SourceMap) -> None:
        if text == UNKNOWN:
            return
        self.depth += 1
        if self.depth > _MAX_NESTED_SHELLS:
            raise ShellError(f"shells are nested more than {_MAX_NESTED_SHELLS} deep", 0)
        self.source = source

        def on_command(fields: Sequence[Field], variables: Variables) -> None:
            if program_name(fields[0].text) not in _OTHER_PROGRAMS:
                self.visit(fields, variables.environment(), source)

        interpret(text, variables, on_command, self.written)
        self.depth -= 1

    def syntax_error(self, error: ShellError) -> Diagnostic:
        """Return the syntax error of a script, with the place."""
        span = None
        if self.source.items:
            item = self.source.items[0]
            start, end = item.expanded.source_range(error.at, error.at) or (0, 0)
            span = Span(field=item.field, index=item.index, start=start, end=end)
        where = f" (in {self.source.title})" if self.source.title else ""
        return Diagnostic(
            rule="launch.shell",
            message=f"cannot parse the shell script: {error.message}{where}",
            hint="correct the script; `bash -n` reports the same error",
            span=span,
        )

    def choose(self) -> LaunchLine | Diagnostic:
        """Return the only line. Lines with a launcher win over Python scripts."""
        if self.broken is not None:
            return self.broken
        lines = self.launched or [line for line in self.scripts if _is_training(line)] or self.scripts
        if len(lines) == 1:
            return lines[0]
        if not lines:
            return self.diagnostic or self._no_line()
        first, second = lines[0], lines[1]
        words = second.invocation.fields
        snippets = " and ".join(f"`{line.source.snippet(line.invocation.fields)}`" for line in (first, second))
        return Diagnostic(
            rule="launch.several",
            message=f"{len(lines)} launch lines: {snippets}",
            hint="keep one launch line per container, or exclude the job from sizing",
            span=second.source.span(words[0], words[-1]),
        )

    def _no_line(self) -> Diagnostic:
        programs = [launcher.programs[0] for launcher in LAUNCHERS]
        programs += [
            f"{command.program} {command.verbs.pattern.partition('|')[0]}"
            for framework in self.frameworks
            if not framework.unsupported
            for command in framework.commands[:1]
        ]
        expected = ", ".join(f"`{program}`" for program in programs)
        return Diagnostic(
            rule="launch.none",
            message=f"no launch line found; expected {expected} or a Python script",
            hint="use one of these commands and set the variables AUTOCONF_*, or exclude the job from sizing",
        )


def read_with(written: WrittenFiles, files: FileReader) -> FileReader:
    """Return a reader of the files that a script writes, and else of the repository's."""

    def read(path: str) -> bytes | None:
        return written.read(path) if written.changes(path) else files(path)

    return read


def _lost_flags(fields: Sequence[Field], source: SourceMap) -> Diagnostic:
    return Diagnostic(
        rule="launch.shell",
        message=f"`{source.snippet(fields)}` stands alone, as a command: the line above it does not continue",
        hint="end the line above with a backslash, without a blank or a comment behind it",
        span=source.span(fields[0]),
    )


def _unknown_tasks(fields: Sequence[Field], source: SourceMap) -> Diagnostic:
    return Diagnostic(
        rule="launch.tasks",
        message=f"`{source.snippet(fields)}` is started by srun, in as many processes as its allocation has tasks",
        hint="start the processes by torchrun or accelerate, or exclude the job from sizing",
        span=source.span(fields[0]),
    )


def _words(fields: Sequence[Field]) -> tuple[str, ...]:
    return tuple(UNKNOWN_WORDS if field.may_split else field.text for field in fields)


def _known_script(name: str, env: Mapping[str, str | None]) -> str:
    """Return what a framework's own script of this name starts; empty if it is another script."""
    variable, text = _KNOWN_SCRIPTS.get(name, ("", ""))
    return text if (env.get(variable) or "").endswith(".toml") else ""


def _is_training(line: LaunchLine) -> bool:
    invocation = line.invocation
    if _TRAINING_SCRIPT.fullmatch(invocation.name):
        return True
    return _has_training_flags(invocation.fields[invocation.program + 1 :])


def _has_training_flags(fields: Sequence[Field]) -> bool:
    return any(
        flag_name(field.text.partition("=")[0]) in _TRAINING_FLAGS for field in fields if field.text.startswith("--")
    )


def _unknown_program(fields: Sequence[Field], source: SourceMap) -> Diagnostic:
    return Diagnostic(
        rule="launch.unknown-program",
        message=f"the program that `{source.snippet(fields)}` starts is unknown: {fields[0].reason}",
        hint="write the program out, or give the variable a literal value in the container's env",
        span=source.span(fields[0]),
    )

"""`parse_launch`: what a container's command trains, and everything that keeps this from being known."""

from collections.abc import Mapping, Sequence

from reconciler.core.launch.autoconf import override
from reconciler.core.launch.configuration import add_configuration
from reconciler.core.launch.dialects import Dialect, dialect_of
from reconciler.core.launch.facts import Diagnostic, Fact
from reconciler.core.launch.gathering import Gathering
from reconciler.core.launch.launch import Launch, ParsedLaunch
from reconciler.core.launch.method import read_method
from reconciler.core.launch.options import script_arguments
from reconciler.core.launch.place import shown, without_secrets
from reconciler.core.launch.script import fill_defaults, read_script, spread_batch
from reconciler.core.launch.search import LaunchLine, find_launch_line
from reconciler.core.launch.settings import FileReader, Settings
from reconciler.core.launch.shape import Shape
from reconciler.core.launch.shell.kubernetes import container_env

REQUIRED = ("model", "method", "sequence", "batch")
"""Facts without which nothing can be sized."""

_FLAGS = {
    "model": "`--model_name_or_path`",
    "method": "`--peft_method`",
    "sequence": "`--max_seq_length`",
    "batch": "`--per_device_train_batch_size`",
}
_OVERRIDES = {
    "model": "AUTOCONF_MODEL_NAME",
    "method": "AUTOCONF_METHOD",
    "sequence": "AUTOCONF_TOKENS_PER_SAMPLE",
    "batch": "AUTOCONF_BATCH_SIZE",
}


def parse_launch(
    command: Sequence[str],
    args: Sequence[str],
    env: Mapping[str, str | None],
    files: FileReader,
    *,
    done: bool = False,
) -> ParsedLaunch:
    """Read the one launch line of a container.

    `env` maps the names of the container's variables to their literal values (None: the value comes from a
    reference). `files` gives the bytes of files of the repository that the line names, or None. `done`: the job was
    sized, so its `AUTOCONF_*` tell what was trained then, and the line what is trained now. Never raises; what cannot
    be understood is among the diagnostics, and a job with diagnostics is not to be sized.
    """
    env = container_env(env)
    found = find_launch_line(tuple(command), tuple(args), env, files)
    if isinstance(found, Diagnostic):
        return ParsedLaunch(launch=None, diagnostics=(found,))
    return _Reader(found, env, files, done=done).read(tuple(command), tuple(args))


class _Reader:
    def __init__(self, line: LaunchLine, env: Mapping[str, str | None], files: FileReader, *, done: bool) -> None:
        self.line = line
        self.done = done
        self.container_env = env
        self.files = files
        self.gathering = Gathering()
        invocation = line.invocation
        self.arguments = script_arguments(invocation.fields, invocation.program + 1)
        self.dialect: Dialect = dialect_of(invocation.name, {option.name for option in self.arguments.options})
        if self.dialect.single:
            self.arguments = script_arguments(invocation.fields, invocation.program + 1, single=True)
        self.launcher_settings = Settings(line.place, invocation.arguments.options)
        self.settings = Settings(line.place, self.arguments.options)

    def read(self, command: tuple[str, ...], args: tuple[str, ...]) -> ParsedLaunch:
        line, gathering = self.line, self.gathering
        add_configuration(
            line, self.dialect, self.arguments, self.settings, self.launcher_settings, gathering, self.files
        )
        shape = Shape(line.invocation, self.dialect, self.launcher_settings, self.settings, gathering, self.files)
        shape.read(line.env)
        read_script(self.dialect, self.settings, self.launcher_settings, gathering)
        read_method(line.invocation, self.dialect, self.settings, gathering)
        if self.dialect.family == "litgpt":
            spread_batch(self.settings, gathering, shape.defaults | fill_defaults(self.dialect, gathering))
        defaults = fill_defaults(self.dialect, gathering) | shape.defaults
        if "method" not in gathering.facts.keys() | gathering.unsure.keys() | defaults.keys():
            defaults["method"] = Fact(value="full", snippet="", origin="no adapter is asked for on the line")
        override(self.container_env, gathering, defaults, done=self.done)
        # What is missing may stand in the words that are not known: those are the diagnostic then.
        diagnostics = (*gathering.diagnostics, *(self._loose() or self._missing(defaults)))
        launch = Launch(
            launcher=line.invocation.launcher,
            framework=self.dialect.name,
            program=line.invocation.name,
            facts=gathering.facts,
            defaults=defaults,
            command=command,
            args=args,
            line=line,
            unresolved=tuple(gathering.unsure.values()),
            in_shell=line.place.script,
            not_editable=_stuck(line),
        )
        return ParsedLaunch(launch=launch, diagnostics=tuple(dict.fromkeys(diagnostics)))

    def _missing(self, defaults: Mapping[str, Fact]) -> list[Diagnostic]:
        missing: list[Diagnostic] = []
        gathering = self.gathering
        for name in REQUIRED:
            if name in gathering.facts or name in defaults:
                continue
            if name in gathering.unsure:
                missing.append(gathering.unsure[name])
            elif name == "batch" and "global_batch" in gathering.facts:
                continue
            else:
                missing.append(self._unsaid(name))
        return missing

    def _unsaid(self, name: str) -> Diagnostic:
        names = self.dialect.names.get(name, ())
        flag = f"`{names[0] if '.' in names[0] else '--' + names[0]}`" if names else _FLAGS[name]
        place = self.line.place.span(self.line.invocation.fields[0], self.line.invocation.fields[-1])
        message = f"the launch line of `{shown(self.line.invocation.name)}` does not say the {name}"
        return Diagnostic(
            rule="launch.missing",
            message=message,
            hint=f"give it by {flag}, or by the variable {_OVERRIDES[name]} in the container's env",
            span=place,
        )

    def _loose(self) -> list[Diagnostic]:
        """Words that could be any flags: nothing on the line is certain while they are not known."""
        loose = (*self.line.invocation.arguments.loose, *self.arguments.loose)
        return [
            Diagnostic(
                rule="launch.unknown-words",
                message=f"`{without_secrets(self.line.place.written((field,)))}` may hold any flag: {field.why}",
                hint="give the variable a literal value in the container's env (an empty one if it adds nothing)",
                span=self.line.place.span(field),
            )
            for field in loose
        ]


def _stuck(line: LaunchLine) -> str:
    place, invocation = line.place, line.invocation
    if not place.items:
        return f"the launch line stands in {place.source or 'a script inside a script'}"
    if (
        place.span(invocation.fields[invocation.head]) is None
        or place.span(invocation.fields[invocation.program]) is None
    ):
        return "the words that launch come out of a variable"
    return ""

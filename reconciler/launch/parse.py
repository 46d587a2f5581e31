"""`parse_launch`: the facts of the launch line of a container, or what keeps them from being known."""

from collections.abc import Mapping, Sequence

from reconciler.launch.changes import SettingEdit, apply_edits
from reconciler.launch.container import expand_env, shorten
from reconciler.launch.facts import Diagnostic, Fact
from reconciler.launch.framework import CONFIG_EXTENSIONS, Extraction, Framework, LaunchLine, Overrides
from reconciler.launch.frameworks import FRAMEWORKS, find_framework
from reconciler.launch.launch import Launch, ParsedLaunch, UnreadSetting
from reconciler.launch.launchers import ACCELERATE, read_processes
from reconciler.launch.search import find_launch_line
from reconciler.launch.settings import FileReader, Setting, is_true, setting_from_env
from reconciler.launch.sharding import read_deepspeed_optimizer, read_sharding
from reconciler.launch.shell.expansion import UNKNOWN
from reconciler.launch.training import read_method, read_training

_REQUIRED = {
    "model": ("model", "--model_name_or_path", "AUTOCONF_MODEL_NAME"),
    "method": ("method", "--peft_method", "AUTOCONF_METHOD"),
    "sequence": ("sequence length", "--max_seq_length", "AUTOCONF_TOKENS_PER_SAMPLE"),
    "batch": ("batch size", "--per_device_train_batch_size", "AUTOCONF_BATCH_SIZE"),
}
"""Facts without which nothing can be sized: name in messages, usual flag, variable that overrides it."""

_OTHER_CONFIGURATIONS = (*CONFIG_EXTENSIONS, ".conf", ".cfg", ".ini", ".toml", ".args")
_GPU_VARIABLE = "AUTOCONF_GPU_MODEL"
_METHODS = ("full", "gptq-lora", "int8-lora", "lora", "qlora")


def parse_launch(
    command: Sequence[str],
    args: Sequence[str],
    env: Mapping[str, str | None],
    files: FileReader,
    *,
    sized: bool = False,
    edits: Sequence[SettingEdit] = (),
    frameworks: tuple[Framework, ...] = FRAMEWORKS,
) -> ParsedLaunch:
    """Parse the one launch line of a container.

    `env` maps the names of the container's variables to their literal values; None is a value from a reference.
    `files` reads the files of the repository that the line names. Of a job that is already `sized`, only the GPU is
    taken from `AUTOCONF_*`: the others were written by sizing, and the line may have changed since. `edits` are read as
    if they stood on the line. Never raises; a job with diagnostics must not be sized.
    """
    env = expand_env(env)
    line = find_launch_line(tuple(command), tuple(args), env, files, frameworks)
    if isinstance(line, Diagnostic):
        return ParsedLaunch(launch=None, diagnostics=(line,))
    framework = find_framework(line.invocation, frameworks)
    for variable, newer in framework.newer.items():
        framework = newer if is_true(setting_from_env(line.env, variable)) else framework
    extraction = Extraction(line, framework, line.files)
    apply_edits(edits, extraction.launcher, extraction.script)
    _extract(extraction)
    _override(extraction, {name: env[name] for name in env if name == _GPU_VARIABLE} if sized else env)
    launch = Launch(
        framework=extraction.framework,
        facts=extraction.facts,
        defaults=extraction.defaults,
        command=tuple(command),
        args=tuple(args),
        line=line,
        arguments=extraction.arguments,
        unresolved=tuple(extraction.unresolved.values()),
        unread=_unread(extraction),
        uncertain=tuple(extraction.uncertain),
        length=extraction.length,
        model_config=extraction.model_config,
        not_editable=_not_editable(line),
    )
    # A missing fact may be among the unknown words; then only those are reported.
    diagnostics = (*extraction.diagnostics, *(_unknown_words(extraction) or _missing(extraction)))
    return ParsedLaunch(launch=launch, diagnostics=tuple(dict.fromkeys(diagnostics)))


def _extract(extraction: Extraction) -> None:
    _read_configuration(extraction)
    read_processes(extraction)
    read_sharding(extraction)
    for name in extraction.facts:
        extraction.unresolved.pop(name, None)  # a flag sets what a missing file leaves open
    read_training(extraction)
    read_deepspeed_optimizer(extraction)
    read_method(extraction)
    framework = extraction.framework
    for name, value in framework.defaults.items():
        extraction.set_framework_default(name, value)
    if framework.complete is not None:
        framework.complete(extraction)
    extraction.set_default("method", "full", "no adapter on the line")
    _read_base(extraction)


def _read_base(extraction: Extraction) -> None:
    """Read whether the frozen base of adapters is in fp32. DeepSpeed casts the whole model."""
    found = {**extraction.defaults, **extraction.facts}
    words = {name: found[name].value for name in ("method", "precision", "strategy") if name in found}
    is_wide = words.get("precision", "").endswith("-mixed") and not words.get("strategy", "").startswith("zero")
    dtype = extraction.script.text("torch_dtype", "dtype")
    if extraction.framework.loads_fp32 and words.get("method") == "lora" and is_wide and dtype in {"", "float32"}:
        extraction.set_framework_default("wide_base", "true")


def _unread(extraction: Extraction) -> tuple[UnreadSetting, ...]:
    framework = extraction.framework
    owners = [(framework.name if framework.is_known else "", extraction.script)]
    if not extraction.invocation.launcher.starts_only:
        owners.append((ACCELERATE.name, extraction.launcher))  # its flags, or a file of it
    return tuple(UnreadSetting(owner, *setting) for owner, table in owners for setting in table.unread())


# Configuration files and `name=value` words


def _read_configuration(extraction: Extraction) -> None:
    framework, script = extraction.framework, extraction.script
    if framework.overrides is not Overrides.NEVER:
        for field in extraction.arguments.words:
            name, separator, text = field.text.partition("=")
            if separator and UNKNOWN not in name:
                script.add_word(name, text, field)
    if framework.read_words is not None:
        framework.read_words(extraction)
    config = script.find(framework.config_flags) or _positional_configuration(extraction)
    if config is not None and framework.named_recipes is not None and _is_name(config.text):
        values = dict(framework.named_recipes(extraction, config.text))
        script.add_file(values, f"configuration {config.text} of {framework.source}")
    elif config is not None:
        extraction.load(script, config, f"{framework.name or 'training'} configuration")
    if framework.read_environment is not None:
        framework.read_environment(extraction)
    _read_model_arguments(extraction)
    _reject_unread_files(extraction, config)


def _read_model_arguments(extraction: Extraction) -> None:
    """Read `--model_init_kwargs`, which sets the type, the quantization and the attention of the model."""
    script = extraction.script
    setting = extraction.resolve("precision", script.find(("model_init_kwargs",)))
    if setting is not None and setting.text and not script.add_json(setting):
        message = f"`{setting.fact.snippet}` is not a JSON object, so it may set anything"
        extraction.reject("precision", message, setting.fact.span, "write the arguments as JSON")
    prefix = "model_init_kwargs."
    script.add_file({name.removeprefix(prefix): text for name, text in script.under(prefix)}, "model_init_kwargs")


def _reject_unread_files(extraction: Extraction, config: Setting | None) -> None:
    """Reject a configuration file that the framework reads and we do not: it may set anything."""
    words = extraction.arguments.words if extraction.framework.overrides is Overrides.NEVER else ()
    for field in words:
        if field.text.endswith(_OTHER_CONFIGURATIONS) and (config is None or field.text != config.text):
            snippet, span = extraction.line.source.locate((field,))
            message = f"the file `{snippet}` is not read, and it may set any flag"
            hint = "set the values by flags, or exclude the job from sizing"
            extraction.diagnostics.append(Diagnostic(rule="launch.file", message=message, hint=hint, span=span))


def _positional_configuration(extraction: Extraction) -> Setting | None:
    """Return the first word where it is a configuration file (transformers accepts one if it is alone)."""
    source = extraction.line.source
    words = extraction.arguments.words
    commands = extraction.framework.commands if extraction.invocation.command is None else ()
    if words and any(command.verbs.fullmatch(words[0].text) for command in commands):
        words = words[1:]  # `python -m llamafactory.cli train FILE`
    for field in words[:1]:
        unknown = UNKNOWN in field.text and extraction.framework.config_may_be_unknown
        if unknown or field.text.endswith(CONFIG_EXTENSIONS):
            snippet, span = source.locate((field,))
            return Setting(field.text, Fact(value=field.text, snippet=snippet, span=span), field.reason)
    return None


def _is_name(path: str) -> bool:
    return not path.endswith(CONFIG_EXTENSIONS) and UNKNOWN not in path


# The variables `AUTOCONF_*`


def _override(extraction: Extraction, env: Mapping[str, str | None]) -> None:
    """Replace facts by the variables `AUTOCONF_*` of the container. Their batch is that of all processes."""
    for name, variable, add in (
        ("sequence", "AUTOCONF_TOKENS_PER_SAMPLE", extraction.add_number),
        ("global_batch", "AUTOCONF_BATCH_SIZE", extraction.add_number),
        ("model", "AUTOCONF_MODEL_NAME", extraction.add_text),
        ("gpu_model", _GPU_VARIABLE, extraction.add_text),
    ):
        if (setting := setting_from_env(env, variable)) is not None:
            extraction.discard(name)
            add(name, setting)
    if (setting := setting_from_env(env, "AUTOCONF_METHOD")) is not None:
        extraction.discard("method")
        extraction.diagnostics = [one for one in extraction.diagnostics if one.missing != "method"]
        if setting.text in _METHODS:
            extraction.add_text("method", setting)
        elif extraction.resolve("method", setting) is not None:
            message = f"AUTOCONF_METHOD={setting.text}: allowed values: {', '.join(_METHODS)}"
            extraction.reject("method", message, None)
    if "AUTOCONF_BATCH_SIZE" in env:
        _divide_global_batch(extraction)


def _divide_global_batch(extraction: Extraction) -> None:
    """Set the batch per process, if the number of processes is known and divides the global batch."""
    extraction.discard("batch")
    batch, processes = extraction.number("global_batch"), extraction.number("processes")
    if batch is None:
        extraction.unresolved["batch"] = extraction.unresolved["global_batch"]
    elif processes is not None and batch % processes == 0:
        extraction.facts["batch"] = Fact(
            value=str(batch // processes),
            snippet=extraction.facts["global_batch"].snippet,
            origin=f"env AUTOCONF_BATCH_SIZE over {processes} {'process' if processes == 1 else 'processes'}",
        )


# What is missing


def _missing(extraction: Extraction) -> list[Diagnostic]:
    missing: list[Diagnostic] = []
    for name in _REQUIRED:
        if name in extraction.facts or name in extraction.defaults:
            continue
        if name in extraction.unresolved:
            missing.append(extraction.unresolved[name])
        elif name != "batch" or "global_batch" not in extraction.facts:
            missing.append(_missing_fact(extraction, name))
    return missing


def _missing_fact(extraction: Extraction, name: str) -> Diagnostic:
    invocation = extraction.invocation
    label, flag, variable = _REQUIRED[name]
    if names := extraction.framework.settings.get(name):
        flag = names[0] if "." in names[0] else f"--{names[0]}"
    return Diagnostic(
        rule="launch.missing",
        message=f"the launch line of `{shorten(invocation.name)}` does not set the {label}",
        hint=f"set it with `{flag}`, or with the variable {variable} in the container's env",
        span=extraction.line.source.span(invocation.fields[0], invocation.fields[-1]),
        missing=name,
    )


def _unknown_words(extraction: Extraction) -> list[Diagnostic]:
    """Return a diagnostic for each word that may be any flag: nothing on the line is certain then."""
    source = extraction.line.source
    return [
        Diagnostic(
            rule="launch.unknown-words",
            message=f"`{source.snippet((field,))}` may add any flags: {field.reason}",
            hint="give the variable a literal value in the container's env (an empty one if it adds nothing)",
            span=source.span(field),
        )
        for field in (*extraction.invocation.arguments.unknown, *extraction.arguments.unknown)
    ]


def _not_editable(line: LaunchLine) -> str:
    source, invocation = line.source, line.invocation
    if not source.items:
        return f"the launch line is in {source.title or 'a nested script'}"
    words = (invocation.fields[invocation.head], invocation.fields[invocation.program])
    return "" if all(source.span(word) is not None for word in words) else "a variable holds the launcher or the script"

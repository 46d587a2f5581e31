"""Programs that start the processes of a training, and how each one counts them."""

import re
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from reconciler.launch.framework import Command, Extraction, Framework, Invocation, Launcher, Names, ProcessFlags, Read
from reconciler.launch.settings import Arguments, Setting, is_flag, launcher_arguments, setting_from_env
from reconciler.launch.shell.expansion import UNKNOWN, Field


def read_processes(extraction: Extraction) -> None:
    """Read `processes` and `machines` with the launcher's reader, or the one of the framework's own command."""
    invocation = extraction.invocation
    launcher, command = invocation.launcher, invocation.command
    if extraction.launcher.has("num_processes"):  # accelerate's, or the framework's own file speaks for accelerate
        launcher = ACCELERATE
    if launcher is CLI and command is not None:
        command.read_processes(extraction)
    else:
        launcher.read_processes(extraction)


def _accelerate(extraction: Extraction) -> None:
    settings = extraction.launcher
    if (config := settings.find(("config_file",))) is not None:
        diagnostic = extraction.load(settings, config, "accelerate configuration")
        if diagnostic is not None:
            names = ("strategy", "offload", "processes", "machines")
            extraction.unresolved |= dict.fromkeys(names, diagnostic)
    extraction.add_number("processes", settings.find(("num_processes",)))
    extraction.add_number("machines", settings.find(("num_machines",)))
    extraction.set_default("machines", "1", "default of accelerate launch")


def count_per_node(per_node: Names, nodes: Names, variables: Names = ()) -> Read:
    """Return a reader of the launcher's flags, or of the variables, that count processes per node and nodes."""

    def read(extraction: Extraction) -> None:
        counts = [extraction.launcher.find(names) for names in (per_node, nodes)]
        for index, variable in enumerate(variables):
            counts[index] = counts[index] or setting_from_env(extraction.line.env, variable)
        _read_counts(extraction, *counts)

    return read


read_variables = count_per_node((), (), ("NPROC_PER_NODE", "NNODES"))
"""Reads the variables of commands that start torchrun themselves."""


def read_script_processes(extraction: Extraction) -> None:
    """Read the count among the script's own flags, of a command that passes it to accelerate or torchrun."""
    extraction.add_number("processes", extraction.script.find(("num_processes", "nproc_per_node")))
    extraction.set_default("machines", "1", f"default of {_starter(extraction)}")


def _starter(extraction: Extraction) -> str:
    invocation = extraction.invocation
    return invocation.launcher.name if invocation.command is None else invocation.command.program


def _read_counts(extraction: Extraction, per_node: Setting | None, nodes: Setting | None) -> None:
    if nodes is not None and ":" in nodes.text:
        message = f"`{nodes.fact.snippet}` is a range: the number of nodes may change while the job runs"
        extraction.reject("machines", message, nodes.fact.span, "set one number to have the job sized")
    else:
        extraction.add_number("machines", nodes)
    extraction.set_default("machines", "1", f"default of {_starter(extraction)}")
    count, machines = extraction.add_number("processes", per_node), extraction.number("machines")
    if count is not None and machines is None:
        extraction.facts.pop("processes")
        extraction.unresolved["processes"] = extraction.unresolved["machines"]
    elif count is not None and machines is not None and per_node is not None:
        extraction.add("processes", per_node, str(count * machines))


def _deepspeed(extraction: Extraction) -> None:
    include = extraction.launcher.find(DEEPSPEED.device_flags)
    if include is not None and UNKNOWN not in include.text and include.text:
        hosts = include.text.split("@")
        if all(":" in host for host in hosts):
            extraction.add("processes", include, str(sum(len(host.split(":")[1].split(",")) for host in hosts)))
            extraction.add("machines", include, str(len(hosts)))
            return
    count_per_node(("num_gpus",), ("num_nodes",))(extraction)


def _one_process(extraction: Extraction) -> None:
    for name in ("processes", "machines"):
        extraction.set_default(name, "1", "one process: no launcher on the line")


_ACCELERATE_FSDP = {
    "use_fsdp": "",
    "fsdp_sharding_strategy": "FULL_SHARD",
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
}
ACCELERATE = Launcher(
    name="accelerate",
    programs=("accelerate launch", "accelerate-launch"),
    modules=("accelerate.commands.launch",),
    # accelerate.commands.launch.launch_command_parser
    switches=frozenset(
        (
            *("m", "module", "no_python", "multi_gpu", "cpu", "tpu", "tpu_use_cluster", "tpu_use_sudo", "use_xpu"),
            *("ipex", "use_deepspeed", "use_fsdp", "use_megatron_lm", "use_parallelism_config", "use_mps_device"),
            *("quiet", "q", "debug", "downcast_bf16", "enable_cpu_affinity", "tpu_cluster", "no_tpu_cluster"),
        )
    ),
    process_flags=ProcessFlags(processes="--num_processes", machines="--num_machines", counts_all=True),
    rank_flags=("--machine_rank", "--rdzv_backend", "--config_file"),
    explicit=True,
    changes={
        "fsdp-full": _ACCELERATE_FSDP,
        "fsdp-full all": _ACCELERATE_FSDP | {"fsdp_offload_params": "true"},
        "zero-2": {"use_deepspeed": "", "zero_stage": "2"},
        "zero-3": {"use_deepspeed": "", "zero_stage": "3"},
        "zero-2 optimizer": {"use_deepspeed": "", "zero_stage": "2", "offload_optimizer_device": "cpu"},
        "zero-3 all": {
            "use_deepspeed": "",
            "zero_stage": "3",
            "offload_optimizer_device": "cpu",
            "offload_param_device": "cpu",
        },
    },
    read_processes=_accelerate,
)
TORCHRUN = Launcher(
    name="torchrun",
    programs=("torchrun",),
    modules=("torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.launch"),
    # torch.distributed.run.get_args_parser
    switches=frozenset({"standalone", "m", "module", "no_python", "run_path", "use_env"}),
    process_flags=ProcessFlags(processes="--nproc_per_node", machines="--nnodes"),
    reads_pet=True,
    starts_only=True,
    read_processes=count_per_node(("nproc_per_node",), ("nnodes",), ("PET_NPROC_PER_NODE", "PET_NNODES")),
)
DEEPSPEED = Launcher(
    name="deepspeed",
    programs=("deepspeed",),
    modules=("deepspeed", "deepspeed.launcher.runner"),
    # deepspeed.launcher.runner.parse_args
    switches=frozenset(
        (
            *("module", "no_python", "no_local_rank", "no_ssh", "no_ssh_check", "save_pid", "force_multi"),
            *("elastic_training", "bind_cores_to_rank"),
        )
    ),
    process_flags=ProcessFlags(processes="--num_gpus", machines="--num_nodes"),
    device_flags=("include", "i"),
    starts_only=True,
    read_processes=_deepspeed,
)
PYTHON = Launcher(name="python", starts_one_process=True, read_processes=_one_process)
"""One process."""
CLI = Launcher(name="cli", read_processes=_one_process)
"""A framework's own command, such as `axolotl train`."""

LAUNCHERS = (ACCELERATE, TORCHRUN, DEEPSPEED)
"""Launchers with a program of their own."""

_PROGRAMS = {
    program.partition(" ")[0]: (launcher, program.partition(" ")[2])
    for launcher in LAUNCHERS
    for program in launcher.programs
}
_MODULES = {module: launcher for launcher in LAUNCHERS for module in launcher.modules}
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_PYTHON_FLAGS_WITH_VALUE = frozenset({"-W", "-X", "-Q", "--check-hash-based-pycs"})  # the next word is no script
_OTHER_MODULES = frozenset(
    (
        *("pip", "venv", "ensurepip", "http", "json", "zipfile", "site", "timeit", "pdb", "unittest", "pytest"),
        *("compileall", "nltk", "spacy", "huggingface_hub", "debugpy", "vllm", "ray", "wandb", "tensorboard"),
    )
)
"""Python modules that run before and after a training."""


def parse_invocation(fields: Sequence[Field], frameworks: tuple[Framework, ...]) -> Invocation | None:
    """Parse the words of a program that may start a training; None for every other program."""
    name = program_name(fields[0].text)
    if (match := _PROGRAMS.get(name)) is not None:
        launcher, verb = match
        if verb and (len(fields) == 1 or fields[1].text != verb):
            return None
        return _launcher_invocation(launcher, fields, 2 if verb else 1, frameworks)
    if (own := _commands(frameworks).get(name)) is not None:
        return _command_invocation(*own, fields)
    return _python_invocation(fields, frameworks) if _PYTHON.fullmatch(name) else None


@cache
def _commands(frameworks: tuple[Framework, ...]) -> dict[str, tuple[Framework, Command]]:
    return {command.program: (framework, command) for framework in frameworks for command in framework.commands}


def _launcher_invocation(
    launcher: Launcher, fields: Sequence[Field], start: int, frameworks: tuple[Framework, ...]
) -> Invocation | None:
    arguments = launcher_arguments(fields, start, launcher.switches)
    program = arguments.stop
    if program >= len(fields):
        return None
    names = {option.name for option in arguments.options}
    own = _commands(frameworks).get(program_name(fields[program].text))
    calls = own is not None and program + 1 < len(fields) and own[1].verbs.fullmatch(fields[program + 1].text)
    if own is None or not calls:
        is_script = own is None or "no_python" not in names
        is_module = bool(names & {"m", "module"})
        return Invocation(launcher, fields, start - 1, program, arguments, is_module) if is_script else None
    framework, command = own  # `torchrun --no-python llamafactory-cli train …`, `torchrun /venv/bin/swift sft …`
    return Invocation(launcher, fields, start - 1, program + 1, arguments, command=command, framework=framework)


def _command_invocation(framework: Framework, command: Command, fields: Sequence[Field]) -> Invocation | None:
    if len(fields) == 1 or not command.verbs.fullmatch(fields[1].text):
        return None
    if command.switches is None:
        return Invocation(CLI, fields, 1, 1, Arguments(stop=1), command=command, framework=framework)
    arguments = launcher_arguments(fields, 2, command.switches)
    if arguments.stop >= len(fields):
        return None
    return Invocation(CLI, fields, 1, arguments.stop, arguments, command=command, framework=framework)


def _python_invocation(fields: Sequence[Field], frameworks: tuple[Framework, ...]) -> Invocation | None:
    at = 1
    while at < len(fields) and is_flag(text := fields[at].text):
        if text == "-m" and at + 1 < len(fields):
            return _module_invocation(fields, at + 1, frameworks)
        if text in {"-c", "-V", "--version", "-h", "--help"} or text.startswith("-c"):
            return None
        at += 2 if text in _PYTHON_FLAGS_WITH_VALUE else 1
    if at >= len(fields) or fields[at].text == "-":
        return None
    if fields[at].may_split and fields[at].text == UNKNOWN:
        return None
    return Invocation(PYTHON, fields, at - 1, at, Arguments(stop=at))


def _module_invocation(fields: Sequence[Field], at: int, frameworks: tuple[Framework, ...]) -> Invocation | None:
    module = fields[at].text
    if (launcher := _MODULES.get(module)) is not None:
        return _launcher_invocation(launcher, fields, at + 1, frameworks)
    is_named = any(row.programs is not None and row.programs.fullmatch(module) for row in frameworks)
    if not is_named and module.partition(".")[0] in _OTHER_MODULES:
        return None
    return Invocation(PYTHON, fields, at - 1, at, Arguments(stop=at), is_module=True)


# Programs that start another program: `env`, `sudo`, `nohup`, `tini --`, `uv run` and similar ones

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class _WrapperProgram(Struct, frozen=True):
    """The words between a wrapper's name and the program: a verb, flags (`valued`: those with a value), others.

    `assigns`: `NAME=value` words set variables for the program. `starts_tasks`: it may start the program several times.
    """

    verb: str = ""
    valued: str = ""
    words: int = 0
    assigns: bool = False
    starts_tasks: bool = False


_WRAPPERS = {
    "env": _WrapperProgram(valued="-u --unset -C --chdir", assigns=True),
    "sudo": _WrapperProgram(valued="-u -g -h -p -C -D -R -T", assigns=True),
    "nohup": _WrapperProgram(),
    "time": _WrapperProgram(valued="-f -o --format --output"),
    "exec": _WrapperProgram(valued="-a"),
    "command": _WrapperProgram(),
    "builtin": _WrapperProgram(),
    "setsid": _WrapperProgram(),
    "stdbuf": _WrapperProgram(valued="-i -o -e"),
    "nice": _WrapperProgram(valued="-n --adjustment"),
    "ionice": _WrapperProgram(valued="-c -n -p"),
    "timeout": _WrapperProgram(valued="-k -s --kill-after --signal", words=1),
    "numactl": _WrapperProgram(valued="-N -m -i -C -p --cpunodebind --membind --physcpubind"),
    "taskset": _WrapperProgram(words=1),
    "tini": _WrapperProgram(valued="-p -e"),
    "dumb-init": _WrapperProgram(valued="-r --rewrite"),
    "catchsegv": _WrapperProgram(),
    "unbuffer": _WrapperProgram(),
    "xvfb-run": _WrapperProgram(valued="-n -s --server-args --server-num"),
    "uv": _WrapperProgram(verb="run", valued="--with --extra --python -p --project --env-file --group"),
    "poetry": _WrapperProgram(verb="run"),
    "pipenv": _WrapperProgram(verb="run"),
    "pixi": _WrapperProgram(verb="run", valued="-e --environment --manifest-path"),
    "conda": _WrapperProgram(verb="run", valued="-n --name -p --prefix --cwd"),
    "mamba": _WrapperProgram(verb="run", valued="-n --name -p --prefix --cwd"),
    "micromamba": _WrapperProgram(verb="run", valued="-n --name -p --prefix --cwd"),
    "ray": _WrapperProgram(  # `ray job submit`
        verb="job",
        words=1,
        valued="--address --runtime-env --runtime-env-json --working-dir --submission-id --entrypoint-num-cpus"
        " --entrypoint-num-gpus --entrypoint-memory --entrypoint-resources --metadata-json --headers --verify"
        " --log-style --log-color",
    ),
    "srun": _WrapperProgram(
        valued="-A -c -C -D -e -G -i -J -m -n -N -o -p -q -t -w -x --account --chdir --constraint --container-image"
        " --container-mounts --container-name --container-workdir --cpu-bind --cpus-per-task --error --exclude --export"
        " --gpu-bind --gpus --gpus-per-node --gpus-per-task --gres --jobid --job-name --mem --mem-bind --mpi --nodelist"
        " --nodes --ntasks --ntasks-per-node --output --partition --qos --time",
        starts_tasks=True,
    ),
    "apptainer": _WrapperProgram(verb="exec", words=1, valued="-B --bind -H --home --env --pwd --overlay"),
    "singularity": _WrapperProgram(verb="exec", words=1, valued="-B --bind -H --home --env --pwd --overlay"),
    "nsys": _WrapperProgram(verb="profile", valued="-o -t -w -f -s -c -x"),
    "ncu": _WrapperProgram(valued="-o -k -c -s"),
    "compute-sanitizer": _WrapperProgram(valued="--tool"),
    "opentelemetry-instrument": _WrapperProgram(valued="--service_name --traces_exporter"),
}


def program_name(text: str) -> str:
    """Return the last part of a program's path."""
    return text.rpartition("/")[2]


def unwrap(fields: Sequence[Field]) -> tuple[Sequence[Field], dict[str, str | None], bool]:
    """Return the words from the wrapped program on, its own variables (None: unknown), and if it starts tasks."""
    assignments: dict[str, str | None] = {}
    tasks = False
    while fields and (wrapper := _WRAPPERS.get(program_name(fields[0].text))) is not None:
        at = _skip(fields, wrapper, assignments)
        if at is None:
            break
        tasks |= wrapper.starts_tasks
        fields = fields[at:]
    return fields, assignments, tasks


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
            at += 2 if text in wrapper.valued.split() else 1
        elif wrapper.assigns and (match := _ASSIGNMENT.fullmatch(text)):
            assignments[match[1]] = None if UNKNOWN in match[2] else match[2]
            at += 1
        elif words:
            words -= 1
            at += 1
        else:
            break
    return at

"""`k8s-gpu-scheduler`: the command line of AgentaFlow's scheduler, as the commands that do the same here.

Each line becomes one of `reconciler`, which is printed first. Without access to a cluster, what is recorded is shown.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import click

from reconciler.cli.failures import report_failure
from reconciler.cli.main import run as run_reconciler
from reconciler.console.printing import emit
from reconciler.errors import ConfigError
from reconciler.kinds.agentaflow.wishes import strategy_problem
from reconciler.kinds.preemption import seconds_of
from reconciler.kube.client.access import HOST_VARIABLE, has_kubeconfig
from reconciler.kube.patterns import later
from reconciler.kube.values import metadata_text
from reconciler.kube.yaml import read

ENVIRONMENT = {
    "KUBERNETES_NAMESPACE": "agentaflow",
    "SCHEDULING_STRATEGY": "least_utilized",
    "GPU_UTILIZATION_GOAL": "80",
    "MONITOR_INTERVAL": "15s",
    "SCHEDULING_INTERVAL": "5s",
}
"""The variables of AgentaFlow's scheduler, with their defaults."""

_MODES = ("cli", "scheduler", "monitor")
_VERBS = {
    "status": "the sums of all clusters",
    "nodes": "nodes with GPUs",
    "workloads": "jobs, and why they wait",
    "submit": "FILE: propose the workloads of a file",
    "complete": "NAME: propose the end of a job",
    "metrics": "the sums as JSON",
    "strategy": "[NAME]: show or set the placement strategy",
    "watch": "jobs and nodes, whenever they change",
    "health": "the health of nodes",
    "generate-template": "[FILE]: write a GPUWorkload to start from",
    "help": "this list",
}
_TEMPLATE = "gpu-workload.yaml"
_NAMESPACE = later(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MAX_GOAL = 100


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a line of AgentaFlow, print any error, and return an exit code of `reconciler`."""
    try:
        result = _command.main(args=list(arguments), prog_name="k8s-gpu-scheduler", standalone_mode=False, obj=environ)
    except BaseException as error:  # noqa: BLE001 - as in `reconciler`
        return report_failure(error, arguments)
    return result if isinstance(result, int) else 0


@click.command("k8s-gpu-scheduler", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--mode", type=click.Choice(_MODES), default="cli", show_default=True, help="What to run.")
@click.option("--namespace", metavar="NAME", default="", help="Namespace of workloads. [default: KUBERNETES_NAMESPACE]")
@click.option("--strategy", metavar="NAME", default="", help="Strategy of a template. [default: SCHEDULING_STRATEGY]")
@click.option("--node", metavar="NAME", default="", help="No effect: the agent knows its node.")
@click.option(
    "--log-level", type=click.Choice(("debug", "info", "warning", "error")), default="info", help="Log level."
)
@click.argument("words", nargs=-1, metavar="[VERB] [ARGUMENT]")
@click.pass_obj
def _command(environ: Mapping[str, str], /, **flags: str) -> int:
    """Run a line of AgentaFlow's scheduler as the command of `reconciler` that does the same.

    VERB is one of status, nodes, workloads, submit, complete, metrics, strategy, watch, health, generate-template and
    help. Variables: KUBERNETES_NAMESPACE, SCHEDULING_STRATEGY, GPU_UTILIZATION_GOAL, MONITOR_INTERVAL and
    SCHEDULING_INTERVAL.
    """
    values = read_environment(environ, namespace=flags["namespace"], strategy=flags["strategy"])
    words = list(flags["words"]) or ["help"]
    if flags["mode"] != "cli":
        return _execute(_program(flags, values))
    if words[0] == "help":
        for verb, summary in _VERBS.items():
            emit(f"{verb:18} {summary}")
        return 0
    if words[0] == "generate-template":
        return _generate(_argument(words, default=_TEMPLATE), values)
    return _execute(native(words, values, is_live=has_kubeconfig(environ) or HOST_VARIABLE in environ))


def read_environment(environ: Mapping[str, str], *, namespace: str = "", strategy: str = "") -> dict[str, str]:
    """Return the variables, by default those of AgentaFlow; flags win. Raises `ConfigError` for a wrong value."""
    found = {name: environ.get(name) or default for name, default in ENVIRONMENT.items()}
    found |= {"KUBERNETES_NAMESPACE": namespace} if namespace else {}
    found |= {"SCHEDULING_STRATEGY": strategy} if strategy else {}
    checks: dict[str, Callable[[str], tuple[str, str] | None]] = {
        "KUBERNETES_NAMESPACE": _namespace_problem,
        "SCHEDULING_STRATEGY": strategy_problem,
        "GPU_UTILIZATION_GOAL": _goal_problem,
        "MONITOR_INTERVAL": _interval_problem,
        "SCHEDULING_INTERVAL": _interval_problem,
    }
    for name, check in checks.items():
        wrong = check(found[name])
        if wrong is not None:
            raise ConfigError(f"{name}: {wrong[0]}", hint=wrong[1])
    return found


def _namespace_problem(value: str) -> tuple[str, str] | None:
    return None if _NAMESPACE.fullmatch(value) else (f"{value!r} is not the name of a namespace", "")


def _goal_problem(value: str) -> tuple[str, str] | None:
    is_percent = value.isascii() and value.isdecimal() and 0 < int(value[:4]) <= _MAX_GOAL
    return None if is_percent else (f"{value!r} is not a percentage", f"write a number from 1 to {_MAX_GOAL}")


def _interval_problem(value: str) -> tuple[str, str] | None:
    hint = "write a duration of a second or more, such as 15s"
    try:
        return None if seconds_of(value) else (f"{value!r} is too short", hint)
    except ValueError:
        return f"{value!r} is not a duration", hint


def native(words: Sequence[str], values: Mapping[str, str], *, is_live: bool) -> list[str]:
    """Return the words of `reconciler` for those of AgentaFlow. is_live: a cluster can be asked.

    Raises `ConfigError` for a verb that is none, or without its argument.
    """
    verb, recorded = words[0], [] if is_live else ["--evidence"]
    watch = ["status", "--watch", "--nodes", "--interval", str(seconds_of(values["SCHEDULING_INTERVAL"]))]
    plain = {
        "status": ["status", "--summary", *recorded],
        "nodes": ["status", "nodes", *recorded],
        "workloads": ["status", *recorded],
        "metrics": ["status", "--summary", "--output", "json", *recorded],
        "watch": watch if is_live else ["status", *recorded],
        "health": ["health"] if is_live else ["health", "--offline"],
    }
    if verb in plain:
        _argument(words, most=0)
        return plain[verb]
    namespace = ["--namespace", values["KUBERNETES_NAMESPACE"]]
    if verb == "submit":
        file = _argument(words)
        return ["submit", "--file", file, *([] if _names_namespace(Path(file)) else namespace)]
    if verb == "complete":
        return ["complete", _argument(words), *namespace]
    if verb == "strategy":
        return ["placement", "strategy", *filter(None, [_argument(words, default="")])]
    raise ConfigError(f"{verb!r} is not a verb", hint=f"verbs: {', '.join(_VERBS)}")


def _names_namespace(path: Path) -> bool:
    """Return whether the documents of a file say where they belong; a file that cannot be read is for `submit`."""
    documents = read(str(path), path.read_bytes()).documents if path.is_file() else ()
    return any(metadata_text(one.data, "namespace") for one in documents)


def _argument(words: Sequence[str], *, default: str | None = None, most: int = 1) -> str:
    if len(words) > most + 1:
        raise ConfigError(f"{words[0]}: {words[most + 1]!r} is too much")
    if len(words) > 1:
        return words[1]
    if default is None and most:
        raise ConfigError(f"{words[0]}: its argument is missing", hint=_VERBS.get(words[0], ""))
    return default or ""


def _program(flags: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
    """Return the words of the programs that run for long: the controller, and the agent of a node."""
    level = ["--log-level", flags["log_level"]]
    if flags["mode"] == "scheduler":
        return ["controller", *level]
    return ["agent", "--interval", str(seconds_of(values["MONITOR_INTERVAL"])), *level]


def _generate(path: str, values: Mapping[str, str]) -> int:
    """Write a template where the line says, which is perhaps not where sources are."""
    target = Path(path)
    words = ["new", "gpu-workload", target.stem, "--namespace", values["KUBERNETES_NAMESPACE"]]
    words += ["--strategy", values["SCHEDULING_STRATEGY"], "--output"]
    if target.exists():
        raise ConfigError(f"{path} exists already", hint="name another file")
    _say([*words, "-", ">", path])
    made = StringIO()
    with redirect_stdout(made):
        code = run_reconciler([*words, "-"])
    if code == 0:
        target.write_text(made.getvalue(), "utf-8")
        emit(f"wrote {path}")
    return code


def _execute(words: list[str]) -> int:
    _say(words)
    return run_reconciler(words)


def _say(words: Sequence[str]) -> None:
    emit(f"reconciler {' '.join(words)}", err=True)

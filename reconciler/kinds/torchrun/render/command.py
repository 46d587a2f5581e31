"""The command of the trainer: how its processes find each other, and the script that starts them."""

import shlex

from msgspec import Struct

from reconciler.kinds.rendered import problem_at
from reconciler.kinds.torchrun.intent.job import TorchrunJob
from reconciler.kinds.torchrun.intent.sections import Distributed
from reconciler.kinds.torchrun.networks import Network
from reconciler.kinds.torchrun.render.shape import JobShape, WorkloadKind
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin, Reason, Traced
from reconciler.kube.values import plural

DEFAULT_BACKEND = Traced("c10d", Reason(rule="torchrun.default", text="rdzvBackend defaults to c10d"))
DEFAULT_PORT = Traced(29500, Reason(rule="torchrun.default", text="port defaults to 29500"))
_MAX_RESTARTS = Traced(3, Reason(rule="torchrun.default", text="maxRestarts defaults to 3"))
JOIN_SECONDS = 900
"""Seconds that pods wait for each other: a first pod may still pull its image, which torchrun allows 60 s for."""

ETCD_ENDPOINT = "etcd.etcd-system.svc.cluster.local:2379"
"""Address of etcd in torchrun-controller."""
_ETCD = ("etcd", "etcd-v2")


class Rendezvous(Struct, frozen=True, kw_only=True):
    """`hosted`: the first pod itself serves the rendezvous, on `port`."""

    backend: str
    endpoint: str
    port: Traced
    hosted: bool
    origins: tuple[Origin, ...] = ()


def find_rendezvous(
    job: TorchrunJob, distributed: Distributed, shape: JobShape, workload: WorkloadKind, problems: list[Problem]
) -> Rendezvous:
    """Resolve the rendezvous of the nodes."""
    backend = distributed.rdzv_backend or DEFAULT_BACKEND
    port, endpoint = distributed.port or DEFAULT_PORT, distributed.rdzv_endpoint
    if backend.value == "static" and shape.min_nodes:
        message = "static rendezvous requires a fixed number of nodes, but minNodes makes the job elastic"
        problems.append(problem_at(shape.min_nodes, "torchrun.elastic", message, "use c10d, or remove minNodes"))
    if shape.min_nodes and backend.value == "c10d" and endpoint is None:
        message = "the first pod serves the rendezvous: without its node, the job waits until that pod has another one"
        hint = "use rdzvBackend etcd-v2 with a server of your own, so that the job continues when it loses a node"
        problems.append(problem_at(shape.min_nodes, "torchrun.elastic-host", message, hint, severity=Severity.WARNING))
    if backend.value in _ETCD and endpoint is None:
        message = f"rdzvEndpoint is not set, so {ETCD_ENDPOINT} is used"
        hint = "set distributed.rdzvEndpoint to the etcd server, or use c10d, which needs none"
        problems.append(problem_at(backend, "torchrun.etcd-endpoint", message, hint, severity=Severity.WARNING))
    hosted = backend.value not in _ETCD and endpoint is None
    default = f"{workload.host(job.workload_name)}:{port.value}" if hosted else ETCD_ENDPOINT
    given = (backend, port, *([endpoint] if endpoint else []))
    return Rendezvous(
        backend=backend.value,
        endpoint=endpoint.value if endpoint else default,
        port=port,
        hosted=hosted,
        origins=tuple(origin for value in given for origin in value.reason.origins),
    )


_PLAIN_WORDS = later(r"([A-Za-z0-9_/.][A-Za-z0-9_@%+:,./-]*)(?: +[A-Za-z0-9_@%+=:,./-]+)*")
"""Words that mean the same with and without a shell; the first has no `=`, which would be an assignment."""

_SHELL_WORDS = frozenset(
    (
        *(".", "alias", "bg", "bind", "break", "builtin", "case", "cd", "command", "compgen", "continue", "declare"),
        *("dirs", "eval", "exec", "exit", "export", "false", "fc", "fg", "for", "function", "getopts", "hash", "if"),
        *("jobs", "let", "local", "mapfile", "popd", "pushd", "read", "readonly", "return", "select", "set", "shift"),
        *("shopt", "source", "suspend", "time", "times", "trap", "true", "type", "typeset", "ulimit", "umask"),
        *("unalias", "unset", "until", "wait", "while"),
    )
)
"""First words that are not programs: bash's own commands and keywords."""

_EXPANDED = later(r"\$\$+|\$(?=\()")  # what a kubelet reads as a variable, or as an escaped `$`


def trainer_command(
    job: TorchrunJob,
    shape: JobShape,
    workload: WorkloadKind,
    rendezvous: Rendezvous | None,
    network: Network | None = None,
) -> list[str | Traced]:
    """Return the container's command. Without a rendezvous the job runs on one node."""
    # Not -u: what activates a virtual or conda environment reads variables that need not be set.
    lines = ["set -eo pipefail"]
    if network and network.preset.setup:
        lines.append(network.preset.setup)
    if job.setup and job.setup.value.strip():
        # eval takes any text as one command: an unclosed quote or a trailing comment cannot swallow what follows,
        # a failing step ends the script, and what it exports stays.
        lines.append(f"eval {shlex.quote(job.setup.value.strip())}")
    if rendezvous and rendezvous.hosted and rendezvous.backend == "c10d":
        # Pod 0's own name may not resolve yet when it starts: torchrun is told who serves instead of looking it up.
        lines.append(f'if [ "${{{workload.rank}:?}}" = 0 ]; then is_host=1; else is_host=0; fi')
    lines.append(" \\\n  ".join(("exec torchrun", *_flags(job, shape, workload, rendezvous), _program(job))))
    restarts = max_restarts(job)
    given = [value for value in (job.setup, network and network.preset.setup and network.chosen) if value]
    values = (job.command, *given, job.job_name, shape.nodes, shape.processes, restarts)
    origins = tuple(origin for value in values for origin in value.reason.origins)
    processes = plural(shape.processes.value, "process")
    text = f"torchrun starts {processes} per node on {plural(shape.nodes.value, 'node')}"
    reason = Reason(rule="torchrun.command", text=text, origins=origins + (rendezvous.origins if rendezvous else ()))
    return ["/bin/bash", "-c", Traced(as_kubelet_reads("\n".join(lines)), reason)]


def max_restarts(job: TorchrunJob) -> Traced:
    """Return the number of times that torchrun restarts the processes of a job."""
    return job.reliability.max_restarts or _MAX_RESTARTS


def as_kubelet_reads(text: str) -> str:
    """Double the dollars that the kubelet would expand (`$(NAME)`) or fold (`$$`), so that bash sees `text`."""
    return _EXPANDED.sub(lambda found: found[0] * 2, text)


def _flags(job: TorchrunJob, shape: JobShape, workload: WorkloadKind, rendezvous: Rendezvous | None) -> tuple[str, ...]:
    processes = f"--nproc-per-node={shape.processes.value} --max-restarts={max_restarts(job).value}"
    name = f"--rdzv-id={shlex.quote(job.job_name.value)}"
    if rendezvous is None:
        return f"--standalone {processes}", name
    nodes = f"{shape.min_nodes.value}:{shape.nodes.value}" if shape.min_nodes else str(shape.nodes.value)
    flags = [
        f"--nnodes={nodes} {processes}",
        f"--rdzv-backend={rendezvous.backend} --rdzv-endpoint={shlex.quote(rendezvous.endpoint)}",
        name,
    ]
    if rendezvous.backend == "static":
        flags.insert(1, f'--node-rank="${{{workload.rank}:?}}"')
    elif rendezvous.hosted:
        flags.append(f'--rdzv-conf="is_host=$is_host,join_timeout={JOIN_SECONDS},read_timeout={JOIN_SECONDS}"')
    return tuple(flags)


def _program(job: TorchrunJob) -> str:
    """Return the user's command as torchrun's program: plain words as they are, anything else through a shell."""
    command = job.command.value.strip()
    plain = _PLAIN_WORDS.fullmatch(command)
    if plain and plain[1] not in _SHELL_WORDS:
        return f"--no-python {command}"
    return f"--no-python /bin/bash -eo pipefail -c {shlex.quote(command)}"

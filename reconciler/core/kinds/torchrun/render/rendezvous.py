"""How the nodes of a job meet: torchrun's rendezvous backend, endpoint and port."""

from msgspec import Struct

from reconciler.core.kinds.rendered import about
from reconciler.core.kinds.torchrun.intent.job import TorchrunJob
from reconciler.core.kinds.torchrun.intent.sections import Distributed
from reconciler.core.kinds.torchrun.render.kinds import Workload
from reconciler.core.kinds.torchrun.render.shape import Shape
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Origin, Reason, Traced

DEFAULT_BACKEND = Traced("c10d", Reason(rule="torchrun.default", text="rdzvBackend defaults to c10d"))
DEFAULT_PORT = Traced(29500, Reason(rule="torchrun.default", text="port defaults to 29500"))
ETCD_ENDPOINT = "etcd.etcd-system.svc.cluster.local:2379"
"""Where torchrun-controller expects etcd."""
_ETCD = ("etcd", "etcd-v2")


class Rendezvous(Struct, frozen=True, kw_only=True):
    """`hosted` says that the first pod itself serves the meeting point, on `port`."""

    backend: str
    endpoint: str
    port: Traced
    hosted: bool
    origins: tuple[Origin, ...] = ()


def rendezvous_of(
    job: TorchrunJob, distributed: Distributed, shape: Shape, workload: Workload, problems: list[Problem]
) -> Rendezvous:
    """Work out where the nodes meet."""
    backend = distributed.rdzv_backend or DEFAULT_BACKEND
    port, endpoint = distributed.port or DEFAULT_PORT, distributed.rdzv_endpoint
    if backend.value == "static" and shape.min_nodes:
        message = "static rendezvous requires a fixed number of nodes, but minNodes makes the job elastic"
        problems.append(about(shape.min_nodes, "torchrun.elastic", message, "use c10d, or remove minNodes"))
    if backend.value in _ETCD and endpoint is None:
        message = f"rdzvEndpoint is not set, so {ETCD_ENDPOINT} is used"
        hint = "set distributed.rdzvEndpoint to the etcd server, or use c10d, which needs none"
        problems.append(about(backend, "torchrun.etcd-endpoint", message, hint, severity=Severity.WARNING))
    hosted = backend.value not in _ETCD and endpoint is None
    default = f"{workload.host(job.name)}:{port.value}" if hosted else ETCD_ENDPOINT
    given = (backend, port, *([endpoint] if endpoint else []))
    return Rendezvous(
        backend=backend.value,
        endpoint=endpoint.value if endpoint else default,
        port=port,
        hosted=hosted,
        origins=tuple(origin for value in given for origin in value.reason.origins),
    )

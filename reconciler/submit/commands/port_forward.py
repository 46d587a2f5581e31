"""`reconciler port-forward`."""

from functools import partial
from typing import Any

import click

from reconciler.console.printing import emit
from reconciler.submit.live.opened import OpenCluster, find, open_cluster, place, workload
from reconciler.submit.live.sessions import forward, listener, parse_port
from reconciler.submit.live.workloads import ContainerTarget


@click.command(
    "port-forward",
    epilog="""\b
Examples:
  reconciler port-forward rayjob/alice-pretrain 8265
  reconciler port-forward service/alice-llm 8080:8000 -n team-a
""",
)
@workload
@click.argument("port", metavar="[LOCAL:]REMOTE")
@place
def command(*, workload: str, port: str, **flags: Any) -> int:
    """Let a port of this machine lead to one of a workload's pod, until Ctrl-C."""
    local, remote = parse_port(port)
    with open_cluster(flags) as opened:
        serve_port(opened, find(opened, workload, flags), local, remote)
    return 0


def serve_port(opened: OpenCluster, found: ContainerTarget, local: int, remote: int) -> None:
    """Forward a port until it is interrupted."""
    with listener(local) as server:
        emit(f"127.0.0.1:{server.getsockname()[1]} leads to port {remote} of {found.namespace}/{found.pod}")
        connect = partial(opened.streams.port, found.namespace, found.pod, remote)
        forward(server, connect, lambda message: emit(f"error: {message}", err=True))

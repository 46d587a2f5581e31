"""The cluster that a command about live workloads talks to, and the questions that it asks."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import asdict

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit
from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.client.port import LiveCluster
from reconciler.kube.client.streams import PodStreams
from reconciler.submit.live.sessions import is_terminal
from reconciler.submit.live.workloads import ContainerTarget, choose, pods_of

DEFAULT_NAMESPACE = "kaiwo"


class OpenCluster(Struct, frozen=True, kw_only=True, eq=False):
    """One API server: its objects, and the streams of its pods."""

    live: LiveCluster
    streams: PodStreams


workload = click.argument("workload", metavar="TYPE/NAME")
namespace = click.option(
    "-n", "--namespace", metavar="NAME", default=DEFAULT_NAMESPACE, show_default=True, help="Namespace."
)
place = options.stack(
    namespace,
    click.option("--pod", metavar="NAME", default="", help="Pod. [default: the only one, or the one that you choose]"),
    click.option("-c", "--container", metavar="NAME", default="", help="Container, likewise."),
    options.access,
)


@contextmanager
def open_cluster(flags: Mapping[str, Any]) -> Iterator[OpenCluster]:
    """Open the cluster that the flags of kubectl name, until the block ends."""
    access = load_access(options.environment(), **asdict(access_flags(flags)))
    with KubernetesCluster(access) as live:
        streams = PodStreams(access)
        yield OpenCluster(live=live, streams=streams)
        streams.close()


def find(opened: OpenCluster, named: str, flags: Mapping[str, Any]) -> ContainerTarget:
    """Return the container that the flags mean; somebody at a terminal is asked where there are several."""
    pods = pods_of(opened.live, named, flags["namespace"])
    return choose(pods, flags["pod"], flags["container"], _ask if is_terminal() else None)


def _ask(what: str, names: Sequence[str]) -> str:
    for number, name in enumerate(names, 1):
        emit(f"  {number}  {name}", err=True)
    number = click.prompt(what, type=click.IntRange(1, len(names)), default=1, err=True)
    return names[number - 1]


def print_bytes(content: bytes) -> None:
    """Print what a container printed: to a terminal as it is, as kubectl does."""
    sys.stdout.buffer.write(content)
    sys.stdout.flush()

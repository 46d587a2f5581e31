"""`reconciler agent`."""

from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.errors import Terminated
from reconciler.health.agent.process import AgentFlags, run_agent, run_profile
from reconciler.health.agent.testing import StorageFlags
from reconciler.nodehealth.catalogue import check_ids
from reconciler.nodehealth.readers.kmsg_copy import copy_kmsg


@click.command(
    "agent",
    epilog="""\b
Examples:
  reconciler agent                          publish the health of this node to its cluster
  reconciler agent --no-publish             only serve metrics, without a cluster
  reconciler agent --profile deep           run the heavy checks once, publish, and end
  reconciler agent --check remap.failure --check gpu.xid --interval 30
""",
)
@click.option(
    "--interval", type=options.FiniteRange(5, 3600), default=60.0, show_default=True, help="Seconds between two sweeps."
)
@click.option(
    "--heartbeat",
    type=options.FiniteRange(10, 3600),
    default=120.0,
    show_default=True,
    help="Seconds after which a report is written again even if nothing changed.",
)
@click.option(
    "--deadline",
    type=options.FiniteRange(1, 86400),
    default=45.0,
    show_default=True,
    help="Seconds after which a sweep, or a run of --profile, is reported as UNKNOWN.",
)
@click.option("--check", "checks", metavar="ID", multiple=True, help="Run only this check. May be repeated.")
@click.option(
    "--invasive",
    type=options.FiniteRange(0),
    default=0.0,
    show_default=True,
    help="Seconds after which the agent asks for a deep run, which starts on idle GPUs only. 0: never.",
)
@click.option(
    "--profile",
    type=click.Choice(("preflight", "postflight", "deep", "rma")),
    default=None,
    help="Run this profile once and end.",
)
@click.option(
    "--root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default="/",
    show_default=True,
    help="Where the host's /sys, /proc and /dev are.",
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    default="127.0.0.1:8080",
    show_default=True,
    help="Address of /healthz, /readyz and /metrics, HOST:PORT or :PORT.",
)
@click.option("--api", metavar="ADDRESS", default="", help="Address of /status and single checks. [default: none]")
@click.option(
    "--preflight",
    metavar="ADDRESS",
    default="",
    help="Address that accepts results of preflight checks. [default: none]",
)
@click.option(
    "--kmsg",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Kernel messages, such as a copy of --copy-kmsg. [default: ROOT/dev/kmsg]",
)
@click.option(
    "--copy-kmsg",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Only copy the messages of ROOT/dev/kmsg about GPUs to FILE, for the agent of another container.",
)
@click.option(
    "--ping/--no-ping", default=False, help="In deep runs and on request, ping the agents of all other nodes."
)
@click.option(
    "--iperf/--no-iperf",
    default=False,
    help="Measure bandwidth to other nodes with iperf3, as often as a HealthPolicy sets, while all GPUs are idle.",
)
@click.option(
    "--storage-class", metavar="NAME", default="", help="In deep runs and on request, claim a volume of this class."
)
@click.option(
    "--storage-namespace", metavar="NAME", default="", help="Namespace of the claim. [default: that of the pod]"
)
@click.option("--storage-size", metavar="SIZE", default="100Mi", show_default=True, help="Size of the claim.")
@click.option(
    "--storage-access", metavar="MODE", default="ReadWriteMany", show_default=True, help="Access mode of the claim."
)
@click.option(
    "--storage-image", metavar="IMAGE", default="", help="Image of a pod that writes to the volume. [default: none]"
)
@click.option("--publish/--no-publish", default=True, help="Write a NodeHealthReport. [default: publish]")
@click.option(
    "--autopilot-gauge/--no-autopilot-gauge",
    default=True,
    help="Export autopilot_health_checks. [default: autopilot-gauge]",
)
@options.access
@click.option("--log-level", type=click.Choice(("debug", "info", "warning", "error")), default="info")
@click.option("--log-format", type=click.Choice(("text", "json")), default="json", show_default=True)
def command(**flags: Any) -> int:
    """Check the GPUs of this node at intervals, and publish changes as its NodeHealthReport.

    Runs until SIGTERM or Ctrl-C. It changes nothing on the node, reads no pods and no nodes, and needs no Git.
    """
    if flags["copy_kmsg"]:
        return _copy(flags["root"], flags["copy_kmsg"])

    for name in flags["checks"]:
        if name not in check_ids():
            raise click.UsageError(f"--check: unknown check {name!r}")
    if flags["profile"] and not flags["publish"]:
        raise click.UsageError("--profile publishes its result; use `reconciler probe` without a cluster")
    known = {name: value for name, value in flags.items() if name in AgentFlags.__struct_fields__}
    storage = StorageFlags(
        storage_class=flags["storage_class"],
        namespace=flags["storage_namespace"],
        size=flags["storage_size"],
        access=flags["storage_access"],
        image=flags["storage_image"],
    )
    agent = AgentFlags(**{**known, "profile": flags["profile"] or ""}, storage=storage, cluster=access_flags(flags))
    try:
        if agent.profile:
            run_profile(agent, options.environment())
        else:
            run_agent(agent, options.environment())
    except (Terminated, KeyboardInterrupt):  # its normal end
        return 0
    return 0


def _copy(root: Path, target: Path) -> int:
    try:
        copy_kmsg(root / "dev" / "kmsg", target, root / "proc")
    except (Terminated, KeyboardInterrupt):  # its normal end
        return 0
    return 0

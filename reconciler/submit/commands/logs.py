"""`reconciler logs`."""

from typing import Any

import click

from reconciler.submit.live.opened import find, open_cluster, place, print_bytes, workload


@click.command(
    "logs",
    epilog="""\b
Examples:
  reconciler logs job/alice-pretrain
  reconciler logs rayjob/alice-pretrain -n team-a -f --tail 100
  reconciler logs job/alice-pretrain --pod alice-pretrain-x7k2p --container main
""",
)
@workload
@click.option("-f", "--follow", is_flag=True, help="Keep printing what comes, until Ctrl-C.")
@click.option("--tail", metavar="N", type=int, default=-1, help="Last lines to begin with. [default: all]")
@place
def command(*, workload: str, follow: bool, tail: int, **flags: Any) -> int:
    """Print the logs of a workload's container. TYPE is job, service, or a kind such as rayjob."""
    with open_cluster(flags) as opened:
        found = find(opened, workload, flags)
        for content in opened.streams.logs(found.namespace, found.pod, found.container, follow=follow, tail=tail):
            print_bytes(content)
    return 0

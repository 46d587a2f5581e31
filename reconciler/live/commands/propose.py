"""`reconciler propose`."""

import datetime as dt
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.live.observe.propose import propose
from reconciler.plan import opening
from reconciler.plan.outputs.drift import render_diff

_SHARE = 0.9


@click.command(
    "propose",
    epilog="""\b
Examples:
  reconciler propose                   show the edits as a diff
  reconciler propose --write           write them to the working tree; then `reconciler plan` shows what they do
  reconciler propose --share 0.95      queues grant 95 % of CPUs and memory
""",
)
@options.repo
@options.cluster
@click.option(
    "--share",
    metavar="N",
    type=options.FiniteRange(0.1, 1.0),
    default=_SHARE,
    show_default=True,
    help="Share of the nodes' CPUs and memory that queues grant.",
)
@click.option("--write", is_flag=True, help="Write the edits to the working tree.")
@options.exit_code
@options.run_options
def command(*, repo: str, share: float, write: bool, exit_code: bool, **flags: Any) -> int:
    """Propose node pools, flavors and quotas that fit the observed nodes, as edits of queue files.

    Reads the evidence and no cluster. Under Kueue: a ResourceFlavor for each kind of node, the quotas of a
    ClusterQueue, and a Topology. Under every backend: nodeResources of torchrun queues. Cordoned nodes do not count.
    """
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    is_changed = False
    for found in propose(run.workspace, share=share, today=dt.datetime.now(dt.UTC).date()):
        for note in found.notes:
            emit(f"{found.cluster}: {note}", err=True)
        for problem in found.problems:
            emit(str(problem), err=True)
        for edit in found.edits:
            is_changed = True
            if write:
                opening.write_edits({edit.path: edit.after}, run)
                emit(f"wrote {edit.path}")
            else:
                emit("".join(render_diff(edit.path, edit.before, edit.after)), nl=False)
        if not found.edits and not found.notes:
            emit(f"{found.cluster}: the queues fit the nodes")
    return 1 if exit_code and is_changed else 0

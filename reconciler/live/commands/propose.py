"""`reconciler propose`."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.forge.checkouts import bring, edits_of
from reconciler.forge.identity import ProposedChange
from reconciler.live.observe.propose import ClusterProposals, propose
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
@options.change_request
@options.exit_code
@options.run_options
def command(*, repo: str, share: float, write: bool, change_request: bool, exit_code: bool, **flags: Any) -> int:
    """Propose node pools, flavors and quotas that fit the observed nodes, as edits of queue files.

    Reads the evidence and no cluster. Under Kueue: a ResourceFlavor for each kind of node, the quotas of a
    ClusterQueue, and a Topology. Under every backend: nodeResources of torchrun queues. Cordoned nodes do not count.
    """
    environ = options.environment()
    run = opening.open_run(repo, options.head_flags(flags, write=write, change_request=change_request), environ)
    is_changed = False
    everything = []
    for found in propose(run.workspace, share=share, today=dt.datetime.now(dt.UTC).date()):
        for note in found.notes:
            emit(f"{found.cluster}: {note}", err=True)
        for problem in found.problems:
            emit(str(problem), err=True)
        everything.append(found)
        for edit in found.edits:
            is_changed = True
            if write:
                opening.write_edits({edit.path: edit.after}, run)
                emit(f"wrote {edit.path}")
            else:
                emit("".join(render_diff(edit.path, edit.before, edit.after)), nl=False)
        if not found.edits and not found.notes:
            emit(f"{found.cluster}: the queues fit the nodes")
    if change_request:
        _bring(run, environ, everything)
    return 1 if exit_code and is_changed else 0


def _bring(run: opening.Run, environ: dict[str, str], everything: Sequence[ClusterProposals]) -> None:
    """Propose the edits on the forge; what is open for clusters that need none is closed."""
    changes = [_change(run, found) for found in everything]
    is_settled = [not (found.edits or found.notes or found.problems) for found in everything]
    settled = [change for change, has_none in zip(changes, is_settled, strict=True) if has_none]
    for done in bring(run, environ, [change for change in changes if change.edits], settled=settled):
        emit(str(done))


def _change(run: opening.Run, found: ClusterProposals) -> ProposedChange:
    return ProposedChange(
        kind="quotas",
        name="nodes",
        cluster=found.cluster,
        title=f"Fit the queues to the nodes of {found.cluster}",
        reason="The evidence of the nodes says other pools, quotas or node resources than the sources.",
        edits=edits_of(run, {edit.path: edit.after for edit in found.edits}),
    )

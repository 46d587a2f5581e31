"""`reconciler preempt`."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.errors import InvalidInput
from reconciler.forge.checkouts import bring, edits_of
from reconciler.forge.identity import ProposedChange
from reconciler.kinds.preemption import PreemptionMode
from reconciler.kube.values import plural
from reconciler.live.preemption.evaluate import EvaluatedCluster, evaluate
from reconciler.plan import opening
from reconciler.plan.outputs.commit import ENGINE, SOURCE_COMMIT, commit
from reconciler.plan.outputs.drift import render_diff
from reconciler.version import __version__


@click.command(
    "preempt",
    epilog="""\b
Examples:
  reconciler observe && reconciler preempt     show who is idle, who waits, and what would be suspended
  reconciler preempt --write                   edit the sources in the working tree
  reconciler preempt --branch preempt/idle     commit the edits on a branch, for a review
  reconciler preempt --change-request          propose them on the forge
""",
)
@options.repo
@options.cluster
@click.option("--write", is_flag=True, help="Write the edits to the working tree.")
@click.option("--branch", metavar="NAME", help="Commit the edits to HEAD on this branch, and leave the working tree.")
@options.change_request
@options.exit_code
@options.run_options
def command(*, repo: str, write: bool, branch: str | None, change_request: bool, exit_code: bool, **flags: Any) -> int:
    """Decide which idle workloads are suspended, so that a workload that waits for GPUs starts.

    Reads the evidence and no cluster: run `reconciler observe` first. Acts only on policies with `mode: propose` or
    `enforce`, and by edits of sources: nothing is deleted. Missing, stale or contradictory measurements mean that
    nothing is done.
    """
    environ = options.environment()
    settings = options.head_flags(flags, write=write, branch=branch, change_request=change_request)
    run = opening.open_run(repo, settings, environ)
    found = list(evaluate(run.workspace, dt.datetime.now(dt.UTC)))
    problems = [problem for one in found for problem in one.problems]
    if problems:
        raise InvalidInput(problems)
    edits = {path: content for one in found for path, content in one.edits.items()}
    for one in found:
        for line in _lines(one):
            emit(line)
    if write:
        opening.write_edits(edits, run)
        for path in sorted(edits):
            emit(f"wrote {path}")
    elif branch and edits:
        emit(_committed(run, branch, edits))
    elif change_request:
        _bring(run, environ, found)
    else:
        for path, content in sorted(edits.items()):
            emit("".join(render_diff(path, (run.workspace.repository.root / path).read_bytes(), content)), nl=False)
    return 1 if exit_code and edits else 0


def _bring(run: opening.Run, environ: dict[str, str], found: Sequence[EvaluatedCluster]) -> None:
    """Propose the edits on the forge; what is open for clusters that need none is closed."""
    changes = [_change(run, one) for one in found]
    settled = [change for one, change in zip(found, changes, strict=True) if one.decision and not change.edits]
    for done in bring(run, environ, [change for change in changes if change.edits], settled=settled):
        emit(str(done))


def _change(run: opening.Run, found: EvaluatedCluster) -> ProposedChange:
    decided = found.decision.workloads if found.decision is not None else ()
    return ProposedChange(
        kind="preempt",
        name="idle",
        cluster=found.cluster,
        title=f"Suspend idle workloads on {found.cluster}",
        reason="; ".join(f"{one.candidate.workload.key}: {one.reason}" for one in decided if one.is_suspended),
        edits=edits_of(run, found.edits),
    )


def _committed(run: opening.Run, branch: str, edits: dict[str, bytes]) -> str:
    head = run.workspace.tree.commit
    assert head is not None  # noqa: S101 - a revision is read
    made = commit(
        run.workspace.repository,
        files=edits,
        message=f"Suspend idle workloads in {plural(len(edits), 'file')}",
        trailers={SOURCE_COMMIT: head.oid, ENGINE: __version__},
        branch=branch,
        expected_head=head.oid,
    )
    return f"branch {branch}: {'no changes' if made is None else made.oid}"


def _lines(found: EvaluatedCluster) -> Iterator[str]:
    """Yield the decisions about a cluster."""
    for note in found.notes:
        yield f"{found.cluster}: {note}"
    if found.decision is None:
        return
    yield f"{found.cluster}:"
    for one in found.decision.workloads:
        key = one.candidate.workload.key
        is_report = one.candidate.policy.mode is PreemptionMode.REPORT
        verb = "would suspend" if is_report else "suspend"
        verb = verb if one.is_suspended and key not in found.refused else "keep"
        mode = "" if key not in found.refused else f"; {found.refused[key]}"
        gpus = plural(one.candidate.workload.gpus, "GPU")
        yield f"  {verb} {key} ({gpus}, {one.use.activity}): {one.reason}{mode}"
    for demand in found.decision.demands:
        waiting = demand.waiting
        yield f"  waiting {waiting.key} ({plural(waiting.gpus, 'GPU')}): {demand.reason}"

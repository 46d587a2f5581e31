"""`reconciler approve`."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit
from reconciler.kube.client.port import LiveCluster
from reconciler.kube.values import plural
from reconciler.plan import Approval, Plan, opening
from reconciler.plan.approvals import approves, write_approval
from reconciler.plan.live.choices import NO_CHOICES, LiveChoices
from reconciler.plan.live.clusters import live_choices, open_clusters
from reconciler.plan.opening import Run
from reconciler.plan.outputs.summary import counts, headlines
from reconciler.plan.use_cases import approve_plan, last_day

_DAYS = 7


@click.command(
    "approve",
    epilog="""\b
Examples:
  reconciler approve --reason 'team-a leaves the cluster'     all exceeded budgets, for 7 days
  reconciler approve --base main --reason 'move to h200' --budget deletes --days 2
  reconciler approve --live --context gpu-a --reason 'drift of last night is reverted'
""",
)
@options.repo
@options.base
@click.option("--reason", metavar="TEXT", required=True, help="Why the plan may exceed its budgets, for reviewers.")
@click.option("--expires", metavar="YYYY-MM-DD", default="", help="Last day on which the approval is valid.")
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(0, 365),
    help=f"Number of days for which the approval is valid, instead of --expires. [default: {_DAYS}]",
)
@click.option(
    "--budget",
    "budgets",
    metavar="NAME",
    multiple=True,
    help="Budget that may be exceeded. May be repeated. [default: all]",
)
@click.option("--live", is_flag=True, help="Approve the plan against live clusters instead, as `plan --live` makes it.")
@options.cluster
@options.access
@options.server_patience
@options.inventory_namespace
@options.date
@options.run_options
def command(
    *, repo: str, reason: str, expires: str, days: int | None, budgets: tuple[str, ...], live: bool, **flags: Any
) -> int:
    """Approve the plan of the working tree, which exceeds its budgets.

    With --live, approves what the plan changes on live clusters: an edit of one of these objects there voids it.

    Writes a PlanApproval to the folder approvals/. Commit it to the branch of the change: the plan then passes until
    any edit changes it. The first `reconciler commit` after the merge removes the file.
    """
    if expires and days is not None:
        raise click.UsageError("--expires and --days are mutually exclusive")
    if not reason.strip():
        raise click.UsageError("--reason is empty")
    options.check_access(flags, live=live)
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    settings = run.settings
    until = last_day(
        expires, _DAYS if days is None else days, settings.date or dt.datetime.now(dt.UTC).date().isoformat()
    )
    with _clusters(run, flags) if live else nullcontext() as clusters:
        plan, approval = approve_plan(
            run.workspace,
            reason=reason.strip(),
            expires=until,
            base=settings.base,
            date=settings.date,
            budgets=budgets,
            clusters=clusters,
            choices=_choices(run) if live else NO_CHOICES,
        )
    opening.write_edits({approval.place.path: write_approval(approval)}, run)
    for line in _lines(plan, approval):
        emit(line)
    return 0


def _clusters(run: Run, flags: dict[str, Any]) -> AbstractContextManager[Mapping[str, LiveCluster]]:
    return open_clusters(access_flags(flags), options.environment(), run)


def _choices(run: Run) -> LiveChoices:
    return live_choices(run.settings)


def _lines(plan: Plan, approval: Approval) -> Iterator[str]:
    """Yield what is approved: budgets, GPUs and risks."""
    path = approval.place.path
    yield f"{path} approves this plan through {approval.expires}:"
    yield from (f"  {sentence}" for sentence in headlines(plan))
    yield f"  {' · '.join(text for _, text in counts(plan))}"
    for breach in plan.unapproved:
        yield f"  {breach.budget}: {breach.message}{'' if approves(approval, breach) else ' (not approved)'}"
    rules = Counter(risk.rule for risk in plan.risks)
    if rules:
        yield f"  {plural(len(plan.risks), 'risk')}: {', '.join(f'{count} {rule}' for rule, count in rules.items())}"
    yield f"Commit it to this branch: git add {path} && git commit"

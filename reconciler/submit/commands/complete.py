"""`reconciler complete`."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.submit.commands.submit import propose_and_show
from reconciler.submit.delete import complete
from reconciler.submit.proposal import SubmittedChange, open_head
from reconciler.submit.user import user_settings


@click.command(
    "complete",
    epilog="""\b
Examples:
  reconciler complete my-training-job
  reconciler complete my-training-job -n agentaflow --suspend --push
""",
)
@click.argument("name", metavar="NAME")
@click.option("-n", "--namespace", metavar="NAME", default="", help="Namespace of the job.")
@click.option("--suspend", is_flag=True, help="Keep the job, but let none of its pods run.")
@click.option("--push", is_flag=True, help="Push the branch to origin.")
@options.repo
@options.cluster
@options.output(("text", "json"))
@options.width
@options.date
@options.run_options
def command(*, name: str, namespace: str, suspend: bool, push: bool, repo: str, **flags: Any) -> int:
    """Propose the end of a job: a branch complete/NAME without its file, or with the job suspended, and the plan.

    Says what of it runs, as far as evidence knows. Claims stay, and so does their data.
    """
    environ, settings = options.environment(), options.setting_flags(flags)
    head = open_head(repo, settings, environ)
    found = complete(head.workspace, head.workspace.compile(), name, namespace, suspend=suspend)
    proposal = SubmittedChange(
        branch=f"complete/{found.key.name}",
        subject=f"{'Suspend' if suspend else 'Complete'} {found.key}",
        user=user_settings("", "", environ).user,
        files=found.files,
    )
    code = propose_and_show(head, proposal, settings, push=push, quiet=False, nothing="nothing to complete")
    if settings.get("output") != "json":
        emit(found.use)
    return code

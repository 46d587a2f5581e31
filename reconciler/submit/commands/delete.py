"""`reconciler delete`."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.submit.commands.submit import propose_and_show
from reconciler.submit.delete import delete
from reconciler.submit.proposal import SubmittedChange, open_head
from reconciler.submit.user import user_settings


@click.command(
    "delete",
    epilog="""\b
Examples:
  reconciler delete job/alice-pretrain
  reconciler delete rayservice/alice-llm -n team-a --push
""",
)
@click.argument("workload", metavar="TYPE/NAME")
@click.option("-n", "--namespace", metavar="NAME", default="", help="Namespace of the workload.")
@click.option("--claims", is_flag=True, help="Delete its claims, and so their data, too.")
@click.option("--push", is_flag=True, help="Push the branch to origin.")
@options.repo
@options.cluster
@options.output(("text", "json"))
@options.width
@options.date
@options.run_options
def command(*, workload: str, namespace: str, claims: bool, push: bool, repo: str, **flags: Any) -> int:
    """Propose the deletion of a workload: a branch delete/NAME without its file and folder, and the plan.

    TYPE is a kind, such as job, deployment, rayjob or rayservice, or service. Claims stay, and so does their data.
    """
    environ, settings = options.environment(), options.setting_flags(flags)
    head = open_head(repo, settings, environ)
    found = delete(head.workspace, head.workspace.compile(), workload, namespace, claims=claims)
    proposal = SubmittedChange(
        branch=f"delete/{found.key.name}",
        subject=f"Delete {found.key}",
        user=user_settings("", "", environ).user,
        files=found.files,
    )
    code = propose_and_show(head, proposal, settings, push=push, quiet=False, nothing="nothing to delete")
    if found.claims and settings.get("output") != "json":
        emit(f"The claims stay: {', '.join(found.claims)}")
    return code

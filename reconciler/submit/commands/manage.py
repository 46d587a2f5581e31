"""`reconciler manage`."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import report_error
from reconciler.errors import ConfigError, ReconcilerError
from reconciler.plan import opening
from reconciler.submit.commands import delete, execute, logs, monitor, port_forward
from reconciler.submit.live.opened import open_cluster
from reconciler.submit.live.workloads import LiveWorkload, workloads
from reconciler.submit.user import user_settings


@click.command(
    "manage",
    epilog="""\b
Examples:
  reconciler manage
  reconciler manage -n team-a --all-users
""",
)
@click.option("-u", "--user", metavar="NAME", default="", help="Whose workloads. [default: yours]")
@click.option("--all-users", is_flag=True, help="Those of all users.")
@click.option("-n", "--namespace", metavar="NAME", default="", help="Namespace. [default: all]")
@options.access
def command(*, user: str, all_users: bool, namespace: str, **flags: Any) -> int:
    """Choose a workload on a screen, and look at its logs, its GPUs, a shell or a port, or propose its deletion."""
    if find_spec("textual") is None:
        raise ConfigError("the screen is not installed", hint="pip install 'gpu-reconciler[tui]'")
    from reconciler.submit.live.screen import ManageScreen  # noqa: PLC0415 - an extra

    whose = "" if all_users else user_settings(user, "", options.environment()).user
    kinds = opening.kinds()
    with open_cluster(flags) as opened:
        while (chosen := ManageScreen(lambda: workloads(opened.live, kinds, namespace, whose)).run()) is not None:
            _carry_out(*chosen, flags)
    return 0


def _carry_out(what: str, workload: LiveWorkload, flags: Mapping[str, Any]) -> None:
    """Run the command for what was chosen, and wait until the user has read what it printed."""
    words = [workload.named, "-n", workload.key.namespace]
    if what == "logs":
        words += ["--follow", "--tail", "200"]
    verbs = {
        "logs": logs.command,
        "exec": execute.command,
        "monitor": monitor.command,
        "port-forward": port_forward.command,
        "delete": delete.command,
    }
    access = [] if what == "delete" else _access_words(flags)
    try:
        if what == "port-forward":
            words.append(click.prompt("port ([LOCAL:]REMOTE)", default="8265"))
        verbs[what].main([*words, *access], prog_name=what, standalone_mode=False)
    except ReconcilerError as error:
        report_error(error)
    except (click.Abort, KeyboardInterrupt):  # Ctrl-C ends what was chosen, not the screen
        return
    click.pause()


def _access_words(flags: Mapping[str, Any]) -> list[str]:
    named = {"--kubeconfig": flags["kubeconfig"], "--context": flags["context"], "--as": flags["as_user"]}
    words = [word for flag, value in named.items() if value for word in (flag, value)]
    return [*words, *(word for group in flags["as_groups"] for word in ("--as-group", group))]

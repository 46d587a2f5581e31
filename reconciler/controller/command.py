"""`reconciler controller`."""

import sys
from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit
from reconciler.controller.pages import serve_source
from reconciler.controller.process import ControllerFlags, run_controller, run_pass
from reconciler.errors import Terminated
from reconciler.processes import end_with_parent
from reconciler.web.guard import PageLogin


@click.command(
    "controller",
    epilog="""\b
Examples:
  reconciler controller                              ConfigSource objects of the cluster
  reconciler controller --config sources.yaml        ConfigSources from a file
  reconciler controller --config sources.yaml --secrets /etc/reconciler/secrets --webhooks :9292
""",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with ConfigSources. [default: the ConfigSource objects of the cluster]",
)
@click.option(
    "--secrets",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with a subfolder for each Secret that --config names, which contains a file for each key.",
)
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default="reconciler-state",
    show_default=True,
    help="Folder for mirrors and caches. It may be empty at every start.",
)
@click.option("--namespace", metavar="NAME", default="", help="The only namespace to look for ConfigSources in.")
@click.option(
    "--listen",
    metavar="ADDRESS",
    default="127.0.0.1:8080",
    show_default=True,
    help="Address of /healthz, /readyz and /metrics, HOST:PORT or :PORT.",
)
@click.option("--webhooks", metavar="ADDRESS", default="", help="Address of webhooks. [default: none are accepted]")
@click.option(
    "--web-address", metavar="ADDRESS", default="", help="Address of read-only pages of a source. [default: none]"
)
@click.option(
    "--web-source", metavar="NAMESPACE/NAME", default="", help="The source of the pages, if there are several."
)
@click.option(
    "--web-token-file", metavar="FILE", default="", help="File with the token that readers of the pages send."
)
@click.option(
    "--web-proxy-secret-file", metavar="FILE", default="", help="File with the secret of a proxy that logs readers in."
)
@click.option("--web-token-review", is_flag=True, help="Ask Kubernetes whose token it is, and what that user may read.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=4, show_default=True, help="Maximum number of concurrent passes."
)
@click.option(
    "--retry",
    type=options.FiniteRange(0.1, 3600),
    default=2.0,
    show_default=True,
    help="Seconds before a failed pass is repeated; doubles with each failure in a row.",
)
@click.option(
    "--max-repository", type=click.IntRange(1), default=1024, show_default=True, help="Largest repository, in MiB."
)
@click.option("--memory", type=click.IntRange(64), default=2048, show_default=True, help="Memory of one pass, in MiB.")
@click.option(
    "--spans",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to add the spans of every pass to, as JSON lines.",
)
@click.option(
    "--lease-namespace",
    metavar="NAME",
    default="",
    help="Namespace of the Lease that elects a leader. [default: POD_NAMESPACE, else --namespace, else default]",
)
@click.option(
    "--lease-seconds",
    type=options.FiniteRange(1, 600),
    default=15.0,
    show_default=True,
    help="Time after which a Lease that is not renewed becomes free.",
)
@options.access
@click.option("--log-level", type=click.Choice(("debug", "info", "warning", "error")), default="info")
@click.option("--log-format", type=click.Choice(("text", "json")), default="json", show_default=True)
@click.option("--pass", "is_pass", is_flag=True, hidden=True)
@click.option("--pages", "is_pages", is_flag=True, hidden=True)
def command(*, is_pass: bool, is_pages: bool, **flags: Any) -> int:
    """Watch config repositories: plan, and commit or apply, whenever they change.

    Runs until SIGTERM or Ctrl-C. Sources are ConfigSource objects of the cluster, or documents of a file. Credentials
    come from Secrets. Metrics are listed in docs/reference/metrics.md.
    """
    environ = options.environment()
    if is_pass:
        line = sys.stdin.buffer.readline()
        end_with_parent()
        emit(run_pass(line, environ).decode(), form="json")
        return 0
    if is_pages:
        serve_source(sys.stdin.buffer, _answer, environ)
        return 0
    login = PageLogin(**{name: flags.pop(f"web_{name}") for name in PageLogin.__struct_fields__})
    try:
        known: dict[str, Any] = {
            name: value for name, value in flags.items() if name in ControllerFlags.__struct_fields__
        }
        run_controller(ControllerFlags(**known, web_login=login, cluster=access_flags(flags)), environ)
    except (Terminated, KeyboardInterrupt):  # its normal end
        return 0
    return 0


def _answer(line: bytes) -> None:
    """Answer the controller, which waits for the line."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()

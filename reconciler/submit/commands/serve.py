"""`reconciler serve`."""

from typing import Any

import click
from click.core import ParameterSource

from reconciler.console.printing import emit
from reconciler.submit.commands.submit import run, where, workload
from reconciler.web.command import serve_pages


@click.command(
    "serve",
    epilog="""\b
Examples:
  reconciler serve -p workloads/inference -g 16 --ray
  reconciler serve -i my-registry/server -g 1
  reconciler serve -p workloads/inference -g 16 --ray --dry-run
  reconciler serve --address 127.0.0.1:8484    the pages of this repository, as `reconciler web`
""",
)
@workload
@click.option("--address", metavar="HOST:PORT", default="", help="Serve the pages of this repository instead.")
@click.option("-m", "--model", metavar="NAME", default="", help="No effect, as in Kaiwo: name the model in env.")
@where
@click.pass_context
def command(context: click.Context, /, *, model: str, address: str, **flags: Any) -> int:
    """Submit a service: commit it on a branch submit/NAME, and show its plan.

    With --ray it is a RayService, which needs a file serveconfig in the folder, else a Deployment.
    """
    if address:
        given = [name for name in flags if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        others = [f"--{name.replace('_', '-')}" for name in given if name != "repo"]
        if others:
            raise click.UsageError(f"{', '.join(others)} does not apply to --address, which submits nothing")
        return serve_pages(address, flags["repo"])
    if model:
        emit("note: --model has no effect; set a variable in the file env", err=True)
    return run(serves=True, **flags)

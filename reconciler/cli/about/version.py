"""`reconciler version`."""

import json

import click

from reconciler.cli import options
from reconciler.cli.console import emit


@click.command(
    "version",
    epilog="""\b
Examples:
  reconciler version
  reconciler version -o json
""",
)
@options.output(("text", "json"))
def command(*, output: str | None) -> int:
    """Print the versions of the engine, of its Kubernetes and operator schemas, and of packages that add kinds."""
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast

    versions = wiring.versions()
    if output == "json":
        emit(json.dumps(versions, indent=2), form="json")
    else:
        width = max(len(name) for name in versions)
        emit("\n".join(f"{name:<{width}}  {version}" for name, version in versions.items()))
    return 0

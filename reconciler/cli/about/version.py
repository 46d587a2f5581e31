"""`reconciler version`."""

import json

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.plan import opening


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
    versions = opening.versions()
    if output == "json":
        emit(json.dumps(versions, indent=2), form="json")
    else:
        width = max(len(name) for name in versions)
        emit("\n".join(f"{name:<{width}}  {version}" for name, version in versions.items()))
    return 0

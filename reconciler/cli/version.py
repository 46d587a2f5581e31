"""`reconciler version`."""

import json

import click

from reconciler.cli import options


@click.command("version")
@options.output(("text", "json"))
def command(*, output: str | None) -> int:
    """Print the version of the engine, and of the Kubernetes and operator schemas that it knows."""
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    versions = wiring.versions()
    if output == "json":
        click.echo(json.dumps(versions, indent=2))
    else:
        width = max(len(name) for name in versions)
        click.echo("\n".join(f"{name:<{width}}  {version}" for name, version in versions.items()))
    return 0

"""`reconciler schema`."""

import click


@click.command(
    "schema",
    epilog="""\b
Examples:
  reconciler schema                    list the kinds
  reconciler schema TorchrunJob > torchrunjob.json
""",
)
@click.argument("kind", metavar="[KIND]", required=False, default="")
def command(*, kind: str) -> int:
    """Print the JSON Schema of a kind, for editors; without KIND, list the kinds."""
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    click.echo(wiring.schema(kind), nl=False)
    return 0

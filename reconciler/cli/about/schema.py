"""`reconciler schema`."""

import json

import click

from reconciler.cli.console import emit


@click.command(
    "schema",
    epilog="""\b
Examples:
  reconciler schema                                 list all kinds
  reconciler schema TorchrunJob > torchrunjob.json  the schema of one kind
""",
)
@click.argument("kind", metavar="[KIND]", required=False, default="")
def command(*, kind: str) -> int:
    """Print the JSON Schema of a kind, for editors. Without KIND, list all kinds."""
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.schema import list_kinds, schema_of  # noqa: PLC0415

    catalogue = wiring.catalogue()
    if kind:
        emit(json.dumps(schema_of(catalogue, kind), indent=2), form="json")
        return 0
    for name, version in list_kinds(catalogue):
        emit(f"{name}  {version}")
    return 0

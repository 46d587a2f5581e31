"""`reconciler schema`."""

import json

import click

from reconciler.console.printing import emit
from reconciler.plan import opening
from reconciler.plan.use_cases import list_kinds, schema_of


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
    catalogue = opening.catalogue()
    if kind:
        emit(json.dumps(schema_of(catalogue, kind), indent=2), form="json")
        return 0
    for name, version in list_kinds(catalogue):
        emit(f"{name}  {version}")
    return 0

"""Create a config repository."""

import json
from collections.abc import Mapping

from reconciler.core.schemas import Catalogue

SCHEMA_GROUPS = ("gpureconciler.io", "torchrun.ai")
"""API groups whose schemas are written for editors."""


def repository_files(template: Mapping[str, bytes], catalogue: Catalogue) -> dict[str, bytes]:
    """Return the files of a new config repository: the template, and the schemas that its files refer to."""
    contents = dict(template)
    for name in catalogue.kinds():
        if name.group in SCHEMA_GROUPS:
            text = json.dumps(catalogue.json_schema(name.kind), indent=2) + "\n"
            contents[f".schemas/{name.kind.lower()}.json"] = text.encode()
    return contents

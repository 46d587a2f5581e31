"""Create a config repository."""

import json
from collections.abc import Mapping

from reconciler.app.requirements import REQUIREMENTS
from reconciler.core.kinds.kind import Kinds
from reconciler.core.schemas import Catalogue


def repository_files(
    template: Mapping[str, bytes], kinds: Kinds, catalogue: Catalogue, requirements: str
) -> dict[str, bytes]:
    """Return the files of a new config repository: the template, the requirements, the schemas its files refer to."""
    contents = {**template, REQUIREMENTS: requirements.encode()}
    for name in catalogue.kinds():
        if name.group in kinds.own_groups:
            text = json.dumps(catalogue.json_schema(name.kind), indent=2) + "\n"
            contents[f".schemas/{name.kind.lower()}.json"] = text.encode()
    return contents

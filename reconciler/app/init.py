"""Create a config repository."""

import json
from collections.abc import Mapping

from reconciler.core.kinds.kind import Kinds
from reconciler.core.schemas import Catalogue


def repository_files(template: Mapping[str, bytes], kinds: Kinds, catalogue: Catalogue) -> dict[str, bytes]:
    """Return the files of a new config repository: the template, and the schemas that its files refer to."""
    contents = dict(template)
    for name in catalogue.kinds():
        if name.group in kinds.own_groups:
            text = json.dumps(catalogue.json_schema(name.kind), indent=2) + "\n"
            contents[f".schemas/{name.kind.lower()}.json"] = text.encode()
    return contents

"""List the known kinds, and return the JSON Schema of one."""

from difflib import get_close_matches
from typing import Any

from reconciler.core.schemas import Catalogue
from reconciler.errors import ConfigError


def list_kinds(catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return the known kinds, each with its `apiVersion`."""
    return [(name.kind, f"{name.group}/{name.version}".lstrip("/")) for name in catalogue.kinds()]


def schema_of(catalogue: Catalogue, kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind; `ConfigError` for an unknown kind."""
    schema = catalogue.json_schema(kind)
    if schema is None:
        near = get_close_matches(kind, [name for name, _ in list_kinds(catalogue)], n=1)
        hint = f"did you mean {near[0]}?" if near else "run `reconciler schema` for a list of kinds"
        raise ConfigError(f"unknown kind {kind!r}", hint=hint)
    return schema

"""Plain scalars that other parsers read differently, where a string is wanted: `no`, `012`, `1e3`, `12:30`.

Kubernetes itself may read what was meant; the next tool in the chain does not. So they are errors, and quoting helps.
"""

from msgspec.structs import replace

from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath
from reconciler.core.schemas import shape
from reconciler.core.schemas.finding import Finding
from reconciler.core.schemas.shape import Schema

_SELF = frozenset({"schema.wrong-type", "schema.bad-value", "schema.not-allowed"})
"""Rules that speak of the value itself, which an ambiguous scalar explains better."""


def reread(document: Document, schema: Schema, found: list[Finding]) -> list[Finding]:
    """Look at the scalars as they are written, where `schema` wants a string.

    An ambiguous one gets a finding, instead of others about its value; any other is quoted as it was written.
    """
    ambiguous: dict[FieldPath, str] = {}
    for path, text in document.ambiguous:
        wanted = shape.at(schema, path)
        if wanted is not None and shape.wants_string_only(wanted):
            ambiguous[path] = text
    kept = [finding for finding in found if finding.path not in ambiguous or finding.rule not in _SELF]
    kept = [_as_written(document, finding) for finding in kept]
    return [*kept, *(_finding(path, text) for path, text in ambiguous.items())]


def _as_written(document: Document, finding: Finding) -> Finding:
    """Quote `0x1F`, not the 31 that it was read as."""
    if finding.rule != "schema.wrong-type" or not finding.hint.startswith("quote it"):
        return finding
    text = document.written(finding.path)
    return finding if text is None else replace(finding, hint=f'quote it: "{text}"')


def _finding(path: FieldPath, text: str) -> Finding:
    return Finding(
        rule="yaml.ambiguous-scalar",
        path=path,
        message=f"a string is wanted here, but YAML parsers disagree about what a plain {text} is",
        hint=f'quote it: "{text}"',
    )

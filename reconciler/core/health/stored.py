"""Files of stored reports: objects of a cluster, one by one, as a list, or one in each line of a `.jsonl` file."""

from collections.abc import Iterator
from typing import Any

import msgspec

from reconciler.core.documents import read
from reconciler.core.health.published import MalformedReport, report_of
from reconciler.core.health.report import NodeReport


def stored_reports(path: str, content: bytes) -> list[NodeReport]:
    """Return the reports in a file. Raises `MalformedReport`: a report that is left out would look like a good node."""
    try:
        found = [report_of(body) for body in _objects(path, content)]
    except msgspec.DecodeError as error:
        raise MalformedReport(str(error)) from None
    return [one for one in found if one is not None]


def _objects(path: str, content: bytes) -> Iterator[dict[str, Any]]:
    if path.endswith((".yaml", ".yml")):
        reading = read(path, content)
        if reading.problems:
            raise MalformedReport(reading.problems[0].message)
        for document in reading.documents:
            yield from _items(document.data)
        return
    lines = content.splitlines() if path.endswith(".jsonl") else [content]
    for line in lines:
        if line.strip():
            yield from _items(msgspec.json.decode(line, type=dict[str, Any]))


def _items(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    items = body.get("items")
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))
    else:
        yield body

"""Files of stored reports: objects of a cluster, one by one, as a list, or one in each line of a `.jsonl` file."""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.kube.values import NOT_JSON
from reconciler.kube.yaml import read
from reconciler.nodehealth.merging import content
from reconciler.nodehealth.published import MalformedReport, body_of, report_of
from reconciler.nodehealth.report import NodeReport

_DAY = 86400.0


def read_reports(files: Mapping[str, bytes]) -> list[NodeReport]:
    """Return the reports in these files: objects of the cluster, one by one, as a list, or one in each line.

    Raises `ConfigError` for a file that holds no report: a report that is left out would look like a healthy node.
    """
    reports: list[NodeReport] = []
    for path, raw in sorted(files.items()):
        try:
            reports += stored_reports(path, raw)
        except MalformedReport as error:
            raise ConfigError(f"{path}: {error}") from None
    if not reports:
        raise ConfigError("there are no health reports", hint="`reconciler observe --reports` stores them")
    return reports


def last_stored(files: Iterable[tuple[str, Callable[[], bytes]]], now: float) -> dict[str, NodeReport]:
    """Return the last report of each node that `store_reports` wrote within a day. Files of others are not read.

    Raises `ConfigError` for a file that was damaged since.
    """
    last: dict[str, NodeReport] = {}
    for name, read_bytes in files:
        at = file_time(name)
        if at is None or now - at > _DAY:
            continue
        for one in read_reports({name: read_bytes()}):
            if one.node not in last or one.measured_at > last[one.node].measured_at:
                last[one.node] = one
    return last


_NAME = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{6})Z(-\d+)?\.json")

_MAX_BYTES = 2 << 20


def stored_reports(path: str, raw: bytes) -> list[NodeReport]:
    """Return the reports in a file. Raises `MalformedReport`: a report that is left out would look like a good node."""
    try:
        found = [report_of(body) for body in _objects(path, raw)]
    except NOT_JSON as error:
        raise MalformedReport(str(error)) from None
    return [one for one in found if one is not None]


def _objects(path: str, raw: bytes) -> Iterator[dict[str, Any]]:
    if path.endswith((".yaml", ".yml")):
        reading = read(path, raw)
        if reading.problems:
            raise MalformedReport(reading.problems[0].message)
        for document in reading.documents:
            yield from _items(document.data)
        return
    lines = raw.splitlines() if path.endswith(".jsonl") else [raw]
    for line in lines:
        if line.strip():
            yield from _items(msgspec.json.decode(line, type=dict[str, Any]))


def _items(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    items = body.get("items")
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))
    else:
        yield body


# Writing.


class StoredFiles(Struct, frozen=True, kw_only=True):
    """The changes of a folder of stored reports: new files by name, and the names of those that are too old."""

    written: Mapping[str, bytes]
    removed: tuple[str, ...] = ()


def file_time(name: str) -> float | None:
    """Return when a file of stored reports was written, by its name; None for a file that is not ours."""
    found = _NAME.fullmatch(name)
    return None if found is None else dt.datetime.strptime(f"{found[1]}Z", "%Y-%m-%dT%H%M%S%z").timestamp()


def store_reports(
    reports: Iterable[NodeReport], names: Iterable[str], last: Mapping[str, NodeReport], *, now: float, days: int
) -> StoredFiles:
    """Return the files that hold these reports, and those to delete after so many days.

    `names` are the files of the folder, and `last` the reports that were stored within a day, by node: of a node
    without a problem that says the same again, one a day is enough. A file holds at most 2 MiB: plans read up to 3.
    """
    new = [one for one in sorted(reports, key=lambda one: one.node) if _is_news(one, last.get(one.node))]
    stamp = dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H%M%SZ")
    parts: list[list[bytes]] = []
    room = 0
    for line in (msgspec.json.encode(body_of(one)) for one in new):
        if len(line) > room:
            parts.append([])
            room = _MAX_BYTES
        parts[-1].append(line)
        room -= len(line) + 2
    written = {f"{stamp}{f'-{number}' if number > 1 else ''}.json": _list(one) for number, one in enumerate(parts, 1)}
    old = [name for name in names if (at := file_time(name)) is not None and now - at > days * _DAY]
    return StoredFiles(written=written, removed=tuple(sorted(set(old) - written.keys())))


def _is_news(report: NodeReport, before: NodeReport | None) -> bool:
    if before is None or report.findings:
        return before is None or report.measured_at > before.measured_at
    return content(report) != content(before) or report.measured != before.measured


def _list(lines: Iterable[bytes]) -> bytes:
    """Return a list of objects with one in each line, so that Git shows a report as a line."""
    return b'{"apiVersion":"v1","kind":"List","items":[\n' + b",\n".join(lines) + b"\n]}\n"

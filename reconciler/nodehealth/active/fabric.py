"""The outputs of `all_reduce_perf` and `ib_write_bw` as readings, with the floors that they are judged by.

Whoever may create pods beside a test can print anything: only a whole table of plausible numbers is a measurement.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import groupby
from pkgutil import get_data

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.patterns import later
from reconciler.nodehealth.checks.check import as_number
from reconciler.nodehealth.findings import HealthFinding, ThresholdSource
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import FabricTest, NetworkTest, PolicyBook, read_policy
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Sweep, Value
from reconciler.nodehealth.report import NodeReport, with_found

KEPT_SECONDS = 7 * 86400.0
_MAX_LENGTH = 4096  # of a termination message
_FASTEST = 100_000.0  # GB/s or Gb/s: no product is near it
_MIB_AS_GIGABITS = 8 * 1024**2 / 1e9
_ALL = re.MULTILINE | re.ASCII
_RANK = r"^(?:[ \t]*\d+:)?[ \t]*"
_COLUMNS = r"(\d+)[ \t]+\d+[ \t]+[a-z]\w*[ \t]+[a-z]\w*(?:[ \t]+-?\d+)?((?:[ \t]+[\w.+/-]+){8})[ \t]*$"
_ROW_START = later(_RANK + r"\d+[ \t]+\d+[ \t]", _ALL)
_TABLE_ROW = later(_RANK + _COLUMNS, _ALL)
_BOUNDS = later(_RANK + r"# Out of bounds values : (\d{1,18}) (OK|FAILED)[ \t]*$", _ALL)
_WRITE_HEAD = later(r"^ *#bytes +#iterations +BW peak\[[^]]*\] +BW average\[(Gb|MiB)/sec\]", _ALL)
_WRITE_ROW = later(r"^ *(\d+) +\d+ +[\d.]+ +([\d.]+)[ \t]+[\d.]+[ \t]*$", _ALL)


class UnreadableOutput(ValueError):
    """An output is not that of a program that has measured."""


class NetworkFloor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A floor of a product within `nodes` nodes (2: of two and more), or of a port with a rate in Gb/s."""

    floor: float
    source: str
    products: tuple[str, ...] = ()
    gpus: int = 0
    nodes: int = 0
    rate: float = 0.0


class EndedTest(Struct, frozen=True, kw_only=True):
    """A pod of a test that has ended: on which nodes, its output, exit code and time."""

    test: NetworkTest
    nodes: tuple[str, ...]
    output: str
    code: int
    ended_at: float


def declared_tests(policies: PolicyBook) -> dict[tuple[str, str], NetworkTest]:
    """Return the tests of all policies by namespace and name of their Jobs."""
    return {
        (test.namespace, job_name(one.name, name, test)): test
        for one in policies.documents
        if one.spec.get("networkTests")
        for name, test in read_policy(one.name, one.spec).network_tests.items()
    }


def job_name(policy: str, name: str, test: NetworkTest) -> str:
    """Return the name of the Job of a test. Another `run` is another Job."""
    return f"net-{policy}-{name}-{test.run}"


def read_all_reduce(text: str) -> dict[str, Value]:
    """Return the bus bandwidth of the largest message in GB/s, the mean of both places, and the wrong results."""
    bounds = _BOUNDS.findall(text)
    rows = {int(size): columns.split() for size, columns in _TABLE_ROW.findall(text)}
    if len(bounds) != 1 or not rows or len(rows) != len(_ROW_START.findall(text)):
        raise UnreadableOutput("no whole table of all_reduce_perf")
    columns = rows[max(rows)]
    counted = [int(row[place]) for row in rows.values() for place in (3, 7) if row[place].isdigit()]
    rate = _plausible((_number(columns[2]) + _number(columns[6])) / 2)
    return {"rate": rate, "unit": "GB/s", "wrong": max(sum(counted), int(bounds[0][0]), bounds[0][1] == "FAILED")}


def read_write_bandwidth(text: str) -> dict[str, Value]:
    """Return the average bandwidth of the largest message in Gb/s, of the last table."""
    heads = list(_WRITE_HEAD.finditer(text))
    rows = _WRITE_ROW.findall(text, heads[-1].end()) if heads else []
    if not rows:
        raise UnreadableOutput("no table of ib_write_bw")
    _, average = max((int(size), average) for size, average in rows)
    factor = _MIB_AS_GIGABITS if heads[-1][1] == "MiB" else 1.0
    return {"rate": _plausible(_number(average) * factor), "unit": "Gb/s"}


_READERS = {FabricTest.ALL_REDUCE: read_all_reduce, FabricTest.IB_WRITE: read_write_bandwidth}


def _number(word: str) -> float:
    try:
        number = as_number(float(word))
    except ValueError:
        number = None
    if number is None:
        raise UnreadableOutput(f"{word[:20]} is no number")
    return number


def _plausible(rate: float) -> float:
    if not 0 < rate < _FASTEST:
        raise UnreadableOutput(f"{rate:.4g} is no plausible bandwidth")
    return rate


@cache
def _floors() -> Mapping[FabricTest, tuple[NetworkFloor, ...]]:
    content = get_data("reconciler", "data/network_floors.json") or b""
    return msgspec.json.decode(content, type=dict[FabricTest, tuple[NetworkFloor, ...]])


def floor_of(test: NetworkTest, products: Collection[str]) -> dict[str, Value]:
    """Return the floor of a test with its source; nothing if none is known for these products."""
    if test.floor:
        return {"floor": test.floor, "source": ThresholdSource.POLICY, "citation": "the policy"}
    for row in _floors()[test.test]:
        is_product = set(products) <= set(row.products) and row.gpus == test.gpus
        is_meant = is_product and row.nodes == min(len(test.nodes), 2) if row.products else row.rate == test.rate
        if is_meant and products:
            source = ThresholdSource.POLICY if row.source.startswith("derived") else ThresholdSource.VENDOR
            return {"floor": row.floor, "source": source, "citation": row.source}
    return {}


def _measured(ended: EndedTest) -> dict[str, Value]:
    value = _READERS[ended.test.test](ended.output[-_MAX_LENGTH:])
    if ended.code and not value.get("wrong"):
        raise UnreadableOutput("the program failed after it had measured")
    first, *others = ended.test.nodes
    return {**value, "between": " and ".join((first, *others)) if others else f"the GPUs of {first}"}


def fabric_finding(ended: EndedTest, products: Collection[str]) -> HealthFinding:
    """Return what a test says about each of its nodes. What cannot be read is UNKNOWN, whatever the exit code."""
    name = ReadingId(ended.test.test.check)
    try:
        reading = NodeReading(name=name, value={**_measured(ended), **floor_of(ended.test, products)})
    except UnreadableOutput as problem:
        reading = NodeReading(name=name, error=ReadError.FAILED, detail=f"{problem}; exit code {ended.code}")
    sweep = Sweep(node=ended.nodes[0], taken_at=ended.ended_at, readings=(reading,))
    (found,) = judge(sweep, only=(name.value,))
    return replace(found, since=ended.ended_at)


def with_fabric(
    reports: Mapping[str, NodeReport], ended: Iterable[EndedTest], products: Mapping[str, str], now: float
) -> dict[str, NodeReport]:
    """Return the reports with what the newest test of each kind says about each node, for a week after its end."""
    rows = sorted(
        ((node, one.test.test.check, one.ended_at, one.code, one) for one in ended for node in one.nodes),
        key=lambda row: row[:4],
    )
    changed = dict(reports)
    for (node, check), group in groupby(rows, key=lambda row: row[:2]):
        *_, (_, _, ended_at, _, newest) = group
        if node in changed and 0 <= now - ended_at < KEPT_SECONDS:
            finding = fabric_finding(newest, {products.get(one, "") for one in newest.test.nodes})
            changed[node] = with_found(changed[node], check, (finding,))
    return changed

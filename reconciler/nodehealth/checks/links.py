"""NVLink, the fabric of NVSwitches, and ports of InfiniBand and RoCE."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from reconciler.kube.values import plural
from reconciler.nodehealth.checks.check import (
    DAY,
    HOUR,
    MINUTE,
    CheckInput,
    CheckResult,
    Unmeasured,
    as_number,
    failed,
    health_checks,
    outcome,
    passed,
    warned,
)
from reconciler.nodehealth.checks.counters import change
from reconciler.nodehealth.findings import CheckStatus, Threshold, ThresholdSource
from reconciler.nodehealth.policy import PortExpectation
from reconciler.nodehealth.readings import ReadingId

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_SPEEDS = {"H100": 26_562, "H200": 26_562, "H800": 26_562, "GB200": 53_125, "B200": 53_125, "A100": 25_781}
_LINKS = {
    "A100-SXM": 12,
    "A800-SXM": 8,
    "H100 80GB HBM3": 18,
    "H800": 8,
    "H20": 18,
    "B200": 18,
    "B300": 18,
    "V100-SXM": 6,
    "H200": 18,
}
"""Links of each GPU on its usual board. A card of PCI Express has links only where a bridge is mounted."""

_BRIDGED = ("PCIe", "PCIE", "NVL", "A30", "A40", "A6000")
_HALF_HOUR = 30 * MINUTE


def _states(given: CheckInput, slot: str) -> list[int]:
    value = given.value(ReadingId.NVML_NVLINK_STATES, slot)
    if not isinstance(value, list) or not value or any(as_number(state) is None for state in value):
        raise Unmeasured(CheckStatus.UNKNOWN, "nvml.nvlink_states: not a list of states")
    return [int(state) for state in value]


def _peers(given: CheckInput) -> list[str]:
    """Return the slots of the GPUs of this product in the node."""
    return [gpu.slot for gpu in given.sweep.gpus if gpu.product == given.gpu.product]


def _counts(given: CheckInput) -> list[int]:
    """Return the active links of each GPU of this product that tells them."""
    found = []
    for slot in _peers(given):
        try:
            found.append(sum(state == 1 for state in _states(given, slot)))
        except Unmeasured:
            continue
    return found


def _active(given: CheckInput) -> CheckResult:
    if given.is_mig:
        raise Unmeasured(CheckStatus.SKIP, "a GPU in MIG mode uses no NVLink")
    states = _states(given, given.slot)
    active, wanted = sum(state == 1 for state in states), given.expected.nvlinks
    limit, said_by = given.expected_limit(wanted), given.expected.said_by
    usual = 0
    if wanted is None:
        counts = _counts(given)  # platforms leave some links unused by design
        wanted, said_by = max(counts, default=0), ""
        citation = "the GPU with the most links in this node"
        limit = Threshold(value=wanted, source=ThresholdSource.MEASURED, citation=citation)
        # A bridge joins two, so one of an odd number lost its own.
        is_bridged = any(word in given.gpu.product for word in _BRIDGED)
        if wanted == 0 or (is_bridged and not active and not sum(map(bool, counts)) % 2):
            text = f"none of {len(states)} links is active on {'any' if wanted == 0 else 'this'} GPU of this node"
            raise Unmeasured(CheckStatus.SKIP, f"{text}; if that is wrong, set `expected.nvlinks` in a HealthPolicy")
        known = (count for name, count in _LINKS.items() if name in given.gpu.product and not is_bridged)
        usual = min(next(known, 0), len(states))
    down = ", ".join(str(link) for link, state in enumerate(states) if state != 1)
    if active < wanted:
        return failed(f"{active} of {wanted} links are active{said_by}; down: {down}", active, limit)
    if active < usual:
        limit = Threshold(value=usual, source=ThresholdSource.VENDOR, citation="NVIDIA, links of this product")
        return warned(f"{active} of the usual {usual} links are active on every GPU; down: {down}", active, limit)
    return passed(f"{active} links are active", active, limit)


def _speed(given: CheckInput) -> CheckResult:
    value = given.value(ReadingId.NVML_NVLINK_SPEEDS)
    speeds = [number for each in value if (number := as_number(each))] if isinstance(value, list) else []
    if not speeds:
        raise Unmeasured(CheckStatus.SKIP, "no link reports its speed")
    known = next((speed for name, speed in _SPEEDS.items() if name in given.gpu.product), None)
    if known is None:
        raise Unmeasured(CheckStatus.SKIP, f"the speed of the links of {given.gpu.product or 'this GPU'} is not known")
    limit = Threshold(value=known, source=ThresholdSource.VENDOR, citation="NVIDIA, per link and direction")
    slow = [speed for speed in speeds if speed < known]
    text = f"{len(slow)} of {len(speeds)} links are slow: {min(speeds):g} MB/s" if slow else f"{min(speeds):g} MB/s"
    return outcome(FAIL if slow else PASS, text, min(speeds), limit)


_FATAL = ("recovery_failed", "integrity")
_CRC = ("crc_flit", "crc_data")
_RETRIES = ("replay", "recovery", "recovery_events")


def _errors(given: CheckInput) -> CheckResult:
    counters = given.table(ReadingId.NVML_NVLINK_ERRORS)
    grown = {name: change(given, ReadingId.NVML_NVLINK_ERRORS, name, seconds=_HALF_HOUR) for name in counters}
    totals = {name: given.field(ReadingId.NVML_NVLINK_ERRORS, name) for name in counters}
    if not totals:
        raise Unmeasured(CheckStatus.UNKNOWN, "nvml.nvlink_errors: no counter")
    if not any(totals.values()):
        return passed("no link errors since the driver was loaded", 0)
    known = {name: found for name, found in grown.items() if found is not None}
    if not known:
        raise Unmeasured(CheckStatus.SKIP, "nvml.nvlink_errors: a rate needs an earlier sweep")
    new = {name: found.difference for name, found in known.items() if found.difference}
    text = ", ".join(f"{name} {count:g}" for name, count in sorted(new.items()))
    samples = max(found.samples for found in known.values())
    if any(name in new for name in _FATAL):
        return failed(f"new link errors: {text}", text, samples=samples)
    crc = sum(known[name].per_second for name in _CRC if name in known)
    if crc >= given.limit("crcASecond"):
        return failed(f"{crc:.0f} CRC errors a second", text, given.threshold("crcASecond"))
    if _windows(given) > given.limit("windows"):
        limit = given.threshold("windows")
        text = f"replays or recoveries continue: {text}"
        return failed(text, text, limit, samples=samples)
    if new:
        return warned(f"new link errors: {text}", text, samples=samples)
    return passed("no new link errors", 0, samples=samples)


def _windows(given: CheckInput) -> int:
    """Return in how many minutes of the last half hour links replayed or recovered."""
    found: set[int] = set()
    for before, after in pairwise((*given.earlier(_HALF_HOUR), given.sweep)):
        for name in _RETRIES:
            one, other = (given.at(sweep).maybe(ReadingId.NVML_NVLINK_ERRORS, name) for sweep in (before, after))
            if one is not None and other is not None and other > one:
                found.add(int((given.sweep.taken_at - after.taken_at) // MINUTE))
    return len(found)


_NOT_SUPPORTED, _NOT_STARTED, _IN_PROGRESS, _COMPLETED = range(4)
_FLAGS = (
    (0, "reduced bandwidth", WARN),
    (2, "routes recover", WARN),
    (4, "routes are broken", FAIL),
    (6, "access timeouts recover", WARN),
)
_TRUE, _CONFIGURED = 1, 1  # of two bits: 1 true, 2 false, 0 not known; of the configuration: 1 correct


def _fabric(given: CheckInput) -> CheckResult:
    if given.is_mig:
        raise Unmeasured(CheckStatus.SKIP, "a GPU in MIG mode is not part of a fabric")
    state = int(given.field(ReadingId.NVML_FABRIC, "state"))
    if state == _NOT_SUPPORTED:
        raise Unmeasured(CheckStatus.SKIP, "the GPU is not part of a fabric")
    if state == _COMPLETED:
        return _health(given)
    age, limit = _age(given, state), given.limit("startMinutes" if state == _IN_PROGRESS else "missingMinutes")
    text = {_IN_PROGRESS: "is being set up", _NOT_STARTED: "was not set up"}.get(
        state, f"has the unknown state {state}"
    )
    if state in {_IN_PROGRESS, _NOT_STARTED} and age >= limit * MINUTE:
        status, name = (WARN, "startMinutes") if state == _IN_PROGRESS else (FAIL, "missingMinutes")
        text = f"the fabric {text} for {age / MINUTE:.0f} minutes: the GPU cannot reach its peers"
        return outcome(status, text, age / MINUTE, given.threshold(name))
    raise Unmeasured(CheckStatus.UNKNOWN, f"the fabric {text}")


def _age(given: CheckInput, state: int) -> float:
    """Return for how many seconds the state has lasted: since the boot, if no sweep had another one."""
    others = [
        sweep.taken_at
        for sweep in given.earlier(24 * 60 * MINUTE)
        if (reading := sweep.find(ReadingId.NVML_FABRIC, given.slot)) is not None
        and isinstance(reading.value, dict)
        and reading.value.get("state") != state
    ]
    if others:
        return given.sweep.taken_at - max(others)
    return given.number(ReadingId.PROCFS_UPTIME, slot="")


def _health(given: CheckInput) -> CheckResult:
    code, mask = (
        int(given.field(ReadingId.NVML_FABRIC, "status")),
        int(given.field(ReadingId.NVML_FABRIC, "health_mask")),
    )
    if code:
        return failed(f"the fabric was set up with error {code}", code)
    bad = [(text, status) for shift, text, status in _FLAGS if mask >> shift & 3 == _TRUE]
    if (mask >> 8 & 15) > _CONFIGURED:
        bad.append(("the configuration is wrong", FAIL))
    if not bad:
        return passed("the fabric is complete", 0)
    status = FAIL if any(each is FAIL for _, each in bad) else WARN
    return outcome(status, f"fabric: {', '.join(text for text, _ in bad)}", f"{mask:#x}")


def _ports(given: CheckInput) -> dict[str, dict[str, Any]]:
    return {f"{row.get('device')}/{row.get('port')}": row for row in given.rows(ReadingId.SYSFS_INFINIBAND_PORTS)}


def _is_up(row: dict[str, Any]) -> bool:
    return "ACTIVE" in str(row.get("state"))


def _earlier_ports(
    given: CheckInput, seconds: float, *, any_boot: bool = False
) -> list[tuple[float, dict[str, dict[str, Any]]]]:
    found = []
    for sweep in given.earlier(seconds, any_boot=any_boot):
        try:
            found.append((sweep.taken_at, _ports(given.at(sweep))))
        except Unmeasured:
            continue
    return found


def _ports_state(given: CheckInput) -> CheckResult:
    """Compare ports with what Git expects and with what they were: one that never was up may have no cable."""
    ports = _ports(given)
    wanted = {"InfiniBand": given.expected.ib, "Ethernet": given.expected.ethernet}
    for layer, expected in wanted.items():
        if expected is not None and (short := _short_of(given, ports, layer, expected)):
            return short
    if not ports:
        raise Unmeasured(CheckStatus.SKIP, "this node has no InfiniBand")
    earlier, known = _earlier_ports(given, HOUR), _earlier_ports(given, 8 * DAY, any_boot=True)
    lost = [name for name, row in ports.items() if not _is_up(row) and any(_was_up(old, name) for _, old in known)]
    gone = sorted({name for _, old in known for name, row in old.items() if _is_up(row)} - set(ports))
    if (lost or gone) and not any(wanted.values()):
        return failed(f"ports went down: {', '.join(sorted(lost) + gone)}", len(lost) + len(gone))
    if not any(_is_up(row) for row in ports.values()):
        return warned(f"none of {len(ports)} ports is active", 0)
    downs = _grown(ports, earlier, "link_downed")
    symbols = _per_second(given, ports)
    if downs >= given.limit("downsInAnHour") or symbols > given.limit("symbolErrorsASecond"):
        is_flapping = downs >= given.limit("downsInAnHour")
        text = f"links went down {plural(downs, 'time')}" if is_flapping else f"{symbols:.0f} symbol errors a second"
        limit = given.threshold("downsInAnHour" if is_flapping else "symbolErrorsASecond")
        observed = downs if is_flapping else symbols
        return outcome(FAIL if is_flapping else WARN, text, observed, limit)
    odd = [*_slower(ports), *_unmanaged(ports)]
    if downs or odd:
        text = "; ".join([*odd, *([f"links went down {plural(downs, 'time')}"] if downs else [])])
        return warned(text, downs or len(odd))
    up = sum(_is_up(row) for row in ports.values())
    is_whole = up == len(ports) or any(wanted.values())  # else a port may be down that was up before the agent began
    since = given.sweep.taken_at if is_whole else 0.0
    return passed(f"{up} of {len(ports)} ports are active", up, since=since)


def _short_of(
    given: CheckInput, ports: dict[str, dict[str, Any]], layer: str, expected: PortExpectation
) -> CheckResult | None:
    """Return what ports of one kind lack of what Git expects."""
    rows = {name: row for name, row in ports.items() if str(row.get("link_layer") or "InfiniBand") == layer}
    up = [name for name, row in rows.items() if _is_up(row)]
    slow = [name for name in up if expected.rate and (_rate(rows[name]) or 0.0) < expected.rate]
    if len(up) >= expected.ports and len(up) - len(slow) >= expected.ports:
        return None
    down = sorted(set(rows) - set(up))
    text = f"{len(up)} of {expected.ports} {layer} ports are active{given.expected.said_by}"
    text += f"; down: {', '.join(down)}" if down and len(up) < expected.ports else ""
    text += f"; below {expected.rate:g} Gb/s: {', '.join(slow)}" if slow else ""
    return failed(text, len(up) - len(slow), given.expected_limit(expected.ports))


def _rate(row: dict[str, Any]) -> float | None:
    number = str(row.get("rate") or "").split(" ")[0]
    return float(number) if number.replace(".", "", 1).isdigit() else None


def _slower(ports: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Say which active ports are slower than most others of their kind."""
    for layer in sorted({str(row.get("link_layer")) for row in ports.values()}):
        rates = {name: rate for name, row in ports.items() if _is_up(row) and (rate := _rate(row))
                 and str(row.get("link_layer")) == layer}  # fmt: skip
        usual, count = Counter(rates.values()).most_common(1)[0] if rates else (0.0, 0)
        if 2 * count > len(rates):
            yield from (f"{name} runs at {rate:g} of {usual:g} Gb/s" for name, rate in rates.items() if rate < usual)


def _unmanaged(ports: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Say which ports have a link and are not active: nobody manages their subnet."""
    for name, row in ports.items():
        if not _is_up(row) and "LinkUp" in str(row.get("phys_state")):
            yield f"{name} has a link, but no subnet manager made it active"


def _was_up(ports: dict[str, dict[str, Any]], name: str) -> bool:
    return name in ports and _is_up(ports[name])


def _grown(
    ports: dict[str, dict[str, Any]], earlier: list[tuple[float, dict[str, dict[str, Any]]]], counter: str
) -> float:
    """Return the most that a counter of one port grew since the first earlier sweep."""
    if not earlier:
        return 0.0
    grown = 0.0
    for name, row in ports.items():
        now, then = as_number(row.get(counter)), as_number(earlier[0][1].get(name, {}).get(counter))
        if now is not None and then is not None:
            grown = max(grown, now - then if now >= then else now)
    return grown


def _per_second(given: CheckInput, ports: dict[str, dict[str, Any]]) -> float:
    earlier = _earlier_ports(given, 10 * MINUTE)
    return _grown(ports, earlier, "symbol_error") / (given.sweep.taken_at - earlier[0][0]) if earlier else 0.0


CHECKS = health_checks(
    "links",
    {
        "nvlink.active": _active,
        "nvlink.speed": _speed,
        "nvlink.errors": _errors,
        "fabric.state": _fabric,
        "ib.state": _ports_state,
    },
)

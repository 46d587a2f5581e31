"""The network of the node: every address of the other nodes answers; what iperf measured is reported and not judged."""

from functools import partial

from reconciler.kube.values import plural
from reconciler.nodehealth.checks.check import (
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
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, Threshold, ThresholdSource
from reconciler.nodehealth.readings import ReadingId


def _ping(given: CheckInput) -> CheckResult:
    if given.sweep.find(ReadingId.NET_PING) is None:
        raise Unmeasured(CheckStatus.SKIP, "no addresses to ping were given")
    rows = given.rows(ReadingId.NET_PING)
    if not rows:
        raise Unmeasured(CheckStatus.SKIP, "there is no other node")
    lost = {str(row.get("address")): _loss(row.get("sent"), row.get("received")) for row in rows}
    dead = [address for address, part in lost.items() if part is not None and part >= given.limit("failLoss")]
    if dead:
        return outcome(
            CheckStatus.FAIL if _is_ours(dead, rows) else CheckStatus.WARN,
            f"{len(dead)} of {len(rows)} addresses do not answer: {_named(dead, rows)}",
            ",".join(dead),
            given.threshold("failLoss"),
            samples=len(rows),
        )
    odd = [address for address, part in lost.items() if part is None]
    if odd:
        why = next(str(row.get("error", "no packet was sent")) for row in rows if str(row.get("address")) == odd[0])
        raise Unmeasured(CheckStatus.UNKNOWN, f"{_named(odd, rows)} could not be pinged: {why}")
    lossy = [address for address, part in lost.items() if (part or 0) >= given.limit("warnLoss")]
    limit, samples = given.threshold("warnLoss"), len(rows)
    if lossy:
        return warned(f"{_named(lossy, rows)} lost packets", ",".join(lossy), limit, samples=samples)
    text = f"all {plural(samples, 'address')} answer" if samples > 1 else "the address answers"
    return passed(text, samples, limit, samples=samples)


def _is_ours(dead: list[str], rows: list[dict[str, object]]) -> bool:
    """Say whether half of the other nodes do not answer, so that this node is the likelier cause."""
    silent = {str(row.get("node")) for row in rows if str(row.get("address")) in dead}
    return 2 * len(silent) >= len({str(row.get("node")) for row in rows})


def _loss(sent: object, received: object) -> float | None:
    """Return the percentage of packets that were lost; None if none was sent."""
    total, back = as_number(sent), as_number(received)
    return None if not total or back is None else 100 * (total - min(back, total)) / total


def _named(addresses: list[str], rows: list[dict[str, object]]) -> str:
    """Return addresses with their nodes and interfaces, where they have names."""
    places = {str(row.get("address")): (row.get("node"), row.get("interface")) for row in rows}
    named = {
        address: " ".join(str(part) for part in place if part and part != address) for address, place in places.items()
    }
    return ", ".join(f"{address} ({named[address]})" if named[address] else address for address in addresses)


def _iperf(given: CheckInput) -> CheckResult:
    if given.sweep.find(ReadingId.NET_IPERF) is None:
        raise Unmeasured(CheckStatus.SKIP, "no iperf was asked for")
    rows = given.rows(ReadingId.NET_IPERF)
    broken = [str(row["error"]) for row in rows if row.get("error")]
    rates = [(as_number(row.get("receivedGbps")), str(row.get("address"))) for row in rows if not row.get("error")]
    known = sorted((rate, address) for rate, address in rates if rate is not None)
    if broken or len(known) < len(rows) or not known:
        raise Unmeasured(CheckStatus.UNKNOWN, f"iperf: {broken[0] if broken else 'nothing was measured'}")
    slowest, address = known[0]
    return passed(f"slowest of {len(rows)}: {slowest:.4g} Gb/s, {address}", slowest, samples=len(rows))


def _fabric(given: CheckInput, name: ReadingId) -> CheckResult:
    """Judge what a test of the policy measured. A bandwidth that nothing is known to compare with is no pass."""
    if given.sweep.find(name) is None:
        raise Unmeasured(CheckStatus.SKIP, "no test of a policy has run")
    found, between = given.table(name), str(given.table(name).get("between", "the node"))
    if as_number(found.get("wrong")):
        return failed(f"{found['wrong']} wrong results between {between}", severity=FindingSeverity.FATAL)
    rate, floor, unit = given.field(name, "rate"), as_number(found.get("floor")), str(found.get("unit"))
    text = f"{rate:.4g} {unit} between {between}"
    if floor is None:
        raise Unmeasured(CheckStatus.UNKNOWN, f"{text}; no floor is known, so set `floor` of the test")
    limit = Threshold(value=floor, source=ThresholdSource(found["source"]), citation=str(found.get("citation", "")))
    is_low = rate < floor
    return outcome(
        CheckStatus.FAIL if is_low else CheckStatus.PASS,
        f"{text}, {'below' if is_low else 'at least'} the floor of {floor:g} ({limit.citation})",
        rate,
        limit,
    )


CHECKS = health_checks(
    "network",
    {
        "net.ping": _ping,
        "net.iperf": _iperf,
        "net.allreduce": partial(_fabric, name=ReadingId.NET_ALLREDUCE),
        "net.rdma": partial(_fabric, name=ReadingId.NET_RDMA),
    },
)

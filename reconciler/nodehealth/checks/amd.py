"""GPUs of AMD, as AMD SMI shows them."""

from reconciler.kube.values import plural
from reconciler.nodehealth.checks.check import (
    MINUTE,
    CheckInput,
    CheckResult,
    Unmeasured,
    as_number,
    failed,
    health_checks,
    outcome,
)
from reconciler.nodehealth.checks.counters import since_zero
from reconciler.nodehealth.findings import CheckStatus, Threshold, ThresholdSource
from reconciler.nodehealth.readings import ReadingId

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_TEN = 10 * MINUTE


def _init(given: CheckInput) -> CheckResult:
    found, wanted = int(given.number(ReadingId.AMDSMI_COUNT)), given.expected.gpus
    limit, said_by = given.expected_limit(wanted), given.expected.said_by
    if wanted is None:
        wanted, said_by = len(given.rows(ReadingId.SYSFS_PCI_GPUS)), ""
        limit = Threshold(value=wanted, source=ThresholdSource.SPEC, citation="the PCI bus")
    return outcome(FAIL if found < wanted else PASS, f"{found} of {plural(wanted, 'GPU')}{said_by}", found, limit)


def _ecc(given: CheckInput) -> CheckResult:
    count = given.field(ReadingId.AMDSMI_ECC, "uncorrectable")
    status = FAIL if count > given.limit("uncorrectable") else PASS
    return outcome(status, f"{count:g} uncorrectable memory errors", count, given.threshold("uncorrectable"))


def _pages(given: CheckInput) -> CheckResult:
    pending, lost = (
        given.field(ReadingId.AMDSMI_BAD_PAGES, "pending"),
        given.field(ReadingId.AMDSMI_BAD_PAGES, "unreservable"),
    )
    if lost:
        return failed(f"{plural(lost, 'bad page')} cannot be reserved", lost)
    return outcome(WARN if pending else PASS, f"{plural(pending, 'bad page')} pending until the next reset", pending)


def _width(given: CheckInput) -> CheckResult:
    current, wanted = given.field(ReadingId.AMDSMI_PCIE, "width"), given.expected.pcie_width
    limit, said_by = given.expected_limit(wanted), given.expected.said_by
    if wanted is None:
        wanted, said_by = int(given.field(ReadingId.AMDSMI_PCIE, "max_width")), ""
        limit = Threshold(value=wanted, source=ThresholdSource.VENDOR, citation="the maximum of GPU and slot")
    return outcome(FAIL if current < wanted else PASS, f"{current:g} of {wanted} lanes{said_by}", current, limit)


def _replays(given: CheckInput) -> CheckResult:
    grown = since_zero(given, ReadingId.AMDSMI_PCIE, "replays", seconds=_TEN)
    a_minute = grown.difference / max(grown.seconds, MINUTE) * MINUTE
    status = WARN if a_minute > given.limit("replaysAMinute") else PASS
    limit, text = given.threshold("replaysAMinute"), f"{a_minute:.1f} replays a minute"
    return outcome(status, text, a_minute, limit, samples=grown.samples)


_REASONS = ("prochot", "socket_thermal", "vr_thermal", "hbm_thermal")


def _throttle(given: CheckInput) -> CheckResult:
    """Judge which part of the time each limit was active. The power limit is normal under load."""
    table = given.table(ReadingId.AMDSMI_VIOLATIONS)
    known = {name: number for name in _REASONS if (number := as_number(table.get(name))) is not None}
    if not known:
        raise Unmeasured(CheckStatus.SKIP, "the GPU reports no reason for throttling")
    name, percent = max(known.items(), key=lambda one: one[1])
    status = WARN if percent > given.limit("percent") else PASS
    limit, text = given.threshold("percent"), f"{name} for {percent:.0f} % of the time"
    return outcome(status, text, round(percent, 1), limit)


def _xgmi(given: CheckInput) -> CheckResult:
    code = given.number(ReadingId.AMDSMI_XGMI_ERROR)
    return outcome(FAIL if code else PASS, "XGMI reports errors" if code else "XGMI reports no error", code)


def _heat(given: CheckInput) -> CheckResult:
    table = given.table(ReadingId.AMDSMI_TEMPERATURE)
    pairs = [
        (name, as_number(table.get(name)), as_number(table.get(f"{name}_limit"))) for name in ("hotspot", "memory")
    ]
    known = [(limit - degrees, name, degrees, limit) for name, degrees, limit in pairs if degrees is not None and limit]
    if not known:
        raise Unmeasured(CheckStatus.SKIP, "the GPU reports no temperature with a limit")
    margin, name, degrees, most = min(known)
    limit = Threshold(value=most, source=ThresholdSource.VENDOR, citation="critical temperature of this GPU")
    status = FAIL if margin <= 0 else WARN if margin <= given.limit("warnBelow") else PASS
    return outcome(status, f"{name} {degrees:g} degrees", degrees, limit)


def _power(given: CheckInput) -> CheckResult:
    watts, most = given.field(ReadingId.AMDSMI_POWER, "watts"), given.field(ReadingId.AMDSMI_POWER, "limit")
    limit = Threshold(value=most, source=ThresholdSource.VENDOR, citation="power limit of this GPU")
    return outcome(WARN if not 0 < watts <= most * given.limit("overLimit") else PASS, f"{watts:g} W", watts, limit)


CHECKS = health_checks(
    "amd",
    {
        "amd.count": _init,
        "amd.ecc": _ecc,
        "amd.bad_pages": _pages,
        "amd.pcie.width": _width,
        "amd.pcie.replay": _replays,
        "amd.throttle": _throttle,
        "amd.xgmi": _xgmi,
        "amd.temperature": _heat,
        "amd.power": _power,
    },
)

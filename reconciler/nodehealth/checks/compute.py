"""Arithmetic, measured: results that are right to the last bit, the rate, and multiprocessors that keep up."""

from reconciler.nodehealth.active.plans import STICKY, UNCORRECTABLE_ECC, sticky_code
from reconciler.nodehealth.checks.check import (
    CheckInput,
    CheckResult,
    Unmeasured,
    as_number,
    failed,
    health_checks,
    meaning,
    outcome,
    passed,
    warned,
)
from reconciler.nodehealth.findings import CheckStatus, RepairAction, Threshold
from reconciler.nodehealth.readings import ReadError, ReadingId

_EXACT = (ReadingId.CUDA_DAXPY, ReadingId.CUDA_FP64, ReadingId.CUDA_BF16, ReadingId.CUDA_FP32, ReadingId.CUDA_SOAK)
_TESTS = (ReadingId.CUDA_DEVICE, ReadingId.CUDA_H2D, ReadingId.CUDA_D2H, *_EXACT, ReadingId.CUDA_PEER)


def _usable(given: CheckInput) -> CheckResult:
    """Fail on an error that ends the use of the GPU, whichever test met it."""
    readings = [reading for name in _TESTS if (reading := given.sweep.find(name, given.slot)) is not None]
    for reading in readings:
        if code := sticky_code(reading):
            return failed(
                f"{reading.name}: {reading.detail or STICKY[code]}",
                code,
                action=RepairAction.RESET_GPU if code == UNCORRECTABLE_ECC else RepairAction.RUN_DIAG,
            )
    given.value(ReadingId.CUDA_DEVICE)
    late = next((reading for reading in readings if reading.error is ReadError.DEADLINE), None)
    if late is not None:
        raise meaning(late)
    return passed("the GPU was used without an error", 0)


def _checksum(given: CheckInput) -> CheckResult:
    """Fail on any wrong result. A test without a result is no proof, unless the GPU has no such arithmetic."""
    wrong: list[str] = []
    total, measured, missing = 0, 0, None
    for name in _EXACT:
        reading = given.sweep.find(name, given.slot)
        if reading is None or reading.error is ReadError.NOT_SUPPORTED:
            continue
        if reading.error is not None:
            missing = missing or meaning(reading)
            continue
        measured += 1
        count = int(given.field(name, "mismatches"))
        total += count
        if count:
            units = given.table(name).get("wrongSms")
            where = f" on multiprocessors {', '.join(map(str, units))}" if isinstance(units, list) and units else ""
            wrong.append(f"{name.removeprefix('cuda.')}: {count} wrong results{where}")
    if wrong:
        return failed(f"sdc_suspect: {'; '.join(wrong)}", total, samples=measured)
    if missing is not None:
        raise missing
    if not measured:
        raise Unmeasured(CheckStatus.UNKNOWN, "no test with an exact result ran")
    return passed("all results are exact", 0, samples=measured)


def _rate(given: CheckInput, name: ReadingId) -> CheckResult:
    """Tell the rate; judge it by a reference if there is one, and the slowest multiprocessor by the median."""
    observed = given.field(name, "best")
    found = given.table(name)
    samples = len(found.get("samples") or [0])
    message = f"{observed:.4g} TFLOPS{_of_peak(given, name)}"
    reference = as_number(given.threshold("referenceTflops").value)
    if reference and observed < reference * given.limit("belowReference"):
        threshold = Threshold(
            value=round(reference * given.limit("belowReference"), 3),
            source=given.threshold("referenceTflops").source,
            citation=given.threshold("referenceTflops").citation,
        )
        return warned(f"{message}, {observed / reference:.1%} of the reference", observed, threshold, samples=samples)
    slowest = as_number(found.get("slowestPart"))
    if slowest is None:
        raise Unmeasured(CheckStatus.UNKNOWN, f"{message}; the multiprocessors could not be told apart")
    is_uneven = slowest < given.limit("slowestPart")
    return outcome(
        CheckStatus.WARN if is_uneven else CheckStatus.PASS,
        f"{message}; multiprocessor {found.get('slowestSm')} has {slowest:.1%} of the median's speed",
        observed,
        given.threshold("slowestPart"),
        samples=samples,
    )


def _soak(given: CheckInput) -> CheckResult:
    """Compare the last samples of a long run with the first: heat and power show there."""
    first, last = given.field(ReadingId.CUDA_SOAK, "first"), given.field(ReadingId.CUDA_SOAK, "last")
    if first <= 0:
        raise Unmeasured(CheckStatus.UNKNOWN, "cuda.soak: no rate")
    part = last / first
    return outcome(
        CheckStatus.WARN if part < given.limit("lastPart") else CheckStatus.PASS,
        f"{last:.4g} TFLOPS at the end, {part:.1%} of the rate at the start",
        last,
        given.threshold("lastPart"),
        samples=int(given.field(ReadingId.CUDA_SOAK, "count")),
    )


def _of_peak(given: CheckInput, name: ReadingId) -> str:
    """Say how much of the peak at the measured clock that is: a slow clock and slow silicon look different."""
    found = given.table(name)
    clock, rate = as_number(found.get("clockMhz")), as_number(found.get("flopPerClock"))
    text = f" at {clock:.0f} MHz" if clock else ""
    limits = given.peaks.limits(given.gpu.product)
    if limits is None or rate is None:
        return text
    fp64 = {"tensor": limits.fp64_tensor or limits.fp64, "vector": limits.fp64}
    peaks = {ReadingId.CUDA_FP64: fp64.get(str(found.get("unit"))), ReadingId.CUDA_BF16: limits.bf16}
    peak = peaks.get(name)
    return f"{text}, {rate / peak:.0%} of the peak at that clock" if peak else text


CHECKS = health_checks(
    "compute",
    {
        "cuda.usable": _usable,
        "compute.checksum": _checksum,
        "compute.fp64": lambda given: _rate(given, ReadingId.CUDA_FP64),
        "compute.bf16": lambda given: _rate(given, ReadingId.CUDA_BF16),
        "compute.fp32": lambda given: _rate(given, ReadingId.CUDA_FP32),
        "compute.soak": _soak,
    },
)

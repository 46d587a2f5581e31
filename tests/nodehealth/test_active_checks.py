"""What measurements mean: bandwidth by generation and product, exact results, slow multiprocessors, errors of the GPU."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler import resources
from reconciler.nodehealth.active.plans import PLANS, obstacle
from reconciler.nodehealth.findings import (
    CheckStatus,
    FindingSeverity,
    HealthFinding,
    ProbeProfile,
    RepairAction,
    Threshold,
    ThresholdSource,
)
from reconciler.nodehealth.judge import Limits, judge
from reconciler.nodehealth.readings import GpuIdentity, NodeReading, ReadError, ReadingId, Sweep
from reconciler.sizing.peaks import read_peaks

PEAKS = read_peaks(resources.read("data/gpus.json"))
SLOT = "0000:3b:00.0"
H100 = "NVIDIA H100 80GB HBM3"
PASS, WARN, FAIL, UNKNOWN, SKIP = CheckStatus


def _found(check: str, readings: Mapping[str, Any], product: str = H100, limits: Limits | None = None) -> HealthFinding:
    """Judge one check over values, or errors, by the names of their readings."""
    rows = tuple(
        NodeReading(name=ReadingId(name), slot=SLOT, error=value)
        if isinstance(value, ReadError)
        else value
        if isinstance(value, NodeReading)
        else NodeReading(name=ReadingId(name), slot=SLOT, value=value)
        for name, value in readings.items()
    )
    sweep = Sweep(node="n", taken_at=1.0, gpus=(GpuIdentity(slot=SLOT, product=product),), readings=rows)
    (finding,) = judge(sweep, only=(check,), peaks=PEAKS, limits=limits)
    return finding


def _copy(gbs: float, **link: int) -> dict[str, Any]:
    return {"best": gbs, "median": gbs, "samples": [gbs] * 3, "bytes": 1 << 28, "link": link}


@pytest.mark.parametrize(
    ("gbs", "generation", "width", "status"),
    [
        (3.9, 3, 16, FAIL),
        (12.0, 3, 16, PASS),
        (10.0, 3, 16, WARN),
        (8.9, 3, 16, FAIL),
        (12.0, 4, 16, FAIL),
        (22.0, 4, 16, WARN),
        (24.5, 4, 16, PASS),
        (12.0, 5, 16, FAIL),
        (47.0, 5, 16, WARN),
        (55.2, 5, 16, PASS),
        (14.2, 5, 16, FAIL),
        (3.9, 1, 16, PASS),
        (3.9, 3, 4, PASS),
        (12.0, 4, 8, PASS),
        (6.0, 3, 8, PASS),
    ],
)
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_pcie_by_generation(gbs: float, generation: int, width: int, status: CheckStatus, direction: str) -> None:
    """F-080: 3.9 and 12 GB/s mean something else on each generation; the limits scale with the lanes."""
    finding = _found(f"pcie.{direction}", {f"cuda.{direction}": _copy(gbs, maxGeneration=generation, width=width)})
    assert finding.status is status, finding.message
    assert (finding.observed, finding.unit, finding.samples) == (gbs, "GB/s", 3)
    assert finding.threshold is not None
    assert finding.threshold.source is ThresholdSource.VENDOR
    assert finding.profile is ProbeProfile.PREFLIGHT
    assert f"Gen{generation} x{width}" in finding.message


def test_a_lost_lane_is_not_hidden_by_its_smaller_bandwidth() -> None:
    """The register of the width is judged by its own check; here the bandwidth of the lanes that are left counts."""
    assert _found("pcie.h2d", {"cuda.h2d": _copy(6.0, maxGeneration=4, width=4)}).status is PASS
    assert _found("pcie.h2d", {"cuda.h2d": _copy(6.0, maxGeneration=4, width=16)}).status is FAIL


def test_pcie_without_sysfs_uses_nvml_and_never_guesses() -> None:
    """The generation is that of slot and GPU, the lower one; without any, there is no verdict."""
    nvml = {"nvml.pcie_max_generation": 3, "nvml.pcie_gpu_generation": 5, "nvml.pcie_width": 16}
    assert _found("pcie.h2d", {"cuda.h2d": _copy(12.0), **nvml}).status is PASS
    assert _found("pcie.h2d", {"cuda.h2d": _copy(12.0), **nvml, "nvml.pcie_max_generation": 5}).status is FAIL
    assert _found("pcie.h2d", {"cuda.h2d": _copy(12.0)}).status is UNKNOWN
    assert _found("pcie.h2d", {"cuda.h2d": _copy(12.0, maxGeneration=9, width=16)}).status is UNKNOWN
    assert _found("pcie.h2d", {}).status is UNKNOWN


def test_a_policy_sets_the_limit_of_pcie() -> None:
    limits = {"pcie.h2d": {"failBelow": Threshold(value=0.25, source=ThresholdSource.POLICY)}}
    readings = {"cuda.h2d": _copy(16.0, maxGeneration=5, width=16)}
    finding = _found("pcie.h2d", readings, limits=limits)
    assert finding.status is WARN  # the other limit stays
    assert _found("pcie.h2d", readings).status is FAIL
    finding = _found("pcie.h2d", {"cuda.h2d": _copy(15.0, maxGeneration=5, width=16)}, limits=limits)
    assert finding.threshold == Threshold(value=15.752, source=ThresholdSource.POLICY)


def test_a_gpu_beside_its_cpu_has_no_pcie_verdict() -> None:
    readings = {"cuda.h2d": _copy(300.0, maxGeneration=5, width=1)}
    assert _found("pcie.h2d", readings, "NVIDIA GH200 480GB").status is SKIP


def test_generation_counts_while_copies_run() -> None:
    assert _found("pcie.gen.load", {"cuda.h2d": _copy(50, generation=5, maxGeneration=5, width=16)}).status is PASS
    slow = _found("pcie.gen.load", {"cuda.h2d": _copy(12, generation=3, maxGeneration=5, width=16)})
    assert (slow.status, slow.observed) == (FAIL, 3)
    assert _found("pcie.gen.load", {"cuda.h2d": _copy(12, width=16)}).status is UNKNOWN


def _daxpy(gbs: float, mismatches: int = 0) -> dict[str, Any]:
    return {"best": gbs, "median": gbs, "samples": [gbs] * 3, "mismatches": mismatches}


@pytest.mark.parametrize(
    ("product", "gbs", "status"),
    [
        ("NVIDIA A100-SXM4-40GB", 1322, PASS),
        ("NVIDIA A100-SXM4-40GB", 1300, WARN),
        ("NVIDIA A100-SXM4-40GB", 1160, FAIL),
        (H100, 2848, PASS),
        (H100, 2520, WARN),
        (H100, 2510, FAIL),
        ("NVIDIA H200", 4300, PASS),
        ("NVIDIA H200", 4000, WARN),
        ("NVIDIA H200", 3599, FAIL),
        ("Tesla V100-SXM2-16GB", 765, PASS),
        ("NVIDIA L40S", 734, PASS),
    ],
)
def test_memory_by_product(product: str, gbs: float, status: CheckStatus) -> None:
    """F-084: the bandwidth of daxpy against 85 and 75 % of the data sheet."""
    finding = _found("hbm.bandwidth", {"cuda.daxpy": _daxpy(gbs)}, product)
    assert finding.status is status, finding.message
    assert finding.threshold is not None
    assert finding.threshold.source is ThresholdSource.SPEC


def test_more_than_the_peak_is_no_measurement() -> None:
    assert _found("hbm.bandwidth", {"cuda.daxpy": _daxpy(3350 * 1.04)}).status is PASS
    assert _found("hbm.bandwidth", {"cuda.daxpy": _daxpy(3350 * 1.06)}).status is UNKNOWN


def test_ecc_on_gddr_lowers_the_limits() -> None:
    """600 GB/s of 864 is 69 %: enough with ECC, and where ECC is not known, but not with ECC off."""
    on, off = ({"nvml.ecc_mode": {"current": state, "pending": state}} for state in (1, 0))
    for product, extra, status in (
        ("NVIDIA L40S", on, WARN),
        ("NVIDIA L40S", {}, WARN),
        ("NVIDIA L40S", off, FAIL),
        ("NVIDIA A100-SXM4-40GB", on, FAIL),
    ):
        gbs = 600 if product == "NVIDIA L40S" else 0.69 * 1555
        assert _found("hbm.bandwidth", {"cuda.daxpy": _daxpy(gbs), **extra}, product).status is status


def test_an_unknown_card_is_judged_by_its_clock_and_bus() -> None:
    """F-084: 2 x memory clock x bus width / 8, from NVML, else from the driver; no verdict without both."""
    nvml = {"nvml.clock_memory_max": 2619, "nvml.memory_bus_width": 5120, "nvml.ecc_mode": {"current": 0}}
    finding = _found("hbm.bandwidth", {"cuda.daxpy": _daxpy(2848), **nvml}, "NVIDIA X9000")
    assert finding.status is WARN  # 84.96 % of 3352
    assert "3352" in finding.message
    driver = {"cuda.device": {"memoryClockKhz": 2619000, "busBits": 5120}, "nvml.ecc_mode": {"current": 0}}
    assert _found("hbm.bandwidth", {"cuda.daxpy": _daxpy(2848), **driver}, "NVIDIA X9000").status is WARN
    assert _found("hbm.bandwidth", {"cuda.daxpy": _daxpy(9999)}, "NVIDIA X9000").status is UNKNOWN


@given(part=st.floats(0.01, 0.95), product=st.sampled_from([H100, "NVIDIA H200", "NVIDIA A30", "Tesla T4"]))
def test_more_bandwidth_is_never_worse(part: float, product: str) -> None:
    gpu = PEAKS.gpu(product)
    assert gpu is not None
    order = {FAIL: 0, WARN: 1, PASS: 2}
    less, more = (
        _found("hbm.bandwidth", {"cuda.daxpy": _daxpy(gpu.bandwidth_gbs * part * factor)}, product).status
        for factor in (1, 1.1)
    )
    assert order[less] <= order[more]


def _spin(tflops: float = 60, slowest: float | None = 0.999, mismatches: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "best": tflops,
        "samples": [tflops] * 3,
        "slowestPart": slowest,
        "slowestSm": 7,
        "mismatches": mismatches,
        "wrongSms": [7] if mismatches else [],
        "unit": "tensor",
        **more,
    }


def test_a_wrong_result_is_fatal() -> None:
    """F-084: one wrong sum is a suspected silent corruption, with the multiprocessor that computed it."""
    good = {
        "cuda.daxpy": _daxpy(2900),
        "cuda.fp64": _spin(),
        "cuda.bf16": _spin(),
        "cuda.fp32": ReadError.NOT_SUPPORTED,
    }
    assert _found("compute.checksum", good).status is PASS
    bad = _found("compute.checksum", {**good, "cuda.bf16": _spin(mismatches=3)})
    assert (bad.status, bad.severity, bad.action) == (FAIL, FindingSeverity.FATAL, RepairAction.RUN_DIAG)
    assert bad.message == "sdc_suspect: bf16: 3 wrong results on multiprocessors 7"
    memory = _found("compute.checksum", {**good, "cuda.daxpy": _daxpy(2900, mismatches=1)})
    assert (memory.status, memory.observed) == (FAIL, 1)


def test_a_result_that_is_missing_is_no_proof() -> None:
    good = {"cuda.daxpy": _daxpy(2900), "cuda.fp64": _spin(), "cuda.bf16": _spin()}
    assert _found("compute.checksum", {**good, "cuda.bf16": ReadError.DEADLINE}).status is UNKNOWN
    assert (
        _found("compute.checksum", {**good, "cuda.bf16": ReadError.DEADLINE, "cuda.fp64": _spin(mismatches=1)}).status
        is FAIL
    )
    assert _found("compute.checksum", {}).status is UNKNOWN
    assert _found("compute.checksum", dict.fromkeys(good, ReadError.BUSY)).status is SKIP
    assert _found("compute.checksum", {**good, "cuda.fp64": {"best": 60}}).status is UNKNOWN


def test_rate_spread_and_reference() -> None:
    """F-084: the absolute rate is judged by a learned reference alone; the slowest multiprocessor by the median."""
    assert _found("compute.fp64", {"cuda.fp64": _spin(10)}).status is PASS
    uneven = _found("compute.fp64", {"cuda.fp64": _spin(60, slowest=0.96)})
    assert uneven.status is WARN
    assert "multiprocessor 7 has 96.0%" in uneven.message
    assert _found("compute.fp64", {"cuda.fp64": _spin(60, slowest=None)}).status is UNKNOWN
    limits = {"compute.fp64": {"referenceTflops": Threshold(value=60, source=ThresholdSource.LEARNED)}}
    assert _found("compute.fp64", {"cuda.fp64": _spin(57.1)}, limits=limits).status is PASS
    slow = _found("compute.fp64", {"cuda.fp64": _spin(56.9)}, limits=limits)
    assert (slow.status, slow.threshold) == (WARN, Threshold(value=57.0, source=ThresholdSource.LEARNED))
    told = _found("compute.fp64", {"cuda.fp64": _spin(58, clockMhz=1755.0, flopPerClock=243.2)}).message
    assert "at 1755 MHz, 95% of the peak at that clock" in told


def test_a_rate_that_falls_under_load_warns() -> None:
    soak = {"first": 60.0, "last": 58.0, "count": 200, "best": 61.0, "mismatches": 0}
    assert _found("compute.soak", {"cuda.soak": soak}).status is PASS
    assert _found("compute.soak", {"cuda.soak": {**soak, "last": 53.9}}).status is WARN
    assert _found("compute.soak", {"cuda.soak": {**soak, "first": 0}}).status is UNKNOWN
    assert _found("compute.checksum", {"cuda.soak": {**soak, "mismatches": 1}}).status is FAIL


@pytest.mark.parametrize(
    ("code", "action"), [(214, RepairAction.RESET_GPU), (719, RepairAction.RUN_DIAG), (999, RepairAction.RUN_DIAG)]
)
def test_an_error_that_ends_the_use_of_a_gpu_is_fatal(code: int, action: RepairAction) -> None:
    broken = NodeReading(
        name=ReadingId.CUDA_H2D,
        slot=SLOT,
        error=ReadError.FAILED,
        value={"code": code, "call": "cuEventSynchronize"},
        detail=f"cuEventSynchronize: {code}",
    )
    finding = _found("cuda.usable", {"cuda.device": {"sms": 132}, "cuda.h2d": broken})
    assert (finding.status, finding.severity, finding.action) == (FAIL, FindingSeverity.FATAL, action)
    assert str(code) in finding.message


def test_usable_needs_a_test_that_ran() -> None:
    assert _found("cuda.usable", {}).status is UNKNOWN
    assert _found("cuda.usable", {"cuda.device": ReadError.BUSY}).status is SKIP
    assert _found("cuda.usable", {"cuda.device": {"sms": 1}, "cuda.d2h": ReadError.DEADLINE}).status is UNKNOWN
    assert _found("cuda.usable", {"cuda.device": ReadError.NO_LIBRARY}).status is UNKNOWN
    memory = NodeReading(
        name=ReadingId.CUDA_H2D, slot=SLOT, error=ReadError.FAILED, value={"code": 2, "call": "cuMemHostAlloc"}
    )
    assert _found("cuda.usable", {"cuda.device": {"sms": 1}, "cuda.h2d": memory}).status is PASS


def test_copies_between_gpus_by_product() -> None:
    def peers(*rates: float) -> dict[str, Any]:
        return {"cuda.peer": {f"0000:{number:02}:00.0": {"best": rate} for number, rate in enumerate(rates)}}

    assert _found("p2p.bandwidth", peers(400, 390)).status is PASS
    slow = _found("p2p.bandwidth", peers(400, 330, 395))
    assert (slow.status, slow.observed) == (FAIL, 330)
    assert "to 0000:01:00.0" in slow.message
    assert _found("p2p.bandwidth", peers(20), "NVIDIA L40S").status is PASS
    broken = {"cuda.peer": {"0000:01:00.0": {"error": "failed"}, "0000:02:00.0": {"best": 400}}}
    assert _found("p2p.bandwidth", broken).status is UNKNOWN
    assert _found("p2p.bandwidth", {}).status is SKIP  # one GPU


def test_a_gpu_that_may_be_in_use_is_not_tested() -> None:
    def rows(processes: object, mig: int = 0) -> list[NodeReading]:
        return [
            NodeReading(name=ReadingId("nvml.mig_mode"), slot=SLOT, value={"current": mig, "pending": mig}),
            NodeReading(name=ReadingId("nvml.processes"), slot=SLOT, error=processes)
            if isinstance(processes, ReadError)
            else NodeReading(name=ReadingId("nvml.processes"), slot=SLOT, value=processes),
        ]

    assert obstacle(rows([]), SLOT) is None
    assert obstacle(rows([{"pid": 42, "memory": 1}]), SLOT) == (ReadError.BUSY, "in use by process 42")
    assert obstacle(rows([], mig=1), SLOT) == (ReadError.NOT_SUPPORTED, "MIG is on")
    for unknown in (obstacle([], SLOT), obstacle(rows(ReadError.GPU_LOST), SLOT), obstacle(rows([]), "0000:ff:00.0")):
        assert unknown is not None
        assert unknown[0] is ReadError.FAILED


def test_every_profile_has_a_plan() -> None:
    assert list(PLANS) == list(ProbeProfile)
    assert not PLANS[ProbeProfile.LIGHT].gpu_tests
    assert PLANS[ProbeProfile.PREFLIGHT].budget == 5
    assert PLANS[ProbeProfile.PREFLIGHT].deadline == 30
    assert PLANS[ProbeProfile.RMA].diag_level == 4

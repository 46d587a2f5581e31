"""What GPUs and links can reach: the shipped table, and the formula for cards that it does not know."""

import pytest

from reconciler import resources
from reconciler.sizing.peaks import NO_PEAKS, memory_peak_gbs, product_key, read_peaks

PEAKS = read_peaks(resources.read("data/gpus.json"))


def test_products_are_found_by_the_names_of_nvml_and_of_node_labels() -> None:
    for name in ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3", "nvidia-h100-80gb-hbm3", "H100-SXM"):
        gpu = PEAKS.gpu(name)
        assert gpu is not None
        assert gpu.product == "NVIDIA-H100-80GB-HBM3"
        assert gpu.bandwidth_gbs == 3350
    assert PEAKS.gpu("NVIDIA H100") is None  # ambiguous: not guessed
    assert NO_PEAKS.gpu("NVIDIA H100 80GB HBM3") is None
    assert product_key("Tesla  T4 ") == "tesla-t4"


@pytest.mark.parametrize(
    ("generation", "warn", "fail"),
    [(1, 2.8, 2.28), (2, 5.6, 4.56), (3, 11, 9), (4, 23.5, 21), (5, 50, 44), (6, 96.8, 84.7)],
)
def test_limits_of_pcie_for_16_lanes(generation: int, warn: float, fail: float) -> None:
    """F-080: a threshold for each generation, of the bandwidth in one direction."""
    row = PEAKS.pcie(generation)
    assert row is not None
    assert 16 * row.lane_gbs * row.warn_below == pytest.approx(warn, rel=1e-3)
    assert 16 * row.lane_gbs * row.fail_below == pytest.approx(fail, rel=1e-3)
    assert row.source


@pytest.mark.parametrize(
    ("product", "clock", "bits", "tolerance"),
    [
        ("Tesla V100-SXM2-16GB", 877, 4096, 0.01),
        ("Tesla T4", 5001, 256, 0.01),
        ("NVIDIA A100-SXM4-40GB", 1215, 5120, 0.01),
        ("NVIDIA A100-SXM4-80GB", 1593, 5120, 0.01),
        ("NVIDIA H100 80GB HBM3", 2619, 5120, 0.01),
        ("NVIDIA H200", 3201, 6144, 0.03),  # its memory runs below the clock that NVML tells
    ],
)
def test_the_formula_agrees_with_data_sheets(product: str, clock: float, bits: float, tolerance: float) -> None:
    gpu = PEAKS.gpu(product)
    assert gpu is not None
    assert memory_peak_gbs(clock, bits) == pytest.approx(gpu.bandwidth_gbs, rel=tolerance)


def test_peak_arithmetic_agrees_with_data_sheets() -> None:
    """Multiprocessors x operations per clock x boost clock is the peak of the data sheet."""
    for product, clock, tflops in (
        ("NVIDIA-A100-SXM4-80GB", 1410, 19.5),
        ("NVIDIA-H100-80GB-HBM3", 1980, 67),
        ("NVIDIA-A30", 1440, 10.3),
    ):
        limits = PEAKS.limits(product)
        assert limits is not None
        assert limits.sms is not None
        assert limits.fp64_tensor is not None
        assert limits.sms * limits.fp64_tensor * clock / 1e6 == pytest.approx(tflops, rel=0.01)


def test_floors_of_the_vendor_that_are_wrong_are_left_out() -> None:
    """Four products of the vendor's table have unit errors; a floor above half and below 70 % of the peak is none."""
    for product in ("NVIDIA H200", "NVIDIA H100 PCIe"):
        limits = PEAKS.limits(product)
        assert limits is not None
        assert limits.memory_floor_gbs is None
    for product in ("Tesla T4", "NVIDIA A30", "NVIDIA L40S", "NVIDIA B200", "NVIDIA H200 NVL"):
        gpu = PEAKS.gpu(product)
        assert gpu is not None
        assert gpu.health is not None
        assert gpu.health.memory_floor_gbs is not None
        assert 0.45 < gpu.health.memory_floor_gbs / gpu.bandwidth_gbs < 0.7

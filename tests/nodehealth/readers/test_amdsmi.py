"""AMD SMI on recorded answers: the same port, the same rules about what is unknown."""

from typing import Any

import pytest

from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readings import ReadError, ReadingId, SourceReadings, make_sweep
from tests.nodehealth.readers.fakes.library import changed
from tests.nodehealth.readers.fakes.recorded_amd import AmdSmiLibraryException, amd_node, recorded


def statuses(**answers: Any) -> dict[str, CheckStatus]:
    sweep = amd_node(recorded(**answers))
    slot = "0000:20:00.0"
    return {found.check: found.status for found in judge(sweep) if found.slot in ("", slot)}


def test_two_sound_gpus() -> None:
    """Slots, products, and every AMD check passes; no check of NVIDIA runs."""
    sweep = amd_node()
    assert [(gpu.slot, gpu.product) for gpu in sweep.gpus] == [
        ("0000:20:00.0", "AMD Instinct MI300X"),
        ("0000:21:00.0", "AMD Instinct MI300X"),
    ]
    found = statuses()
    assert {status for check, status in found.items() if check.startswith("amd.")} == {CheckStatus.PASS}
    assert "nvml.init" not in found


@pytest.mark.parametrize(
    ("check", "function", "answer", "status"),
    [
        ("amd.ecc", "amdsmi_get_gpu_total_ecc_count", {"uncorrectable_count": 1}, CheckStatus.FAIL),
        ("amd.ecc", "amdsmi_get_gpu_total_ecc_count", {"uncorrectable_count": "N/A"}, CheckStatus.SKIP),
        ("amd.ecc", "amdsmi_get_gpu_total_ecc_count", AmdSmiLibraryException(2), CheckStatus.SKIP),
        ("amd.ecc", "amdsmi_get_gpu_total_ecc_count", AmdSmiLibraryException(10), CheckStatus.SKIP),
        ("amd.ecc", "amdsmi_get_gpu_total_ecc_count", AmdSmiLibraryException(41), CheckStatus.UNKNOWN),
        ("amd.ecc", "amdsmi_get_gpu_total_ecc_count", None, CheckStatus.UNKNOWN),
        ("amd.bad_pages", "amdsmi_get_gpu_bad_page_info", [{"status": 0}, {"status": 1}], CheckStatus.WARN),
        ("amd.bad_pages", "amdsmi_get_gpu_bad_page_info", [{"status": 2}], CheckStatus.FAIL),
        ("amd.bad_pages", "amdsmi_get_gpu_bad_page_info", [{"status": 9}], CheckStatus.UNKNOWN),
        ("amd.pcie.width", "amdsmi_get_pcie_info",
         {"pcie_static": {"max_pcie_width": 16}, "pcie_metric": {"pcie_width": 8}}, CheckStatus.FAIL),
        ("amd.throttle", "amdsmi_get_violation_status", {"per_hbm_thrm": 40}, CheckStatus.WARN),
        ("amd.xgmi", "amdsmi_gpu_xgmi_error_status", 1, CheckStatus.FAIL),
        ("amd.power", "amdsmi_get_power_info",
         {"current_socket_power": 900, "power_limit": 750_000_000}, CheckStatus.WARN),
    ],
)  # fmt: skip
def test_answers(check: str, function: str, answer: Any, status: CheckStatus) -> None:
    """Each answer and each spelling of "not available"."""
    assert statuses(**{function: answer})[check] is status


def test_the_library_does_not_start() -> None:
    """AMD cards without a driver: unknown, and by the reason of AMD SMI."""
    module = recorded(amdsmi_init=AmdSmiLibraryException(34))
    sweep = amd_node(module)
    assert not sweep.gpus
    sweep = make_sweep("amd-1", 1.0, SourceReadings(readings=sweep.readings))
    sweep = changed(sweep, {"sysfs.pci_gpus": [{"slot": "0000:20:00.0", "vendor": "amd"}]}, vendor="amd")
    found = {one.check: one for one in judge(sweep) if one.check.startswith("amd.")}
    assert {one.status for one in found.values()} == {CheckStatus.UNKNOWN}
    reading = sweep.find(ReadingId("amdsmi.init"))
    assert reading is not None
    assert reading.error is ReadError.NO_DRIVER

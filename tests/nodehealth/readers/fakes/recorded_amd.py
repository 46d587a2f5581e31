"""Recorded answers of AMD SMI: a module that behaves as `amdsmi` does, and a sweep of two MI300X."""

from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from reconciler.nodehealth.readers import amdsmi_calls
from reconciler.nodehealth.readers.library import readings_of
from reconciler.nodehealth.readings import SourceReadings, Sweep, make_sweep
from tests.nodehealth.readers.fakes.library import changed


class AmdSmiTemperatureType(IntEnum):
    EDGE, HOTSPOT, VRAM = 0, 1, 2


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT, CRITICAL = 0, 5


class AmdSmiLibraryException(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self._code = code

    def get_error_code(self) -> int:
        return self._code


def recorded(gpus: int = 2, **answers: Any) -> Any:
    """Return the module with other answers: a value, or an exception to raise, by function."""
    usual: dict[str, Any] = {
        "amdsmi_init": None,
        "amdsmi_shut_down": None,
        "amdsmi_get_processor_handles": list(range(gpus)),
        "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X", "asic_serial": "0xA5A5"},
        "amdsmi_get_gpu_total_ecc_count": {"correctable_count": 3, "uncorrectable_count": 0, "deferred_count": 0},
        "amdsmi_get_gpu_bad_page_info": "No bad pages found.",
        "amdsmi_get_pcie_info": {
            "pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 32000, "pcie_interface_version": 5},
            "pcie_metric": {"pcie_width": 16, "pcie_speed": 32000, "pcie_replay_count": 0, "pcie_nak_received_count": 0},
        },
        "amdsmi_get_violation_status": {
            "per_prochot_thrm": 0, "per_ppt_pwr": 12, "per_socket_thrm": 0, "per_vr_thrm": 0, "per_hbm_thrm": "N/A",
        },
        "amdsmi_gpu_xgmi_error_status": 0,
        "amdsmi_get_power_info": {
            "current_socket_power": 140, "average_socket_power": "N/A", "power_limit": 750_000_000,
        },
    }  # fmt: skip
    calls = {name: _answer(value) for name, value in {**usual, **answers}.items()}
    calls.setdefault("amdsmi_get_gpu_device_bdf", lambda handle: f"0000:{0x20 + handle:02x}:00.0")
    calls.setdefault("amdsmi_get_gpu_device_uuid", lambda handle: f"amd-{handle}")
    calls.setdefault("amdsmi_get_temp_metric", _temperature)
    return SimpleNamespace(
        AmdSmiTemperatureType=AmdSmiTemperatureType, AmdSmiTemperatureMetric=AmdSmiTemperatureMetric, **calls
    )


def _answer(value: Any) -> Any:
    def call(*_: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return call


def _temperature(_: int, kind: AmdSmiTemperatureType, metric: AmdSmiTemperatureMetric) -> int:
    limits = {AmdSmiTemperatureType.HOTSPOT: 100, AmdSmiTemperatureType.VRAM: 105}
    return limits[kind] if metric is AmdSmiTemperatureMetric.CRITICAL else 45


def amd_node(module: Any = None) -> Sweep:
    """Return the sweep that these answers make."""
    records = [record for record in amdsmi_calls.sweep({}, module or recorded()) if "call" not in record]
    found: SourceReadings = readings_of("amdsmi", records)
    cards = [{"slot": gpu.slot, "vendor": "amd"} for gpu in found.gpus]
    return changed(make_sweep("amd-1", 1_760_086_400.0, found), {"sysfs.pci_gpus": cards})

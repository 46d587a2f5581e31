"""How GPUs are used, from two sweeps of the fake driver's library."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.nodehealth.inflight.activity import gpu_uses
from reconciler.nodehealth.readings import ReadError, Sweep
from reconciler.nodehealth.report import GpuUse
from tests.nodehealth.readers.fakes.library import changed, sound

FIRST = sound().gpus[0].slot


def use(values: dict[str, Any], before: dict[str, Any] | None = None, **fields: Any) -> GpuUse:
    """Return how the first GPU is used, after these readings a minute ago and now."""
    now = changed(sound(), values, FIRST)
    history = [] if before is None else [changed(now, before, FIRST, taken_at=now.taken_at - 60, **fields)]
    return gpu_uses(now, history)[0]


def test_power_is_the_mean_by_the_counter_of_energy() -> None:
    assert use({"nvml.power_usage": 76000}).watts == 76.0
    assert use({"nvml.energy": 36_000_000}, {"nvml.energy": 0}).watts == 600.0
    assert use({"nvml.energy": 5, "nvml.power_usage": 70000}, {"nvml.energy": 9}).watts == 70.0, "reset"
    assert use({"nvml.power_usage": ReadError.NOT_SUPPORTED}).watts is None


@pytest.mark.parametrize(
    ("now", "before", "traffic"),
    [
        ({"nvlink": 6000, "pcie": 600}, {"nvlink": 0, "pcie": 0}, 110.0),
        ({"nvlink": 6000, "pcie": 5}, {"nvlink": 0, "pcie": 600}, 100.0),
        ({"pcie": 5}, {"pcie": 600}, None),
        ({"pcie": 600}, None, None),
        (ReadError.NOT_SUPPORTED, {"pcie": 600}, None),
    ],
    ids=["both", "one has wrapped", "all have wrapped", "no earlier sweep", "not supported"],
)
def test_traffic_is_a_rate_and_never_a_guess(now: Any, before: dict[str, int] | None, traffic: float | None) -> None:
    assert use({"nvml.traffic": now}, None if before is None else {"nvml.traffic": before}).traffic == traffic


def test_another_boot_and_another_device_are_no_earlier_sweep() -> None:
    values = {"nvml.traffic": {"pcie": 600}}
    assert use(values, {"nvml.traffic": {"pcie": 0}}, boot_id="another").traffic is None
    swapped = (replace(sound().gpus[0], uuid="GPU-other"),)
    assert use(values, {"nvml.traffic": {"pcie": 0}}, gpus=swapped).traffic is None
    assert use(values, {"nvml.traffic": {"pcie": 0}}).traffic == 10.0


def test_what_is_not_read_is_not_known() -> None:
    sweep = sound()
    bare = Sweep(node="n", taken_at=1.0, gpus=sweep.gpus)
    assert gpu_uses(bare, ()) == tuple(GpuUse(slot=gpu.slot) for gpu in sweep.gpus)


def test_a_gpu_is_occupied_once_a_program_holds_memory() -> None:
    assert use({"nvml.memory": {"total": 80e9, "used": 0.6e9}}).occupied is False
    assert use({"nvml.memory": {"total": 80e9, "used": 9e9}}).occupied is True


def test_counters() -> None:
    values = {
        "nvml.ecc_uncorrected": 1,
        "nvml.ecc_corrected": 2,
        "nvml.pcie_replays": 3,
        "nvml.pcie_errors": {"fatal": 4},
        "nvml.nvlink_errors": {"crc_flit": 5, "recovery_success": 7},
    }
    found = use(values)
    assert dict(found.errors) == {
        "ecc.uncorrected": 1,
        "ecc.corrected": 2,
        "pcie.replays": 3,
        "nvlink.errors": 5,
        "pcie.fatal": 4,
    }

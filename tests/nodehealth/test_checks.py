"""Every check of the catalogue: what makes it pass, warn, fail, or say that it could not measure."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.nodehealth.catalogue import BY_ID, CHECKS
from reconciler.nodehealth.checks.check import CheckScope
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding, RepairAction
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readings import ReadError, Sweep
from tests.nodehealth.readers.fakes.library import changed, sound
from tests.nodehealth.readers.fakes.recorded_amd import amd_node

PASS, WARN, FAIL, UNKNOWN, SKIP = (
    CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.SKIP,
)  # fmt: skip
SLOT = "0000:10:00.0"
NONE, DENIED, BROKEN, SLOW = ReadError.NOT_SUPPORTED, ReadError.NO_PERMISSION, ReadError.FAILED, ReadError.DEADLINE
NOW = 1_760_086_400.0

Values = Mapping[str, Any]
History = Sequence[tuple[float, Values]]  # seconds ago, and the readings then


def run(
    check: str, values: Values, history: History = (), *, gpus: int = 4, expected: NodeExpectation | None = None
) -> HealthFinding:
    """Judge the first GPU, or the node, after these changes of a sound node."""
    row = BY_ID[check]
    base = amd_node() if row.vendor == "amd" else sound(gpus)
    slot = base.gpus[0].slot if row.scope is CheckScope.GPU else ""

    def at(seconds_ago: float, changes: Values) -> Sweep:
        node = {name: value for name, value in changes.items() if _is_of_node(name, slot)}
        sweep = changed(base, {name: changes[name] for name in changes if name not in node}, base.gpus[0].slot)
        return replace(changed(sweep, node), taken_at=NOW - seconds_ago)

    found = judge(
        at(0, values),
        history=[at(*each) for each in history],
        expected=expected or NodeExpectation(),
        only=[check],
    )
    return next(finding for finding in found if finding.slot == slot)


def _is_of_node(name: str, slot: str) -> bool:
    of_node = {"nvml.init", "nvml.count", "nvml.driver", "amdsmi.init", "amdsmi.count"}
    return name in of_node or not name.startswith(("nvml.", "amdsmi."))


def minutes(count: int, values: Values) -> History:
    """Return the same readings in each of the last minutes."""
    return [(60.0 * minute, values) for minute in range(count, 0, -1)]


def _port(**values: Any) -> dict[str, Any]:
    return {"device": "mlx5_0", "port": "1", "state": "4: ACTIVE", "link_downed": 0, "symbol_error": 0, **values}


_MEMORY = {"corrected": 0, "uncorrected": 0, "pending": 0, "failure": 0}
_SRAM = {"bThresholdExceeded": 0, "volatileUncParity": 0, "volatileUncSecDed": 0, "aggregateCor": 0}
_LINKS = {"replay": 0, "recovery": 0, "crc_flit": 0, "crc_data": 0}
_ERRORS = {"recovery_failed": 0, "integrity": 0, "recovery_events": 0}
_OLD = {"nvml.temperature_margin": NONE}
_BUSY = {"nvml.utilization": {"gpu": 99, "memory": 10}, "nvml.clocks_event_reasons": 0}
_SLOW_LINK = {"nvml.pcie_generation": 1, "nvml.utilization": {"gpu": 90, "memory": 0}}
_ORPHAN = {"nvml.processes": [{"pid": 42, "memory": 9 << 30}], "procfs.cgroups": {"42": "0::/user.slice"}}
_GIB = 1 << 30

CASES: dict[str, list[tuple[CheckStatus, Values, History]]] = {
    "nvml.init": [
        (PASS, {}, ()),
        (WARN, {"nvml.init": ReadError.DRIVER_MISMATCH}, ()),
        (UNKNOWN, {"nvml.init": ReadError.NO_LIBRARY}, ()),
        (UNKNOWN, {"nvml.init": ReadError.NO_DRIVER}, ()),
        (UNKNOWN, {"nvml.init": SLOW}, minutes(1, {"nvml.init": SLOW})),
        (FAIL, {"nvml.init": SLOW}, minutes(2, {"nvml.init": SLOW})),
        (UNKNOWN, {"nvml.init": ...}, ()),
    ],
    "gpu.count": [
        (PASS, {}, ()),
        (FAIL, {"nvml.count": 3}, ()),
        (UNKNOWN, {"nvml.count": BROKEN}, ()),
        (UNKNOWN, {"nvml.count": "four"}, ()),
    ],
    "gpu.reachable": [
        (PASS, {}, ()),
        (FAIL, {"nvml.handle": ReadError.GPU_LOST}, ()),
        (FAIL, {"nvml.power_usage": ReadError.RESET_REQUIRED}, ()),
        (UNKNOWN, {"nvml.fabric": SLOW}, minutes(1, {"nvml.fabric": SLOW})),
        (FAIL, {"nvml.fabric": SLOW}, minutes(2, {"nvml.fabric": SLOW})),
        (UNKNOWN, {"nvml.handle": BROKEN}, ()),
        (FAIL, {"nvml.handle": BROKEN}, minutes(2, {"nvml.handle": BROKEN})),
        (UNKNOWN, {"nvml.handle": ...}, ()),
    ],
    "gpu.recovery_action": [
        (PASS, {}, ()),
        *((FAIL, {"nvml.recovery_action": code}, ()) for code in (1, 2, 4, 6, 7)),
        (WARN, {"nvml.recovery_action": 3}, ()),
        (WARN, {"nvml.recovery_action": 5}, ()),
        (UNKNOWN, {"nvml.recovery_action": 8}, ()),
        (SKIP, {"nvml.recovery_action": NONE}, ()),
    ],
    "gpu.xid": [(PASS, {}, ()), (SKIP, {"kmsg.lines": DENIED}, ()), (UNKNOWN, {"kmsg.lines": "x"}, ())],
    "kmsg.fallen_off": [
        (PASS, {}, ()),
        (FAIL, {"kmsg.lines": [{"monotonic": 5.0, "text": "NVRM: GPU 0000:10:00.0: GPU has fallen off the bus."}]}, ()),
        (SKIP, {"kmsg.lines": DENIED}, ()),
        (UNKNOWN, {"kmsg.lines": SLOW}, ()),
    ],
    **{
        check: [
            (PASS, {}, ()),
            (status, {"kmsg.lines": [{"monotonic": 80_000.0, "text": text}]}, ()),
            (SKIP, {"kmsg.lines": DENIED}, ()),
            (UNKNOWN, {"kmsg.since": 70_000.0}, ()),
        ]
        for check, status, text in (
            ("kmsg.driver", FAIL, "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)"),
            ("kmsg.nvswitch", WARN, "nvidia-nvswitch1: SXid (PCI:0000:00:08.0): 11004, Non-fatal, Link 36 ingress"),
            ("kmsg.pcie", FAIL, "pcieport 0000:80:01.0: DPC: containment event, status:0x1f01 source:0x0000"),
            ("kmsg.nic", WARN, "mlx5_core 0000:3b:00.0 ens3f0np0: TX timeout detected"),
            ("kmsg.host", FAIL, "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0"),
            ("kmsg.storage", FAIL, "EXT4-fs (nvme0n1p2): Remounting filesystem read-only"),
            ("kmsg.amd", FAIL, "amdgpu 0000:9e:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block"),
        )
    },
    "ecc.mode": [
        (PASS, {}, ()),
        (WARN, {"nvml.ecc_mode": {"current": 1, "pending": 0}}, ()),
        (WARN, {"nvml.ecc_mode": {"current": 0, "pending": 0}}, ()),
        (SKIP, {"nvml.ecc_mode": NONE}, ()),
        (UNKNOWN, {"nvml.ecc_mode": {"current": 1}}, ()),
    ],
    "ecc.dram.unc.volatile": [
        (PASS, {}, ()),
        (WARN, {"nvml.ecc_uncorrected": 1}, ()),
        (FAIL, {"nvml.ecc_uncorrected": 1, "nvml.recovery_action": 1}, ()),
        (FAIL, {"nvml.ecc_uncorrected": 1, "nvml.remapped_rows": {**_MEMORY, "failure": 1}}, ()),
        (FAIL, {"nvml.ecc_uncorrected": 3}, [(3600, {"nvml.ecc_uncorrected": 1})]),
        (WARN, {"nvml.ecc_uncorrected": 3}, [(3600, {"nvml.ecc_uncorrected": 2})]),
        (SKIP, {"nvml.ecc_uncorrected": NONE}, ()),
        (UNKNOWN, {"nvml.ecc_uncorrected": BROKEN}, ()),
    ],
    "ecc.sram": [
        (PASS, {}, ()),
        (WARN, {"nvml.sram_ecc": {**_SRAM, "volatileUncParity": 1}}, ()),
        (WARN, {"nvml.sram_ecc": {**_SRAM, "aggregateCor": 10_001}}, ()),
        (FAIL, {"nvml.sram_ecc": {**_SRAM, "bThresholdExceeded": 1}}, ()),
        (SKIP, {"nvml.sram_ecc": DENIED}, ()),
        (UNKNOWN, {"nvml.sram_ecc": []}, ()),
    ],
    "ecc.dram.corr.rate": [
        (PASS, {}, ()),
        (PASS, {"nvml.ecc_corrected": 2_000_000}, [(1800, {"nvml.ecc_corrected": 2_000_000})]),
        (WARN, {"nvml.ecc_corrected": 400}, [(3600, {"nvml.ecc_corrected": 10})]),
        (SKIP, {"nvml.ecc_corrected": 400}, ()),
        (UNKNOWN, {"nvml.ecc_corrected": BROKEN}, ()),
    ],
    "remap.pending": [
        (PASS, {}, ()),
        (WARN, {"nvml.remapped_rows": {**_MEMORY, "pending": 1}}, ()),
        (SKIP, {"nvml.remapped_rows": NONE}, ()),
        (SKIP, {"nvml.mig_mode": {"current": 1, "pending": 1}}, ()),
        (UNKNOWN, {"nvml.remapped_rows": {"pending": "no"}}, ()),
    ],
    "remap.failure": [
        (PASS, {}, ()),
        (FAIL, {"nvml.remapped_rows": {**_MEMORY, "failure": 1}}, ()),
        (SKIP, {"nvml.mig_mode": {"current": 1, "pending": 1}}, ()),
        (UNKNOWN, {"nvml.remapped_rows": BROKEN}, ()),
    ],
    "remap.count": [
        (PASS, {}, ()),
        (WARN, {"nvml.remapped_rows": {**_MEMORY, "uncorrected": 512}}, ()),
        (WARN, {"nvml.remapped_rows": {**_MEMORY, "uncorrected": 9}}, [(86_400 * 3, {"nvml.remapped_rows": _MEMORY})]),
        (PASS, {"nvml.remapped_rows": {**_MEMORY, "uncorrected": 9}}, [(86_400 * 9, {"nvml.remapped_rows": _MEMORY})]),
        (SKIP, {"nvml.remapped_rows": NONE}, ()),
        (UNKNOWN, {"nvml.remapped_rows": ...}, ()),
    ],
    "remap.banks": [
        (PASS, {}, ()),
        (WARN, {"nvml.row_histogram": {"none": 0, "low": 1}}, ()),
        (WARN, {"nvml.row_histogram": {"none": 1, "low": 0}}, ()),
        (
            FAIL,
            {"nvml.row_histogram": {"none": 1, "low": 0}, "nvml.remapped_rows": {**_MEMORY, "pending": 1}},
            (),
        ),
        (SKIP, {"nvml.row_histogram": NONE}, ()),
        (UNKNOWN, {"nvml.row_histogram": {}}, ()),
    ],
    "retired.pages": [
        (PASS, {"nvml.retired_pages": {"single_bit": 4, "double_bit": 5, "pending": 0}}, ()),
        (WARN, {"nvml.retired_pages": {"single_bit": 5, "double_bit": 5, "pending": 0}}, ()),
        (WARN, {"nvml.retired_pages": {"single_bit": 0, "double_bit": 1, "pending": 1}}, ()),
        (FAIL, {"nvml.retired_pages": {"single_bit": 62, "double_bit": 0, "pending": 1}}, ()),
        (FAIL, {"nvml.retired_pages": {"single_bit": 63, "double_bit": 0, "pending": 0}}, ()),
        (SKIP, {}, ()),
        (UNKNOWN, {"nvml.retired_pages": BROKEN}, ()),
    ],
    "mem.repair": [
        (PASS, {}, ()),
        (WARN, {"nvml.repair": {"channel_pending": 1, "tpc_pending": 0}}, ()),
        (FAIL, {"nvml.unrepairable": 1}, ()),
        (SKIP, {"nvml.repair": NONE}, ()),
        (UNKNOWN, {"nvml.repair": BROKEN}, ()),
    ],
    "pcie.width": [
        (PASS, {}, ()),
        (FAIL, {"nvml.pcie_width": 8}, ()),
        (UNKNOWN, {"nvml.pcie_width": 0}, ()),
        (SKIP, {"nvml.pcie_width": NONE}, ()),
    ],
    "pcie.gen": [
        (PASS, {}, ()),
        (SKIP, {"nvml.pcie_generation": 1}, ()),
        (UNKNOWN, _SLOW_LINK, minutes(1, _SLOW_LINK)),
        (WARN, _SLOW_LINK, minutes(2, _SLOW_LINK)),
        (UNKNOWN, {"nvml.pcie_generation": BROKEN}, ()),
    ],
    "pcie.replay": [
        (PASS, {}, ()),
        (PASS, {"nvml.pcie_replays": 40}, [(600, {"nvml.pcie_replays": 10})]),
        (WARN, {"nvml.pcie_replays": 400}, [(600, {"nvml.pcie_replays": 10})]),
        (FAIL, {"nvml.pcie_replays": 4000}, [(600, {"nvml.pcie_replays": 10})]),
        (WARN, {"nvml.pcie_replays": 400}, [(600, {"nvml.pcie_replays": 1000})]),  # the driver was loaded again
        (WARN, {"nvml.pcie_replays": 4000}, [(60, {"nvml.pcie_replays": 10})]),
        (SKIP, {"nvml.pcie_replays": 40}, ()),
        (UNKNOWN, {"nvml.pcie_max_generation": 99, "nvml.pcie_gpu_generation": 99}, ()),
    ],
    "pcie.errors": [
        (PASS, {}, ()),
        (FAIL, {"nvml.pcie_errors": {"correctable": 0, "fatal": 1}}, ()),
        (WARN, {"nvml.pcie_errors": {"correctable": 400}}, [(600, {"nvml.pcie_errors": {"correctable": 0}})]),
        (SKIP, {"nvml.pcie_errors": NONE}, ()),
        (UNKNOWN, {"nvml.pcie_errors": {"correctable": None}}, ()),
    ],
    "nvlink.active": [
        (PASS, {}, ()),
        (FAIL, {"nvml.nvlink_states": [1] * 17 + [0]}, ()),
        (SKIP, {"nvml.nvlink_states": NONE}, ()),
        (UNKNOWN, {"nvml.nvlink_states": "up"}, ()),
    ],
    "nvlink.speed": [
        (PASS, {}, ()),
        (FAIL, {"nvml.nvlink_speeds": [26_562] * 17 + [13_281]}, ()),
        (SKIP, {"nvml.nvlink_speeds": [0] * 18}, ()),
        (UNKNOWN, {"nvml.nvlink_speeds": BROKEN}, ()),
    ],
    "nvlink.errors": [
        (PASS, {}, ()),
        (SKIP, {"nvml.nvlink_errors": {**_LINKS, "replay": 3}}, ()),
        (
            PASS,
            {"nvml.nvlink_errors": {**_LINKS, "replay": 3}},
            minutes(2, {"nvml.nvlink_errors": {**_LINKS, "replay": 3}}),
        ),
        (WARN, {"nvml.nvlink_errors": {**_LINKS, "replay": 3}}, minutes(1, {"nvml.nvlink_errors": _LINKS})),
        (FAIL, {"nvml.nvlink_errors": {**_LINKS, "crc_data": 6000}}, minutes(1, {"nvml.nvlink_errors": _LINKS})),
        (FAIL, {"nvml.nvlink_errors": {**_ERRORS, "integrity": 1}}, minutes(1, {"nvml.nvlink_errors": _ERRORS})),
        (FAIL, {"nvml.nvlink_errors": {**_ERRORS, "recovery_failed": 1}}, minutes(1, {"nvml.nvlink_errors": _ERRORS})),
        (
            FAIL,
            {"nvml.nvlink_errors": {**_LINKS, "replay": 40}},
            [(60.0 * ago, {"nvml.nvlink_errors": {**_LINKS, "replay": 40 - ago}}) for ago in range(29, 0, -1)],
        ),
        (SKIP, {"nvml.nvlink_errors": NONE}, ()),
        (UNKNOWN, {"nvml.nvlink_errors": {"replay": "many"}}, ()),
    ],
    "fabric.state": [
        (PASS, {}, ()),
        (SKIP, {"nvml.fabric": {"state": 0, "status": 0, "health_mask": 0}}, ()),
        (FAIL, {"nvml.fabric": {"state": 1, "status": 0, "health_mask": 0}}, ()),
        (WARN, {"nvml.fabric": {"state": 2, "status": 0, "health_mask": 0}}, ()),
        (UNKNOWN, {"nvml.fabric": {"state": 2, "status": 0, "health_mask": 0}, "procfs.uptime": 100.0}, ()),
        (FAIL, {"nvml.fabric": {"state": 3, "status": 999, "health_mask": 0x1AA}}, ()),
        (WARN, {"nvml.fabric": {"state": 3, "status": 0, "health_mask": 0x1A9}}, ()),
        (FAIL, {"nvml.fabric": {"state": 3, "status": 0, "health_mask": 0x19A}}, ()),
        (FAIL, {"nvml.fabric": {"state": 3, "status": 0, "health_mask": 0x2AA}}, ()),
        (UNKNOWN, {"nvml.fabric": {"state": 7, "status": 0, "health_mask": 0}}, ()),
    ],
    "temp.margin": [
        (PASS, {}, ()),
        (WARN, {"nvml.temperature_margin": 1}, ()),
        (WARN, {"nvml.temperature_margin": -3}, minutes(1, {"nvml.temperature_margin": -3})),
        (FAIL, {"nvml.temperature_margin": -3}, minutes(2, {"nvml.temperature_margin": -3})),
        (SKIP, {"nvml.temperature_margin": NONE}, ()),
        (UNKNOWN, {"nvml.margin_limit": BROKEN}, ()),
    ],
    "temp.core": [
        (SKIP, {}, ()),
        (PASS, {**_OLD, "nvml.temperature": 84}, ()),
        (WARN, {**_OLD, "nvml.temperature": 86}, ()),
        (FAIL, {**_OLD, "nvml.temperature": 90}, ()),
        (PASS, {**_OLD, "nvml.temperature_slowdown": NONE, "nvml.temperature": 84}, ()),
        (WARN, {**_OLD, "nvml.temperature_slowdown": NONE, "nvml.temperature": 86}, ()),
        (FAIL, {**_OLD, "nvml.temperature_slowdown": NONE, "nvml.temperature": 96}, ()),
        (UNKNOWN, {**_OLD, "nvml.temperature": float("nan")}, ()),
    ],
    "temp.hbm": [
        (PASS, {}, ()),
        (WARN, {"nvml.memory_temperature": 90}, ()),
        (FAIL, {"nvml.memory_temperature": 95}, ()),
        (SKIP, {"nvml.memory_temperature": NONE}, ()),
        (UNKNOWN, {"nvml.memory_temperature_max": BROKEN}, ()),
    ],
    "throttle": [
        (PASS, {}, ()),
        (PASS, {"nvml.clocks_event_reasons": 0x04 | 0x02 | 0x01}, minutes(10, {"nvml.clocks_event_reasons": 0x04})),
        (WARN, {"nvml.clocks_event_reasons": 0x80}, ()),
        (WARN, {"nvml.clocks_event_reasons": 0x08}, minutes(10, {"nvml.clocks_event_reasons": 0x08})),
        (FAIL, {"nvml.violations": {"hw_thermal": 120e9}}, [(600, {"nvml.violations": {"hw_thermal": 0}})]),
        (WARN, {"nvml.violations": {"sw_thermal": 60e9}}, [(600, {"nvml.violations": {"sw_thermal": 0}})]),
        (
            FAIL,
            {"nvml.violations": NONE, "nvml.clocks_event_reasons": 0x40},
            minutes(10, {"nvml.violations": NONE, "nvml.clocks_event_reasons": 0x40}),
        ),
        (SKIP, {"nvml.clocks_event_reasons": NONE}, ()),
        (UNKNOWN, {"nvml.clocks_event_reasons": None}, ()),
    ],
    "clock.locked": [
        (SKIP, {}, ()),
        (PASS, _BUSY, ()),
        (WARN, {**_BUSY, "nvml.clock_sm": 1600}, ()),
        (WARN, {**_BUSY, "nvml.clock_sm": 900}, ()),
        (FAIL, {**_BUSY, "nvml.clock_sm": 900}, minutes(10, {**_BUSY, "nvml.clock_sm": 900})),
        (SKIP, {**_BUSY, "nvml.clock_sm": 900, "nvml.clocks_event_reasons": 0x04}, ()),
        (UNKNOWN, {**_BUSY, "nvml.clock_sm_max": 0}, ()),
    ],
    "power.limit": [
        (PASS, {}, ()),
        (WARN, {"nvml.power_limit": 600_000}, ()),
        (FAIL, {"nvml.power_limit": 500_000}, ()),
        (SKIP, {"nvml.power_limit": NONE}, ()),
        (UNKNOWN, {"nvml.power_default_limit": 0}, ()),
    ],
    "power.read": [
        (PASS, {}, ()),
        (WARN, {"nvml.power_usage": 0}, ()),
        (WARN, {"nvml.power_usage": 900_000}, ()),
        (UNKNOWN, {"nvml.power_usage": BROKEN}, ()),
        (FAIL, {"nvml.power_usage": BROKEN}, minutes(2, {"nvml.power_usage": BROKEN})),
        (SKIP, {"nvml.power_usage": NONE}, ()),
    ],
    "inforom": [
        (PASS, {}, ()),
        (WARN, {"nvml.inforom": ReadError.CORRUPTED_INFOROM}, ()),
        (WARN, {"nvml.inforom": NONE, "nvml.inforom_version": ReadError.CORRUPTED_INFOROM}, ()),
        (SKIP, {"nvml.inforom": NONE}, ()),
        (UNKNOWN, {"nvml.inforom": BROKEN}, ()),
    ],
    "versions.uniform": [(PASS, {}, ()), (UNKNOWN, {"nvml.driver": BROKEN}, ()), (UNKNOWN, {"nvml.driver": ""}, ())],
    "procs.orphan": [
        (PASS, {}, ()),
        (PASS, _ORPHAN, ()),
        (WARN, _ORPHAN, minutes(5, _ORPHAN)),
        (PASS, {**_ORPHAN, "procfs.cgroups": {"42": "0::/kubepods.slice/x"}}, minutes(5, _ORPHAN)),
        (SKIP, {**_ORPHAN, "procfs.cgroups": {}}, ()),
        (SKIP, {"procfs.daemons": []}, ()),
        (UNKNOWN, {"nvml.processes": BROKEN}, ()),
    ],
    "driver.module": [
        (PASS, {}, ()),
        (WARN, {"sysfs.nvidia_module": "570.1"}, ()),
        (FAIL, {"sysfs.nvidia_module": NONE}, ()),
        (UNKNOWN, {"sysfs.nvidia_module": BROKEN}, ()),
    ],
    "fabricmanager": [(PASS, {}, ())],
    "imex": [
        (SKIP, {}, ()),
        (PASS, {"procfs.daemons": ["nvidia-imex"]}, ()),
        (UNKNOWN, {"procfs.daemons": BROKEN}, ()),
    ],
    "plugin.registered": [
        (SKIP, {}, ()),
        (PASS, {"kubernetes.allocatable_gpus": 4}, ()),
        (WARN, {"kubernetes.allocatable_gpus": 3}, ()),
        (UNKNOWN, {"kubernetes.allocatable_gpus": BROKEN}, ()),
    ],
    "pcie.acs": [
        (SKIP, {}, ()),
        (PASS, {"sysfs.acs": [{"slot": "0000:00:01.0", "control": 0}]}, ()),
        (WARN, {"sysfs.acs": [{"slot": "0000:00:01.0", "control": 0x1D}]}, ()),
        (SKIP, {"sysfs.acs": DENIED}, ()),
        (UNKNOWN, {"sysfs.acs": BROKEN}, ()),
    ],
    "ib.state": [
        (PASS, {}, ()),
        (SKIP, {"sysfs.infiniband_ports": []}, ()),
        (WARN, {"sysfs.infiniband_ports": [_port(state="1: DOWN")]}, ()),
        (FAIL, {"sysfs.infiniband_ports": [_port(state="1: DOWN")]}, minutes(1, {"sysfs.infiniband_ports": [_port()]})),
        (UNKNOWN, {"sysfs.infiniband_ports": BROKEN}, ()),
        (WARN, {"sysfs.infiniband_ports": [_port(link_downed=1)]}, minutes(1, {"sysfs.infiniband_ports": [_port()]})),
        (FAIL, {"sysfs.infiniband_ports": [_port(link_downed=3)]}, minutes(1, {"sysfs.infiniband_ports": [_port()]})),
        (
            WARN,
            {"sysfs.infiniband_ports": [_port(symbol_error=700)]},
            minutes(1, {"sysfs.infiniband_ports": [_port()]}),
        ),
    ],
    "amd.count": [
        (PASS, {}, ()),
        (FAIL, {"amdsmi.count": 1}, ()),
        (UNKNOWN, {"amdsmi.count": ..., "amdsmi.init": ReadError.NO_LIBRARY}, ()),
    ],
    "amd.ecc": [(PASS, {}, ()), (FAIL, {"amdsmi.ecc": {"uncorrectable": 1}}, ()), (SKIP, {"amdsmi.ecc": NONE}, ())],
    "amd.bad_pages": [
        (PASS, {}, ()),
        (WARN, {"amdsmi.bad_pages": {"pending": 2, "unreservable": 0}}, ()),
        (FAIL, {"amdsmi.bad_pages": {"pending": 0, "unreservable": 1}}, ()),
        (UNKNOWN, {"amdsmi.bad_pages": BROKEN}, ()),
    ],
    "amd.pcie.width": [
        (PASS, {}, ()),
        (FAIL, {"amdsmi.pcie": {"width": 8, "max_width": 16}}, ()),
        (UNKNOWN, {"amdsmi.pcie": {"width": 8}}, ()),
    ],
    "amd.pcie.replay": [
        (PASS, {}, ()),
        (WARN, {"amdsmi.pcie": {"replays": 900}}, [(600, {"amdsmi.pcie": {"replays": 0}})]),
        (SKIP, {"amdsmi.pcie": NONE}, ()),
    ],
    "amd.throttle": [
        (PASS, {}, ()),
        (WARN, {"amdsmi.violations": {"socket_thermal": 30}}, ()),
        (PASS, {"amdsmi.violations": {"ppt": 90, "prochot": 0}}, ()),
        (SKIP, {"amdsmi.violations": {"prochot": "N/A"}}, ()),
        (UNKNOWN, {"amdsmi.violations": BROKEN}, ()),
    ],
    "amd.xgmi": [(PASS, {}, ()), (FAIL, {"amdsmi.xgmi_error": 1}, ()), (UNKNOWN, {"amdsmi.xgmi_error": None}, ())],
    "amd.temperature": [
        (PASS, {}, ()),
        (WARN, {"amdsmi.temperature": {"hotspot": 97, "hotspot_limit": 100}}, ()),
        (FAIL, {"amdsmi.temperature": {"hotspot": 40, "hotspot_limit": 100, "memory": 96, "memory_limit": 95}}, ()),
        (SKIP, {"amdsmi.temperature": {"hotspot": 40}}, ()),
    ],
    "amd.power": [
        (PASS, {}, ()),
        (WARN, {"amdsmi.power": {"watts": 900, "limit": 750}}, ()),
        (UNKNOWN, {"amdsmi.power": {"watts": 900}}, ()),
    ],
}
_FLAT = [
    pytest.param(check, status, values, history, id=f"{check}-{number}-{status}")
    for check, cases in CASES.items()
    for number, (status, values, history) in enumerate(cases)
]


@pytest.mark.parametrize(("check", "status", "values", "history"), _FLAT)
def test_a_check_says(check: str, status: CheckStatus, values: Values, history: History) -> None:
    """F-081, F-082, F-100: each status of each check, from the readings that cause it."""
    found = run(check, values, history)
    assert found.status is status, found.message
    assert found.message
    if status in {PASS, UNKNOWN, SKIP}:
        assert (found.severity, found.action) == (FindingSeverity.INFO, RepairAction.NONE)
    if status is WARN:
        assert found.severity is not FindingSeverity.FATAL


def test_every_light_check_has_cases() -> None:
    """A check that nobody tests is a check that nobody knows."""
    passive = {
        check.id
        for check in CHECKS
        if check.profile.weight == 0 and not check.reads[0].startswith(("net.", "storage."))
    }
    assert passive == set(CASES)
    for check, cases in CASES.items():
        statuses = {status for status, _, _ in cases}
        assert PASS in statuses, check
        assert len(statuses) > 1 or check == "fabricmanager", check


def test_the_fabric_manager_is_a_hint() -> None:
    """The state of the fabric decides; a process that nobody sees does not."""
    waiting = {"state": 2, "status": 0, "health_mask": 0}
    sweep = changed(sound(2), {"nvml.fabric": waiting}, SLOT)
    for daemons, text in ((["nv-fabricmanager"], "is running"), ([], "is not visible")):
        (found,) = judge(changed(sweep, {"procfs.daemons": daemons}), only=["fabricmanager"])
        assert found.status is WARN
        assert text in found.message
    (found,) = judge(changed(sound(2), {"procfs.daemons": []}), only=["fabricmanager"])
    assert found.status is PASS
    alone = changed(sound(1), {"nvml.fabric": NONE}, SLOT)
    assert judge(alone, only=["fabricmanager"])[0].status is SKIP


@pytest.mark.parametrize(
    ("check", "values", "expected", "status"),
    [
        ("nvml.init", {"nvml.init": ReadError.NO_LIBRARY}, NodeExpectation(gpus=8), FAIL),
        ("nvml.init", {"nvml.init": ReadError.NO_DRIVER}, NodeExpectation(gpus=8), FAIL),
        ("nvml.init", {"nvml.init": ReadError.NO_LIBRARY}, NodeExpectation(gpus=0), SKIP),
        ("gpu.count", {}, NodeExpectation(gpus=8), FAIL),
        ("gpu.count", {}, NodeExpectation(gpus=4), PASS),
        ("versions.uniform", {}, NodeExpectation(denied_drivers=("580.65.06",)), FAIL),
        ("versions.uniform", {}, NodeExpectation(drivers=("570.1",)), WARN),
        ("nvlink.active", {"nvml.nvlink_states": [0] * 18}, NodeExpectation(nvlinks=18), FAIL),
        ("pcie.width", {"nvml.pcie_width": 8}, NodeExpectation(pcie_width=8), PASS),
    ],
)
def test_git_says_what_a_node_should_have(
    check: str, values: Values, expected: NodeExpectation, status: CheckStatus
) -> None:
    """A missing library is a failure only where Git says that the node has GPUs."""
    assert run(check, values, expected=expected).status is status


def test_a_number_of_gpus_that_somebody_expects_is_not_said_to_be_in_git() -> None:
    """`probe --expect-gpus` is a flag: nothing about it is in Git."""
    assert run("gpu.count", {}, expected=NodeExpectation(gpus=8)).message == "4 GPUs, 8 expected"
    assert run("gpu.count", {}, expected=NodeExpectation(gpus=2)).message == "4 GPUs, more than the 2 expected"


@pytest.mark.parametrize(
    ("check", "values", "expected", "message"),
    [
        ("gpu.count", {}, {"gpus": 8}, "4 GPUs, 8 expected (HealthPolicy h200)"),
        (
            "nvml.init",
            {"nvml.init": ReadError.NO_DRIVER},
            {"gpus": 8},
            "the node should have 8 GPUs (HealthPolicy h200)",
        ),
        ("versions.uniform", {}, {"drivers": ("570.1",)}, "driver 580.65.06 is not one of 570.1 (HealthPolicy h200)"),
        ("versions.uniform", {}, {"denied_drivers": ("580.65.06",)}, "driver 580.65.06 is denied (HealthPolicy h200)"),
        ("nvlink.active", {}, {"nvlinks": 19}, "18 of 19 links are active (HealthPolicy h200)"),
        ("pcie.width", {"nvml.pcie_width": 8}, {"pcie_width": 16}, "8 of 16 lanes (HealthPolicy h200)"),
        ("amd.count", {}, {"gpus": 99}, "of 99 GPUs (HealthPolicy h200)"),
        ("amd.pcie.width", {}, {"pcie_width": 32}, "16 of 32 lanes (HealthPolicy h200)"),
    ],
)
def test_a_message_says_which_policy_expects_it(
    check: str, values: Values, expected: dict[str, Any], message: str
) -> None:
    found = run(check, values, expected=NodeExpectation(**expected, origin="HealthPolicy h200"))
    assert found.status in (WARN, FAIL)
    assert message in found.message


def test_firmware_differs_within_a_model() -> None:
    """Another VBIOS on one GPU of four is a warning; another model may have its own."""
    sweep = changed(sound(4), {"nvml.vbios": "96.00.AA"}, SLOT)
    assert judge(sweep, only=["versions.uniform"])[0].status is WARN
    gpus = (replace(sweep.gpus[0], product="NVIDIA L4"), *sweep.gpus[1:])
    assert judge(replace(sweep, gpus=gpus), only=["versions.uniform"])[0].status is PASS


def test_no_link_on_any_gpu_is_not_a_pass() -> None:
    """A card without bridges looks like a broken switch: only Git knows."""
    sweep = sound(2)
    for gpu in sweep.gpus:
        sweep = changed(sweep, {"nvml.nvlink_states": [0] * 18}, gpu.slot)
    assert {found.status for found in judge(sweep, only=["nvlink.active"])} == {SKIP}


def test_a_swapped_gpu_starts_a_new_history() -> None:
    """Counters of the device that was in the slot before say nothing about this one."""
    old = replace(changed(sound(1), {"nvml.ecc_uncorrected": 1}, SLOT), taken_at=NOW - 3600)
    new = replace(changed(sound(1), {"nvml.ecc_uncorrected": 3}, SLOT), taken_at=NOW)
    assert judge(new, history=[old], only=["ecc.dram.unc.volatile"])[0].status is FAIL
    swapped = replace(new, gpus=(replace(new.gpus[0], uuid="GPU-new"),))
    (found,) = judge(swapped, history=[old], only=["ecc.dram.unc.volatile"])
    assert (found.status, found.uuid) == (WARN, "GPU-new")


def test_another_boot_is_another_story() -> None:
    """Silence before a restart is not silence in a row; rows that the device has remapped stay remapped."""
    silent = changed(sound(1), {"nvml.fabric": SLOW}, SLOT)
    before = [replace(silent, taken_at=NOW - 60 * ago, boot_id="another") for ago in (3, 2, 1)]
    (found,) = judge(replace(silent, taken_at=NOW), history=before, only=["gpu.reachable"])
    assert (found.status, "1 of 3" in found.message) == (UNKNOWN, True)
    rows = changed(sound(1), {"nvml.remapped_rows": {**_MEMORY, "uncorrected": 9}}, SLOT)
    old = replace(sound(1), taken_at=rows.taken_at - 3600, boot_id="another")
    assert judge(rows, history=[old], only=["remap.count"])[0].status is WARN


def test_one_lost_gpu_hides_nothing_and_fails_once() -> None:
    """All other GPUs are judged; of the lost one, only reachability fails, and nothing passes."""
    sweep = sound(4)
    names = [reading.name for reading in sweep.readings if reading.slot == SLOT]
    sweep = changed(sweep, dict.fromkeys(names, ReadError.GPU_LOST), SLOT)
    found = judge(sweep)
    lost = {finding.check: finding.status for finding in found if finding.slot == SLOT}
    assert lost.pop("gpu.reachable") is FAIL
    lost.pop("gpu.xid")  # of the kernel's log, which can still be read
    assert set(lost.values()) <= {UNKNOWN, SKIP}
    others = [finding.status for finding in found if finding.slot and finding.slot != SLOT]
    assert PASS in others
    assert not {FAIL, UNKNOWN} & set(others)

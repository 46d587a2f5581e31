"""Messages of the kernel: what the table makes of them, when they no longer count, and what a flood leaves."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler.nodehealth.catalogue import BY_ID
from reconciler.nodehealth.findings import CheckStatus, HealthFinding
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.kernel_events import is_kept, kernel_events, thinned, told_by
from tests.nodehealth.readers.fakes.library import changed, sound

DATA = Path(__file__).parents[2] / "reconciler" / "data"
PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL


def judged(check: str, *rows: tuple[float, str], **more: Any) -> HealthFinding:
    """Judge messages, each with its seconds since the boot, on a node that has run for a day."""
    lines = [{"monotonic": at, "text": text} for at, text in rows]
    (found,) = judge(changed(sound(1), {"kmsg.lines": lines, **more}), only=[check])
    return found


@pytest.mark.parametrize(
    ("line", "check", "severity", "subject"),
    [
        ("NVRM: GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 0", "driver", "fatal", "0000:3b:00.0"),
        ("NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!", "driver", "fatal", ""),
        ("nvidia-uvm: Encountered a global fatal error: NV_ERR_ECC_ERROR", "driver", "fatal", ""),
        ("NVRM: None of the NVIDIA graphics adapters were initialized!", "driver", "fatal", ""),
        ("NVRM: API mismatch: the client has the version 550.54.15, but", "driver", "degraded", ""),
        ("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "nvswitch", "fatal", "nvidia-nvswitch0"),
        ("pcieport 0000:00:03.1: AER: Uncorrectable (Fatal) error message received from 0000:03:00.0", "pcie", "fatal", "0000:00:03.1"),
        ("nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)", "pcie", "fatal", "0000:03:00.0"),
        ("nvidia 0000:03:00.0: Unable to change power state from D3cold to D0, device inaccessible", "pcie", "fatal", "0000:03:00.0"),
        ("mlx5_core 0000:9a:00.0: Port module event[error]: module 0, Cable error, High Temperature", "nic", "degraded", "0000:9a:00.0"),
        ("mlx5_core 0000:3b:00.0: poll_health:800:(pid 0): device's health compromised - reached miss count", "nic", "fatal", "0000:3b:00.0"),
        ("mlx5_core 0000:3b:00.0: wait_func:1:(pid 1): QUERY(0x770) timeout. Will cause a leak of a command", "nic", "fatal", "0000:3b:00.0"),
        ("mce: [Hardware Error]: CPU 42: Machine Check: 0 Bank 7: fe00000000801136", "host", "fatal", "CPU 42"),
        ("mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 7: 8c00004000010090", "host", "degraded", "CPU 2"),
        ("watchdog: BUG: soft lockup - CPU#23 stuck for 22s! [python:1234]", "host", "degraded", "CPU#23"),
        ("nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "storage", "fatal", "nvme0"),
        ("blk_update_request: I/O error, dev nvme0n1, sector 12345 op 0x0:(READ)", "storage", "degraded", "nvme0n1"),
        ("EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2", "storage", "degraded", "sda1"),
        ("[drm] RAS event of type ERREVENT_ATHUB_INTERRUPT detected!", "amd", "fatal", ""),
        ("amdgpu 0000:9e:00.0: amdgpu: GPU reset end with ret = -62", "amd", "fatal", "0000:9e:00.0"),
    ],
)  # fmt: skip
def test_messages_of_drivers(line: str, check: str, severity: str, subject: str) -> None:
    """F-081: the forms that drivers and the kernel write."""
    told = told_by(line)
    assert told is not None
    assert (told.check, told.event.severity, told.subject) == (f"kmsg.{check}", severity, subject)
    assert is_kept(f"3,1,1,-;{line}".encode())


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-uvm: Loaded the UVM driver, major device number 509.",
        "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance 00",
        "pcieport 0000:80:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+",
        "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR DPC]",
        "mlx5_core 0000:3b:00.0: mlx5_pcie_event:299:(pid 2): PCIe slot advertised sufficient power (27W).",
        "mlx5_core 0000:3b:00.0: firmware version: 28.39.1002",
        "mce: CPU supports 32 MCE banks",
        "EDAC MC: Ver: 3.0.0",
        "rcu: Hierarchical RCU implementation.",
        "nvme nvme0: 64/0/0 default/read/poll queues",
        "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
        "amdgpu 0000:9e:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
        "amdgpu 0000:9e:00.0: amdgpu: Using 63 PTEs per bad page threshold -1",
    ],
)
def test_what_every_boot_writes(line: str) -> None:
    """No fault, however much the words look like one."""
    assert told_by(line) is None


def test_faults_end() -> None:
    """A port that is back, and a warning of yesterday, count no more; a fatal one counts until the restart."""
    down = (80_000.0, "mlx5_core 0000:3b:00.0 ens3f0np0: Link down")
    assert judged("kmsg.nic", down).status is WARN
    other = (80_010.0, "mlx5_core 0000:5e:00.0 ens4f0np0: Link up")
    assert judged("kmsg.nic", down, other).status is WARN
    back = judged("kmsg.nic", down, (80_010.0, "mlx5_core 0000:3b:00.0 ens3f0np0: Link up"))
    assert (back.status, back.since > 0) == (PASS, True)
    locked = "watchdog: BUG: soft lockup - CPU#1 stuck for 22s!"
    old = changed(sound(1), {"kmsg.lines": [{"monotonic": 1.0, "text": locked}], "procfs.btime": 1_759_900_000.0})
    assert judge(old, only=["kmsg.host"])[0].status is PASS
    failed = (1.0, "NVRM: RmInitAdapter failed! (0x12:0x2b:1830)")
    assert judged("kmsg.driver", failed).status is FAIL
    assert judged("kmsg.driver", failed, (9.0, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535")).status is PASS


def test_corrected_errors_count_only_in_numbers() -> None:
    """One corrected error is what the correction is for."""
    rows = [(86_000.0 + number, "EDAC MC0: 1 CE memory scrubbing error on CPU_SrcID#0") for number in range(10)]
    assert judged("kmsg.host", *rows[:9]).status is PASS
    assert judged("kmsg.host", *rows).status is WARN


def test_a_gpu_falls_off_in_three_messages() -> None:
    """F-081: older drivers name the GPU in the first message and its fate in the third."""
    texts = (
        "The NVIDIA GPU 0000:b3:00.0",
        "(PCI ID: 10de:26b5) installed in this system has",
        "fallen off the bus and is",
    )
    found = judged("kmsg.fallen_off", *((80_000.0 + at, f"NVRM: {text}") for at, text in enumerate(texts)))
    assert (found.status, found.message) == (FAIL, "fell off the bus: 0000:b3:00.0")


def test_a_flood_hides_no_event() -> None:
    """F-081: 5,100 messages about nothing, and as many of one kind, leave room for the Xid before them."""
    xid = b"3,1,5,-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus."
    noise = [b"3,%d,9,-;NVRM: nvAssertOkFailedNoLog: Assertion failed" % number for number in range(5100)]
    same = [
        b"3,%d,9,-;nvidia 0000:03:00.0: PCIe Bus Error: severity=Corrected, type=x" % number for number in range(5100)
    ]
    kept = [*thinned([xid, *noise, *same], 5000)]
    assert kept[0] == xid
    assert len(kept) == 5000
    assert sum(b"PCIe" in line for line in kept) == 22
    assert [*thinned(noise, 10)] == noise[-10:]


def test_the_table_is_valid() -> None:
    """Each row belongs to a check, and its pattern can be compiled."""
    table = json.loads((DATA / "kernel_events.json").read_text())
    jsonschema.validate(table, json.loads((DATA / "kernel_events.schema.json").read_text()))
    for check in kernel_events():
        assert BY_ID[check].is_log

"""sysfs and procfs below a root, and the tree of a whole node."""

from pathlib import Path

from reconciler.nodehealth.findings import CheckStatus, ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readers.system import SystemSource
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings, Sweep, keep, make_sweep
from tests.nodehealth.readers.fakes.library import changed, sound
from tests.nodehealth.readers.fakes.root import write_root

_BEFORE = SourceReadings(
    readings=(
        NodeReading(
            name=ReadingId("nvml.processes"), slot="0000:10:00.0", value=[{"pid": 42, "memory": 1}, {"pid": 43}]
        ),
    )
)


def read(root: Path) -> Sweep:
    return make_sweep("node-1", 1.0, SystemSource(root).read(ProbeProfile.LIGHT, _BEFORE))


def test_a_whole_node(tmp_path: Path) -> None:
    """Every file has its reading."""
    sweep = read(write_root(tmp_path, gpus=2))
    values = {reading.name: reading.value for reading in sweep.readings}
    assert sweep.boot_id == "11111111-2222-3333-4444-555555555555"
    assert values[ReadingId("procfs.btime")] == 1_760_000_000
    assert values[ReadingId("procfs.uptime")] == 86_400.0
    assert values[ReadingId("sysfs.nvidia_module")] == "580.65.06"
    assert values[ReadingId("procfs.daemons")] == ["kubelet", "nv-fabricmanager", "nvidia-persistenced"]
    assert values[ReadingId("procfs.cgroups")] == {"42": "0::/kubepods.slice/pod1"}
    assert [card["slot"] for card in values[ReadingId("sysfs.pci_gpus")]] == ["0000:10:00.0", "0000:11:00.0"]
    assert values[ReadingId("sysfs.pci_gpus")][0]["max_width"] == "16"
    assert values[ReadingId("sysfs.infiniband_ports")][0] == {
        "device": "mlx5_0", "port": "1", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand", "link_downed": 0, "symbol_error": 0, "link_error_recovery": None,
        "port_rcv_errors": None,
    }  # fmt: skip


def test_an_empty_root(tmp_path: Path) -> None:
    """What does not exist is not supported: no check passes on it, but those that judge what is there."""
    sweep = read(tmp_path)
    missing = {reading.name for reading in sweep.readings if reading.error is ReadError.NOT_SUPPORTED}
    assert {"procfs.boot_id", "sysfs.pci_gpus", "sysfs.nvidia_module"} <= missing
    assert {found.status for found in judge(sweep, only=["pcie.acs", "driver.module"])} <= {
        CheckStatus.SKIP, CheckStatus.UNKNOWN,
    }  # fmt: skip


def test_access_control_of_bridges(tmp_path: Path) -> None:
    """The control bits of a bridge above a GPU; its capability needs root to be read."""
    root = write_root(tmp_path, gpus=1)
    bridge = root / "sys/devices/pci0000:00/0000:00:01.0"
    (bridge / "0000:10:00.0").mkdir(parents=True)
    devices = root / "sys/bus/pci/devices"
    for file in (devices / "0000:10:00.0").iterdir():
        file.rename(bridge / "0000:10:00.0" / file.name)
    (devices / "0000:10:00.0").rmdir()
    (devices / "0000:10:00.0").symlink_to(bridge / "0000:10:00.0")
    config = bytearray(4096)
    config[256:260] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")  # another capability, then ours
    config[0x140:0x144] = (0x000D | 1 << 16).to_bytes(4, "little")
    config[0x146:0x148] = (0x1D).to_bytes(2, "little")
    (bridge / "config").write_bytes(config)
    reading = read(root).find(ReadingId("sysfs.acs"))
    assert reading is not None
    assert reading.value == [{"slot": "0000:00:01.0", "control": 0x1D}]
    (bridge / "config").write_bytes(config[:64])
    reading = read(root).find(ReadingId("sysfs.acs"))
    assert reading is not None
    assert reading.error is ReadError.NO_PERMISSION
    config[256:260] = (0x0001 | 0x100 << 20).to_bytes(4, "little")  # a list that turns in a circle
    (bridge / "config").write_bytes(config)
    reading = read(root).find(ReadingId("sysfs.acs"))
    assert reading is not None
    assert reading.value == []


def test_history_is_thinned() -> None:
    """All sweeps of 15 minutes, one an hour for a day, one a day for a week: a month of sweeps stays small."""
    history: tuple[Sweep, ...] = ()
    base = changed(sound(1), {})
    for minute in range(0, 60 * 24 * 30, 5):
        history = keep(history, Sweep(node="n", taken_at=60.0 * minute, boot_id=base.boot_id))
    assert len(history) < 45
    ages = [history[-1].taken_at - sweep.taken_at for sweep in history]
    assert max(ages) > 6 * 86_400
    assert sum(age <= 900 for age in ages) == 4

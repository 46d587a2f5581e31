"""The table of readings: checks and readers name its members, and nothing else."""

from pathlib import Path

import msgspec
import pytest

from reconciler.nodehealth.catalogue import CHECKS
from reconciler.nodehealth.checks.check import CheckInput, CheckRow, HealthCheck, Unmeasured
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readers import amdsmi_calls, nvml_calls
from reconciler.nodehealth.readers.system import SystemSource
from reconciler.nodehealth.readings import NodeReading, ReadingId, SourceReadings, Sweep
from tests.nodehealth.readers.fakes.library import sound

_INITS = {ReadingId.NVML_INIT, ReadingId.AMDSMI_INIT, ReadingId.SYSFS_PCI_GPUS}
_OTHER_USES = {
    ReadingId.NVML_ENERGY, ReadingId.NVML_TRAFFIC, ReadingId.NVML_MEMORY, ReadingId.NVML_MIG_MODE, ReadingId.PROCFS_BOOT_ID,
    ReadingId.NVML_PERFORMANCE_STATE, ReadingId.CUDA_H2D_PAGEABLE, ReadingId.CUDA_D2H_PAGEABLE, ReadingId.AMDSMI_HANDLE,
    ReadingId.SOURCE,
}  # fmt: skip
"""What is read for sweeps, for activity and obstacles of tests, and for people who measure, not for checks."""


def test_a_check_cannot_name_a_reading_that_does_not_exist() -> None:
    """The table of rows is not read."""
    with pytest.raises(msgspec.ValidationError, match="nonsense"):
        msgspec.convert({"id": "a", "title": "b", "reads": ["nvml.nonsense"]}, CheckRow)
    with pytest.raises(AttributeError):
        ReadingId.NVML_NONSENSE  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(Unmeasured):
        CheckInput(sweep=sound()).value(ReadingId.NVML_XIDS, slot="0000:ff:00.0")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_reads_what_its_row_names(check: HealthCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documentation lists these readings."""
    found: set[ReadingId] = set()
    find = Sweep.find

    def recorded(sweep: Sweep, name: ReadingId, slot: str = "") -> NodeReading | None:
        found.add(name)
        return find(sweep, name, slot)

    monkeypatch.setattr(Sweep, "find", recorded)
    judge(sound(), only=[check.id])
    assert found <= {*check.reads, *_INITS}


def test_sources_read_what_the_table_lists(tmp_path: Path) -> None:
    """Nothing is read for nobody, and each row has a source."""
    nvml = {name for name, _ in (*nvml_calls.NODE_CALLS, *nvml_calls.GPU_CALLS)}
    nvml |= {ReadingId.NVML_INIT, ReadingId.NVML_HANDLE, ReadingId.NVML_XIDS}
    assert nvml == {one for one in ReadingId if one.source == "nvml"}
    amd = {name for name, _ in amdsmi_calls.CALLS} | {
        ReadingId.AMDSMI_INIT,
        ReadingId.AMDSMI_COUNT,
        ReadingId.AMDSMI_HANDLE,
    }
    assert amd == {one for one in ReadingId if one.source == "amdsmi"}
    system = {one.name for one in SystemSource(tmp_path).read(ProbeProfile.LIGHT, SourceReadings()).readings}
    assert system == {one for one in ReadingId if one.source in ("sysfs", "procfs")}
    used = {name for check in CHECKS for name in check.reads} | _OTHER_USES
    assert used == set(ReadingId)

"""The port to a node: sources of readings. All sources read once make a `Sweep` (`nodehealth/readings.py`)."""

from typing import Protocol

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readings import SourceReadings


class ReadingSource(Protocol):
    """One source of readings: NVML, the kernel's log, sysfs and procfs, a test on the GPU.

    `read` never raises for what it finds: a value that cannot be read is a reading with an error. It keeps its own
    deadlines, and returns in time whatever hangs.
    """

    @property
    def name(self) -> str:
        """The first part of the names of its readings, such as `nvml`."""
        ...

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:
        """Read once. `before` is what the sources before this one have found: the GPUs, their processes."""
        ...

    def close(self) -> None:
        """End everything that was started. May be called twice."""
        ...

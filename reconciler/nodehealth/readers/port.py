"""The port to a node: sources of readings. All sources read once make a `Sweep` (`nodehealth/readings.py`)."""

from typing import Protocol

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings
from reconciler.processes import ProcessError, ProcessUnavailable, ProgramMissing


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


def not_run(name: ReadingId, problem: ProcessError) -> NodeReading:
    """Return the reading of a program that did not run to its end."""
    late = ReadError.DEADLINE if isinstance(problem, ProcessUnavailable) else ReadError.FAILED
    error = ReadError.NOT_SUPPORTED if isinstance(problem, ProgramMissing) else late
    return NodeReading(name=name, error=error, detail=str(problem))

"""Where the temporary files of a test run lie: in memory, if there is plenty of it."""

import os
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6 << 30  # a run holds less than 2 GiB there at a time, beside the memory of its clusters


def keep_files_in_memory() -> None:
    """Let this process and its children make their temporary files in memory, unless TMPDIR names a folder.

    A test makes and removes about a hundred files. On a busy ext4, which looks for inodes that were not deleted a moment
    ago, that is a tenth of the processor time of the command line's tests.
    """
    if "TMPDIR" not in os.environ and _is_roomy():
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def _is_roomy() -> bool:
    """Tell whether programs can be run from the folder in memory, and the machine has memory to spare."""
    try:
        folder = os.statvfs(_MEMORY)
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return False
    available = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    is_usable = os.access(_MEMORY, os.W_OK) and not folder.f_flag & os.ST_NOEXEC
    return is_usable and min(folder.f_bavail * folder.f_frsize, available) >= _ROOM_BYTES

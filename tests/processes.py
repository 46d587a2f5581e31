"""Processes that a test started, as the kernel lists them."""

from collections.abc import Sequence
from pathlib import Path


def living(session: int) -> Sequence[int]:
    """Return the processes of a session, without those that have ended and only wait to be collected."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):  # none where there is no /proc
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found

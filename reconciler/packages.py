"""Metadata of installed packages, read without `importlib.metadata`, whose import takes 50 ms."""

import os
from contextlib import suppress
from pathlib import Path

GROUP = "gpu_reconciler.kinds"
"""The group of entry points by which a package adds kind families."""
_SUFFIXES = (".dist-info", ".egg-info")


def installed_metadata(folder: str) -> list[str]:
    """Return the folders with the metadata of the packages that are installed in a folder, sorted."""
    found: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        found += (entry.path for entry in entries if entry.name.endswith(_SUFFIXES))
    return sorted(found)


def registers_kinds(metadata: Path) -> bool:
    """Return whether an installed package, by its metadata, may have kind families."""
    try:
        return GROUP.encode() in (metadata / "entry_points.txt").read_bytes()
    except OSError:  # most packages have no entry points
        return False

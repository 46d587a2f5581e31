"""The fake driver's library, built with the system's compiler, and readings that it gave as test data."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Sweep

SOURCE = Path(__file__).with_name("fake_nvml.c")
REPLAYS = Path(__file__).parents[1] / "replays"
COMPILER = shutil.which("cc") or shutil.which("gcc")


def build(folder: Path, *flags: str) -> Path:
    """Build the library into a folder, for LD_LIBRARY_PATH."""
    if COMPILER is None:
        pytest.skip("no C compiler: the fake driver's library cannot be built")
    target = folder / "libnvidia-ml.so.1"
    soname = "-Wl,-soname,libnvidia-ml.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", soname, *flags, "-o", str(target), str(SOURCE)], check=True)
    return folder


def sound(gpus: int = 2) -> Sweep:
    """Return a sweep of a sound node, as the fake library gives it, with this many of its eight GPUs."""
    content = json.loads((REPLAYS / "fake-h200.json").read_text())
    sweep = msgspec.convert(content["sweeps"][0], Sweep)
    slots = {gpu.slot for gpu in sweep.gpus[:gpus]} | {""}
    kept = tuple(reading for reading in sweep.readings if reading.slot in slots)
    cards = [
        card for reading in sweep.all(ReadingId("sysfs.pci_gpus")) for card in reading.value if card["slot"] in slots
    ]
    sweep = replace(sweep, gpus=sweep.gpus[:gpus], readings=kept)
    return changed(sweep, {"nvml.count": gpus, "sysfs.pci_gpus": cards})


def changed(sweep: Sweep, values: Mapping[str, Any], slot: str = "", **fields: Any) -> Sweep:
    """Return a sweep with other readings: a value, a `ReadError`, or `...` for a reading that nobody made."""
    readings = [reading for reading in sweep.readings if reading.name not in values or reading.slot != slot]
    for name, value in values.items():
        if isinstance(value, ReadError):
            readings.append(NodeReading(name=ReadingId(name), slot=slot, error=value))
        elif value is not ...:
            readings.append(NodeReading(name=ReadingId(name), slot=slot, value=value))
    return replace(sweep, readings=tuple(readings), **fields)

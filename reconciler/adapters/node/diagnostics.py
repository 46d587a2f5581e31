"""The vendor's diagnostics, where they are installed: `dcgmi diag` and `nvbandwidth`. Their JSON becomes readings."""

import json
import os
import time
from collections.abc import Mapping

from reconciler.adapters.node.programs import ProgramOutput, not_run, run_program
from reconciler.adapters.process import ProcessError
from reconciler.core.health.active.plans import PLANS, obstacle
from reconciler.core.health.findings import ProbeProfile
from reconciler.core.health.readings import NodeReading, ReadError, Value
from reconciler.core.health.sweeps import SourceReadings

DIAG_SECONDS = {1: 120.0, 2: 600.0, 3: 2400.0, 4: 9000.0}
"""How long each level may take."""
BANDWIDTH_SECONDS = 600.0
_BANDWIDTH_TESTS = ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_to_device_memcpy_write_ce")


class DiagnosticsSource:
    """`dcgmi diag` of the level of the profile, and `nvbandwidth`: only while every GPU is idle."""

    name = "diagnostics"

    def __init__(self, *, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:
        """Run what the profile asks for. Both programs use all GPUs, so that one in use stops both."""
        plan = PLANS[profile]
        names = [f"dcgm.level{plan.diag_level}"] * bool(plan.diag_level) + ["nvbandwidth"] * plan.has_nvbandwidth
        blocked = next((found for gpu in before.gpus if (found := obstacle(before.readings, gpu.slot))), None)
        if blocked is not None:
            error, detail = blocked
            return SourceReadings(readings=tuple(NodeReading(name=name, error=error, detail=detail) for name in names))
        readings: list[NodeReading] = []
        if plan.diag_level:
            readings.append(read_diag(plan.diag_level, environ=self._environ))
        if plan.has_nvbandwidth:
            readings.append(read_bandwidth(environ=self._environ))
        return SourceReadings(readings=tuple(readings))

    def close(self) -> None:
        """Do nothing: every program has ended."""


def read_diag(level: int, *, environ: Mapping[str, str] = os.environ, seconds: float | None = None) -> NodeReading:
    """Run `dcgmi diag -j -r LEVEL`."""
    argv = ("dcgmi", "diag", "-j", "-r", str(level))
    return _of_json(f"dcgm.level{level}", argv, seconds or DIAG_SECONDS[level], environ)


def read_bandwidth(*, environ: Mapping[str, str] = os.environ, seconds: float = BANDWIDTH_SECONDS) -> NodeReading:
    """Run the copies of `nvbandwidth -j`."""
    argv = ("nvbandwidth", "-j", *(part for name in _BANDWIDTH_TESTS for part in ("-t", name)))
    return _of_json("nvbandwidth", argv, seconds, environ)


def _of_json(name: str, argv: tuple[str, ...], seconds: float, environ: Mapping[str, str]) -> NodeReading:
    start = time.monotonic()
    try:
        found = run_program(argv, seconds=seconds, environ=environ)
    except ProcessError as problem:
        return not_run(name, problem)
    document = _document(found)
    elapsed = round((time.monotonic() - start) * 1000, 3)
    if document is None:
        detail = f"exit code {found.code}, no JSON{f': {found.message}' if found.message else ''}"
        return NodeReading(name=name, error=ReadError.FAILED, detail=detail, milliseconds=elapsed)
    value: Value = {"exitCode": found.code, "message": found.message, "output": document}
    return NodeReading(name=name, value=value, milliseconds=elapsed)


def _document(found: ProgramOutput) -> Value:
    """Return the JSON object in the output: some versions print lines before it."""
    start = found.text.find("{")
    try:
        document, _ = json.JSONDecoder().raw_decode(found.text[start:]) if start >= 0 else (None, 0)
    except json.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None

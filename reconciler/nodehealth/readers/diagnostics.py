"""The vendor's diagnostics, where they are installed: `dcgmi diag`. Its JSON becomes a reading."""

import json
import os
import time
from collections.abc import Mapping

from reconciler.nodehealth.active.plans import PLANS, obstacle
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.port import not_run
from reconciler.nodehealth.readings import DIAG_READINGS, NodeReading, ReadError, SourceReadings, Value
from reconciler.processes import ProcessError, ProgramOutput, run_program

DIAG_SECONDS = {1: 120.0, 2: 600.0, 3: 2400.0, 4: 9000.0}
"""The most seconds of each level."""


class DiagnosticsSource:
    """`dcgmi diag` of the level of the profile, only while every GPU is idle."""

    name = "diagnostics"

    def __init__(self, *, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:
        """Run the level of the profile. It uses all GPUs, so that one in use stops it."""
        level = PLANS[profile].diag_level
        if not level:
            return SourceReadings()
        blocked = next((found for gpu in before.gpus if (found := obstacle(before.readings, gpu.slot))), None)
        if blocked is not None:
            error, detail = blocked
            return SourceReadings(readings=(NodeReading(name=DIAG_READINGS[level], error=error, detail=detail),))
        return SourceReadings(readings=(read_diag(level, environ=self._environ),))

    def close(self) -> None:
        """Do nothing: every program has ended."""


def read_diag(level: int, *, environ: Mapping[str, str] = os.environ, seconds: float | None = None) -> NodeReading:
    """Run `dcgmi diag -j -r LEVEL`."""
    name, start = DIAG_READINGS[level], time.monotonic()
    try:
        argv = ("dcgmi", "diag", "-j", "-r", str(level))
        found = run_program(argv, seconds=seconds or DIAG_SECONDS[level], environ=environ)
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

"""`make gpu-check`: measure the GPUs of this machine and write a replay file, figures and a text.

Nothing is changed: no clock, limit or mode. Exit code 0: done; 6: there is no driver, or no idle GPU.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from reconciler.nodehealth.readers.cuda.driver import LIBRARY
from tools.gpu_check.machine import Machine, NoGpu
from tools.gpu_check.steps import STEPS

_NO_GPU = 6


def main(arguments: list[str] | None = None) -> int:
    """Run all steps for which there is time."""
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder of the results")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the host's /sys and /proc are")
    parser.add_argument("--library", default=LIBRARY, help="the driver's library")
    parser.add_argument("--seconds", type=float, default=540.0, help="no step is started after this time")
    parser.add_argument("--scale", type=float, default=1.0, help="shorten repetitions; figures below 1 mean nothing")
    parser.add_argument("--step", action="append", choices=[name for name, _ in STEPS], help="only this step")
    chosen = parser.parse_args(arguments)
    machine = Machine(chosen.out, library=chosen.library, root=chosen.root, scale=chosen.scale, seconds=chosen.seconds)
    try:
        sweep = machine.choose()
    except NoGpu as problem:
        print(f"nothing to measure: {problem}", file=sys.stderr)
        return _NO_GPU
    chosen.out.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"node": sweep.node, "driver": sweep.driver, "slot": machine.slot, "scale": machine.scale}
    for name, step in STEPS:
        if not chosen.step or name in chosen.step:
            report[name] = _run(name, step, machine)
            (chosen.out / "report.json").write_text(json.dumps(report, indent=1, default=str) + "\n")
    text = "\n".join(_lines(report)) + "\n"
    (chosen.out / "report.txt").write_text(text)
    print(text, end="")
    return 0


def _run(name: str, step: Any, machine: Machine) -> dict[str, Any]:
    """Run one step; what goes wrong is its result, so that the others still run."""
    if machine.left <= 0:
        return {"not run": "no time left"}
    print(f"{name} …", file=sys.stderr)
    start = time.monotonic()
    try:
        found: dict[str, Any] = step(machine)
    except Exception as problem:  # noqa: BLE001 - a machine for some minutes: keep all that can be had
        found = {"failed": f"{type(problem).__name__}: {problem}"}
    return {**found, "seconds": round(time.monotonic() - start, 1)}


def _lines(value: Any, depth: int = 0) -> list[str]:
    """Return a text of nested figures; long series are in the JSON only."""
    if not isinstance(value, dict):
        return [f"{'  ' * depth}{value}"]
    lines = []
    for name, part in value.items():
        if isinstance(part, dict):
            lines += [f"{'  ' * depth}{name}", *_lines(part, depth + 1)]
        elif name == "series":
            lines.append(f"{'  ' * depth}{name}: {len(part)} rows")
        else:
            lines.append(f"{'  ' * depth}{name}: {str(part).strip()[:200]}")
    return lines


if __name__ == "__main__":
    sys.exit(main())

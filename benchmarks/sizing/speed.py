"""How long one prediction takes: `python -m benchmarks.sizing.speed`."""

import sys
import time

from benchmarks.sizing.runs import measured

_ROUNDS = 30


def microseconds() -> tuple[float, float]:
    """Return microseconds of one prediction over all measured runs, warm: the fastest round, and the middle one."""
    runs = measured()
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        for run in runs:
            run.predict()
        times.append((time.perf_counter() - start) / len(runs) * 1e6)
    times.sort()
    return times[0], times[len(times) // 2]


def main() -> int:
    """Print them."""
    best, middle = microseconds()
    print(f"one prediction, warm: {middle:.1f} us (fastest round {best:.1f} us)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

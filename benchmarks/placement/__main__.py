"""Fill a cluster with the tasks of a trace, one by one: `python -m benchmarks.placement --strategy S --seed N`.

Tasks are shuffled by the seed, and cloned at random until they request 130 % of all GPUs. They arrive one by one, and
nothing leaves. `allocated` is the share of all GPUs that tasks got when 100, 110, 120 and 130 % have been requested, as
in Weng et al., USENIX ATC 2023 (`published.csv`). `data/` has the nodes and five traces of openb.
"""

import argparse
import csv
import gzip
import io
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from reconciler.placement.space import WHOLE, Ask, NodeRoom, PlacementStrategy, Space
from reconciler.placement.strategies import STRATEGIES, InOrder, StrategyRow

DATA = Path(__file__).parent / "data"
_MARKS = (100, 110, 120, 130)
_ROWS = {**STRATEGIES, "first_fit": StrategyRow(lambda _: (InOrder(),), "the first node in the order of the file")}


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, which may be compressed."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode()
    return list(csv.DictReader(io.StringIO(text)))


def read_nodes(path: Path) -> tuple[list[NodeRoom], dict[str, int]]:
    """Return nodes, and the groups of the models of their GPUs."""
    rows = read_rows(path)
    models = {model: index for index, model in enumerate(sorted({row["model"] for row in rows}))}
    return [
        NodeRoom(
            row["sn"],
            models[row["model"]],
            int(row["cpu_milli"]),
            int(row["memory_mib"]),
            (WHOLE,) * int(row["gpu"]),
            use=0.0,
        )
        for row in rows
    ], models


def read_tasks(path: Path, models: dict[str, int]) -> list[Ask]:
    """Return the tasks of a trace."""
    every = tuple(models.values())
    named: dict[str, tuple[int, ...]] = {"": every}
    tasks = []
    for row in read_rows(path):
        spec = row.get("gpu_spec") or ""
        if spec not in named:
            named[spec] = tuple(sorted({models[model] for model in spec.split("|") if model in models}))
        gpus = int(row["num_gpu"])
        share = min(WHOLE, int(row["gpu_milli"])) if gpus else WHOLE
        tasks.append(Ask(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, share, named[spec]))
    return tasks


def arrivals(tasks: Sequence[Ask], seed: int, most: float) -> list[Ask]:
    """Return tasks in random order, the first ones once, then clones, until they request `most`."""
    chance = random.Random(seed)
    order = list(tasks)
    chance.shuffle(order)

    def endless() -> Iterator[Ask]:
        yield from order
        while True:
            yield chance.choice(tasks)

    chosen: list[Ask] = []
    requested = 0
    for task in endless():
        if requested >= most:
            return chosen
        chosen.append(task)
        requested += task.amount
    return chosen


def replay(
    rooms: Sequence[NodeRoom], tasks: Sequence[Ask], strategy: PlacementStrategy, *, rotates: bool = False
) -> list[float]:
    """Return the share of GPUs that are allocated at each mark, in percent."""
    space = Space(rooms)
    capacity = sum(space.free.values())
    requested = allocated = 0
    marks, found = [*_MARKS], list[float]()
    for task in tasks:
        choice = space.after(space.cursor, task) if rotates else space.find(strategy, task)
        if choice is not None:
            space.take(choice, task)
            allocated += task.amount
        requested += task.amount
        while marks and requested * 100 >= marks[0] * capacity:
            found.append(round(100 * allocated / capacity, 2))
            marks.pop(0)
    return found


def measure(nodes: Path, pods: Path, strategy: str, seed: int) -> dict[str, object]:
    """Return what a strategy allocates; of several ways that it tries, that which allocates most in the end."""
    rooms, models = read_nodes(nodes)
    tasks = read_tasks(pods, models)
    capacity = sum(sum(room.slots) for room in rooms)
    arriving = arrivals(tasks, seed, capacity * _MARKS[-1] / 100)
    row = _ROWS[strategy]
    began = time.process_time()
    found = [replay(rooms, arriving, one, rotates=row.rotates) for one in row.make(Counter(tasks))]
    best = max(found, key=lambda shares: shares[-1])
    return {
        "strategy": strategy,
        "seed": seed,
        "allocated": dict(zip(map(str, _MARKS), best, strict=True)),
        "ways": len(found),
        "tasks": len(arriving),
        "seconds": round(time.process_time() - began, 2),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one strategy, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement", description=__doc__)
    parser.add_argument("--nodes", type=Path, default=DATA / "openb_node_list_gpu_node.csv", metavar="CSV")
    parser.add_argument("--pods", type=Path, default=DATA / "openb_pod_list_default.csv.gz", metavar="CSV.gz")
    parser.add_argument("--strategy", choices=sorted(_ROWS), default="fragmentation")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    chosen = parser.parse_args(arguments)
    result = measure(chosen.nodes, chosen.pods, chosen.strategy, chosen.seed)
    if chosen.output == "json":
        print(json.dumps(result))
        return 0
    print(f"{result['strategy']}, seed {result['seed']}: {result['tasks']} tasks in {result['seconds']} s")
    for mark, share in dict(result["allocated"]).items():  # type: ignore[call-overload]
        print(f"{mark:>5} % requested: {share:6.2f} % allocated")
    return 0


if __name__ == "__main__":
    sys.exit(main())

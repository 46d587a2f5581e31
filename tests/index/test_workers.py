"""Workers give results in order, their errors reach the caller, and none outlives it."""

import multiprocessing
import os

import pytest

from reconciler.index.workers import in_parallel

COUNT = 1000  # enough that forking pays


def numbers(positions: range) -> list[bytes]:
    return [b"%d %d" % (position, os.getpid()) for position in positions]


def run(count: int, processes: int) -> tuple[list[bytes], list[int]]:
    steps: list[int] = []
    return list(in_parallel(numbers, count, processes=processes, advance=steps.append)), steps


@pytest.mark.parametrize(("count", "processes"), [(0, 2), (1, 2), (65, 1), (COUNT, 1), (COUNT, 2), (COUNT, 3)])
def test_results_come_in_order_and_all_are_counted(count: int, processes: int) -> None:
    results, steps = run(count, processes)
    assert [int(result.split()[0]) for result in results] == list(range(count))
    assert sum(steps) == count


def test_much_work_is_shared_and_little_is_not() -> None:
    def workers(results: list[bytes]) -> set[bytes]:
        return {result.split()[1] for result in results}

    own = str(os.getpid()).encode()
    assert own not in workers(run(COUNT, 2)[0])
    assert workers(run(100, 2)[0]) == {own}


def test_children_inherit_what_the_first_part_makes_ready() -> None:
    made: list[int] = []

    def work(positions: range) -> list[bytes]:
        if not made:
            made.append(os.getpid())
        return [b"%d %d %d" % (position, os.getpid(), made[0]) for position in positions]

    results = in_parallel(work, COUNT, processes=2, advance=lambda _: None, starts_here=True)
    positions, workers, makers = zip(*(map(int, result.split()) for result in results), strict=True)
    assert positions == tuple(range(COUNT))
    assert len(set(workers)) > 1
    assert set(makers) == {os.getpid()}


def test_an_error_in_a_worker_is_raised_here_and_leaves_no_child() -> None:
    def work(positions: range) -> list[bytes]:
        if 500 in positions:
            raise LookupError("position 500")
        return numbers(positions)

    with pytest.raises(LookupError, match="position 500"):
        list(in_parallel(work, COUNT, processes=2, advance=lambda _: None))
    assert multiprocessing.active_children() == []


def test_whoever_stops_early_leaves_no_child() -> None:
    results = in_parallel(numbers, COUNT, processes=2, advance=lambda _: None)
    next(results)
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert multiprocessing.active_children() == []


def test_an_interrupt_in_the_parent_leaves_no_child() -> None:
    """Ctrl-C is answered by the parent alone; what happens to a whole process group is told in the system's tests."""

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(in_parallel(numbers, COUNT, processes=2, advance=interrupted))
    assert multiprocessing.active_children() == []

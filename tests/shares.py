"""The order of the tests, so that several workers have something to do until the end and start few servers.

`--dist worksteal` gives each worker an equal number of consecutive tests; a worker that is done takes the last half of
what another one has left. Each share therefore begins with tests that need the same servers, or wait for processes, and
ends with quick ones, which any worker may take over.
"""

import pytest

_OWN_SERVER = "private_server"  # every worker that uses it starts one, which then takes time until the run ends
_BED = "bed"
_WAITING = ("tests/live/", "tests/node/")
_QUICK = ("tests/architecture/", "tests/core/")


def in_shares(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in their order for this number of workers."""
    heads: list[list[pytest.Item]] = [[] for _ in range(workers)]
    waiting: list[pytest.Item] = []
    slow: list[pytest.Item] = []
    quick: list[pytest.Item] = []
    for item in items:
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if _OWN_SERVER in fixtures:
            heads[0].append(item)
        elif _BED in fixtures:
            heads[1 % workers].append(item)
        elif item.nodeid.startswith(_WAITING):
            waiting.append(item)
        else:
            (quick if item.nodeid.startswith(_QUICK) else slow).append(item)
    waiters = range(min(2, workers - 1), workers)
    for number, worker in enumerate(waiters):
        heads[worker] += _part(waiting, number, len(waiters))
    ordered: list[pytest.Item] = []
    for number, head in enumerate(heads):
        size = (len(items) - len(ordered)) // (workers - number)  # as WorkStealingScheduling divides them
        share = head + _part(slow, number, workers)
        quick_ones = max(0, size - len(share))
        ordered += share + quick[:quick_ones]
        del quick[:quick_ones]
    return ordered + quick


def _part(items: list[pytest.Item], number: int, count: int) -> list[pytest.Item]:
    return items[len(items) * number // count : len(items) * (number + 1) // count]

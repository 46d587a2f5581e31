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
    slow: list[pytest.Item] = []
    quick: list[pytest.Item] = []
    for item in items:
        head = _head(item)
        kind = quick if item.nodeid.startswith(_QUICK) else slow
        (kind if head is None else heads[head % workers]).append(item)
    ordered: list[pytest.Item] = []
    for number, head_of_share in enumerate(heads):
        size = (len(items) - len(ordered)) // (workers - number)  # as WorkStealingScheduling divides them
        share = head_of_share + slow[len(slow) * number // workers : len(slow) * (number + 1) // workers]
        quick_ones = max(0, size - len(share))
        ordered += share + quick[:quick_ones]
        del quick[:quick_ones]
    return ordered + quick


def _head(item: pytest.Item) -> int | None:
    """Return the share that begins with this test, if one should."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    if _OWN_SERVER in fixtures:
        return 0
    if _BED in fixtures:
        return 1
    return 2 if item.nodeid.startswith(_WAITING) else None

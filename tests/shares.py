"""The order of the tests, so that several workers have something to do until the end and start few servers.

`--dist worksteal` gives each worker an equal number of consecutive tests; a worker that is done takes the last half of
what another one has left. Each share therefore ends with quick tests, which any worker may take over. Those of one
server are consecutive, so that it can be stopped after the last one (`tests.cluster.fixtures`). Two shares begin with
such tests; those of the third that wait come after tests that compute, so that the processors are busy all the time.
"""

import pytest

_SERVERS = ("private_server", "bed")
"""Fixtures: each has its tests at the beginning of a share of their own. Every worker that uses a private one starts it."""
_BREAKABLE = "fragile"
_WAITING = ("tests/live/", "tests/nodehealth/readers/")
_QUICK = tuple(
    f"tests/{room}/" for room in ("architecture", "kinds", "kube", "launch", "nodehealth", "policy", "sizing")
)


def in_shares(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in their order for this number of workers."""
    heads: list[list[pytest.Item]] = [[] for _ in range(workers)]
    waiting: list[pytest.Item] = []
    slow: list[pytest.Item] = []
    quick: list[pytest.Item] = []
    for item in items:
        number = next((number for number, server in enumerate(_SERVERS) if server in _fixtures(item)), None)
        if number is not None:
            heads[number % workers].append(item)
        elif item.nodeid.startswith(_WAITING):
            waiting.append(item)
        else:
            (quick if item.nodeid.startswith(_QUICK) else slow).append(item)
    waiting.sort(key=lambda item: _BREAKABLE not in _fixtures(item))
    ordered: list[pytest.Item] = []
    for number, head in enumerate(heads):
        size = (len(items) - len(ordered)) // (workers - number)  # as WorkStealingScheduling divides them
        share = head + slow[len(slow) * number // workers : len(slow) * (number + 1) // workers]
        if number == len(_SERVERS) % workers:
            share += waiting
        quick_ones = max(0, size - len(share))
        ordered += share + quick[:quick_ones]
        del quick[:quick_ones]
    return ordered + quick


def _fixtures(item: pytest.Item) -> list[str]:
    names: list[str] = getattr(item, "fixturenames", [])
    return names

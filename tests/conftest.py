"""Fixtures for every test: the real parts (an API server, kubectl, the KAI scheduler) live in `tests/cluster`."""

import gc
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from reconciler.__main__ import FRAMES
from tests import sizes
from tests.scratch import keep_files_in_memory
from tests.shares import in_shares

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = (
    "pytester",
    "tests.tiers",
    "tests.cluster.fixtures",
    "tests.live.cluster.fixtures",
    "tests.live.cluster.fragile",
)

# A shell starts background jobs with SIGINT ignored, which child processes would inherit: interrupts are tested.
signal.signal(signal.SIGINT, signal.default_int_handler)

sys.setrecursionlimit(FRAMES)  # as the command does

keep_files_in_memory()

# The same examples in every run, so that a change alone makes a property fail; `make test-large` looks for others.
# A slow or busy machine must not fail a test: nothing here asserts how long one example takes.
settings.register_profile("same", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("random", deadline=None, max_examples=100)
settings.load_profile("random" if sizes.LARGE else "same")


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Return a browser: one for all tests of a worker, in which Playwright starts only once."""
    from tests.web.browsers import started  # noqa: PLC0415 - few tests need it, and its import takes time

    with started() as found:
        yield found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests for the workers of this run."""
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = in_shares(items, workers)


def pytest_collection_finish() -> None:
    """Let the garbage collector run seldom, and pass over what lives as long as the run: fifteen thousand tests.

    The command runs without it. With its usual thresholds it takes a tenth of the time of a command within a test.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

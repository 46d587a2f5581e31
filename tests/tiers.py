"""The two tiers of the tests, by the fixtures that a test uses: what needs built programs, and what needs none.

`parts` returns every program that is built, and `package_index` stands for the network: a test that uses one of them,
directly or through another fixture, has the marker `cluster`. `make test` runs the others.

A real cluster is at times slower than a test can wait. A failed test of the cluster tier therefore runs once more in the
same run (pytest-rerunfailures); one that passes then does not fail the run, which ends with a line for it. The same holds
for the tests of the controller with a Git server: on a full machine, `git http-backend` has ended without an answer.
"""

from collections.abc import Iterable

import pytest

CLUSTER = "cluster"
_NEEDED = {"parts", "package_index", "browser"}
_RERUNS = {*_NEEDED, "person"}
"""Fixtures of tests that run once more when they fail."""
_RERUN = "rerun"
"""The outcome of a test's first run, as pytest-rerunfailures reports it."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line("markers", f"{CLUSTER}: needs what tests/cluster builds, or the network; fixtures tell")
    config.addinivalue_line("markers", "scheduler: needs the real KAI scheduler")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the cluster tier, and let them fail once."""
    for item in items:
        names: set[str] = set(getattr(item, "fixturenames", ()))
        if names & _NEEDED:
            item.add_marker(CLUSTER)
        if "kai" in names:
            item.add_marker("scheduler")
        if names & _RERUNS:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each test that failed first and passed then, at the end of the output."""
    for name in flaky(terminalreporter.getreports(_RERUN), terminalreporter.getreports("passed")):
        terminalreporter.write_line(f"FLAKY: {name}")


def flaky(failed: Iterable[pytest.TestReport], passed: Iterable[pytest.TestReport]) -> list[str]:
    """Return the tests that passed in their second run."""
    good = {report.nodeid for report in passed}
    return sorted({report.nodeid for report in failed} & good)

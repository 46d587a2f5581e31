"""The tiers of the tests: fixtures tell which a test belongs to, and one of the cluster may fail once."""

import pytest

_CONFTEST = """
import pytest
pytest_plugins = ("tests.tiers",)

@pytest.fixture(scope="session")
def parts():
    return []

@pytest.fixture
def server(parts):
    return parts

@pytest.fixture(params=["schemas", pytest.param("server", marks=pytest.mark.cluster)])
def judged(request):
    return request.param
"""
_TESTS = """
def test_alone(): pass
def test_program(parts): pass
def test_server(server): pass
def test_judged(judged): pass
"""
_ONCE = """
def test_slow(server):
    server.append("tried")
    assert len(server) > 1

def test_sound(server): pass
"""


@pytest.mark.parametrize(
    ("tier", "names"),
    [
        ("cluster", ["test_judged[server]", "test_program", "test_server"]),
        ("not cluster", ["test_alone", "test_judged[schemas]"]),
    ],
)
def test_fixtures_tell_the_tier(pytester: pytest.Pytester, tier: str, names: list[str]) -> None:
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(_TESTS)
    passed, _, _ = pytester.inline_run("-m", tier).listoutcomes()
    assert sorted(report.nodeid.rpartition("::")[2] for report in passed) == names


@pytest.mark.parametrize("workers", [0, 2])
def test_a_test_of_the_cluster_may_fail_once(pytester: pytest.Pytester, workers: int) -> None:
    """The run is green, and its last lines name the test; also with several workers."""
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(_ONCE)
    result = pytester.runpytest_inprocess("-q", "-n", str(workers))
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    flaky = [line for line in result.outlines if line.startswith("FLAKY")]
    assert [line.rpartition("::")[2] for line in flaky] == ["test_slow"]


@pytest.mark.parametrize(
    "test", ["def test_broken(server): assert server is None", "TRIED = []\ndef test_offline(): assert TRIED.append(1)"]
)
def test_no_other_failure_is_green(pytester: pytest.Pytester, test: str) -> None:
    """One that fails twice, and one that needs no cluster."""
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(test)
    result = pytester.runpytest_inprocess("-q")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not [line for line in result.outlines if line.startswith("FLAKY")]

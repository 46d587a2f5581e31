"""Sizing as strangers use it: what they forget, get wrong, and must never see."""

import pytest

from tests.cli.fleet import Fleet
from tests.cli.test_sized_plan import JOB, MEASURED, configure, plan
from tests.ports.predictors.server import answer, serving


def test_the_token_of_a_service_is_no_setting(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-010: it comes from the environment, is sent, and disturbs no verb."""
    monkeypatch.setenv("RECONCILER_SIZING_TOKEN", "hunter2hunter2")
    (fleet.root / "jobs/language/llama-lora.yaml").unlink()
    fleet.write("jobs/llama.yaml", JOB)
    with serving(answer(200, ["f6db88"]), answer(200, MEASURED)) as server:
        configure(fleet, "rest", f"    rest: {{url: '{server.url}'}}\n")
        assert fleet.run("size", "--record").code == 0
        assert all(one.headers["Authorization"] == "Bearer hunter2hunter2" for one in server.said)
    assert "hunter2" not in (fleet.root / "evidence/main/sizing.yaml").read_text()
    assert plan(fleet)["changes"]


@pytest.mark.parametrize("url", ["http://user:hunter2@host/ado", "http://host/ado?token=hunter2"])
def test_a_secret_in_a_url_is_refused_unseen(fleet: Fleet, url: str) -> None:
    """`reconciler.yaml` is in Git, and errors are in logs: the value is blotted out, the hint says where it belongs."""
    configure(fleet, "rest", f"    rest: {{url: '{url}'}}\n")
    for verb in (("lint",), ("plan", "-o", "json"), ("size", "--record")):
        ran = fleet.run(*verb)
        assert ran.code == 3
        assert "hunter2" not in ran.out + ran.err
    assert "RECONCILER_SIZING_TOKEN" in fleet.run("lint").err


def test_what_waits_is_counted(fleet: Fleet) -> None:
    """F-010: a request that is not answered in time is told as such, and is no failure."""
    with serving(answer(200, ["f6db88"]), answer(404)) as server:
        configure(fleet, "rest", f"    rest: {{url: '{server.url}', deadlineSeconds: 1}}\n")
        ran = fleet.run("size", "--record")
    assert ran.code == 0
    assert ran.out == "evidence/main/sizing.yaml: 1 question asked, 1 not answered yet: run it again later\n"


def test_a_server_that_repeats_the_token(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are in evidence and logs; the token is not."""
    monkeypatch.setenv("RECONCILER_SIZING_TOKEN", "hunter2")
    with serving(answer(401, {"detail": "hunter2 is no token"})) as server:
        configure(fleet, "rest", f"    rest: {{url: '{server.url}'}}\n")
        ran = fleet.run("size", "--record")
    assert ran.code == 6
    assert "*** is no token; check the token (RECONCILER_SIZING_TOKEN)" in ran.out
    assert "hunter2" not in ran.out + ran.err + (fleet.root / "evidence/main/sizing.yaml").read_text()

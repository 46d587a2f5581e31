"""An apply that is killed, interrupted or cut off at any request can be repeated, with the same end."""

import itertools
import json
import signal
from collections.abc import Iterator
from typing import Any, Self

import pytest

from reconciler.kube.client.port import ClusterUnavailable, LiveCluster
from tests.cluster.server import wait_until
from tests.live.apply.conftest import Site

_WRITES = frozenset({"apply", "create", "replace", "patch", "delete"})


class Killed(BaseException):
    """The end of the process, at a request."""


class Dying:
    """A cluster whose client dies at the write number `at`, before it is sent or after it was carried out."""

    def __init__(self, cluster: LiveCluster, at: int, *, after: bool) -> None:
        self._cluster, self._at, self._after = cluster, at, after
        self._numbers = itertools.count()
        self.died = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cluster, name)
        return self._counted(method) if name in _WRITES else method

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the cluster open: other tests use it."""

    def _counted(self, method: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            is_review = arguments and isinstance(arguments[0], dict) and arguments[0]["kind"] == "SelfSubjectReview"
            if named.get("dry_run") or is_review:
                return method(*arguments, **named)
            if self.died:
                raise Killed
            is_last = next(self._numbers) == self._at
            if is_last and not self._after:
                self.died = True
                raise Killed
            result = method(*arguments, **named)
            if is_last:
                self.died = True
                raise Killed
            return result

        return call


def states() -> Iterator[dict[str, str]]:
    """Yield what Git wants, by name: each next state creates, updates and deletes."""
    for number in itertools.count():
        yield {"always": str(number), f"only-{number}": "x", f"also-{number}": "z"}


def edit(site: Site, state: dict[str, str]) -> None:
    for path in (site.fleet.root / "jobs").rglob("*.yaml"):
        path.unlink()
    for name, value in state.items():
        site.config_map(name, a=value)


def on_cluster(site: Site) -> dict[str, str]:
    resource = site.cluster.resource("", "ConfigMap")
    objects = site.cluster.list(resource, namespace=site.name).objects
    return {body["metadata"]["name"]: body["data"]["a"] for body in objects}


def uids(site: Site) -> dict[str, set[str]]:
    resource = site.cluster.resource("", "ConfigMap")
    return {
        body["metadata"]["name"]: {body["metadata"]["uid"]}
        for body in site.cluster.list(resource, namespace=site.name).objects
    }


def listed(site: Site) -> dict[str, set[str]]:
    """Return the inventory of the namespace."""
    found = site.inventory().uids().items()
    return {key.name: set(known) for key, known in found if key.kind == "ConfigMap"}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_every_request(site: Site, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """Killed before or after each write in turn, the second run gives what the first would have given."""
    monkeypatch.setattr("reconciler.kube.client.port.CONCURRENCY", 1)
    wanted = states()
    first = next(wanted)
    edit(site, first)
    assert site.reconcile().code == 0
    kills = 0
    for at in itertools.count():
        state = next(wanted)
        edit(site, state)
        assert site.plan().code == 0
        dying = Dying(site.cluster, at, after=after)
        with monkeypatch.context() as patch:
            patch.setattr("reconciler.plan.live.clusters.open_cluster", lambda *_, **__: dying)  # noqa: B023
            try:
                ran = site.apply()
            except Killed:
                kills += 1
                ran = None
        if ran is not None:
            assert ran.code == 0, ran.out + ran.err
            assert not dying.died
            break
        again = site.apply()
        assert again.code == 0, f"write {at}: {again.out}{again.err}"
        assert on_cluster(site) == state, f"write {at}"
        assert listed(site) == uids(site), f"write {at}"
    assert kills >= 8


class Lost(Dying):
    """A cluster of which one answer is lost: the request was carried out."""

    def _counted(self, method: Any) -> Any:
        call = super()._counted(method)

        def lose(*arguments: Any, **named: Any) -> Any:
            try:
                return call(*arguments, **named)
            except Killed:
                if self.died is True:
                    self.died = False
                raise ClusterUnavailable("connection reset", outcome_unknown=True) from None

        return lose


def test_a_lost_answer_is_unknown_and_repeated(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is neither a success nor a failure: the next run finds out."""
    edit(site, {"one": "1", "two": "2"})
    assert site.plan().code == 0
    lost = Lost(site.cluster, 4, after=True)
    with monkeypatch.context() as patch:
        patch.setattr("reconciler.plan.live.clusters.open_cluster", lambda *_, **__: lost)
        ran, (applied,) = site.apply_json()
    assert ran.code == 6
    assert [result["ending"] for result in applied["results"]].count("unknown") == 1
    again = site.apply()
    assert again.code == 0, again.out + again.err
    assert on_cluster(site) == {"one": "1", "two": "2"}
    assert site.plan().code == 0
    assert site.changes() == []


def many(site: Site, count: int) -> None:
    edit(site, {f"many-{number}": str(number) for number in range(count)})
    assert site.plan().code == 0


def test_sigkill(site: Site) -> None:
    """A real SIGKILL of a real process while objects are written; the history shows a run without an end."""
    many(site, 60)
    process = site.start()
    wait_until(lambda: len(on_cluster(site)) > 3, "the first objects")
    process.kill()
    process.communicate()
    history = site.fleet.run("history", *site.flags)
    assert "Started" in history.out or "Applied" in history.out
    ran = site.apply()
    assert ran.code == 0, ran.out + ran.err
    assert len(on_cluster(site)) == 60
    assert site.plan().code == 0
    assert site.changes() == []


def test_ctrl_c_tells_what_was_done(site: Site) -> None:
    """SIGINT: requests in progress end, the rest is not started, all of that is printed, and a second run goes on."""
    many(site, 120)
    process = site.start()
    wait_until(lambda: len(on_cluster(site)) > 3, "the first objects", every=0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "interrupted" in err
    assert "Run the same command again to continue." in err
    assert out.count("  created ") + out.count("  not started ") >= 120
    assert out.count("  not started ") > 0
    record = json.loads(site.log.read_text().splitlines()[-1])
    assert (record["result"], record["interrupted"]) == ("Interrupted", True)
    created = len(on_cluster(site))
    assert created < 120
    ran = site.apply()
    assert ran.code == 0, ran.out + ran.err
    assert len(on_cluster(site)) == 120
    assert listed(site) == uids(site)

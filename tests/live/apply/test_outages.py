"""Applies during outages of the real API server and its etcd: what is told is true, and a second run ends the work."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.kube.client import KubernetesCluster, load_access
from tests.cli.fleet import Fleet
from tests.cluster import kubeconfig
from tests.cluster.client import Client
from tests.cluster.server import wait_until
from tests.live.apply.conftest import Site, settled
from tests.live.apply.test_kills import edit, listed, on_cluster, uids
from tests.live.cluster.fragile import FragileServer, as_api_server

_MANY = 80


@pytest.fixture
def broken(
    fragile: FragileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    namespace_name: str,
) -> Iterator[Site]:
    """Return a repository for the API server that this test breaks."""
    with (
        Client(kubeconfig.endpoint(fragile.kubeconfig)) as client,
        KubernetesCluster(load_access({}, kubeconfig=str(fragile.kubeconfig))) as cluster,
    ):
        server = as_api_server(fragile, client)
        made = Site(Fleet(tmp_path / "fleet", capsys), cluster, server, tmp_path, namespace_name)
        yield settled(made, monkeypatch)


def many(site: Site) -> dict[str, str]:
    """Plan many objects."""
    wanted = {f"many-{number}": str(number) for number in range(_MANY)}
    edit(site, wanted)
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    return wanted


def begin(site: Site, *flags: str) -> subprocess.Popen[str]:
    """Start to apply, and return when some objects are there but not all."""
    process = site.start(*flags)
    wait_until(lambda: len(on_cluster(site)) > 2, "the first objects")
    return process


def test_an_api_server_that_restarts_during_an_apply(broken: Site, fragile: FragileServer) -> None:
    """Requests wait for it: the same run ends the work."""
    wanted = many(broken)
    process = begin(broken, "-o", "json")
    with fragile.without_api_server():
        assert len(fragile.processes) == 1
    out, err = process.communicate(timeout=240)
    wait_until(fragile.is_ready, "the API server")
    if process.returncode:  # it came back too late for some, and what is told of each object is true
        assert process.returncode == 6, out + err
        there = on_cluster(broken)
        for one in json.loads(out)[0]["results"]:
            if one["key"]["kind"] == "ConfigMap" and one["ending"] != "unknown":
                assert (one["key"]["name"] in there) == (one["ending"] == "done"), one
        again = broken.apply()
        assert again.code == 0, again.out + again.err
    assert on_cluster(broken) == wanted
    assert listed(broken) == uids(broken)


def test_etcd_that_becomes_read_only_during_an_apply(broken: Site, fragile: FragileServer) -> None:
    """No write is taken for done; what is left is told by object, and a second run ends the work."""
    wanted = many(broken)
    process = begin(broken)
    with fragile.read_only_etcd():
        out, err = process.communicate(timeout=90)
        done = on_cluster(broken)
    assert process.returncode == 6, out + err
    assert 0 < len(done) < _MANY
    assert "database space exceeded" in out
    assert out.count("  created     ConfigMap/") == len(done)
    assert "the server failed, so the request may have taken effect: " in out
    record = json.loads(broken.log.read_text().splitlines()[-1])
    assert record["result"] == "Failed"
    again = broken.apply()
    assert again.code == 0, again.out + again.err
    assert on_cluster(broken) == wanted
    assert listed(broken) == uids(broken)


def test_a_plan_and_an_apply_on_a_read_only_etcd_change_nothing(broken: Site, fragile: FragileServer) -> None:
    """A dry run does not show it: the record cannot be written, so nothing else is."""
    wanted = many(broken)
    with fragile.read_only_etcd():
        ran = broken.apply()
        assert ran.code == 6
        assert "database space exceeded" in ran.err
        assert on_cluster(broken) == {}
    assert broken.apply().code == 0
    assert on_cluster(broken) == wanted

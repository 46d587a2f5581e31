"""`reconciler agent` as a process: it publishes, answers, survives what fails, and ends when told."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.health.agent.process import node_uid
from reconciler.health.agent.testing import ping_others
from reconciler.health.reports import ClusterReports, StoredReport
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.report import NodeReport
from tests.cluster.server import ApiServer, free_port, wait_until
from tests.health.test_answers import ask


@contextmanager
def running(*arguments: str, node: str, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run an agent; yield the process and the URL of its metrics."""
    port = free_port()
    argv = [sys.executable, "-m", "reconciler", "agent", "--listen", f"127.0.0.1:{port}", "--interval", "5", *arguments]
    process = subprocess.Popen(argv, env={**os.environ, "NODE_NAME": node, **environ}, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: get(f"{url}/readyz") == "ok\n", "the agent is ready")
        yield process, url
    finally:
        process.terminate()
        process.wait(20)


def get(url: str) -> str:
    try:
        return ask(url)[1]
    except OSError:
        return ""


def reported(cluster: KubernetesCluster, node: str) -> Callable[[], NodeReport | None]:
    return lambda: ClusterReports(cluster).read(node).report


def test_an_agent_publishes_and_ends(health_server: ApiServer, health_cluster: KubernetesCluster) -> None:
    """F-088: the startup run is at once; metrics parse; SIGTERM ends it."""
    with running("--kubeconfig", str(health_server.kubeconfig), node="process-1") as (process, url):
        wait_until(lambda: reported(health_cluster, "process-1")() is not None, "a report")
        report = reported(health_cluster, "process-1")()
        assert report is not None
        assert report.version
        families = {family.name: family for family in text_string_to_metric_families(get(f"{url}/metrics"))}
        assert {sample.labels["node"] for sample in families["gpuhealth_check_status"].samples} == {"process-1"}
        assert get(f"{url}/healthz") == "ok\n"
        process.terminate()
        assert process.wait(20) == 0


_PING = """#!/bin/sh
# packets to the last argument; 10.0.0.9 never answers
for address; do :; done
echo "$*" > "$PINGED.new.$$" && mv "$PINGED.new.$$" "$PINGED.$$"
received=10; [ "$address" = 10.0.0.9 ] && received=0
echo "10 packets transmitted, $received received, 0% packet loss, time 1ms"
"""


def test_agents_ping_each_other_by_their_reports(
    health_server: ApiServer, health_cluster: KubernetesCluster, tmp_path: Path
) -> None:
    """F-085: every interface that another agent reports, from our own of that name; a dead agent is left out."""
    (tmp_path / "ping").write_text(_PING)
    (tmp_path / "ping").chmod(0o755)
    store, now = ClusterReports(health_cluster), time.time()
    for node, age, networks in (
        ("ping-2", 0.0, {"eth0": "10.0.0.2", "net1": "192.168.1.2"}),
        ("ping-3", 0.0, {"eth0": "10.0.0.9"}),
        ("ping-dead", 3600.0, {"eth0": "10.0.0.4"}),
        ("ping-old", 0.0, {}),
    ):
        store.update(node, partial(_same, NodeReport(node=node, measured_at=now - age, networks=networks)))
    status = '[{"interface": "eth0", "ips": ["10.0.0.1"]}, {"interface": "net1", "ips": ["192.168.1.1"]}]'
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "POD_NETWORKS": status, "PINGED": str(tmp_path / "pinged")}
    every_ping = ["10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.9", "192.168.1.1 192.168.1.2"]

    ping_others(health_cluster, "ping-1", environ)  # a request may come before the agent's first report
    assert _taken_pings(tmp_path) == every_ping

    api, access = f"127.0.0.1:{free_port()}", ("--kubeconfig", str(health_server.kubeconfig))
    with running("--ping", "--api", api, *access, node="ping-1", **environ):
        answer = ask(f"http://{api}/ping")[1]
        wait_until(lambda: reported(health_cluster, "ping-1")() is not None, "a report")
    assert answer.splitlines()[0] == "ping-1 FAIL"
    assert "1 of 3 addresses do not answer: 10.0.0.9 (ping-3 eth0)" in answer
    assert _taken_pings(tmp_path) == every_ping
    own = reported(health_cluster, "ping-1")()
    assert own is not None
    assert own.networks == {"eth0": "10.0.0.1", "net1": "192.168.1.1"}


def _taken_pings(folder: Path) -> list[str]:
    files = list(folder.glob("pinged.[0-9]*"))
    pings = sorted(path.read_text().strip().split("-I ")[1] for path in files)
    for path in files:
        path.unlink()
    return pings


def _same(report: NodeReport, before: StoredReport) -> NodeReport:
    del before
    return report


def test_an_agent_without_a_server_lives_and_measures(tmp_path: Path) -> None:
    """One part's failure hides nothing else."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context":'
        ' {"cluster": "a", "user": "a"}}], "users": [{"name": "a", "user": {}}], "clusters": [{"name": "a",'
        f' "cluster": {{"server": "http://127.0.0.1:{free_port()}"}}}}]}}'
    )
    with running("--kubeconfig", str(kubeconfig), node="process-2") as (_, url):
        failed = 'gpuhealth_agent_report_writes_total{result="failure"} 0.0'
        wait_until(lambda: "report_writes_total" in get(f"{url}/metrics"), "metrics")
        wait_until(lambda: failed not in get(f"{url}/metrics"), "a failed write")
        assert "gpuhealth_check_status{" in get(f"{url}/metrics")
        assert get(f"{url}/readyz") == "ok\n"


def test_a_message_of_the_kernel_is_swept_at_once(tmp_path: Path) -> None:
    """Events do not wait for the interval: a written file of messages starts a sweep."""
    kmsg = tmp_path / "gpu"
    kmsg.write_text("")
    with running("--no-publish", "--interval", "3600", "--kmsg", str(kmsg), node="process-3") as (_, url):
        before = _last_sweep(url)
        kmsg.write_text("3,1,5000000,-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n")
        wait_until(lambda: _last_sweep(url) > before, "another sweep")


def _last_sweep(url: str) -> float:
    found = re.search(r"^gpuhealth_agent_last_sweep_timestamp_seconds (.*)$", get(f"{url}/metrics"), re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize(
    ("token", "uid"),
    [
        ("e30.eyJrdWJlcm5ldGVzLmlvIjp7Im5vZGUiOnsibmFtZSI6Im4iLCJ1aWQiOiI0MiJ9fX0.sig", "42"),
        ("e30.eyJrdWJlcm5ldGVzLmlvIjp7fX0.sig", ""),
        ("not a token", ""),
        ("a.b.c", ""),
        ("", ""),
    ],
)
def test_the_uid_of_the_node_is_in_the_token_of_the_pod(token: str, uid: str) -> None:
    assert node_uid(token) == uid

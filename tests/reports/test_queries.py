"""The queries of reports and observations in the real engine of Prometheus."""

import datetime as dt
import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reconciler.live.observe.prometheus import MetricsWindow, read_waits, read_windows
from reconciler.reports.measured import Directory, PodOwner, ReportWindow, read_use

NOW = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)
POD = 'namespace="team",pod="a"'
SERIES = {
    f'kube_pod_container_resource_requests{{{POD},container="c",node="n1",resource="nvidia_com_gpu",instance="k"}}': "8x95",
    f'kube_pod_container_resource_requests{{{POD},container="c",node="n1",resource="cpu",instance="k"}}': "4x95",
    f'kube_pod_container_status_running{{{POD},container="c",instance="k"}}': "0x10 1x85",
    f'kube_pod_owner{{{POD},owner_kind="Job",owner_name="train",owner_is_controller="true"}}': "1x95",
    f'DCGM_FI_DEV_GPU_UTIL{{{POD},gpu="0",UUID="G",Hostname="n1",modelName="NVIDIA A100"}}': "50x75 0x20",
    'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="1"}': "0+1x95",
    'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="10"}': "0+2x95",
    'kueue_admission_wait_time_seconds_bucket{cluster_queue="q",le="+Inf"}': "0+2x95",
    'kueue_admission_wait_time_seconds_count{cluster_queue="q"}': "0+2x95",
}
EXPECTED = {  # by a part of each query, in the order of the samples; at minute 90
    "sum by (namespace, pod, node) (kube_pod_container_resource_requests": '{namespace="team", node="n1", pod="a"} 8',
    "count(last_over_time((sum by (namespace, pod, node)": "{} 1",
    "kube_pod_owner": '{namespace="team", owner_kind="Job", owner_name="train", pod="a"} 1',
    "increase(kueue_admission_wait_time_seconds_count": '{cluster_queue="q"} 120',
    "histogram_quantile(0.5": '{cluster_queue="q"} 1',
    "histogram_quantile(0.9": '{cluster_queue="q"} 8.2',
    "avg_over_time(DCGM_FI_DEV_GPU_UTIL": '{UUID="G", gpu="0", namespace="team", pod="a"} 25',
    "(DCGM_FI_DEV_GPU_UTIL < 5.0)": '{UUID="G", gpu="0", namespace="team", pod="a"} 29',
}


class Asked:
    """A Prometheus that remembers what it is asked, and always has one series."""

    def __init__(self) -> None:
        self.queries: dict[str, None] = {}

    def get(self, path: str) -> bytes:
        self.queries[parse_qs(urlsplit(path).query)["query"][0]] = None
        return json.dumps({"status": "success", "data": {"result": [{"metric": {}, "value": [0, "1"]}]}}).encode()


def asked() -> list[str]:
    prometheus = Asked()
    directory = Directory(
        cluster="main", owner=lambda _, job: PodOwner(job=job), product=lambda _: "", is_spot=lambda _: False
    )
    read_use(prometheus, ReportWindow(end=NOW, seconds=3600, step=300), directory)
    read_waits(prometheus, NOW, "1h")
    read_windows(prometheus, MetricsWindow(end=NOW, seconds=1800, interval=30))
    return [*prometheus.queries]


def samples(line: str) -> dict[str, Any]:
    labels, _, value = line.rpartition(" ")
    return {"labels": labels, "value": float(value)}


def test_prometheus_answers_as_the_tests_say(promtool: Path, tmp_path: Path) -> None:
    """F-130: running containers alone hold GPUs; owners, waiting times, means and idle samples are found."""
    queries = asked()
    cases = []
    for part, line in EXPECTED.items():
        (query,) = [
            query for query in queries if query.startswith(part) or (part in query and "count(last" not in query)
        ]
        cases.append({"expr": query, "eval_time": "90m", "exp_samples": [samples(line)]})
    given = [{"series": name, "values": values} for name, values in SERIES.items()]
    rules = {
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": given, "promql_expr_test": cases}],
    }
    path = tmp_path / "tests.yaml"
    path.write_text(json.dumps(rules))
    ran = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr

"""What an object of a kind that nobody knows seems to request."""

from typing import Any

import pytest

from reconciler.kinds.summary.object_summary import Uncounted
from reconciler.kinds.summary.uncounted import find_uncounted


def found(spec: Any, api: str = "acme.example.com/v1", kind: str = "TrainingRun") -> list[tuple[str, str]]:
    body = {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "labels": {"gpus": "8"}}, "spec": spec}
    return [(one.field, one.what) for one in find_uncounted(body, ())]


@pytest.mark.parametrize(
    ("spec", "field", "what"),
    [
        ({"gpus": 16}, "spec.gpus", "gpus: 16"),
        ({"resources": {"gpu": 8}}, "spec.resources.gpu", "gpu: 8"),
        ({"gpusPerReplica": "4"}, "spec.gpusPerReplica", "gpusPerReplica: 4"),
        ({"numGPUs": 2.0}, "spec.numGPUs", "numGPUs: 2.0"),
        ({"gpu_count": 2}, "spec.gpu_count", "gpu_count: 2"),
        ({"tpus": 4}, "spec.tpus", "tpus: 4"),
        ({"workers": [{"accelerators": 8}]}, "spec.workers[0].accelerators", "accelerators: 8"),
        ({"accelerators": "A100:8"}, "spec.accelerators", "accelerators: A100:8"),
        ({"accelerator": {"type": "h100", "count": 8}}, "spec.accelerator", "count: 8"),
        ({"gpus": [{"model": "h100", "quantity": "8"}]}, "spec.gpus", "quantity: 8"),
        ({"needs": {"nvidia.com/gpu": "8"}}, "spec.needs", "nvidia.com/gpu: 8"),
        ({"needs": {"amd.com/gpu": 8}}, "spec.needs", "amd.com/gpu: 8"),
        ({"demand": [{"name": "nvidia.com/gpu", "amount": 8}]}, "spec.demand[0]", "nvidia.com/gpu: 8"),
        ({"limits": {"gpu": 8}}, "spec.limits.gpu", "gpu: 8"),
        ({"podSpec": {"containers": [{"image": "x"}]}}, "spec.podSpec.containers", "pods"),
    ],
)
def test_numbers_of_gpus_and_pods_are_found(spec: Any, field: str, what: str) -> None:
    assert found(spec) == [(field, what)]


@pytest.mark.parametrize(
    "spec",
    [
        {"gpus": 0},
        {"gpu": True},
        {"gpuType": "H100", "gpuMemory": 80, "gpuMemoryUtilization": 0.9, "gpuMetricsPort": 9400},
        {"endpoints": [{"port": "metrics"}], "selector": {"matchLabels": {"app": "gpu"}}},
        {"nodeSelector": {"nvidia.com/gpu.count": "8"}},
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "tolerationSeconds": 300}]},
        {"acceleratorTypes": ["h100"], "replicas": 3},
        {"dnsNames": ["gpu.example.com"], "secretName": "gpu"},
        {"rules": [{"apiGroups": ["nvidia.com"], "resources": ["gpus"]}]},
    ],
)
def test_harmless_fields_are_no_gpus(spec: Any) -> None:
    assert found(spec) == []


@pytest.mark.parametrize(
    ("api", "kind", "spec"),
    [
        ("monitoring.coreos.com/v1", "Prometheus", {"containers": [{"name": "x", "image": "x:1"}]}),
        ("karpenter.sh/v1", "NodePool", {"limits": {"nvidia.com/gpu": 64}}),
        ("constraints.gatekeeper.sh/v1beta1", "MaxGpus", {"parameters": {"maxGpus": 8}}),
    ],
)
def test_kinds_that_request_nothing_are_no_gpus(api: str, kind: str, spec: Any) -> None:
    assert found(spec, api, kind) == []


def test_fields_of_the_object_itself_are_no_requests() -> None:
    body = {"apiVersion": "acme.example.com/v1", "kind": "Run", "metadata": {"gpus": 8}, "status": {"gpus": 8}}
    assert find_uncounted(body, ()) == ()


def test_at_most_three_are_named() -> None:
    body = {"apiVersion": "acme.example.com/v1", "kind": "Run", "spec": [{"gpus": number} for number in range(1, 9)]}
    assert find_uncounted(body, ())[-1] == Uncounted("spec[2].gpus", "gpus: 3")
    assert len(find_uncounted(body, ())) == 3

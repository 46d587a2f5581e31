"""Workloads and queues of Kaiwo as we render them, on the real Kueue, KubeRay and AppWrapper, with pods on kwok."""

import os
from typing import Any

import pytest

from reconciler.sizing.devices import Vendor
from tests.cluster.bed.bed import GPU, Bed, node
from tests.kinds.kaiwo.kaiwo_cases import job, nodes, queues, rendered, service

NODES = 8
POOL_GPUS = 8 * NODES
NAME = "kaiwo.silogen.ai/name"
QUEUES = """
clusterQueues:
- name: {pool}
  namespaces: [{pool}]
  spec:
    namespaceSelector: {{}}
    resourceGroups:
    - coveredResources: [cpu, memory, {gpu}]
      flavors:
      - name: {pool}
        resources:
        - {{name: cpu, nominalQuota: 1000}}
        - {{name: memory, nominalQuota: 10Ti}}
        - {{name: {gpu}, nominalQuota: {gpus}}}
resourceFlavors:
- {{name: {pool}, nodeLabels: {{pool: {pool}}}}}
workloadPriorityClasses:
- {{metadata: {{name: {pool}}}, value: 5}}
"""
RAY = "ray: true\nentrypoint: python main.py\n"
SERVE = "ray: true\nserveConfigV2: 'applications: []'\n"
FORMS = {
    "batch": (job, "gpus: 8", 1),
    "spread": (job, "gpus: 16", 2),
    "ray": (job, f"{RAY}gpus: 16", 3),
    "served": (service, "gpus: 8", 1),
    "serving": (service, f"{SERVE}gpus: 16", 3),
}
"""A workload of each form: 64 GPUs in all, and the pods of each."""
SHIPPED = {
    "pretrain": (job, f"{RAY}gpus: 8", 2),
    "finetune": (job, f"{RAY}gpus: 16", 3),
    "rlhf": (job, f"{RAY}gpus: 12", 3),
    "dpo": (job, "gpus: 4", 1),
    "replica": (job, f"{RAY}gpusPerReplica: 4\nreplicas: 1", 2),
    "serve": (service, f"{SERVE}gpus: 4", 2),
    "tiny": (job, f"{RAY}gpus: 1", 2),
    "bert": (job, "gpus: 2", 1),
}
"""The shapes of the workloads that come with Kaiwo, without their storage: no volume is provisioned here."""

pytestmark = pytest.mark.usefixtures("kwok", "scheduler", "kueue", "kuberay", "appwrapper")


def text_of(name: str, pool: str, form: tuple[Any, str, int]) -> str:
    make, spec, _ = form
    head = f"image: a:1\ngpuVendor: nvidia\nclusterQueue: {pool}\npriorityClass: {pool}\n"
    return str(make(head + spec, name=name, metadata=f"namespace: {pool}"))


def admitted(bed: Bed, pool: str) -> dict[str, bool]:
    """Return whether Kueue admitted each Workload of a namespace, by the name of its owner."""
    items = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{pool}/workloads")["items"]
    return {item["metadata"]["ownerReferences"][0]["name"]: _is_admitted(item) for item in items}


def _is_admitted(workload: dict[str, Any]) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Admitted", "True") for one in conditions)


@pytest.mark.parametrize("forms", [FORMS, SHIPPED], ids=["forms", "shipped"])
def test_what_fits_is_admitted_together_and_runs(bed: Bed, forms: dict[str, tuple[Any, str, int]]) -> None:
    """KA-15, KA-21, F-043, F-044, F-065, D-12: all that fits, and nothing that exceeds the quota."""
    pool = f"kaiwo-{os.urandom(3).hex()}"
    for number in range(NODES):
        bed.create("/api/v1/nodes", node(f"{pool}-{number}", labels={"pool": pool, "kaiwo/worker": "true"}))
    text = queues(QUEUES.format(pool=pool, gpu=GPU, gpus=POOL_GPUS))
    text += "".join(text_of(name, pool, form) for name, form in forms.items())
    text += text_of("large", pool, (job, f"gpus: {POOL_GPUS + 8}", 0))
    found = rendered(text, vendor=Vendor.NVIDIA, inventory=nodes(NODES + 1, product="NVIDIA-H100-80GB-HBM3"))
    assert found.errors == []
    bed.server.client.ensure_namespaces([pool])
    bed.apply(*(one.body for one in found.manifests))
    wanted = sorted(name for name, (_, _, pods) in forms.items() for _ in range(pods))
    ran: dict[str, str] = {}  # pod -> its workload; kwok ends pods, and KubeRay those of a job that does not answer

    def all_ran() -> bool:
        for pod in bed.pods(pool):
            if pod["status"].get("phase") in ("Running", "Succeeded"):
                ran[pod["metadata"]["name"]] = pod["metadata"]["labels"].get(NAME, "")
        return sorted(filter(None, ran.values())) == wanted

    bed.wait(all_ran, f"these pods run: {wanted}")
    granted = admitted(bed, pool)
    assert not granted.pop("large")
    assert all(granted.values()), granted

"""Workloads and queues of Kaiwo as we render them, on the real Kueue, KubeRay and AppWrapper, with pods on kwok."""

import os
from typing import Any

import pytest

from reconciler.sizing.devices import Vendor
from tests.cluster.bed.bed import GPU, Bed, node
from tests.kinds.kaiwo.kaiwo_cases import job, nodes, queues, rendered, service

NODES = 8
SERVE = "ray: true\nserveConfigV2: 'applications: []'\n"
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
FORMS = {
    "batch": (job, "gpus: 8", 1),
    "spread": (job, "gpus: 16", 2),
    "ray": (job, "ray: true\nentrypoint: python main.py\ngpus: 16", 3),
    "served": (service, "gpus: 8", 1),
    "serving": (service, f"{SERVE}gpus: 16", 3),
}
"""Workloads of 64 GPUs in all, and the pods of each."""

pytestmark = pytest.mark.usefixtures("kwok", "scheduler", "kueue", "kuberay", "appwrapper")


def text_of(name: str, pool: str, **more: str) -> str:
    make, spec, _ = FORMS[name]
    spec = f"image: a:1\ngpuVendor: nvidia\nclusterQueue: {pool}\n{more.get('extra', '')}{spec}"
    return str(make(spec, name=name, metadata=f"namespace: {pool}"))


def workloads(bed: Bed, pool: str) -> dict[str, bool]:
    """Return whether Kueue admitted each Workload of a namespace, by the name of its owner."""
    items = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{pool}/workloads")["items"]
    return {item["metadata"]["ownerReferences"][0]["name"]: _is_admitted(item) for item in items}


def _is_admitted(workload: dict[str, Any]) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Admitted", "True") for one in conditions)


def running(bed: Bed, pool: str) -> list[str]:
    """Return the names of the workloads whose pods run, one for each pod."""
    pods = [pod for pod in bed.pods(pool) if pod["status"].get("phase") == "Running"]
    return [pod["metadata"]["labels"].get("kaiwo.silogen.ai/name", "") for pod in pods]


def test_every_form_is_admitted_and_runs(bed: Bed) -> None:
    """KA-15, KA-21, F-043, F-044, F-065, D-12: all forms fit the quota together, and a ninth node's worth waits."""
    pool = f"kaiwo-{os.urandom(3).hex()}"
    for number in range(NODES):
        labels = {"pool": pool, "kaiwo/worker": "true"}
        bed.create("/api/v1/nodes", node(f"{pool}-{number}", labels=labels))
    text = queues(QUEUES.format(pool=pool, gpu=GPU, gpus=8 * NODES))
    text += "".join(text_of(name, pool, extra=f"priorityClass: {pool}\n") for name in FORMS)
    result = rendered(text, vendor=Vendor.NVIDIA, inventory=nodes(NODES, product="NVIDIA-H100-80GB-HBM3"))
    assert result.errors == []
    bed.server.client.ensure_namespaces([pool])
    bed.apply(*(one.body for one in result.manifests))
    wanted = sorted(name for name, (_, _, pods) in FORMS.items() for _ in range(pods))
    bed.wait(lambda: sorted(filter(None, running(bed, pool))) == wanted, f"running pods: {wanted}")
    admitted = workloads(bed, pool)
    assert all(admitted.values()), admitted

    more = rendered(
        text_of("batch", pool).replace("name: batch", "name: late"),
        vendor=Vendor.NVIDIA,
        inventory=nodes(product="H100"),
    )
    bed.apply(*(one.body for one in more.manifests if one.key.kind == "Job"))
    bed.wait(lambda: "late" in workloads(bed, pool), "a Workload of one that does not fit")
    assert not workloads(bed, pool)["late"]
    assert "late" not in running(bed, pool)

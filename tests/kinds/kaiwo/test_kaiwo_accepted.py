"""Workloads and queues of Kaiwo as we render them, before the real Kueue, KubeRay and AppWrapper."""

import os

import pytest

from reconciler.sizing.devices import Vendor
from tests.cluster.bed.bed import GPU, Bed
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
    "batch": (job, "gpus: 8"),
    "spread": (job, "gpus: 16"),
    "ray": (job, "ray: true\nentrypoint: python main.py\ngpus: 16"),
    "served": (service, "gpus: 8"),
    "serving": (service, f"{SERVE}gpus: 16"),
}

pytestmark = pytest.mark.usefixtures("kueue", "kuberay", "appwrapper")


def text_of(name: str, pool: str) -> str:
    make, spec = FORMS[name]
    spec = f"image: a:1\ngpuVendor: nvidia\nclusterQueue: {pool}\npriorityClass: {pool}\n{spec}"
    return str(make(spec, name=name, metadata=f"namespace: {pool}"))


def test_every_form_is_accepted(bed: Bed) -> None:
    """KA-15, F-043, F-044, F-048, F-065: by the API server, and the webhooks of Kueue, KubeRay and AppWrapper."""
    pool = f"kaiwo-{os.urandom(3).hex()}"
    text = queues(QUEUES.format(pool=pool, gpu=GPU, gpus=8 * NODES))
    text += "".join(text_of(name, pool) for name in FORMS)
    result = rendered(text, vendor=Vendor.NVIDIA, inventory=nodes(NODES, product="NVIDIA-H100-80GB-HBM3"))
    assert result.errors == []
    bed.server.client.ensure_namespaces([pool])
    bed.apply(*(one.body for one in result.manifests))
    stored = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{pool}")["spec"]
    assert stored["resourceGroups"][0]["flavors"][0]["name"] == pool
    paths = ("batch/v1|jobs/batch", "batch/v1|jobs/spread", "ray.io/v1|rayjobs/ray", "apps/v1|deployments/served")
    for path in (*paths, "workload.codeflare.dev/v1beta2|appwrappers/serving"):
        api, _, name = path.partition("|")
        assert bed.get(f"/apis/{api}/namespaces/{pool}/{name}")["spec"]

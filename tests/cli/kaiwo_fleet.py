"""A repository for Kaiwo's workloads: one cluster with Kueue, four nodes of 8 MI300X, and a queue of 16 GPUs."""

from tests.cli.fleet import Fleet

_NODE = (
    "    - {name: n%d, gpu: {product: AMD_Instinct_MI300X, count: 8, memoryMiB: 196592}, "
    "labels: {amd.com/gpu.product-name: AMD_Instinct_MI300X}}\n"
)
_NODES = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: main}
spec:
  cluster: main
  takenAt: "2026-11-01T06:00:00Z"
  nodes:
"""
_QUEUES = """\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoQueueConfig
metadata: {name: kaiwo}
spec:
  resourceFlavors:
    - {name: mi300x, nodeLabels: {kaiwo/nodepool: amd-mi300x-8gpu}}
  clusterQueues:
    - name: kaiwo
      spec:
        namespaceSelector: {}
        resourceGroups:
          - coveredResources: [cpu, memory, amd.com/gpu]
            flavors:
              - name: mi300x
                resources:
                  - {name: cpu, nominalQuota: 400}
                  - {name: memory, nominalQuota: 4000Gi}
                  - {name: amd.com/gpu, nominalQuota: 16}
"""
ENV = """\
envVars:
  - name: MY_VAR
    value: "my_value"
  - fromSecret: {name: AWS_ACCESS_KEY_ID, secret: gcs-credentials, key: access_key}
  - fromSecret: {name: AWS_SECRET_ACCESS_KEY, secret: gcs-credentials, key: secret_key}
  - fromSecret: {name: HF_TOKEN, secret: hf-token, key: hf-token}
  - mountSecret:
      name: GOOGLE_APPLICATION_CREDENTIALS
      secret: gcs-credentials
      key: gcs-credentials-json
      path: /etc/gcp/credentials.json
"""


def make_kaiwo(fleet: Fleet) -> None:
    """Replace the examples of the template, and commit what is rendered."""
    for folder in ("jobs", "queues", "rendered"):
        fleet.git("rm", "-rq", folder)
    fleet.edit("reconciler.yaml", "backend: kai ", "backend: kueue ")
    fleet.edit("reconciler.yaml", "vendor: nvidia ", "vendor: amd ")
    fleet.edit("reconciler.yaml", "- Queue/default-parent-queue ", "- Namespace/kaiwo ")
    fleet.write("jobs/README.md", "Jobs\n")
    fleet.write("queues/kaiwo.yaml", _QUEUES)
    fleet.write("evidence/main/nodes.yaml", _NODES + "".join(_NODE % number for number in range(4)))
    fleet.commit("Kaiwo")
    ran = fleet.run("commit")
    assert ran.code == 0, ran.out + ran.err


def write_workload(fleet: Fleet, folder: str = "../work/pretrain", **files: str) -> str:
    """Write a folder beside the repository: an entrypoint of flag lines, variables, code and data."""
    content = {
        "entrypoint": "python main.py\n--model-name=llama\n",
        "env": ENV,
        "main.py": "print('hello')\n",
        "data.json": '{"a": 1}\n',
        "kaiwoconfig": "a: 1\n",
        **files,
    }
    for name, text in content.items():
        if text:
            fleet.write(f"{folder}/{name}", text)
    return str((fleet.root / folder).resolve())

"""A repository for AgentaFlow's workloads: one cluster with Kueue, and nodes with A100, H100 and L40S."""

from tests.cli.fleet import Fleet

PRODUCTS = (
    ("gpu-a", "NVIDIA-A100-SXM4-80GB", 81920),
    ("gpu-b", "NVIDIA-H100-80GB-HBM3", 81559),
    ("gpu-c", "NVIDIA-L40S", 46068),
)
_NODE = (
    "    - {name: %s, gpu: {product: %s, count: 8, memoryMiB: %d}, labels: {nvidia.com/gpu.product: %s}, cpus: 96}\n"
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
_CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters:
    - {name: main, backend: kueue, namespace: agentaflow, external: [Namespace/agentaflow, PersistentVolumeClaim, ConfigMap]}
  placement:
    strategy: least_utilized  # the order in which nodes are tried
    priorities: {0-3: low, 4-6: normal, 7-10: high}
"""
_FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %s}
spec: {nodeLabels: {nvidia.com/gpu.product: %s}}
---
"""
_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, memory, nvidia.com/gpu]
      flavors:
"""
_LOCAL = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: gpus, namespace: agentaflow}
spec: {clusterQueue: gpus}
"""
_CLASS = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: %s}
value: %d
"""


def make_agentaflow(fleet: Fleet) -> None:
    """Replace the examples of the template, and commit what is rendered."""
    for folder in ("jobs", "queues", "rendered", "evidence"):
        fleet.git("rm", "-rq", folder)
    fleet.write("reconciler.yaml", _CONFIG)
    fleet.write("jobs/README.md", "Jobs\n")
    fleet.write("evidence/main/nodes.yaml", _NODES + "".join(_NODE % (*row, row[1]) for row in PRODUCTS))
    text = "".join(_FLAVOR % (name, product) for name, product, _ in PRODUCTS) + _QUEUE
    for name, _, _ in PRODUCTS:
        text += f"        - name: {name}\n          resources:\n"
        text += "".join(
            f"            - {{name: {resource}, nominalQuota: {quota}}}\n"
            for resource, quota in (("cpu", 96), ("memory", "1Ti"), ("nvidia.com/gpu", 8))
        )
    fleet.write(
        "queues/gpus.yaml", text + _LOCAL + "".join(_CLASS % row for row in (("low", 1), ("normal", 5), ("high", 10)))
    )
    fleet.commit("start")
    ran = fleet.run("commit")
    assert ran.code == 0, ran.err

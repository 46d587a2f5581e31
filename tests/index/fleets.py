"""A small config repository in memory, and the plans of its working tree: warm, and from nothing."""

from reconciler.plan import opening
from reconciler.plan.outputs.json_report import render_json
from reconciler.plan.planning import Planned
from reconciler.plan.use_cases import plan
from reconciler.plan.workspace import Workspace
from reconciler.repo.revision import read_config, resolve_head
from reconciler.settings import Settings
from tests.fakes.cache import MemoryCache
from tests.fakes.repository import MemoryRepository
from tests.ready import shipped_values

CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters:
    - name: a
      backend: BACKEND
      external: [Queue/default, PersistentVolumeClaim]
    - name: b
      backend: none
      select: {folders: [jobs/b, queues]}
  sources: [queues, jobs, manifests]
  rules:
    image-pinned: {action: ACTION}
    quota.max-gpus-per-namespace: {parameters: {max: MAX_COUNT}}
"""
QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: NAME, namespace: default, labels: {team: one}}
spec:
  queue: {name: NAME, parentQueue: default, resources: {gpu: {quota: QUOTA, limit: 32}}}
  image: registry.example.com/train:2.7
  nodeResources: {gpus: NODE, cpus: 96, memory: 960Gi}
"""
JOB = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: NAME, namespace: default, labels: {team: one}}
spec:
  jobQueue: QUEUE
  numGPUs: GPUS
  command: python train.py --epochs EPOCHS
  reliability: {activeDeadlineSeconds: 3600}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, labels: {team: one, kai.scheduler/queue: QUEUE}}
spec:
  containers:
    - name: main
      image: IMAGE
      envFrom: [{configMapRef: {name: CONFIG}}]
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: default}\ndata: {key: VALUE}\n"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {tier: VALUE}}\n"
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: SCOPE
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""
EVIDENCE = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: a}
spec:
  takenAt: "TAKEN"
  nodes:
    - {name: n1, gpu: {product: H100, count: 8}}
    - {name: n2, gpu: {product: H100, count: COUNT}}
"""
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: labelled}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
  validations: [{expression: "object.metadata.labels.team == 'VALUE'", message: "another team"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: labelled}
spec: {policyName: labelled, validationActions: [Deny]}
"""


def config(backend: str = "kai", action: str = "warn", most: int = 24) -> str:
    """Return `reconciler.yaml`."""
    return CONFIG.replace("BACKEND", backend).replace("ACTION", action).replace("MAX_COUNT", str(most))


def queue(name: str, quota: int = 16, node: int = 8) -> str:
    """Return a TorchrunQueue."""
    return QUEUE.replace("NAME", name).replace("QUOTA", str(quota)).replace("NODE", str(node))


def job(name: str, of: str = "q1", gpus: int = 8, epochs: int = 3) -> str:
    """Return a TorchrunJob."""
    text = JOB.replace("NAME", name).replace("QUEUE", of).replace("GPUS", str(gpus))
    return text.replace("EPOCHS", str(epochs))


def pod(name: str, of: str = "q1", image: str = "busybox:1", reads: str = "c1") -> str:
    """Return a plain Pod."""
    text = POD.replace("NAME", name).replace("QUEUE", of).replace("IMAGE", image)
    return text.replace("CONFIG", reads)


def config_map(name: str, value: str = "x") -> str:
    """Return a ConfigMap."""
    return CONFIG_MAP.replace("NAME", name).replace("VALUE", value)


def evidence(count: int = 8, taken: str = "2026-11-01T00:00:00Z") -> str:
    """Return a NodeInventory."""
    return EVIDENCE.replace("COUNT", str(count)).replace("TAKEN", taken)


START = {
    "reconciler.yaml": config(),
    "queues/q1.yaml": queue("q1"),
    "queues/q2.yaml": queue("q2"),
    "jobs/a/one.yaml": job("one"),
    "jobs/b/two.yaml": job("two", of="q2"),
    "manifests/p1.yaml": pod("p1"),
    "manifests/c1.yaml": config_map("c1"),
    "evidence/a/nodes.yaml": evidence(),
}


class MemoryFleet:
    """A repository in memory with a cache that stays."""

    def __init__(self, files: dict[str, str] | None = None) -> None:
        self.repository = MemoryRepository()
        self.cache = MemoryCache()
        self.cache.kept.update(shipped_values())
        for path, text in (files or START).items():
            self.write(path, text)
        self.repository.save({})

    @property
    def files(self) -> dict[str, bytes]:
        """The working tree."""
        return self.repository.work

    def write(self, path: str, text: str) -> None:
        """Write a file of the working tree."""
        self.repository.work[path] = text.encode()

    def workspace(self, cache: MemoryCache) -> Workspace:
        """Open the working tree."""
        tree = resolve_head(self.repository, "")
        config = read_config(self.repository, tree, opening.catalogue, cache)
        runtime = opening.runtime(self.repository, cache, Settings(processes=1))
        return Workspace(runtime=runtime, tree=tree, config=config)

    def plan(self) -> Planned:
        """Plan with the cache that stays."""
        return plan(self.workspace(self.cache))

    def warm(self) -> str:
        """Plan with the cache that stays, as JSON."""
        return render_json(self.plan().plan)

    def cold(self) -> str:
        """Plan without any record of earlier plans; compiled policies and schemas may stay."""
        kept = {key: value for key, value in self.cache.kept.items() if key.startswith(("programs:", "shipped:"))}
        cache = MemoryCache()
        cache.kept.update(kept)
        return render_json(plan(self.workspace(cache)).plan)

    def recompiled(self) -> set[str]:
        """Plan, and return the source files that were compiled."""
        return {*self.plan().index.compiled}

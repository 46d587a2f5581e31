"""A config repository with every kind of source, and single-line edits of it: for each, the line that was edited."""

from typing import NamedTuple

CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters:
    - name: main
      backend: kai
      namespace: research
      vendor: nvidia
      external: [Queue, PriorityClass, StorageClass, PersistentVolumeClaim, Secret, ServiceAccount]
      select:
        folders: [queues, jobs/main, manifests]
    - name: edge
      backend: kueue
      namespace: vision
      external: [ClusterQueue, PriorityClass, StorageClass, PersistentVolumeClaim, Secret, ServiceAccount]
      select:
        folders: [queues, jobs/edge]
  sources: [queues, jobs, manifests]
  budgets:
    deletes: {count: 100, share: 1.0}
  sizing:
    engine: analytic
    safety: 0.2
    patchCpuRequest: true
"""
H100 = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata:
  name: h100
spec:
  kaiQueue: h100
  parentKaiQueue: research
  image: pytorch/pytorch:2.9.0
  queue:
    resources:
      gpu:
        quota: 16
        limit: 64
  nodeResources:
    gpuType: H100
    cpus: 96
    memory: 800Gi
  scheduling:
    priorityClassName: normal
    tolerations:
      - {key: nvidia.com/gpu, operator: Exists}
      - {key: reserved, operator: Exists, effect: NoExecute}
  storage:
    shmSizePerGPU: 8Gi
    workspace:
      enabled: true
      sizePerGPU: 10Gi
      storageClass: fast
    datasets:
      enabled: true
      sizePerGPU: 100Gi
    checkpoints:
      enabled: true
      sizePerGPU: 50Gi
      accessModes: [ReadWriteOnce]
"""
TEAM = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata:
  name: team
  labels:
    cost-center: a17
spec:
  queue:
    name: research-team
    parentQueue: research
    resources:
      cpu: {quota: -1, limit: -1}
      gpu: {quota: 16, limit: 32, overQuotaWeight: 2}
  distributed:
    backend: nccl
    port: 29501
  podTemplate:
    metadata:
      labels:
        team: research
      annotations:
        example.com/owner: ada
        example.com/cost: high
    spec:
      nodeSelector:
        pool: a100
      terminationGracePeriodSeconds: 60
      containers:
        - name: trainer
          image: registry.example.com/train:1.4.2
          imagePullPolicy: Always
          resources:
            limits: {nvidia.com/gpu: 8, memory: 400Gi}
            requests: {nvidia.com/gpu: 8, memory: 400Gi, cpu: "64"}
          env:
            - {name: NCCL_DEBUG, value: WARN}
            - {name: HF_HOME, value: /cache/hf}
            - {name: AWS_REGION, value: eu-west-1}
          volumeMounts:
            - {name: cache, mountPath: /cache}
        - name: metrics
          image: registry.example.com/metrics:2.0.0
      volumes:
        - name: cache
          persistentVolumeClaim:
            claimName: cache
  workspaceStorage:
    size: 5Gi
    source: git
    url: https://git.example.com/research/vit.git
    ref: 3f1c2d4e5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d
  serviceAccountName: trainer
  resources:
    - name: cache
      nameMode: prefix
      template:
        apiVersion: v1
        kind: PersistentVolumeClaim
        spec:
          accessModes: [ReadWriteMany]
          resources: {requests: {storage: 500Gi}}
    - name: settings
      template:
        apiVersion: v1
        kind: ConfigMap
        data:
          precision: bf16
"""
BERT = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: bert
  labels:
    owner: ada
    stage: pre
spec:
  jobQueue: h100
  command: python train.py --epochs 3
  numGPUs: 16
"""
GPT = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: gpt
spec:
  jobQueue: h100
  image: registry.example.com/gpt:1
  command: |
    python prepare.py
    python train.py --lr 0.1
  numGPUs: 8
  suspend: false
  reliability:
    maxRestarts: 5
    activeDeadlineSeconds: 86400
  env:
    - name: WANDB_MODE
      value: offline
    - name: OMP_NUM_THREADS
      value: "8"
  storage:
    checkpoints:
      size: 100Gi
      accessModes: [ReadWriteMany]
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: vit
spec:
  queue: team
  jobName: vit-2026-11
  numNodes: 2
  setupCommand: pip install -e .
  command: python train.py
  env:
    - {name: NCCL_DEBUG, value: INFO}
    - {name: SEED, value: "7"}
  labels: {experiment: vit}
  annotations: {example.com/ticket: T-17}
  volumes:
    additionalVolumes:
      - {name: scratch, emptyDir: {}}
    additionalMounts:
      - {name: scratch, mountPath: /scratch}
"""
EDGE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: detect
spec:
  jobQueue: h100
  command: python detect.py
  numGPUs: 4
"""
SIZED = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: llama-lora
  namespace: research
  labels:
    autoconf-plugin-name: resource-requirements-appwrapper
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          nodeSelector:
            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
          containers:
            - name: pytorch
              image: registry.example.com/tuning:2.8
              command: [bash, -c]
              args:
                - |
                  accelerate launch --num_processes 8 -m tuning.sft_trainer \\
                    --model_name_or_path ibm-granite/granite-3.1-8b-instruct \\
                    --peft_method lora --gradient_checkpointing true \\
                    --max_seq_length 4096 --per_device_train_batch_size=4
              resources:
                limits: {nvidia.com/gpu: 8}
                requests: {nvidia.com/gpu: 8}
"""
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels:
    app.kubernetes.io/name: web
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations:
        example.com/a.b: one
        example.com/path: /x/y
    spec:
      containers:
        - name: web
          image: nginx:1.27
          args:
            - --workers
            - "4"
            - --verbose
          ports:
            - {name: http, containerPort: 80}
            - {containerPort: 53, protocol: UDP}
            - {containerPort: 53}
          env:
            - {name: MODE, value: fast}
            - {name: LEVEL, value: info}
          resources:
            requests: {cpu: 100m, memory: 1Gi}
          volumeMounts:
            - {name: data, mountPath: /data}
        - name: sidecar
          image: busybox:1.36
      tolerations:
        - {operator: Exists, effect: NoSchedule}
        - {key: gpu, operator: Exists}
      volumes:
        - name: data
          emptyDir:
            sizeLimit: 1Gi
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
    - port: 80
      name: http
      targetPort: http
    - {name: dns, port: 53, protocol: UDP}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web-settings
  namespace: web
data:
  level: info
  script: |
    one
    two
    three
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: models
spec:
  accessModes:
    - ReadWriteOnce
    - ReadOnlyMany
  storageClassName: fast
  resources: {requests: {storage: 10Gi}}
"""
JSON = """\
{
  "apiVersion": "v1",
  "kind": "List",
  "items": [
    {
      "apiVersion": "v1",
      "kind": "ConfigMap",
      "metadata": {"name": "one"},
      "data": {
        "a": "1",
        "b": "2"
      }
    },
    {
      "apiVersion": "v1",
      "kind": "ConfigMap",
      "metadata": {"name": "two"},
      "data": {
        "c": "3"
      }
    }
  ]
}
"""
WIDGET = """\
apiVersion: example.com/v1
kind: Widget
metadata:
  name: w
  namespace: web
spec:
  ports:
    - protocol: TCP
      number: 1
    - protocol: UDP
      number: 2
  steps:
    - run: build
    - run: test
    - run: ship
  rules:
    - {type: a, weight: 1}
    - {type: b, weight: 2}
"""
NODES = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: main}
spec:
  takenAt: "2026-11-01T00:00:00Z"
  nodes:
    - name: n1
      labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      cpus: 112
      gpu: {product: NVIDIA-H100-80GB-HBM3, count: 8}
    - name: n2
      labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, rack: r2}
      cpus: 112
      gpu: {product: NVIDIA-H100-80GB-HBM3, count: 8, memoryMiB: 81559}
    - name: n3
      labels: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
      cpus: 112
      gpu: {product: NVIDIA-A100-SXM4-80GB, count: 8}
"""
FILES = {
    "reconciler.yaml": CONFIG,
    "queues/h100.yaml": H100,
    "queues/team.yaml": TEAM,
    "jobs/main/bert.yaml": BERT,
    "jobs/main/gpt.yaml": GPT,
    "jobs/main/sized.yaml": SIZED,
    "jobs/edge/detect.yaml": EDGE,
    "manifests/web.yaml": WEB,
    "manifests/maps.json": JSON,
    "manifests/widget.yaml": WIDGET,
    "evidence/main/nodes.yaml": NODES,
    "evidence/edge/nodes.yaml": NODES.replace("name: main", "name: edge"),
}


class SourceEdit(NamedTuple):
    """One line of a file: `old` occurs in it once. `new` replaces it, removes the line (empty), or adds a line after."""

    kind: str
    path: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Return the file after the edit."""
        lines = text.splitlines(keepends=True)
        at = self.line(text) - 1
        if self.kind.endswith("added"):
            lines.insert(at + 1, self.new + "\n")
        elif not self.new:
            del lines[at]
        else:
            lines[at] = lines[at].replace(self.old, self.new)
        return "".join(lines)

    def line(self, text: str) -> int:
        """Return the line that holds `old`, from 1."""
        found = [number for number, line in enumerate(text.splitlines(), 1) if self.old in line]
        assert len(found) == 1, (self, found)
        return found[0]

    def expected(self, text: str) -> tuple[str, int, bool]:
        """Return the path and line that a reason has to name, and whether it is a removed line of the base."""
        line = self.line(text)
        return self.path, line + 1 if self.kind.endswith("added") else line, not self.new

    def expected_in(self, after: str) -> tuple[str, int, bool]:
        """Return what a reason has to name where `after` is the file after other edits, too."""
        if not self.new:
            return self.path, self.line(FILES[self.path]), True
        found = [number for number, line in enumerate(after.splitlines(), 1) if self.new in line]
        assert len(found) == 1, (self, found)
        return self.path, found[0], False


_H100, _TEAM, _GPT, _BERT, _WEB = (
    "queues/h100.yaml",
    "queues/team.yaml",
    "jobs/main/gpt.yaml",
    "jobs/main/bert.yaml",
    "manifests/web.yaml",
)
_JSON, _WIDGET, _NODES, _SIZED = (
    "manifests/maps.json",
    "manifests/widget.yaml",
    "evidence/main/nodes.yaml",
    "jobs/main/sized.yaml",
)

EDITS = tuple(
    SourceEdit(*edit)
    for edit in (
        ("job: image", _GPT, "registry.example.com/gpt:1", "registry.example.com/gpt:2"),
        ("job: image removed", _GPT, "  image: registry.example.com/gpt:1", ""),
        ("job: image added", _BERT, "jobQueue: h100", "  image: registry.example.com/bert:7"),
        ("job: command", _BERT, "--epochs 3", "--epochs 4"),
        ("job: command, a line of a block", _GPT, "--lr 0.1", "--lr 0.2"),
        ("job: command, a block's line removed", _GPT, "    python prepare.py", ""),
        ("job: GPUs", _BERT, "numGPUs: 16", "numGPUs: 8"),
        ("job: GPUs", _GPT, "numGPUs: 8", "numGPUs: 16"),
        ("job: nodes", _GPT, "numNodes: 2", "numNodes: 3"),
        ("job: nodes", _GPT, "numNodes: 2", "numNodes: 1"),
        ("job: suspend", _GPT, "suspend: false", "suspend: true"),
        ("job: reliability", _GPT, "maxRestarts: 5", "maxRestarts: 6"),
        ("job: reliability removed", _GPT, "    maxRestarts: 5", ""),
        ("job: reliability removed", _GPT, "    activeDeadlineSeconds: 86400", ""),
        ("job: variable", _GPT, "value: offline", "value: online"),
        ("job: variable renamed", _GPT, "name: WANDB_MODE", "name: WANDB_KIND"),
        ("job: variable", _GPT, "NCCL_DEBUG, value: INFO", "NCCL_DEBUG, value: TRACE"),
        ("job: variable removed", _GPT, "- {name: NCCL_DEBUG, value: INFO}", ""),
        ("job: variable added", _GPT, "- {name: NCCL_DEBUG, value: INFO}", "    - {name: EXTRA, value: x}"),
        ("job: access modes", _GPT, "accessModes: [ReadWriteMany]", "accessModes: [ReadWriteOnce]"),
        ("job: access modes removed", _GPT, "      accessModes: [ReadWriteMany]", ""),
        ("job: storage size", _GPT, "size: 100Gi", "size: 2Ti"),
        ("job: storage size removed", _GPT, "      size: 100Gi", ""),
        ("job: renamed", _BERT, "name: bert", "name: roberta"),
        ("job: renamed", _GPT, "name: gpt", "name: gpt2"),
        ("job: label", _BERT, "owner: ada", "owner: eva"),
        ("job: label removed", _BERT, "    owner: ada", ""),
        ("job: label added", _BERT, "owner: ada", "    tier: gold"),
        ("job: pod label", _GPT, "experiment: vit", "experiment: vit2"),
        ("job: pod annotation", _GPT, "T-17", "T-18"),
        ("job: rendezvous id", _GPT, "jobName: vit-2026-11", "jobName: vit-2026-12"),
        ("job: rendezvous id removed", _GPT, "  jobName: vit-2026-11", ""),
        ("job: set-up", _GPT, "pip install -e .", "pip install ."),
        ("job: set-up removed", _GPT, "  setupCommand: pip install -e .", ""),
        ("job: queue", _BERT, "jobQueue: h100", "jobQueue: team"),
        ("job: volume", _GPT, "emptyDir: {}", "emptyDir: {medium: Memory}"),
        ("job: mount", _GPT, "mountPath: /scratch", "mountPath: /tmp/scratch"),
        ("job: storage enabled added", _BERT, "numGPUs: 16", "  storage: {checkpoints: {enabled: false}}"),
        ("job: elastic added", _BERT, "numGPUs: 16", "  distributed: {minNodes: 1}"),
        ("queue: image", _H100, "pytorch/pytorch:2.9.0", "pytorch/pytorch:2.9.1"),
        ("queue: image", _TEAM, "registry.example.com/train:1.4.2", "registry.example.com/train:1.4.3"),
        ("queue: pull policy removed", _TEAM, "          imagePullPolicy: Always", ""),
        ("queue: variable", _TEAM, "HF_HOME, value: /cache/hf", "HF_HOME, value: /cache/hub"),
        ("queue: variable removed", _TEAM, "- {name: HF_HOME, value: /cache/hf}", ""),
        ("queue: variable removed", _TEAM, "- {name: AWS_REGION, value: eu-west-1}", ""),
        ("queue: variable added", _TEAM, "- {name: HF_HOME, value: /cache/hf}", "            - {name: NEW, value: x}"),
        ("queue: quota", _H100, "quota: 16", "quota: 24"),
        ("queue: quota removed", _H100, "        limit: 64", ""),
        ("queue: quota", _TEAM, "quota: 16, limit: 32", "quota: 16, limit: 48"),
        ("queue: parent", _H100, "parentKaiQueue: research", "parentKaiQueue: default"),
        ("queue: parent removed", _H100, "  parentKaiQueue: research", ""),
        ("queue: name in KAI", _H100, "kaiQueue: h100", "kaiQueue: h100-pool"),
        ("queue: CPUs per node", _H100, "cpus: 96", "cpus: 88"),
        ("queue: memory per node", _H100, "memory: 800Gi", "memory: 720Gi"),
        ("queue: memory per node removed", _H100, "    memory: 800Gi", ""),
        ("queue: GPU type removed", _H100, "    gpuType: H100", ""),
        ("queue: priority", _H100, "priorityClassName: normal", "priorityClassName: high"),
        ("queue: priority removed", _H100, "    priorityClassName: normal", ""),
        ("queue: toleration", _H100, "gpu, operator: Exists}", "gpu, operator: Exists, effect: NoSchedule}"),
        ("queue: toleration removed", _H100, "- {key: nvidia.com/gpu, operator: Exists}", ""),
        ("queue: shared memory", _H100, "shmSizePerGPU: 8Gi", "shmSizePerGPU: 16Gi"),
        ("queue: shared memory removed", _H100, "    shmSizePerGPU: 8Gi", ""),
        ("queue: storage class", _H100, "storageClass: fast", "storageClass: slow"),
        ("queue: storage class removed", _H100, "      storageClass: fast", ""),
        ("queue: storage size", _H100, "sizePerGPU: 100Gi", "sizePerGPU: 200Gi"),
        ("queue: storage size", _H100, "sizePerGPU: 50Gi", "sizePerGPU: 60Gi"),
        ("queue: access modes", _H100, "accessModes: [ReadWriteOnce]", "accessModes: [ReadWriteMany]"),
        ("queue: access modes removed", _H100, "      accessModes: [ReadWriteOnce]", ""),
        ("queue: label", _TEAM, "cost-center: a17", "cost-center: a18"),
        ("queue: pod label", _TEAM, "team: research", "team: vision"),
        ("queue: pod annotation removed", _TEAM, "        example.com/owner: ada", ""),
        ("queue: node selector", _TEAM, "pool: a100", "pool: h100"),
        ("queue: pod field", _TEAM, "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 30"),
        ("queue: pod field removed", _TEAM, "      terminationGracePeriodSeconds: 60", ""),
        ("queue: resources", _TEAM, 'memory: 400Gi, cpu: "64"', 'memory: 400Gi, cpu: "48"'),
        ("queue: port", _TEAM, "port: 29501", "port: 29502"),
        ("queue: port removed", _TEAM, "    port: 29501", ""),
        ("queue: mount", _TEAM, "mountPath: /cache", "mountPath: /var/cache"),
        ("queue: sidecar", _TEAM, "metrics:2.0.0", "metrics:2.1.0"),
        ("queue: claim of a volume", _TEAM, "claimName: cache", "claimName: cache2"),
        ("queue: workspace", _TEAM, "ref: 3f1c2d4e5a6b", "ref: 4f1c2d4e5a6b"),
        ("queue: workspace removed", _TEAM, "    ref: 3f1c2d4e5a6b", ""),
        ("queue: workspace size", _TEAM, "size: 5Gi", "size: 6Gi"),
        ("queue: service account", _TEAM, "serviceAccountName: trainer", "serviceAccountName: robot"),
        ("queue: service account removed", _TEAM, "  serviceAccountName: trainer", ""),
        ("queue: own object", _TEAM, "storage: 500Gi", "storage: 600Gi"),
        ("queue: own object", _TEAM, "precision: bf16", "precision: fp16"),
        ("queue: own object's name mode removed", _TEAM, "      nameMode: prefix", ""),
        ("cluster: default namespace", "reconciler.yaml", "namespace: research", "namespace: science"),
        ("cluster: default namespace", "reconciler.yaml", "namespace: vision", "namespace: robots"),
        ("cluster: default namespace removed", "reconciler.yaml", "      namespace: research", ""),
        ("cluster: backend", "reconciler.yaml", "backend: kai", "backend: none"),
        ("cluster: backend", "reconciler.yaml", "backend: kueue", "backend: kai"),
        ("cluster: selection", "reconciler.yaml", "folders: [queues, jobs/edge]", "folders: [queues]"),
        ("cluster: selection", "reconciler.yaml", "[queues, jobs/main, manifests]", "[queues, jobs, manifests]"),
        ("settings of sizing", "reconciler.yaml", "safety: 0.2", "safety: 0.9"),
        ("settings of sizing", "reconciler.yaml", "patchCpuRequest: true", "patchCpuRequest: false"),
        ("settings of sizing removed", "reconciler.yaml", "    safety: 0.2", ""),
        ("evidence: GPU model", _NODES, "HBM3, rack: r2", "HBM2, rack: r2"),
        ("evidence: GPUs of a node", _NODES, "count: 8, memoryMiB", "count: 16, memoryMiB"),
        ("sized job: batch", _SIZED, "per_device_train_batch_size=4", "per_device_train_batch_size=8"),
        ("sized job: image", _SIZED, "tuning:2.8", "tuning:2.9"),
        ("sized job: GPU", _SIZED, "product: NVIDIA-H100-80GB-HBM3", "product: NVIDIA-A100-SXM4-80GB"),
        ("plain: replicas", _WEB, "replicas: 2", "replicas: 3"),
        ("plain: image", _WEB, "nginx:1.27", "nginx:1.28"),
        ("plain: annotation", _WEB, "a.b: one", "a.b: two"),
        ("plain: annotation removed", _WEB, "        example.com/path: /x/y", ""),
        ("plain: label", _WEB, "app.kubernetes.io/name: web", "app.kubernetes.io/name: site"),
        ("plain: argument", _WEB, '- "4"', '- "8"'),
        ("plain: argument removed", _WEB, "            - --workers", ""),
        ("plain: argument added", _WEB, "- --workers", "            - --quiet"),
        ("plain: port", _WEB, "containerPort: 80}", "containerPort: 8080}"),
        ("plain: port removed", _WEB, "            - {containerPort: 53}", ""),
        (
            "plain: port without a name",
            _WEB,
            "- {containerPort: 53, protocol: UDP}",
            "- {containerPort: 54, protocol: UDP}",
        ),
        ("plain: variable", _WEB, "value: fast", "value: slow"),
        ("plain: variable removed", _WEB, "            - {name: MODE, value: fast}", ""),
        ("plain: resources", _WEB, "memory: 1Gi}", "memory: 2Gi}"),
        ("plain: resources removed", _WEB, "            requests: {cpu: 100m, memory: 1Gi}", "            {}"),
        ("plain: volume", _WEB, "sizeLimit: 1Gi", "sizeLimit: 2Gi"),
        ("plain: sidecar", _WEB, "busybox:1.36", "busybox:1.37"),
        ("plain: toleration removed", _WEB, "        - {operator: Exists, effect: NoSchedule}", ""),
        ("plain: service port", _WEB, "targetPort: http", "targetPort: 8080"),
        ("plain: service port removed", _WEB, "    - {name: dns, port: 53, protocol: UDP}", ""),
        ("plain: data", _WEB, "level: info", "level: debug"),
        ("plain: data removed", _WEB, "  level: info", ""),
        ("plain: data added", _WEB, "level: info", "  more: yes-please"),
        ("plain: a line of a script", _WEB, "    two", "    2"),
        ("plain: a line of a script removed", _WEB, "    two", ""),
        ("plain: access mode removed", _WEB, "    - ReadOnlyMany", ""),
        ("plain: storage size", _WEB, "storage: 10Gi", "storage: 20Gi"),
        ("plain: storage class removed", _WEB, "  storageClassName: fast", ""),
        ("plain: renamed", _WEB, "name: models", "name: weights"),
        ("plain: namespace removed", _WEB, "  namespace: web", ""),
        ("plain: unknown kind", _WIDGET, "number: 2", "number: 3"),
        ("plain: unknown kind, item removed", _WIDGET, "    - run: test", ""),
        ("plain: unknown kind, item added", _WIDGET, "run: build", "    - run: lint"),
        ("plain: unknown kind, item", _WIDGET, "type: a, weight: 1", "type: a, weight: 5"),
        ("plain: unknown kind, item removed", _WIDGET, "    - {type: a, weight: 1}", ""),
        ("JSON: value", _JSON, '"a": "1"', '"a": "9"'),
        ("JSON: value", _JSON, '"c": "3"', '"c": "9"'),
        ("JSON: value removed", _JSON, '        "a": "1",', ""),
        ("JSON: name", _JSON, '"name": "two"', '"name": "deux"'),
    )
)

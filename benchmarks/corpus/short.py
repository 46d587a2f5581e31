"""The short mix: one shape of each kind, about thirty lines."""

import random
from collections.abc import Iterator

_QUEUE = """\
# Queue of {team}.
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata:
  name: {name}
  namespace: {team}
  labels: {{team: {team}}}
spec:
  queue:
    name: {name}
    parentQueue: default
    resources:
      gpu: {{quota: 4096, limit: 8192, overQuotaWeight: 1}}
  image: registry.example.com/{team}/train:2.7.{patch}
  nodeResources: {{gpus: 8, cpus: 96, memory: 960Gi}}
  scheduling:
    scheduler: kai-scheduler
    nodeSelector:
      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
    tolerations:
      - {{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}
  storage:
    shmSizePerGPU: 8Gi
"""

_JOB = """\
# {name}: run {run} of {team}
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: {name}
  namespace: {team}
  labels:
    team: {team}
    run: "{run}"
spec:
  jobQueue: {queue}
  numGPUs: {gpus}
  command: >-
    python train.py --model {model} --epochs {epochs}
    --batch-size {batch} --learning-rate 0.000{rate}
    --data /datasets/{team}/{model} --checkpoint /checkpoints/{name}
  reliability:
    maxRestarts: {restarts}
    activeDeadlineSeconds: 172800
  env:
    - name: WANDB_PROJECT
      value: {team}-{model}
    - name: NCCL_DEBUG
      value: WARN
    - name: HF_HOME
      value: /datasets/hub
    - name: API_TOKEN
      valueFrom:
        secretKeyRef: {{name: {team}-tokens, key: api}}
  workspaceStorage:
    source: git
    url: https://git.example.com/{team}/{model}.git
    ref: v1.{run}
"""

_DEPLOYMENT = """\
# Serves {model} for {team}.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {team}
  labels:
    app: {name}
    team: {team}
{workload_label}spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app: {name}
  template:
    metadata:
      labels:
        app: {name}
        team: {team}
{pod_label}    spec:
{scheduler}      containers:
        - name: server
          image: registry.example.com/{team}/serve:1.{run}.0
          args: ["--model", "{model}", "--port", "8000", "--max-batch", "{batch}"]
          ports:
            - name: http
              containerPort: 8000
          env:
            - name: LOG_LEVEL
              value: info
            - name: MODEL_PATH
              value: /models/{model}
          resources:
            requests: {{cpu: "4", memory: 32Gi, nvidia.com/gpu: "1"}}
            limits: {{memory: 32Gi, nvidia.com/gpu: "1"}}
          readinessProbe:
            httpGet: {{path: /healthz, port: http}}
            periodSeconds: 10
          volumeMounts:
            - name: models
              mountPath: /models
              readOnly: true
      volumes:
        - name: models
          persistentVolumeClaim:
            claimName: {team}-models
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: {team}
  labels:
    team: {team}
spec:
  selector:
    app: {name}
  ports:
    - name: http
      port: 80
      targetPort: http
"""

_CONFIGMAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: {team}
  labels:
    team: {team}
data:
  config.yaml: |
    model: {model}
    optimizer:
      name: adamw
      learning_rate: 0.000{rate}
      betas: [0.9, 0.95]
    data:
      path: /datasets/{team}
      workers: {batch}
  run: "{run}"
  notes: |
    First line of the notes of {name}.
    Second line, a little longer than the first one.
"""

# How a Deployment names its queue under each backend: label of its own, label of its pods, scheduler of its pods.
_QUEUED = {
    "kai": ("", "        kai.scheduler/queue: {queue}\n", "      schedulerName: kai-scheduler\n"),
    "kueue": ("    kueue.x-k8s.io/queue-name: {queue}\n", "", ""),
    "none": ("", "", ""),
}
_MODELS = ("vit-large", "llama-8b", "mixtral", "whisper", "resnet50", "qwen-14b", "sdxl", "bert-base")


def files(count: int, *, backend: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield path and text of the source files."""
    chance = random.Random(seed)
    teams = [f"team-{number:03}" for number in range(max(2, count // 100))]
    made = 0
    for team in teams:
        yield f"queues/{team}.yaml", _QUEUE.format(name=f"{team}-train", team=team, patch=chance.randrange(9))
        made += 1
    number = 0
    while made < count:
        team = teams[number % len(teams)]
        values = {
            "team": team,
            "queue": f"{team}-train",
            "run": number,
            "model": chance.choice(_MODELS),
            "gpus": chance.choice((1, 2, 4, 8, 8, 16, 16, 32, 64)),
            "epochs": chance.randrange(1, 100),
            "batch": chance.randrange(1, 64),
            "rate": chance.randrange(1, 9),
            "restarts": chance.randrange(5),
            "replicas": chance.randrange(1, 6),
        }
        queued = (line.format(**values) for line in _QUEUED[backend])
        values |= zip(("workload_label", "pod_label", "scheduler"), queued, strict=True)
        kind = chance.choices(("job", "serve", "config"), weights=(55, 15, 15))[0]
        name = f"{kind}-{number:05}"
        if kind == "job":
            yield f"jobs/{team}/{name}.yaml", _JOB.format(name=name, **values)
            made += 1
        elif kind == "serve":
            yield f"manifests/{team}/{name}.yaml", _DEPLOYMENT.format(name=name, **values)
            made += 2
        else:
            yield f"manifests/{team}/{name}.yaml", _CONFIGMAP.format(name=name, **values)
            made += 1
        number += 1

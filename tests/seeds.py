"""Files that the documentation of other projects prints, as they are printed there."""

AGENTAFLOW = {
    "my-workload.yaml": """\
apiVersion: agentaflow.io/v1
kind: GPUWorkload
metadata:
  name: my-training-job
  namespace: agentaflow
spec:
  priority: 5
  gpuMemoryRequired: 8192  # 8GB
  schedulingStrategy: "least_utilized"
  gpuRequirements:
    minGPUMemory: 8192
    gpuCount: 1
    exclusiveAccess: true
  podTemplate:
    spec:
      containers:
      - name: training
        image: pytorch/pytorch:latest-gpu
        resources:
          limits:
            nvidia.com/gpu: 1
""",
    "examples/k8s/pytorch-training-workload.yaml": """\
apiVersion: agentaflow.io/v1
kind: GPUWorkload
metadata:
  name: pytorch-training-job
  namespace: agentaflow
spec:
  priority: 5
  gpuMemoryRequired: 16384  # 16GB GPU memory required
  estimatedDuration: 4h
  schedulingStrategy: "least_utilized"
  gpuRequirements:
    minGPUMemory: 16384
    preferredGPUType: "NVIDIA A100"
    gpuCount: 1
    exclusiveAccess: true
  podTemplate:
    metadata:
      labels:
        app: pytorch-training
        workload: training-job
    spec:
      restartPolicy: Never
      containers:
      - name: training-container
        image: pytorch/pytorch:1.13.1-cuda11.6-cudnn8-runtime
        command:
        - python
        - /workspace/train.py
        - --epochs=100
        - --batch-size=32
        - --learning-rate=0.001
        env:
        - name: CUDA_VISIBLE_DEVICES
          value: "0"
        - name: NCCL_DEBUG
          value: "INFO"
        resources:
          requests:
            nvidia.com/gpu: 1
            memory: "8Gi"
            cpu: "4"
          limits:
            nvidia.com/gpu: 1
            memory: "16Gi"
            cpu: "8"
        volumeMounts:
        - name: training-data
          mountPath: /data
        - name: model-output
          mountPath: /output
        - name: workspace
          mountPath: /workspace
      volumes:
      - name: training-data
        persistentVolumeClaim:
          claimName: training-data-pvc
      - name: model-output
        persistentVolumeClaim:
          claimName: model-output-pvc
      - name: workspace
        configMap:
          name: training-scripts
      nodeSelector:
        agentaflow.gpu/enabled: "true"
        agentaflow.gpu/schedulable: "true"
      tolerations:
      - key: nvidia.com/gpu
        operator: Exists
        effect: NoSchedule
""",
}
"""Finoptimize/agentaflow-sro-community, examples/k8s (Apache-2.0): the README, and the example that it submits."""

PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  annotations:
    agentaflow.gpu/scheduling-strategy: "priority"
    agentaflow.gpu/priority: "10"
"""
"""Its annotations of Kubeflow's jobs."""

AGENTAFLOW_LINES = """\
./k8s-gpu-scheduler --mode=cli status
./k8s-gpu-scheduler --mode=cli nodes
./k8s-gpu-scheduler --mode=cli workloads
./k8s-gpu-scheduler --mode=cli submit examples/k8s/pytorch-training-workload.yaml
./k8s-gpu-scheduler --mode=cli strategy best_fit
./k8s-gpu-scheduler --mode=cli watch
./k8s-gpu-scheduler --mode=cli health
./k8s-gpu-scheduler --mode=cli generate-template my-workload.yaml
./k8s-gpu-scheduler --mode=cli submit my-workload.yaml
./k8s-gpu-scheduler --mode=cli strategy priority
./k8s-gpu-scheduler --mode=scheduler --log-level=debug
"""
"""All lines of its README that run the scheduler, in their order, each once."""

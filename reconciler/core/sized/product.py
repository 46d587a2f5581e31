"""Pods bound to the card that they were sized for, where the job itself names none."""

from reconciler.core.objects import FieldPath
from reconciler.core.sized.draft import Draft
from reconciler.core.sized.grounds import Grounds
from reconciler.core.training import Kind, TrainingJob
from reconciler.core.training.job import PRODUCT_LABELS

_NODE = "node"
"""What the trainer's own runtimes call the job whose pods train (kubeflow/trainer pkg/constants)."""


def set_product(draft: Draft, job: TrainingJob, grounds: Grounds) -> None:
    """Write the node selector of the chosen card into every template that trains."""
    label, product = PRODUCT_LABELS[grounds.chosen.gpu.vendor], grounds.chosen.gpu.product
    reason = grounds.because("gpu", f"the job names no card; {grounds.memory}")
    for selector in _selectors(draft, job):
        draft.set((*selector, label), product, reason)
    if job.kind is Kind.TRAIN_JOB:
        path: FieldPath = (*job.root, "spec", "podSpecOverrides")
        before = draft.get(path) or []
        override = {"targetJobs": [{"name": _NODE}], "nodeSelector": {label: product}}
        draft.set_rows(path, [*((item, index) for index, item in enumerate(before)), (override, reason)])


def _selectors(draft: Draft, job: TrainingJob) -> list[FieldPath]:
    if job.kind is Kind.TRAIN_JOB:
        return []
    if job.kind is Kind.TORCHRUN_JOB:
        return [("spec", "scheduling", "nodeSelector")]
    found: list[FieldPath] = [(*pods.template, "spec", "nodeSelector") for pods in job.pods]
    if job.kind is Kind.PYTORCH_JOB:
        specs: FieldPath = (*job.root, "spec", "pytorchReplicaSpecs")
        found = [(*specs, role, "template", "spec", "nodeSelector") for role in draft.get(specs)]
    return found

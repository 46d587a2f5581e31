"""Kubeflow: the jobs of the training operator (`kubeflow.org`) and TrainJob (`trainer.kubeflow.org`)."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.immutable import Body, only, value_of
from reconciler.core.kinds.kind import Kind
from reconciler.core.kinds.kubeflow.training import pytorch_job_training, train_job_training
from reconciler.core.kinds.pods import Reader, of_spec, replicated
from reconciler.core.values import count, mapping, sequence

if TYPE_CHECKING:
    from reconciler.core.kinds.progress import Progress

_GROUP = "kubeflow.org"
_OVERRIDES = ("podTemplateOverrides", "podSpecOverrides")


def _roles(field: str) -> Reader:
    def read(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
        for role, replica in mapping(spec.get(field)).items():
            yield from replicated(mapping(replica), f"{prefix}{field}.{role}.")

    return read


def _train_job(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    trainer = mapping(spec.get("trainer"))
    container = {"resources": trainer.get("resourcesPerNode"), "env": trainer.get("env")}
    pod: dict[str, Any] = {"containers": [container]}
    for field in _OVERRIDES:
        for override in map(mapping, sequence(spec.get(field))):
            pod.update(mapping(override.get("spec")) if "spec" in override else override)
    pod["containers"] = [container]
    template = {"metadata": {"labels": spec.get("labels"), "annotations": spec.get("annotations")}, "spec": pod}
    yield PodSet(count(trainer.get("numNodes"), 1), template, f"{prefix}trainer.")


def _unapplied(before: Body, after: Body) -> list[str]:
    """Return the templates that differ: the operator applies them to no running pod.

    It compares the number of pods and not what is in them (training-operator 1.9, pkg/controller.v1/common/pod.go).
    A suspended job has no pods, and gets new ones when it resumes.
    """
    if value_of(before, "spec.runPolicy.suspend") is True:
        return []
    fields = []
    for section in (name for name in after.get("spec", {}) if name.endswith("ReplicaSpecs")):
        left, right = value_of(before, f"spec.{section}"), value_of(after, f"spec.{section}")
        for role in sorted(left if isinstance(left, Mapping) and isinstance(right, Mapping) else ()):
            path = f"spec.{section}.{role}.template"
            if role in right and value_of(before, path) != value_of(after, path):
                fields.append(path)
    return fields


def _operator_job_progress(body: Body) -> "Progress":
    from reconciler.core.kinds.kubeflow.progress import operator_job_progress  # noqa: PLC0415 - few commands need it

    return operator_job_progress(body)


def _train_job_progress(body: Body) -> "Progress":
    from reconciler.core.kinds.kubeflow.progress import train_job_progress  # noqa: PLC0415 - few commands need it

    return train_job_progress(body)


def _job(kind: str, field: str) -> Kind:
    return Kind(
        group=_GROUP,
        kind=kind,
        pods=of_spec(_roles(field)),
        unapplied=_unapplied,
        has_generations=True,
        progress=_operator_job_progress,
    )


KINDS = (
    Kind(
        group=_GROUP,
        kind="PyTorchJob",
        pods=of_spec(_roles("pytorchReplicaSpecs")),
        unapplied=_unapplied,
        has_generations=True,
        training=pytorch_job_training,
        progress=_operator_job_progress,
    ),
    _job("TFJob", "tfReplicaSpecs"),
    _job("MPIJob", "mpiReplicaSpecs"),
    _job("XGBoostJob", "xgbReplicaSpecs"),
    _job("PaddleJob", "paddleReplicaSpecs"),
    _job("JAXJob", "jaxReplicaSpecs"),
    Kind(
        group="trainer.kubeflow.org",
        kind="TrainJob",
        pods=of_spec(_train_job),
        immutable=only("spec.runtimeRef", "spec.managedBy"),  # transition rules of its CRD
        has_generations=True,
        training=train_job_training,
        progress=_train_job_progress,
    ),
)

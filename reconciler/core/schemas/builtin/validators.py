"""Rules between the fields of built-in kinds, beyond what their schemas express.

Rules about single fields are part of the schemas (`tools/schemas/constraints.py`).
Source: pkg/apis/core/validation/validation.go of Kubernetes 1.36; the modules that this one lists name theirs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.core.problems import Violation
from reconciler.core.schemas.builtin.appwrapper import app_wrapper_violations
from reconciler.core.schemas.builtin.devices import claim_template_violations, claim_violations, device_class_violations
from reconciler.core.schemas.builtin.limits import (
    autoscaler_violations,
    disruption_budget_violations,
    limit_range_violations,
    quota_violations,
)
from reconciler.core.schemas.builtin.network import ingress_violations, network_policy_violations, service_violations
from reconciler.core.schemas.builtin.objects import (
    binding_violations,
    config_map_violations,
    namespace_violations,
    priority_class_violations,
    role_binding_violations,
    role_violations,
    secret_violations,
)
from reconciler.core.schemas.builtin.pod_specs import total_violations
from reconciler.core.schemas.builtin.pods import template_violations
from reconciler.core.schemas.builtin.storage import storage_class_violations, volume_claim_violations, volume_violations
from reconciler.core.schemas.builtin.workloads import controller_violations, cron_job_violations, job_violations
from reconciler.core.schemas.messages import bad_value, missing
from reconciler.core.schemas.metadata import embedded_violations
from reconciler.core.schemas.rules.definitions import definition_violations

Data = dict[str, Any]
_ANY_RESTART = ("Always", "OnFailure", "Never")


def builtin_violations(data: Data, group: str, kind: str) -> Iterator[Violation]:
    """Validate an object of a built-in kind, or of one with a known webhook, that its schema has accepted."""
    validate = _VALIDATORS.get((group, kind))
    if validate is not None:
        yield from validate(data)


def _pod(data: Data) -> Iterator[Violation]:
    found = [*template_violations({"spec": data["spec"]}, (), _ANY_RESTART)]
    yield from found
    if data["spec"].get("resources"):
        totals = total_violations(data["spec"], ("spec", "resources"), defaulted=True)
        yield from (one for one in totals if one not in found)
    yield from _pod_priority(data["spec"])
    for field in ("initContainers", "containers"):
        for index, container in enumerate(data["spec"].get(field) or ()):
            if container["image"] != container["image"].strip():
                yield bad_value(("spec", field, index, "image"), "has leading or trailing whitespace", "remove it")
    for index, volume in enumerate(data["spec"].get("volumes") or ()):
        if volume.get("image") is not None and not volume["image"].get("reference"):
            yield missing(("spec", "volumes", index, "image", "reference"))


def _pod_priority(spec: Data) -> Iterator[Violation]:
    """Check what the server computes from the class of priority."""
    if spec.get("priorityClassName"):
        return
    if spec.get("priority"):
        yield bad_value(("spec", "priority"), "is set by the server", "set priorityClassName")
    if spec.get("preemptionPolicy") == "Never":
        yield bad_value(("spec", "preemptionPolicy"), "is set by the server", "set priorityClassName")


def _pod_template(data: Data) -> Iterator[Violation]:
    yield from template_violations(data.get("template") or {}, ("template",), _ANY_RESTART)


def _app_wrapper(data: Data) -> Iterator[Violation]:
    found = [*app_wrapper_violations(data)]
    yield from found
    seen = {one.path for one in found}
    for index, component in enumerate((data.get("spec") or {}).get("components") or ()):
        metadata = ((component or {}).get("template") or {}).get("metadata")
        if isinstance(metadata, dict):
            path = ("spec", "components", index, "template", "metadata")
            yield from (one for one in embedded_violations(metadata, path) if one.path not in seen)


_VALIDATORS: Mapping[tuple[str, str], Callable[[Data], Iterator[Violation]]] = {
    ("", "Pod"): _pod,
    ("", "ConfigMap"): config_map_violations,
    ("", "Secret"): secret_violations,
    ("scheduling.k8s.io", "PriorityClass"): priority_class_violations,
    ("networking.k8s.io", "NetworkPolicy"): network_policy_violations,
    ("resource.k8s.io", "ResourceClaim"): claim_violations,
    ("resource.k8s.io", "ResourceClaimTemplate"): claim_template_violations,
    ("resource.k8s.io", "DeviceClass"): device_class_violations,
    ("networking.k8s.io", "Ingress"): ingress_violations,
    ("batch", "Job"): job_violations,
    ("batch", "CronJob"): cron_job_violations,
    ("apps", "Deployment"): controller_violations,
    ("apps", "ReplicaSet"): controller_violations,
    ("apps", "StatefulSet"): controller_violations,
    ("apps", "DaemonSet"): controller_violations,
    ("", "Service"): service_violations,
    ("", "Namespace"): namespace_violations,
    ("", "PersistentVolume"): volume_violations,
    ("", "PersistentVolumeClaim"): volume_claim_violations,
    ("", "PodTemplate"): _pod_template,
    ("storage.k8s.io", "StorageClass"): storage_class_violations,
    ("", "ResourceQuota"): quota_violations,
    ("rbac.authorization.k8s.io", "Role"): role_violations,
    ("rbac.authorization.k8s.io", "ClusterRole"): role_violations,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): binding_violations,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): binding_violations,
    ("", "LimitRange"): limit_range_violations,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaler_violations,
    ("policy", "PodDisruptionBudget"): disruption_budget_violations,
    ("rbac.authorization.k8s.io", "RoleBinding"): role_binding_violations,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): role_binding_violations,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definition_violations,
    ("workload.codeflare.dev", "AppWrapper"): _app_wrapper,
}
"""Which validation of a server or webhook each kind has, beside its schema."""

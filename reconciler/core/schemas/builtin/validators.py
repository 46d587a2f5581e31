"""Rules between the fields of built-in kinds, beyond what their schemas express.

Rules about single fields are part of the schemas (`tools/schemas/constraints.py`).
Source: pkg/apis/core/validation/validation.go of Kubernetes 1.36; the modules that this one lists name theirs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.patterns import is_path_segment
from reconciler.core.problems import Violation
from reconciler.core.schemas.builtin.cluster import (
    csi_driver_violations,
    endpoint_slice_violations,
    endpoints_violations,
    ingress_class_violations,
    ingress_violations,
    lease_violations,
    namespace_violations,
    node_violations,
    role_violations,
    runtime_class_violations,
    storage_class_violations,
    volume_claim_violations,
    volume_violations,
)
from reconciler.core.schemas.builtin.extensions import (
    api_service_violations,
    binding_violations,
    definition_violations,
    webhook_violations,
)
from reconciler.core.schemas.builtin.limits import (
    autoscaler_violations,
    disruption_budget_violations,
    limit_range_violations,
    quota_violations,
)
from reconciler.core.schemas.builtin.objects import (
    claim_template_violations,
    claim_violations,
    config_map_violations,
    device_class_violations,
    network_policy_violations,
    priority_class_violations,
    secret_violations,
    service_violations,
)
from reconciler.core.schemas.builtin.pod_specs import total_violations
from reconciler.core.schemas.builtin.pods import template_violations
from reconciler.core.schemas.builtin.workloads import controller_violations, cron_job_violations, job_violations
from reconciler.core.schemas.messages import bad_value, missing
from reconciler.core.schemas.metadata import embedded_violations
from reconciler.core.schemas.webhooks.appwrapper import app_wrapper_violations

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
                path: FieldPath = ("spec", field, index, "image")
                yield bad_value(path, "has leading or trailing whitespace", "remove it")
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


def _role_binding(data: Data) -> Iterator[Violation]:
    allowed = ["ClusterRole"] if data["kind"] == "ClusterRoleBinding" else ["Role", "ClusterRole"]
    kind = data["roleRef"]["kind"]
    if kind not in allowed:
        message, hint = f"{kind} is not allowed", f"use {' or '.join(allowed)}"
        yield Violation(rule="schema.not-allowed", path=("roleRef", "kind"), message=message, hint=hint)
    yield from _segment(data["roleRef"]["name"], ("roleRef", "name"))
    for index, subject in enumerate(data.get("subjects") or ()):
        if (
            data["kind"] == "ClusterRoleBinding"
            and subject.get("kind") == "ServiceAccount"
            and not subject.get("namespace")
        ):
            yield missing(("subjects", index, "namespace"))


def _app_wrapper(data: Data) -> Iterator[Violation]:
    found = [*app_wrapper_violations(data)]
    yield from found
    seen = {one.path for one in found}
    for index, component in enumerate((data.get("spec") or {}).get("components") or ()):
        path: FieldPath = ("spec", "components", index, "template", "metadata")
        metadata = ((component or {}).get("template") or {}).get("metadata")
        if isinstance(metadata, dict):
            yield from (one for one in embedded_violations(metadata, path) if one.path not in seen)


def _segment(name: str, path: FieldPath) -> Iterator[Violation]:
    if not is_path_segment(name):
        yield bad_value(path, f"{name[:80]!r} is not a name", "remove '/' and '%'")


_VALIDATORS: Mapping[tuple[str, str], Callable[[Data], Iterator[Violation]]] = {
    ("", "Pod"): _pod,
    ("", "ConfigMap"): config_map_violations,
    ("", "Secret"): secret_violations,
    ("scheduling.k8s.io", "PriorityClass"): priority_class_violations,
    ("networking.k8s.io", "NetworkPolicy"): network_policy_violations,
    ("resource.k8s.io", "ResourceClaim"): claim_violations,
    ("resource.k8s.io", "ResourceClaimTemplate"): claim_template_violations,
    ("resource.k8s.io", "DeviceClass"): device_class_violations,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): webhook_violations,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): webhook_violations,
    ("apiregistration.k8s.io", "APIService"): api_service_violations,
    ("", "Endpoints"): endpoints_violations,
    ("discovery.k8s.io", "EndpointSlice"): endpoint_slice_violations,
    ("", "Node"): node_violations,
    ("networking.k8s.io", "Ingress"): ingress_violations,
    ("networking.k8s.io", "IngressClass"): ingress_class_violations,
    ("node.k8s.io", "RuntimeClass"): runtime_class_violations,
    ("storage.k8s.io", "CSIDriver"): csi_driver_violations,
    ("coordination.k8s.io", "Lease"): lease_violations,
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
    ("rbac.authorization.k8s.io", "RoleBinding"): _role_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _role_binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definition_violations,
    ("workload.codeflare.dev", "AppWrapper"): _app_wrapper,
}
"""Which validation of a server or webhook each kind has, beside its schema."""

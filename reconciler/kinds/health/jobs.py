"""The changes of a HealthPolicy in rendered jobs with GPUs: node affinity, and the preflight check of their GPUs."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from msgspec import Struct

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.manifests.templates import pod_templates, with_changes
from reconciler.kube.objects import FieldPath
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import mapping, metadata_map, sequence, text
from reconciler.kube.yaml import Document
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.policy import JobRule, PreflightRule
from reconciler.sizing.devices import is_gpu

STATE_LABEL = "gpureconciler.io/health"
"""Label of a node: its phase. Jobs avoid values, not names, so that their manifests never change with the fleet."""

PREFLIGHT_LABELS = ("gpureconciler.io/preflight", "autopilot")
"""Labels of pods that ask for the preflight check."""

CHECKS_ANNOTATION = "gpureconciler.io/preflight-checks"
CHECKS_BY_LABEL = {"gpu-pcie-bw": ("pcie.h2d", "pcie.d2h"), "gpu-mem": ("hbm.bandwidth", "compute.checksum")}
"""Checks that a label of a pod selects, besides the annotation, which names them."""

NETWORK_TEST = "gpureconciler.io/network-test"
"""Label of a test of the network and of the pods whose output is its result: the name of its Job."""

CONTAINER = "gpu-preflight"
FAILED, GIVEN_UP = 42, 43
"""Exit codes of a preflight check that found bad hardware: try elsewhere, or the job has failed often enough."""

_AVOIDED = [HealthPhase.QUARANTINED.value, HealthPhase.VALIDATING.value]
_NOT_PREFERRED = [HealthPhase.SUSPECT.value, HealthPhase.PROBATION.value]
_WEIGHT = 50
_JOB_FIELDS = frozenset({"backoffLimit", "completions", "parallelism", "completionMode", "podFailurePolicy"})
_JOB_TEMPLATES = (("jobTemplate", "spec"), ("template", "spec"))

Data = dict[str, Any]


class HealthOfJobs(Struct, frozen=True, kw_only=True, eq=False):
    """The rule of one cluster, and the document that says it."""

    rule: JobRule
    document: Document

    @property
    def changes(self) -> bool:
        """True if any job may change."""
        return self.rule.exclude or self.rule.prefer or self.rule.preflight.jobs != "none"


def with_health(kinds: Kinds, manifest: Manifest, health: HealthOfJobs) -> Manifest:
    """Return the manifest of a job with GPUs as the policy wants it; any other as it is."""
    row = kinds.of(manifest.body)
    specs = (mapping(template.get("spec")) for _, template in pod_templates(kinds, manifest.body))
    if row.pods.on_each_node or not any(map(_gpus, specs)) or _is_network_test(manifest):
        return manifest
    body = deepcopy(manifest.body)
    reasons: dict[FieldPath, Reason] = {}
    for path, template in pod_templates(kinds, body):
        spec = mapping(template.get("spec"))
        if not _gpus(spec) or spec.get("nodeName"):  # no scheduler places a pod that names its node
            continue
        for field in _changed(body, path, template, health.rule):
            reasons[field] = _reason(health, field)
    return with_changes(manifest, body, reasons) if reasons else manifest


def _is_network_test(manifest: Manifest) -> bool:
    """Say whether it tests the nodes that it names, whatever their health is."""
    return NETWORK_TEST in metadata_map(manifest.body, "labels")


def _changed(body: Data, path: FieldPath, template: Data, rule: JobRule) -> Iterator[FieldPath]:
    """Change one pod template in place, and yield the fields that changed."""
    spec: Data = template["spec"]
    affinity = (*path, "spec", "affinity", "nodeAffinity")
    if rule.exclude:
        _exclude(spec)
        yield (*affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    if rule.prefer:
        _prefer(spec)
        yield (*affinity, "preferredDuringSchedulingIgnoredDuringExecution")
    if rule.preflight.image and _wants_preflight(template, rule.preflight):
        containers = [one for one in sequence(spec.get("initContainers")) if mapping(one).get("name") != CONTAINER]
        # Before anything of the job uses the GPUs.
        spec["initContainers"] = [_preflight(template, rule.preflight), *containers]
        yield (*path, "spec", "initContainers")
        owner = _value(body, path[:-1])
        # An API server demands it for a podFailurePolicy.
        if spec.get("restartPolicy") == "Never" and _is_job(body, path):
            policy = dict(mapping(owner.get("podFailurePolicy")))
            # The first rule that matches decides.
            policy["rules"] = [*_rules(rule.preflight), *sequence(policy.get("rules"))]
            owner["podFailurePolicy"] = policy
            yield (*path[:-1], "podFailurePolicy")


def _is_job(body: Data, path: FieldPath) -> bool:
    """Say whether a pod template is that of a batch Job: of a Job, or of the Jobs that a CronJob or a JobSet makes."""
    if _value(body, path[:-1]).keys() & _JOB_FIELDS or path[-3:-1] in _JOB_TEMPLATES:
        return True
    holder = _value(body, path[:-2])
    return (holder.get("apiVersion"), holder.get("kind")) == ("batch/v1", "Job")


def _exclude(spec: Data) -> None:
    """Add the expression to every term, because terms are alternatives; an empty term matches no node."""
    node = _inner(_inner(spec, "affinity"), "nodeAffinity")
    required = _inner(node, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = [term for term in sequence(required.get("nodeSelectorTerms")) if type(term) is dict]
    expression = {"key": STATE_LABEL, "operator": "NotIn", "values": list(_AVOIDED)}
    for term in terms:
        if term:
            term["matchExpressions"] = [*sequence(term.get("matchExpressions")), expression]
    required["nodeSelectorTerms"] = terms or [{"matchExpressions": [expression]}]


def _prefer(spec: Data) -> None:
    node = _inner(_inner(spec, "affinity"), "nodeAffinity")
    expression = {"key": STATE_LABEL, "operator": "NotIn", "values": list(_NOT_PREFERRED)}
    term = {"weight": _WEIGHT, "preference": {"matchExpressions": [expression]}}
    known = sequence(node.get("preferredDuringSchedulingIgnoredDuringExecution"))
    node["preferredDuringSchedulingIgnoredDuringExecution"] = [*known, term]


def _wants_preflight(template: Data, rule: PreflightRule) -> bool:
    labels = metadata_map(template, "labels")
    return rule.jobs == "all" or (rule.jobs == "labelled" and any(label in labels for label in PREFLIGHT_LABELS))


def _preflight(template: Data, rule: PreflightRule) -> Data:
    """Return the init container. It requests the GPUs of the pod, which does not count them twice."""
    style = "preflight-closed" if rule.fail_closed else "preflight"
    arguments = ["probe", "--profile", rule.profile, "--exit-style", style]
    for check in _checks(template, rule):
        arguments += ["--check", check]
    env = [_field("NODE_NAME", "spec.nodeName")]
    if rule.agent:
        arguments += ["--agent", rule.agent, "--wait", str(rule.wait)]
        names = ("POD_NAMESPACE", "namespace"), ("POD_NAME", "name"), ("POD_UID", "uid")
        env += [_field(name, f"metadata.{field}") for name, field in names]
    return {
        "name": CONTAINER,
        "image": rule.image,
        "args": arguments,
        "env": env,
        "resources": {"limits": _gpus(mapping(template.get("spec")))},
    }


def _checks(template: Data, rule: PreflightRule) -> tuple[str, ...]:
    metadata = mapping(template.get("metadata"))
    named = text(mapping(metadata.get("annotations")).get(CHECKS_ANNOTATION))
    chosen = [check.strip() for check in named.split(",") if check.strip()]
    labels = mapping(metadata.get("labels"))
    chosen += [check for label, checks in CHECKS_BY_LABEL.items() if label in labels for check in checks]
    return tuple(dict.fromkeys(chosen)) or rule.checks


def _field(name: str, path: str) -> Data:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _rules(rule: PreflightRule) -> list[Data]:
    """Return the rules with which bad hardware does not use up the retries of a job, and enough of it ends the job."""
    actions = [("Ignore", FAILED), *([("FailJob", GIVEN_UP)] if rule.agent else [])]
    return [
        {"action": action, "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [code]}}
        for action, code in actions
    ]


def _gpus(spec: Data) -> Data:
    """Return the GPU requests of the pod: the sum over its containers, by resource."""
    total: Data = {}
    for container in map(mapping, sequence(spec.get("containers"))):
        resources = mapping(container.get("resources"))
        wanted = {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}
        for name, amount in wanted.items():
            if is_gpu(name) and str(amount).isdigit() and int(amount):
                total[name] = total.get(name, 0) + int(amount)
    return total


def _inner(data: Data, key: str) -> Data:
    """Return the mapping under a key, made if it is missing."""
    if type(data.get(key)) is not dict:
        data[key] = {}
    inner: Data = data[key]
    return inner


def _value(data: Any, path: FieldPath) -> Data:
    for part in path:
        data = data[part]
    return mapping(data)


def _reason(health: HealthOfJobs, field: FieldPath) -> Reason:
    texts = {
        "requiredDuringSchedulingIgnoredDuringExecution": "avoids nodes that are quarantined or being validated",
        "preferredDuringSchedulingIgnoredDuringExecution": "prefers nodes that are not suspected",
        "initContainers": "checks the GPUs before the job starts, ahead of its own init containers",
        "podFailurePolicy": f"bad hardware, exit code {FAILED}, does not use up the retries of the job",
    }
    origin = Origin(document=health.document, field=("spec", "jobs"))
    return Reason(rule="health.jobs", text=texts[str(field[-1])], origins=(origin,))

"""JobSet (`jobset.x-k8s.io`): several replicated Jobs that run together."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.immutable import Body, differing, every, omit, value_of
from reconciler.core.kinds.jobset.training import job_set_training
from reconciler.core.kinds.kind import Kind
from reconciler.core.kinds.kueue.labels import frozen_labels
from reconciler.core.kinds.pods import batch_job, of_spec
from reconciler.core.values import count, mapping, sequence

if TYPE_CHECKING:
    from reconciler.core.kinds.progress import Progress


def _pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for index, replicated in enumerate(map(mapping, sequence(spec.get("replicatedJobs")))):
        replicas = count(replicated.get("replicas"), 1)
        job = mapping(mapping(replicated.get("template")).get("spec"))
        for pods in batch_job(job, f"{prefix}replicatedJobs[{index}].template.spec."):
            yield pods.times(replicas)


POLICIES = ("failurePolicy", "successPolicy", "startupPolicy", "network")
"""Fields with a transition rule in the CRD: they can be set, and cannot change."""

_MADE: Mapping[str, Mapping[str, Any]] = {
    "successPolicy": {"operator": "All"},
    "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
}
"""What the webhook adds to a new JobSet without the field, and never to one that exists."""

_OPTIONAL = {"maxRestarts": 0, "restartStrategy": "Recreate"}  # of a failure policy
_NOTHING = ("stdin", "stdinOnce", "tty", "hostIPC", "hostNetwork", "hostPID")  # if false, as if it were not written


def _immutable(before: Body, after: Body) -> list[str]:
    """Check a JobSet: its jobs are immutable, except for labels and placement of pods around a suspension.

    Transition rules of its CRD, and its webhook with its defaults (jobset 0.10, pkg/webhooks/jobset_webhook.go).
    """
    before, after = _admitted(before, after)
    fields = [field for field in POLICIES if _differs(before, after, field)]
    paused = any(value_of(body, "spec.suspend") is True for body in (before, after))
    old, new = (sequence(value_of(body, "spec.replicatedJobs")) for body in (before, after))
    pairs = zip(map(mapping, old), map(mapping, new), strict=False)
    jobs = (_jobs(left, right, without_placement=paused) for left, right in pairs)
    fields += ["replicatedJobs"] if len(old) != len(new) or any(left != right for left, right in jobs) else []
    return [*(f"spec.{field}" for field in fields), *differing(before, after, "spec.managedBy")]


def _admitted(before: Body, after: Body) -> tuple[Body, Body]:
    """Return both sides of a change with what the webhook made of the network of the first, which a change keeps."""
    network = mapping(value_of(before, "spec.network"))
    made = {name: value for name, value in _MADE["network"].items() if name not in network}
    if not network or not made:
        return before, after
    old, new = (_with_network(body, made) for body in (before, after))
    return old, new


def _with_network(body: Body, made: Mapping[str, Any]) -> Body:
    spec = mapping(body.get("spec"))
    return {**body, "spec": {**spec, "network": {**made, **mapping(spec["network"])}}} if spec.get("network") else body


def _differs(before: Body, after: Body, field: str) -> bool:
    """Return whether a policy changes; one that is removed is not compared."""
    old, new = (value_of(body, f"spec.{field}") for body in (before, after))
    if new is None or (old is None and field not in _MADE):
        return False
    defaults = _OPTIONAL if field == "failurePolicy" else {}
    left, right = (mapping(value) for value in (_MADE[field] if old is None else old, new))
    return {**defaults, **left} != {**defaults, **right}


def _jobs(
    before: Mapping[str, Any], after: Mapping[str, Any], *, without_placement: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a replicated job before and after, with the defaults that a new one gets where the first has no value."""
    old, new = (mapping(mapping(job.get("template")).get("spec")) for job in (before, after))
    made = {} if "completionMode" in old else {"completionMode": "Indexed"}
    templates = [mapping(spec.get("template")) for spec in (old, new)]
    made_of_pod = {} if "restartPolicy" in mapping(templates[0].get("spec")) else {"restartPolicy": "OnFailure"}
    pods = [
        _template({**made_of_pod, **mapping(each.get("spec"))}, each, without_placement=without_placement)
        for each in templates
    ]
    sides = [
        {
            "replicas": 1,
            "groupName": "default",
            **job,
            "template": {**mapping(job.get("template")), "spec": {**made, **spec, "template": template}},
        }
        for job, spec, template in zip((before, after), (old, new), pods, strict=True)
    ]
    return sides[0], sides[1]


def _template(pod: dict[str, Any], template: Mapping[str, Any], *, without_placement: bool) -> dict[str, Any]:
    """Return a pod template without what is as if it were not written, and what a suspended JobSet may change."""
    metadata = template.get("metadata")
    pod = _written(pod)
    for name in ("containers", "initContainers"):
        if name in pod:
            pod[name] = [_written(mapping(each)) for each in sequence(pod[name])]
    if without_placement:
        metadata = omit(metadata, ("labels", "annotations"))
        pod = omit(pod, ("nodeSelector", "tolerations", "schedulingGates")) or {}
    return {**template, "metadata": metadata or {}, "spec": pod}


def _written(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not False or name not in _NOTHING}


def _job_set_progress(body: Body) -> "Progress":
    from reconciler.core.kinds.jobset.progress import job_set_progress  # noqa: PLC0415 - few commands need it

    return job_set_progress(body)


KINDS = (
    Kind(
        group="jobset.x-k8s.io",
        kind="JobSet",
        pods=of_spec(_pods),
        immutable=every(_immutable, frozen_labels),
        admitted=_admitted,
        suspend=("spec", "suspend"),
        has_generations=True,
        training=job_set_training,
        progress=_job_set_progress,
    ),
)

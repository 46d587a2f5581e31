"""The Job of one attempt of a repair, from the user's suspended CronJob, which was reviewed as any other object."""

import hashlib
from copy import deepcopy
from typing import Any

import msgspec

from reconciler.kinds.health.pods import on_nodes
from reconciler.nodehealth.fleet.repairs import AskedRepair
from reconciler.nodehealth.policy import RepairTemplate

CRON_JOB = ("batch", "CronJob")

Body = dict[str, Any]


def repair_job(cron_job: Body, asked: AskedRepair, template: RepairTemplate, *, since: float, seconds: float) -> Body:
    """Return the Job of an attempt. `since` is when the node began to wait, so that a later repair has another name."""
    digest = hashlib.sha256(f"{asked.uid} {since} {asked.attempt}".encode()).hexdigest()[:10]
    metadata = cron_job["metadata"]
    labels = cron_job["spec"]["jobTemplate"].get("metadata", {}).get("labels", {})  # such as that of a queue
    spec: Body = deepcopy(cron_job["spec"]["jobTemplate"]["spec"])
    spec["backoffLimit"] = 0  # attempts are counted here
    spec["activeDeadlineSeconds"] = max(int(seconds), 1)
    pod: dict[str, Any] = spec["template"]["spec"]
    said = msgspec.to_builtins(asked)
    text = {key: ",".join(value) if isinstance(value, list | tuple) else str(value) for key, value in said.items()}
    values = [{"name": f"REPAIR_{key.upper()}", "value": value} for key, value in text.items()]
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        container["env"] = [*container.get("env", ()), *values]
    if template.on_node:
        pod["affinity"] = {**pod.get("affinity", {}), "nodeAffinity": on_nodes(asked.node)}
        pod["tolerations"] = [{"operator": "Exists"}]  # the node is kept out of use
    owner = {"apiVersion": "batch/v1", "kind": CRON_JOB[1], "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{template.name[:40].rstrip('-.')}-{digest}",
            "namespace": template.namespace,
            "labels": {**labels, "app.kubernetes.io/part-of": "gpu-reconciler"},
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual", "gpureconciler.io/node": asked.node},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": spec,
    }

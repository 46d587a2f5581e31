"""Steps for tests, without a plan."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import ObjectSummary, summarize
from reconciler.live.apply.steps import Step, Verb


def body(api_version: str, kind: str, name: str, namespace: str = "", **parts: Any) -> dict[str, Any]:
    """Return an object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def job(name: str, queue: str = "", namespace: str = "team") -> dict[str, Any]:
    """Return a Job with 8 GPUs, in a queue of KAI if one is named."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    made = body("batch/v1", "Job", name, namespace, spec={"template": template})
    made["metadata"]["labels"] = {"kai.scheduler/queue": queue} if queue else {}
    return made


def queue(name: str, parent: str = "") -> dict[str, Any]:
    """Return a Queue of KAI."""
    return body("scheduling.run.ai/v2", "Queue", name, spec={"parentQueue": parent} if parent else {})


def summary(made: Mapping[str, Any]) -> ObjectSummary:
    """Return the summary of an object."""
    metadata = made["metadata"]
    path = f"main/{metadata.get('namespace', '_cluster')}/{made['kind'].lower()}-{metadata['name']}.yaml"
    return summarize(BUILT_IN, cluster="main", body=made, path=path, digest="1")


def step(verb: Verb, made: Mapping[str, Any], replaces: Mapping[str, Any] | None = None) -> Step:
    """Return a step."""
    old = summary(replaces).path if replaces else ""
    return Step(verb=verb, summary=summary(made), before=summary(made) if verb is Verb.UPDATE else None, replaces=old)


def names(batches: Iterable[Iterable[Step]]) -> list[list[str]]:
    """Return batches of steps as `verb name`."""
    return [[f"{one.verb} {one.summary.name}" for one in batch] for batch in batches]

"""Objects with accelerators, and what they request: the files of `samples/`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One object, what it names, and what is to be counted.

    devices: all devices by resource.
    uncounted: what no figure includes, said in words. source: where the expectation comes from.
    bounds: the fewest and the most GPUs, if an autoscaler changes them.
    """

    name: str
    source: str
    objects: tuple[Body, ...]
    devices: dict[str, float]
    uncounted: str = ""
    bounds: tuple[int, int] | None = None


def samples() -> list[Sample]:
    """Return the samples of all files."""
    folder = Path(__file__).parent / "samples"
    return [
        _sample(f"{path.stem}: {entry['name']}", entry)
        for path in sorted(folder.glob("*.yaml"))
        for entry in yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    ]


def _sample(name: str, entry: Body) -> Sample:
    return Sample(
        name=name,
        source=entry["from"],
        objects=tuple(_named(body, name) for body in entry.get("objects") or [_pod(entry)]),
        devices=entry["devices"],
        uncounted=entry.get("uncounted", ""),
        bounds=tuple(entry["range"]) if "range" in entry else None,
    )


def _pod(entry: Body) -> Body:
    spec = entry.get("spec") or {"containers": [{"name": "a", "image": "x", "resources": {"limits": entry["limits"]}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": entry.get("annotations", {})}, "spec": spec}


def _named(body: Body, name: str) -> Body:
    metadata = {"name": "sample", "namespace": "default"} | body.get("metadata", {})
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata} | {
        key: value for key, value in body.items() if key not in {"apiVersion", "kind", "metadata"}
    }

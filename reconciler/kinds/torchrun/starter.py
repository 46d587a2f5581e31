"""Starting files of jobs and queues: a document to edit, each field with the text of its schema as a comment."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.torchrun import GROUP
from reconciler.kube.values import mapping, text
from reconciler.kube.yaml.writer import write

DAY_SECONDS = 86400
IMAGE = "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime"
_JOB, _QUEUE = "TorchrunJob", "TorchrunQueue"
_INDENT = "  "

Fields = Mapping[str, Any]


class NodeFacts(Struct, frozen=True, kw_only=True):
    """The nodes of a queue: GPUs per node, and the label that selects them (empty: not known)."""

    gpus: int = 8
    selector: tuple[tuple[str, str], ...] = ()


def job_document(name: str, *, queue: str, gpus: int, team: str) -> dict[str, Any]:
    """Return a TorchrunJob with the fields that most jobs set."""
    return _document(
        _JOB,
        {"name": name, "labels": {"team": team}},
        {
            "jobQueue": queue,
            "numGPUs": gpus,
            "command": "python train.py",
            "reliability": {"activeDeadlineSeconds": DAY_SECONDS},
        },
    )


JOB_EXAMPLES: Fields = {
    "workspaceStorage": {"source": "git", "url": "https://git.example.com/team/code.git", "ref": "v1.0.0"},
    "image": "registry.example.com/team/trainer:1.0.0",
    "setupCommand": "pip install -r requirements.txt",
    "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
    "suspend": True,
}
"""Further fields of a job, which its file shows as comments."""


def queue_document(name: str, *, quota: int, parent: str, image: str, nodes: NodeFacts) -> dict[str, Any]:
    """Return a TorchrunQueue with the fields that most queues set; an empty `parent` is the scheduler's default."""
    return _document(
        _QUEUE,
        {"name": name},
        {
            "queue": {
                "name": name,
                **({"parentQueue": parent} if parent else {}),
                "resources": {"gpu": {"quota": quota, "limit": quota, "overQuotaWeight": 1}},
            },
            "image": image or IMAGE,
            "nodeResources": {"gpus": nodes.gpus},
            **({"scheduling": {"nodeSelector": dict(nodes.selector)}} if nodes.selector else {}),
            "storage": {
                "workspace": {"sizePerGPU": "10Gi"},
                "checkpoints": {"sizePerGPU": "50Gi"},
                "shmSizePerGPU": "8Gi",
            },
        },
    )


QUEUE_EXAMPLES: Fields = {
    "nodeResources": {"gpus": 8, "cpus": 88, "memory": "960Gi"},
    "distributed": {"backend": "nccl"},
    "serviceAccountName": "trainer",
}
"""Further fields of a queue, which its file shows as comments."""


def _document(kind: str, metadata: Fields, spec: Fields) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": dict(metadata), "spec": dict(spec)}


def write_starter(document: Fields, examples: Fields, schema: Fields, schema_path: str) -> bytes:
    """Write a document with comments, and `examples` of further fields of its spec as comments.

    `schema_path` is where editors find the schema, from the file; empty: nowhere.
    """
    lines = [f"# yaml-language-server: $schema={schema_path}"] if schema_path else []
    lines += _plain({key: value for key, value in document.items() if key != "spec"})
    spec_schema = schema["properties"]["spec"]
    lines += ["spec:", *_commented(document["spec"], spec_schema, schema, _INDENT)]
    lines += ["", f"{_INDENT}# Further fields (all: reconciler schema {document['kind']}):"]
    for name, value in examples.items():
        lines += [f"{_INDENT}# {line}" for line in _plain({name: value})]
    return ("\n".join(lines) + "\n").encode()


def _commented(fields: Fields, schema: Fields, root: Fields, indent: str) -> Iterator[str]:
    """Yield the lines of a mapping, every field after the first sentence of its description."""
    for name, value in fields.items():
        known = _resolve(mapping(mapping(schema.get("properties")).get(name)), root)
        if description := text(known.get("description")):
            yield f"{indent}# {description}"
        if type(value) is dict and "properties" in known:
            yield f"{indent}{name}:"
            yield from _commented(value, known, root, indent + _INDENT)
        else:
            yield from (indent + line for line in _plain({name: value}))


def _resolve(schema: Fields, root: Fields) -> Fields:
    reference = text(schema.get("$ref"))
    return {**root["$defs"][reference.rpartition("/")[2]], **schema} if reference else schema


def _plain(fields: Fields) -> list[str]:
    return write(fields).decode().splitlines()

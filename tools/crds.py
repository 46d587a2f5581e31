"""Generate the CustomResourceDefinitions of our own kinds from their JSON Schemas: `make docs`.

That of NodeHealthReport, which is in no repository, comes from the values that agents publish (`tools/health_crd.py`).
A test fails if a file of the chart is out of date.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from reconciler.kinds.health import POLICY, QUARANTINE
from reconciler.kinds.own import SOURCE
from reconciler.kube.schemas.sources import own_plural
from tools.health_crd import REPORT, health_crd

_ROOT = Path(__file__).resolve().parents[1]
_SCHEMAS = _ROOT / "schemas/gpureconciler.io/v1alpha1"
_CRDS = _ROOT / "charts/reconciler/crds"
MANIFEST = _CRDS / "configsources.gpureconciler.io.yaml"
_AGE = ("Age", "date", ".metadata.creationTimestamp", 0)
_COLUMNS = {
    SOURCE: (
        ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
        ("Mode", "string", ".spec.mode", 0),
        ("Revision", "string", ".status.lastRevision", 0),
        _AGE,
        ("URL", "string", ".spec.url", 1),
        ("Message", "string", '.status.conditions[?(@.type=="Ready")].message', 1),
    ),
    POLICY: (("Mode", "string", ".spec.mode", 0), _AGE),
    QUARANTINE: (
        ("Node", "string", ".spec.node", 0),
        ("Check", "string", ".spec.check", 0),
        ("Effect", "string", ".spec.effect", 0),
        ("Until", "string", ".spec.until", 0),
        _AGE,
        ("Reason", "string", ".spec.reason", 1),
    ),
}
"""The kinds with a CustomResourceDefinition, and the columns of `kubectl get`."""


def path_of(kind: tuple[str, str]) -> Path:
    """Return the file of the chart that holds the definition of a kind."""
    return _CRDS / f"{own_plural(kind[1])}.{kind[0]}.yaml"


def crd(of: tuple[str, str] = SOURCE) -> dict[str, Any]:
    """Return the definition of a kind."""
    if of == REPORT:
        return health_crd()
    group, kind = of
    schema = json.loads((_SCHEMAS / f"{kind.lower()}.json").read_text())
    properties = schema["properties"]
    top = {key: _structural(properties[key]) for key in ("spec", "status") if key in properties}
    if of != SOURCE:  # policies merge by key: a default that the server fills in would look like a choice
        top = {key: _without_defaults(inner) for key, inner in top.items()}
    if "status" in top:
        top["status"] = _status(properties["status"]["description"])
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        **({"subresources": {"status": {}}} if "status" in top else {}),
        "additionalPrinterColumns": [
            {"name": name, "type": form, "jsonPath": path} | ({"priority": 1} if priority else {})
            for name, form, path, priority in _COLUMNS[of]
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": schema["description"],
                "required": ["spec"] if "spec" in top else [],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    **top,
                },
            }
        },
    }
    plural = own_plural(of[1])
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": schema["x-kubernetes-scope"],
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def _structural(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as CRDs want it: unknown fields are refused by the server, not by the schema."""
    kept = {key: value for key, value in schema.items() if key != "additionalProperties" or isinstance(value, dict)}
    if "properties" in kept:
        kept["properties"] = {name: _structural(inner) for name, inner in kept["properties"].items()}
    if isinstance(kept.get("additionalProperties"), dict):
        kept["additionalProperties"] = _structural(kept["additionalProperties"])
    return kept


def _without_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key != "default"}
    for field in ("items", "additionalProperties"):
        if isinstance(kept.get(field), dict):
            kept[field] = _without_defaults(kept[field])
    if "properties" in kept:
        kept["properties"] = {name: _without_defaults(inner) for name, inner in kept["properties"].items()}
    return kept


def _status(description: str) -> dict[str, Any]:
    """Return the schema of the status, which only the controller writes."""
    text = {"type": "string"}
    condition = {
        "type": "object",
        "required": ["type", "status", "reason", "lastTransitionTime"],
        "properties": {
            "type": text,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": text,
            "message": text,
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        },
    }
    return {
        "type": "object",
        "description": description,
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition,
            },
        },
    }


def manifest(of: tuple[str, str] = SOURCE) -> str:
    """Return the file of the chart."""
    return "# Generated by `make docs`. Do not edit.\n" + yaml.safe_dump(crd(of), sort_keys=False, width=110)


def main() -> None:
    """Write the files."""
    _CRDS.mkdir(parents=True, exist_ok=True)
    for kind in (*_COLUMNS, REPORT):
        path_of(kind).write_text(manifest(kind))


if __name__ == "__main__":
    main()

"""The CustomResourceDefinition of ConfigSource, from its JSON Schema."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).resolve().parents[2] / "schemas" / "gpureconciler.io" / "v1alpha1" / "configsource.json"
_ANNOTATIONS = ("$schema", "$id", "title", "x-kubernetes-group-version-kind", "x-kubernetes-scope")
_COLUMNS = (
    ("URL", ".spec.url", 0),
    ("Mode", ".spec.mode", 0),
    ("Ready", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Status", '.status.conditions[?(@.type=="Ready")].message', 0),
    ("Suspended", ".spec.suspend", 1),
    ("Age", ".metadata.creationTimestamp", 0),
)


def definition() -> dict[str, Any]:
    """Return the definition with its one version."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    (names,) = schema["x-kubernetes-group-version-kind"]
    kind, group = names["kind"], names["group"]
    plural = f"{kind.lower()}s"
    body = structural(schema)
    body["properties"]["metadata"] = {"type": "object"}  # Kubernetes validates it
    body["required"] = ["spec"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {
            "group": group,
            "scope": schema["x-kubernetes-scope"],
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": names["version"],
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(*row) for row in _COLUMNS],
                    "schema": {"openAPIV3Schema": body},
                }
            ],
        },
    }


def structural(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema as a structural schema: pruning closes closed objects, open ones keep their fields."""
    result = {key: value for key, value in schema.items() if key not in (*_ANNOTATIONS, "additionalProperties")}
    if "const" in result:
        result = {"type": "string"} | {key: value for key, value in result.items() if key != "const"}
    extra = schema.get("additionalProperties")
    if "properties" in schema:
        result["properties"] = {name: structural(inner) for name, inner in schema["properties"].items()}
        if extra is True:
            result["x-kubernetes-preserve-unknown-fields"] = True
    elif isinstance(extra, Mapping):
        result["additionalProperties"] = structural(extra)
    elif extra is True:
        result["x-kubernetes-preserve-unknown-fields"] = True
    if isinstance(schema.get("items"), Mapping):
        result["items"] = structural(schema["items"])
    return result


def _column(name: str, path: str, priority: int) -> dict[str, Any]:
    kind = {"Age": "date", "Suspended": "boolean"}.get(name, "string")
    return {"name": name, "type": kind, "jsonPath": path} | ({"priority": priority} if priority else {})

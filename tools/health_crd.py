"""The CustomResourceDefinition of NodeHealthReport, from the values that agents publish."""

from typing import Any

import msgspec

from reconciler.nodehealth.published import TIMES, camel
from reconciler.nodehealth.report import API_VERSION, KIND, NodeReport

REPORT = (API_VERSION.partition("/")[0], KIND)
_COLUMNS = (
    ("Status", "string", ".status.status", 0),
    ("Summary", "string", ".status.summary", 0),
    ("Measured", "date", ".status.measuredAt", 0),
    ("Driver", "string", ".status.driver", 1),
    ("Version", "string", ".status.version", 1),
)
_DESCRIPTIONS = {
    "NodeReport": "The findings of one node: all but PASS and SKIP in full, those two as ids of checks. A report that"
    " was too large tells how many findings were shortened and omitted; the gravest come first. The next report follows"
    " within heartbeatSeconds.",
    "GpuIdentity": "One GPU. The slot identifies its place, the UUID the device.",
    "HealthFinding": "What one check says. The slot is the PCI bus id of a GPU; without one it is about the node.",
    "FailedPreflight": "A pod of the last hour whose preflight check did not pass, and the checks that failed.",
    "GpuUse": "How one GPU was used up to the sweep: power and traffic are means since the sweep before, errors are"
    " counters of this boot. What nobody tells is missing.",
    "GpuSeries": "The heavy runs of one check on one GPU since its device, driver or test changed: the newest three"
    " values, and the limit that the agent warned below.",
    "Threshold": "The limit that the observed value was compared with, and where the limit comes from.",
    "ProfileRun": "The last run of a profile heavier than light. It has died if it did not finish by its deadline.",
}
_DESCRIPTION = "What the agent of a node measured. It has no spec: the agent writes its status, and nobody else."


def health_crd() -> dict[str, Any]:
    """Return the definition."""
    group, _, version = API_VERSION.partition("/")
    plural = f"{KIND.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": plural,
                "singular": KIND.lower(),
                "shortNames": ["nhr"],
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": form, "jsonPath": path} | ({"priority": 1} if priority else {})
                        for name, form, path, priority in _COLUMNS
                    ],
                    "schema": {"openAPIV3Schema": _object_schema()},
                }
            ],
        },
    }


def _object_schema() -> dict[str, Any]:
    document = msgspec.json.schema(NodeReport)
    definitions = document["$defs"]
    status = _structural(document, definitions)
    derived = {"status": _of_enum(definitions["CheckStatus"]), "summary": {"type": "string"}}
    status["properties"] = derived | status["properties"]
    return {
        "type": "object",
        "description": _DESCRIPTION,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "status": status,
        },
    }


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as CRDs want it: no references, one type in each place."""
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        kinds = [one for one in schema["anyOf"] if one != {"type": "null"}]
        return _structural(kinds[0], definitions) if len(kinds) == 1 else {"x-kubernetes-preserve-unknown-fields": True}
    if "enum" in schema:
        return _of_enum(schema)
    if schema.get("type") == "array":
        return {"type": "array", "x-kubernetes-list-type": "atomic", "items": _structural(schema["items"], definitions)}
    if "properties" in schema:
        return _of_struct(schema, definitions)
    if "additionalProperties" in schema:
        values = _structural(schema["additionalProperties"], definitions)
        return {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": values}
    return {"type": schema["type"]}


def _of_struct(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "description": _DESCRIPTIONS[schema["title"]]}
    if required := schema.get("required"):
        found["required"] = [camel(name) for name in required]
    found["properties"] = {
        camel(name): {"type": "string", "format": "date-time"} if name in TIMES else _structural(inner, definitions)
        for name, inner in schema["properties"].items()
    }
    return found


def _of_enum(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "string", "enum": list(schema["enum"])}

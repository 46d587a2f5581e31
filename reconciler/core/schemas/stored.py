"""`as_stored`: an object as an API server hands it to admission, with defaults and canonical values.

What a server does to built-in kinds was learned from a running one (`tools/schemas/defaults.py`); the defaults of
custom kinds are in their schemas. Values that a server makes up for each object are not added.
"""

import copy
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.quantities import canonical
from reconciler.core.schemas.schema import Schema, resolve

_POD_FIELDS = ("containers", "initContainers", "ephemeralContainers")


class KindForm(Struct, frozen=True, kw_only=True):
    """What a server does to a kind, by path: `spec.containers[]` is each item of that list."""

    adds: Mapping[str, Mapping[str, Any]] = {}
    drops: Mapping[str, Sequence[str]] = {}
    quantities: frozenset[str] = frozenset()


def as_stored(body: Mapping[str, Any], form: KindForm) -> dict[str, Any]:
    """Return an object of a built-in kind as it is stored."""
    found: dict[str, Any] = _formed(body, form, "")
    if found["kind"] == "Secret" and found["apiVersion"] == "v1":
        _encode(found)
    elif found["kind"] == "Pod" and found["apiVersion"] == "v1":
        _request_limits(found)
    elif found["kind"] == "Service":
        service: Mapping[str, Any] = found.get("spec") or {}
        for port in service.get("ports") or ():
            port.setdefault("targetPort", port.get("port"))
    elif found["kind"] == "Job" and isinstance(spec := body.get("spec"), Mapping):
        if spec.get("completions") is None and spec.get("parallelism") is None:
            found["spec"]["completions"] = 1
        if not spec.get("podFailurePolicy"):
            found["spec"].setdefault("podReplacementPolicy", "TerminatingOrFailed")
    return found


def _formed(node: Any, form: KindForm, path: str) -> Any:
    if isinstance(node, Mapping):
        dropped = form.drops.get(path, ())
        added = form.adds.get(path, {})
        found = {
            key: _formed(value, form, f"{path}.{_step(key, path, form)}" if path else key)
            for key, value in node.items()
            if value is not None and (value or key not in dropped)
        }
        for key, value in added.items():
            if key not in found:
                found[key] = copy.deepcopy(value)
        if "image" in found and "name" in found and "terminationMessagePath" in added:
            found.setdefault("imagePullPolicy", _pull_policy(str(found["image"])))
        return found
    if isinstance(node, list):
        return [_formed(item, form, f"{path}[]") for item in node]
    if path in form.quantities and isinstance(node, str | int | float):
        return canonical(node)
    return node


def _step(key: str, path: str, form: KindForm) -> str:
    return "*" if f"{path}.*" in form.quantities else key


def _pull_policy(image: str) -> str:
    name, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    is_latest = "@" not in image and (not tag or tag == "latest")
    return "Always" if name and is_latest else "IfNotPresent"


def _encode(secret: dict[str, Any]) -> None:
    """Turn the plain values of a Secret into its data."""
    plain = secret.pop("stringData", None)
    if isinstance(plain, dict):
        encoded = {key: b64encode(str(value).encode()).decode() for key, value in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _request_limits(pod: dict[str, Any]) -> None:
    """Let containers request what they are limited to."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    for name in _POD_FIELDS:
        for container in spec.get(name) or ():
            resources = container.get("resources")
            if isinstance(resources, dict) and resources.get("limits"):
                resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def with_schema_defaults(node: Any, root: Schema, schema: Schema) -> Any:
    """Return a value of a custom kind with the defaults of its schema, and without nulls that mean nothing."""
    schema = resolve(root, schema)
    if isinstance(node, Mapping):
        properties = schema.get("properties", {})
        rest = schema.get("additionalProperties")
        found = {}
        for key, value in node.items():
            below = properties.get(key, rest if isinstance(rest, dict) else {})
            if value is not None or not below or "default" not in below:
                found[key] = with_schema_defaults(value, root, below)
        for key, below in properties.items():
            if key not in found and isinstance(below, dict) and "default" in below:
                found[key] = with_schema_defaults(copy.deepcopy(below["default"]), root, below)
        return found
    if isinstance(node, list):
        items = schema.get("items")
        return [with_schema_defaults(item, root, items) for item in node] if isinstance(items, dict) else node
    return node

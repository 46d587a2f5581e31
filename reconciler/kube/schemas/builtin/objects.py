"""Rules between the fields of objects without pods: keys, priorities, finalizers, roles and bindings.

Sources: pkg/apis/{core,scheduling,rbac,admissionregistration}/validation/validation.go of Kubernetes 1.37.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import is_path_segment, is_qualified_name, later
from reconciler.kube.problems import Violation
from reconciler.kube.schemas.messages import bad_value, missing

Data = dict[str, Any]

_KEY = later(r"[-._a-zA-Z0-9]{1,253}")
_HIGHEST_PRIORITY = 1_000_000_000  # higher ones are for the classes of the system
_SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")
_KEYS_OF_SECRETS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
}
_ACCOUNT = "kubernetes.io/service-account.name"
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def config_map_violations(data: Data) -> Iterator[Violation]:
    """Validate a ConfigMap: its keys are names of files."""
    binary = data.get("binaryData") or {}
    for field in ("data", "binaryData"):
        for key in data.get(field) or ():
            yield from _key(key, (field, key))
            if field == "binaryData":
                yield from base64_violations(binary[key], (field, key))
            if field == "data" and key in binary:
                yield bad_value((field, key), "is in binaryData, too", "remove one of the two")


def secret_violations(data: Data) -> Iterator[Violation]:
    """Validate a Secret: its keys, and those that its type needs."""
    values = {**(data.get("data") or {}), **(data.get("stringData") or {})}
    for field in ("data", "stringData"):
        for key in data.get(field) or ():
            yield from _key(key, (field, key))
    for key, value in (data.get("data") or {}).items():
        yield from base64_violations(value, ("data", key))
    kind = data.get("type") or ""
    for key in _KEYS_OF_SECRETS.get(kind, ()):
        if key not in values:
            yield missing(("data", key))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & {*values}:
        yield missing(("data", "username"))
    if kind == "kubernetes.io/service-account-token":
        annotations = (data.get("metadata") or {}).get("annotations") or {}
        if not annotations.get(_ACCOUNT):
            yield missing(("metadata", "annotations", _ACCOUNT))
    if kind == "kubernetes.io/dockerconfigjson":
        yield from _registry(data)


def _registry(data: Data) -> Iterator[Violation]:
    """Check that the credentials of a registry are JSON; `stringData` counts where both are written."""
    written = (data.get("stringData") or {}).get(".dockerconfigjson")
    encoded = (data.get("data") or {}).get(".dockerconfigjson")
    if written is not None:
        if not _is_json(written):
            yield bad_value(("stringData", ".dockerconfigjson"), "is not JSON", "correct it")
    elif encoded and not _is_encoded_json(encoded):
        yield bad_value(("data", ".dockerconfigjson"), "is not JSON in base64", "encode the value again")


def base64_violations(value: str | None, path: FieldPath) -> Iterator[Violation]:
    """Check that nothing is missing at the end; the schema knows the characters."""
    if value and len(value.replace("\r", "").replace("\n", "")) % 4:
        yield bad_value(path, "is not base64: its end is missing", "encode the value again")


def _key(key: str, path: FieldPath) -> Iterator[Violation]:
    if not _KEY.fullmatch(key) or key == "." or key.startswith(".."):
        yield bad_value(path, "is not a valid key", "use A-Z, a-z, 0-9, -, _ and ., and do not begin with '..'")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_encoded_json(text: str) -> bool:
    try:
        return _is_json(base64.b64decode(text).decode())
    except ValueError:
        return True  # reported as not base64


def priority_class_violations(data: Data) -> Iterator[Violation]:
    """Validate a PriorityClass: the highest values and the prefix `system-` are those of Kubernetes."""
    name = (data.get("metadata") or {}).get("name") or ""
    if name.startswith("system-"):
        if name not in _SYSTEM_PRIORITIES:
            yield bad_value(("metadata", "name"), "must not begin with system-", "rename it")
    elif (data.get("value") or 0) > _HIGHEST_PRIORITY:
        yield bad_value(("value",), f"must be at most {_HIGHEST_PRIORITY}", "lower it")


def namespace_violations(data: Data) -> Iterator[Violation]:
    """Validate a Namespace: its finalizers."""
    for index, name in enumerate([name or "" for name in (data.get("spec") or {}).get("finalizers") or ()]):
        if not is_qualified_name(name) or ("/" not in name and name not in _STANDARD_FINALIZERS):
            yield bad_value(
                ("spec", "finalizers", index), f"{name[:80]!r} is not the name of a finalizer", "write domain/name"
            )


def role_violations(data: Data) -> Iterator[Violation]:
    """Validate a Role or ClusterRole: URLs are for ClusterRoles, in rules without resources."""
    for index, rule in enumerate(data.get("rules") or ()):
        path: FieldPath = ("rules", index, "nonResourceURLs")
        if not (rule or {}).get("nonResourceURLs"):
            continue
        if data["kind"] == "Role":
            yield bad_value(path, "is not allowed in a Role", "move the rule to a ClusterRole")
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            yield bad_value(path, "must not be set together with resources", "split the rule in two")
    selectors = data.get("aggregationRule")
    if selectors is not None and not selectors.get("clusterRoleSelectors"):
        yield missing(("aggregationRule", "clusterRoleSelectors"))


def role_binding_violations(data: Data) -> Iterator[Violation]:
    """Validate a RoleBinding or ClusterRoleBinding: its role, and the namespaces of accounts."""
    allowed = ["ClusterRole"] if data["kind"] == "ClusterRoleBinding" else ["Role", "ClusterRole"]
    kind = data["roleRef"]["kind"]
    if kind not in allowed:
        message, hint = f"{kind} is not allowed", f"use {' or '.join(allowed)}"
        yield Violation(rule="schema.not-allowed", path=("roleRef", "kind"), message=message, hint=hint)
    if not is_path_segment(data["roleRef"]["name"]):
        message = f"{data['roleRef']['name'][:80]!r} is not a name"
        yield bad_value(("roleRef", "name"), message, "remove '/' and '%'")
    for index, subject in enumerate(data.get("subjects") or ()):
        if (
            data["kind"] == "ClusterRoleBinding"
            and subject.get("kind") == "ServiceAccount"
            and not subject.get("namespace")
        ):
            yield missing(("subjects", index, "namespace"))


def binding_violations(data: Data) -> Iterator[Violation]:
    """Validate the binding of an admission policy: which parameters it takes, and what happens without them."""
    parameters = (data.get("spec") or {}).get("paramRef")
    if parameters is None:
        return
    path: FieldPath = ("spec", "paramRef")
    has_name, has_selector = bool(parameters.get("name")), parameters.get("selector") is not None
    if has_name is has_selector:
        yield bad_value(path, "must have either name or selector", "set one of the two")
    action = parameters.get("parameterNotFoundAction")
    if action is None:
        yield missing((*path, "parameterNotFoundAction"))
    elif action not in ("Allow", "Deny"):
        yield bad_value((*path, "parameterNotFoundAction"), f"{action[:80]!r} is not allowed", "use Allow or Deny")

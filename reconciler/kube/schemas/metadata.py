"""Names, namespaces, labels and annotations as every API server validates them.

Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go. The grammar of names is in `kube.patterns`.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import (
    LABEL,
    LABEL_LENGTH,
    SUBDOMAIN,
    SUBDOMAIN_LENGTH,
    is_label_value,
    is_path_segment,
    is_qualified_name,
)
from reconciler.kube.problems import Severity, Violation

_CRON_JOB_LENGTH = 52  # the controller appends eleven characters to the name of each Job
_ANNOTATIONS_BYTES = 256 * 1024  # of all keys and values together
# Names that become parts of host names.
_DNS_LABEL_KINDS = frozenset({("", "Service"), ("", "Namespace"), ("apps", "StatefulSet")})
_PATH_GROUPS = frozenset({"rbac.authorization.k8s.io", "policy"})  # names can be anything that fits in a URL path
_FREE_NAMES = frozenset({("networking.k8s.io", "IPAddress"), ("certificates.k8s.io", "CertificateSigningRequest")})
# Only the server sets these: applying a manifest that contains them conflicts or fails.
_SERVER_FIELDS = ("managedFields", "uid", "resourceVersion")


def metadata_violations(data: dict[str, Any], group: str, kind: str, *, namespaced: bool | None) -> Iterator[Violation]:
    """Validate the `metadata` of an object whose fields already have the right types."""
    metadata = data.get("metadata") or {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    path: FieldPath = ("metadata", "name")
    if name:
        yield from _validate_name(name, group, kind)
    else:
        hint = "add metadata.name; generateName cannot be applied" if metadata.get("generateName") else "add it"
        yield Violation(rule="schema.missing-field", path=path, message="is required", hint=hint)
    if namespace and namespaced is False:
        yield Violation(
            rule="schema.namespace",
            path=("metadata", "namespace"),
            message=f"{kind} is cluster-scoped, so the server ignores the namespace",
            hint="remove the line",
            at_key=True,
            severity=Severity.WARNING,
        )
    elif namespace:
        yield from _validate_dns(namespace, ("metadata", "namespace"), LABEL, LABEL_LENGTH)
    for field in _SERVER_FIELDS:
        if metadata.get(field):
            yield Violation(
                rule="schema.server-field",
                path=("metadata", field),
                message="only the server sets this field",
                hint="remove it",
                at_key=True,
            )
    yield from _finalizer_violations(metadata, ("metadata",))
    yield from label_violations(metadata, ("metadata",))


def embedded_violations(metadata: dict[str, Any], path: FieldPath) -> Iterator[Violation]:
    """Validate the metadata of an object that is part of another one (`x-kubernetes-embedded-resource`)."""
    name, namespace = metadata.get("name") or "", metadata.get("namespace")
    for field, given in (("name", name), ("generateName", metadata.get("generateName") or "")):
        if not is_path_segment(given):
            yield _bad_name((*path, field), given, "remove '/' and '%'")
    if (metadata.get("generation") or 0) < 0:
        yield Violation(
            rule="schema.out-of-range", path=(*path, "generation"), message="must not be negative", hint="remove it"
        )
    if namespace:
        yield from _validate_dns(namespace, (*path, "namespace"), LABEL, LABEL_LENGTH)
    yield from _finalizer_violations(metadata, path)
    yield from label_violations(metadata, path)


def _finalizer_violations(metadata: dict[str, Any], path: FieldPath) -> Iterator[Violation]:
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        if not is_qualified_name(finalizer):
            yield _bad_key((*path, "finalizers", index), "finalizer")


def _validate_name(name: str, group: str, kind: str) -> Iterator[Violation]:
    path: FieldPath = ("metadata", "name")
    if not name.isprintable():
        # A server allows such names for a few kinds, but the name is part of the rendered file's name.
        yield _bad_name(path, name, "remove line breaks, tabs and other control characters")
    elif group in _PATH_GROUPS:
        if not is_path_segment(name):
            yield _bad_name(path, name, "remove '/' and '%'")
    elif (group, kind) not in _FREE_NAMES:
        is_label = (group, kind) in _DNS_LABEL_KINDS
        length = LABEL_LENGTH if is_label else SUBDOMAIN_LENGTH
        length = _CRON_JOB_LENGTH if (group, kind) == ("batch", "CronJob") else length
        yield from _validate_dns(name, path, LABEL if is_label else SUBDOMAIN, length)


def _validate_dns(name: str, path: FieldPath, form: re.Pattern[str], length: int) -> Iterator[Violation]:
    if not form.fullmatch(name):
        characters = "lowercase letters, digits and '-'" if form is LABEL else "lowercase letters, digits, '-' and '.'"
        likely = re.sub(r"[^a-z0-9.-]+" if form is SUBDOMAIN else r"[^a-z0-9-]+", "-", name.lower()).strip("-.")
        example = f", for example {likely}" if likely and form.fullmatch(likely) else ""
        yield _bad_name(path, name, f"use {characters}, starting and ending with a letter or digit{example}")
    elif len(name) > length:
        message = f"has {len(name)} characters, the maximum is {length}"
        yield Violation(rule="schema.bad-name", path=path, message=message, hint="choose a shorter name")


def volume_name_violations(name: str, path: FieldPath) -> Iterator[Violation]:
    """Validate the name of a volumeClaimTemplate, which becomes the name of a volume."""
    yield from _validate_dns(name, path, LABEL, LABEL_LENGTH)


def _bad_name(path: FieldPath, name: str, hint: str) -> Violation:
    shortened = name if len(name) <= LABEL_LENGTH else name[: LABEL_LENGTH - 1] + "…"
    message = f"{json.dumps(shortened)} is not a valid name"
    return Violation(rule="schema.bad-name", path=path, message=message, hint=hint)


def label_violations(metadata: dict[str, Any], path: FieldPath) -> Iterator[Violation]:
    """Validate the labels and annotations of an object or of a template in it."""
    labels = metadata.get("labels")
    if labels:
        for key, value in labels.items():
            if not is_qualified_name(key):
                yield _bad_key((*path, "labels", key), "label")
            if value and not is_label_value(value):
                yield from label_value_violations(value, (*path, "labels", key))
    annotations = metadata.get("annotations")
    if annotations:
        size = 0
        for key, value in annotations.items():
            if not is_qualified_name(key.lower()):  # the server validates annotation keys in lower case
                yield _bad_key((*path, "annotations", key), "annotation")
            size += len(key.encode()) + len((value or "").encode())
        if size > _ANNOTATIONS_BYTES:
            yield Violation(
                rule="schema.bad-annotation",
                path=(*path, "annotations"),
                message=f"annotations have {size} bytes in total, the maximum is {_ANNOTATIONS_BYTES}",
                hint="move the data to a ConfigMap",
            )


def _bad_key(path: FieldPath, what: str) -> Violation:
    return Violation(
        rule=f"schema.bad-{what}",
        path=path,
        message=f"is not a valid {what} key",
        hint="write name or domain/name, with at most 63 letters, digits, '-', '_' and '.' in the name",
        at_key=True,
    )


def label_value_violations(value: str | None, path: FieldPath) -> Iterator[Violation]:
    """Validate the value of a label or of a selector."""
    if value and not is_label_value(value):
        too_long = f"has {len(value)} characters, the maximum is {LABEL_LENGTH}"
        yield Violation(
            rule="schema.bad-label",
            path=path,
            message=too_long if len(value) > LABEL_LENGTH else f"{json.dumps(value)} is not a valid label value",
            hint="use letters, digits, '-', '_' and '.', starting and ending with a letter or digit; "
            "write longer text in an annotation",
        )

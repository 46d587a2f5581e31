"""Names, labels and annotations as every API server checks them.

Sources: k8s.io/apimachinery/pkg/util/validation, pkg/api/validation/objectmeta.go (limits and grammar).
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.problems import Severity
from reconciler.core.schemas.finding import Finding

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LONGEST_LABEL = 63
_SUBDOMAIN_LENGTH = 253
_CRON_JOB_LENGTH = 52  # the controller appends eleven characters to the name of each Job
_ANNOTATIONS_BYTES = 256 * 1024
_DNS_LABEL_KINDS = frozenset({("", "Service"), ("", "Namespace"), ("apps", "StatefulSet")})
_PATH_GROUPS = frozenset({"rbac.authorization.k8s.io", "policy"})  # names may hold anything that fits a URL segment
_FREE_NAMES = frozenset({("networking.k8s.io", "IPAddress"), ("certificates.k8s.io", "CertificateSigningRequest")})
# Written by the server alone: a manifest that carries them conflicts or is refused when it is applied.
_SERVER_FIELDS = ("managedFields", "uid", "resourceVersion")


def metadata_findings(data: dict[str, Any], group: str, kind: str, *, namespaced: bool | None) -> Iterator[Finding]:
    """Yield what is wrong with the `metadata` of an object whose fields already have the right types."""
    metadata = data.get("metadata") or {}
    name = metadata.get("name")
    if not name:
        hint = "add metadata.name; generateName cannot be applied twice" if metadata.get("generateName") else "add it"
        yield Finding(
            rule="schema.missing-field", path=("metadata", "name"), message="required, but missing", hint=hint
        )
    else:
        yield from _name(name, group, kind)
    namespace = metadata.get("namespace")
    if namespace:
        yield from _namespace(namespace, kind, namespaced=namespaced)
    for field in _SERVER_FIELDS:
        if metadata.get(field):
            yield Finding(
                rule="schema.server-field",
                path=("metadata", field),
                message="only the server may write this field",
                hint="remove it",
                at_key=True,
            )
    yield from label_findings(metadata, ("metadata",))


def _name(name: str, group: str, kind: str) -> Iterator[Finding]:
    place: FieldPath = ("metadata", "name")
    if not name.isprintable():
        # A server takes such names for a few kinds; but an object's name is the name of its rendered file.
        yield _bad(place, name, "remove line breaks, tabs and other control characters")
        return
    if (group, kind) in _FREE_NAMES:
        return
    if group in _PATH_GROUPS:
        if name in (".", "..") or "/" in name or "%" in name:
            yield _bad(place, name, "leave out '/' and '%'")
        return
    length = LONGEST_LABEL if (group, kind) in _DNS_LABEL_KINDS else _SUBDOMAIN_LENGTH
    length = _CRON_JOB_LENGTH if (group, kind) == ("batch", "CronJob") else length
    form = _LABEL if (group, kind) in _DNS_LABEL_KINDS else _SUBDOMAIN
    yield from _dns(name, place, form, length)


def _dns(name: str, place: FieldPath, form: re.Pattern[str], length: int) -> Iterator[Finding]:
    if not form.fullmatch(name):
        signs = "lower-case letters, digits and '-'" if form is _LABEL else "lower-case letters, digits, '-' and '.'"
        likely = re.sub(r"[^a-z0-9.-]+" if form is _SUBDOMAIN else r"[^a-z0-9-]+", "-", name.lower()).strip("-.")
        example = f", for example {likely}" if likely and form.fullmatch(likely) else ""
        yield _bad(place, name, f"use {signs}, starting and ending with a letter or digit{example}")
    elif len(name) > length:
        yield Finding(
            rule="schema.bad-name",
            path=place,
            message=f"{len(name)} characters long, {length} are allowed",
            hint="choose a shorter name",
        )


def volume_name_findings(name: str, place: FieldPath) -> Iterator[Finding]:
    """Judge the name of a claim template, which becomes the name of a volume."""
    yield from _dns(name, place, _LABEL, LONGEST_LABEL)


def _bad(place: FieldPath, name: str, hint: str) -> Finding:
    shortened = name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"
    message = f"{json.dumps(shortened)} is not a valid name"
    return Finding(rule="schema.bad-name", path=place, message=message, hint=hint)


def _namespace(namespace: str, kind: str, *, namespaced: bool | None) -> Iterator[Finding]:
    place: FieldPath = ("metadata", "namespace")
    if namespaced is False:
        yield Finding(
            rule="schema.namespace",
            path=place,
            message=f"a {kind} belongs to no namespace, the server drops this",
            hint="remove the line",
            at_key=True,
            severity=Severity.WARNING,
        )
    else:
        yield from _dns(namespace, place, _LABEL, LONGEST_LABEL)


def label_findings(metadata: dict[str, Any], path: FieldPath) -> Iterator[Finding]:
    """Labels and annotations of any `metadata`: of the object, or of a template in it."""
    labels = metadata.get("labels")
    if labels:
        for key, value in labels.items():
            if not _is_key(key):
                yield _bad_key((*path, "labels", key), "label")
            if value and not _is_label_value(value):
                yield from label_value_findings(value, (*path, "labels", key))
    annotations = metadata.get("annotations")
    if annotations:
        size = 0
        for key, value in annotations.items():
            if not _is_key(key.lower()):  # the server judges annotation keys in lower case
                yield _bad_key((*path, "annotations", key), "annotation")
            size += len(key.encode()) + len((value or "").encode())
        if size > _ANNOTATIONS_BYTES:
            yield Finding(
                rule="schema.bad-annotation",
                path=(*path, "annotations"),
                message=f"{size} bytes in all, {_ANNOTATIONS_BYTES} are allowed",
                hint="move the data into a ConfigMap",
            )


@lru_cache(maxsize=4096)
def _is_key(key: str) -> bool:
    """Whether a label may be called so; the same few keys come with every object."""
    prefix, slash, name = key.rpartition("/")
    good_prefix = not slash or (len(prefix) <= _SUBDOMAIN_LENGTH and _SUBDOMAIN.fullmatch(prefix))
    return bool(good_prefix and len(name) <= LONGEST_LABEL and _QUALIFIED.fullmatch(name))


def _bad_key(path: FieldPath, what: str) -> Finding:
    return Finding(
        rule=f"schema.bad-{what}",
        path=path,
        message=f"not a valid {what} key",
        hint="write name or domain/name: at most 63 letters, digits, '-', '_' and '.' in the name",
        at_key=True,
    )


def _is_label_value(value: str) -> bool:
    return len(value) <= LONGEST_LABEL and _QUALIFIED.fullmatch(value) is not None


def label_value_findings(value: str | None, path: FieldPath) -> Iterator[Finding]:
    """Judge a label's value, or a selector's: empty, or at most 63 characters of the usual alphabet."""
    if value and not _is_label_value(value):
        long = f"{len(value)} characters long, {LONGEST_LABEL} are allowed"
        yield Finding(
            rule="schema.bad-label",
            path=path,
            message=long if len(value) > LONGEST_LABEL else f'"{value}" is not a valid label value',
            hint="use letters, digits, '-', '_' and '.', starting and ending with a letter or digit; "
            "longer texts belong into an annotation",
        )

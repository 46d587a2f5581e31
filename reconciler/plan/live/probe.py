"""Dry runs: what an API server says to one object, without storing it."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kube.client.port import Body, ClusterError, ClusterUnavailable, FieldError, LiveCluster
from reconciler.kube.items import ListKeys
from reconciler.kube.objects import FieldPath, ObjectKey, split_api_version
from reconciler.plan.differences import Quantities, differences
from reconciler.plan.live.additions import removal
from reconciler.plan.live.projection import is_same, plain

_NOT_FOUND, _CONFLICT, _UNAUTHORIZED, _FORBIDDEN = 404, 409, 401, 403
_WEBHOOK, _MISSES = "admission webhook", ("not found", "does not exist", "must be created before")
_TERMINATING = "NamespaceTerminating"
_QUOTED = re.compile(r"""['"`]([a-z0-9][-a-z0-9.]*)""")
_NO_PERMISSION = re.compile(r'is forbidden: User ".*" cannot \w+ resource')


class ServerReply(StrEnum):
    """The result of a dry run. UNKNOWN: the server could not judge the object, so it is not known to be good."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    NO_PLACE = "no place"  # its namespace or its kind does not exist
    GOING = "going"  # its namespace is being deleted, and may come again
    UNKNOWN = "unknown"


class Probe(Struct, frozen=True, kw_only=True):
    """The outcome of a dry run of one object.

    result: the object as it would be stored. conflicts: fields that other managers own, which an apply has to take.
    """

    reply: ServerReply
    result: Body | None = None
    is_new: bool = False
    warnings: tuple[str, ...] = ()
    conflicts: tuple[FieldError, ...] = ()
    causes: tuple[FieldError, ...] = ()
    message: str = ""


def probe(cluster: LiveCluster, body: Mapping[str, Any]) -> Probe:
    """Ask the server what an apply of an object would do: first as it is, then by taking fields of others."""
    conflicts: tuple[FieldError, ...] = ()
    for force in (False, True):
        try:
            written = cluster.apply(body, dry_run=True, force=force)
        except ClusterError as error:
            if not force and _is_conflict(error):
                conflicts = error.causes
                continue
            return Probe(reply=_reply(error), conflicts=conflicts, causes=error.causes, message=error.message)
        return Probe(
            reply=ServerReply.ACCEPTED,
            result=written.body,
            is_new=written.is_new,
            warnings=written.warnings,
            conflicts=conflicts,
        )
    raise AssertionError  # unreachable


def probe_removal(cluster: LiveCluster, key: ObjectKey, live: Body, paths: Sequence[FieldPath]) -> Probe:
    """Ask the server what becomes of an object without what others added: it may set a default, or refuse."""
    version = split_api_version(live["apiVersion"])[1]
    try:
        written = cluster.patch(key, removal(live, paths), version=version, dry_run=True)
    except ClusterError as error:
        return Probe(reply=_reply(error), causes=error.causes, message=f"what others added stays: {error.message}")
    return Probe(reply=ServerReply.ACCEPTED, result=written.body)


def missed_names(message: str) -> frozenset[str]:
    """Return the names of objects that an admission webhook says do not exist; none of any other refusal.

    Webhooks read from caches, which get what was created a little later, and nothing of what is only dry-run.
    """
    _, webhook, reason = message.partition(_WEBHOOK)
    misses = bool(webhook) and any(words in reason for words in _MISSES)
    return frozenset(_QUOTED.findall(reason.partition(" denied the request: ")[2])) if misses else frozenset()


def changes_nothing(live: Body, result: Body, list_keys: ListKeys, is_quantity: Quantities) -> bool:
    """Return whether the result of a dry run means the same as the live object.

    The bytes can differ: a webhook may have written a quantity in its own way (`"8"` for 8) in the creation.
    """
    return is_same(live, result) or not differences(
        plain(live), plain(result), list_keys=list_keys, is_quantity=is_quantity
    )


def _is_conflict(error: ClusterError) -> bool:
    """Return whether other managers own fields of the object."""
    is_theirs = all(cause.reason == "FieldManagerConflict" for cause in error.causes)
    return error.status == _CONFLICT and bool(error.causes) and is_theirs


def _reply(error: ClusterError) -> ServerReply:
    if error.status == _NOT_FOUND:
        return ServerReply.NO_PLACE
    if any(cause.reason == _TERMINATING for cause in error.causes):
        return ServerReply.GOING
    is_forbidden = error.status == _FORBIDDEN and _NO_PERMISSION.search(error.message) is not None
    if isinstance(error, ClusterUnavailable) or error.status in (0, _UNAUTHORIZED, _CONFLICT) or is_forbidden:
        return ServerReply.UNKNOWN
    return ServerReply.REFUSED

"""Carry out one step on a cluster, with preconditions: an object that is not as planned is left as it is."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import one_line
from reconciler.kinds.kind import Kinds
from reconciler.kube.client.port import MANAGER, Body, ClusterError, LiveCluster, ObjectText, UnknownKind, Written
from reconciler.kube.objects import FieldPath, ObjectKey
from reconciler.kube.secrets import KnownSecrets, mask_text, secret_leaves
from reconciler.kube.values import mapping, plural, sequence, text
from reconciler.live.apply.recent import RecentObjects
from reconciler.live.apply.results import Ending, StepResult
from reconciler.live.apply.steps import Step, Verb
from reconciler.plan.live.additions import removal
from reconciler.plan.live.annotations import why_not_applied, why_not_deleted
from reconciler.plan.live.inventory import Claims, InventoryClaim, claimants
from reconciler.plan.live.inventory_record import owns
from reconciler.plan.live.managers import last_writer

_ATTEMPTS = 5  # for an object whose status changes while we write it
_CONFLICT = 409


class Target(Struct, frozen=True, kw_only=True, eq=False):
    """One step with what it sends, and the version that was planned on.

    desired: reads the desired object; an empty one if it is deleted. sent: what of it an update of a live object sends.
    text: a creation that can be sent without that. added: what others added to the object, and an update removes.
    """

    step: Step
    desired: Callable[[], Mapping[str, Any]]
    planned: str
    sent: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    text: ObjectText | None = None
    added: tuple[FieldPath, ...] = ()


class Rules(Struct, frozen=True, kw_only=True, eq=False):
    """The rules that the requests of a run obey.

    version_of: the version of a live object, as plans name it.
    uids: the inventory: UIDs by object.
    claims: what the inventories of other config repositories list, read after ours said what the plan creates, so
        that of two that create the same object at the same time at least one sees the other.
    approved: paths of objects that may be deleted although work runs in them, because an approval covers that.
    recent: what the run has created.
    wait_gone: waits until the object of a step is gone; returns why it is not.
    """

    kinds: Kinds
    version_of: Callable[[str, Mapping[str, Any]], str]
    uids: Mapping[ObjectKey, AbstractSet[str]]
    recent: RecentObjects
    approved: AbstractSet[str] = frozenset()
    claims: Claims = {}
    wait_gone: Callable[[Step], str] = lambda _: ""


def carry_out(live: LiveCluster, rules: Rules, target: Target) -> StepResult:
    """Carry out one step. Every failure is a result; secrets of the object are masked in it."""
    steps = {Verb.CREATE: _create, Verb.UPDATE: _update, Verb.DELETE: _delete, Verb.RECREATE: _recreate}
    try:
        result = steps[target.step.verb](live, rules, target)
    except ClusterError as error:
        result = _failed(target.step, error)
    if not result.message and not result.warnings:
        return result
    secrets = KnownSecrets(secret_leaves(target.desired()))
    return replace(
        result,
        message=_clean(result.message, secrets),
        warnings=tuple(_clean(warning, secrets) for warning in result.warnings),
    )


def _clean(message: str, secrets: KnownSecrets) -> str:
    return one_line(mask_text(secrets.mask(message)), 500)


def _result(step: Step, ending: Ending, message: str = "", written: Written | None = None) -> StepResult:
    metadata = mapping(written.body.get("metadata")) if written else {}
    return StepResult(
        verb=step.verb,
        key=step.key,
        path=step.path,
        ending=ending,
        message=message,
        uid=text(metadata.get("uid")),
        resource_version=text(metadata.get("resourceVersion")),
        warnings=written.warnings if written else (),
    )


def _failed(step: Step, error: ClusterError) -> StepResult:
    if error.outcome_unknown:
        what = "the server failed" if error.status else "no answer"
        return _result(step, Ending.UNKNOWN, f"{what}, so the request may have taken effect: {error.message}")
    is_denial = bool(error.status) and not error.retryable
    return _result(step, Ending.DENIED if is_denial else Ending.FAILED, error.message)


def _create(live: LiveCluster, rules: Rules, target: Target) -> StepResult:
    """Create an object. One that appeared meanwhile is left as it was."""
    step = target.step
    if rival := _rival(live, rules, step.key):
        return _result(step, Ending.REFUSED, f"{rival} creates or created it; define it in one of them")
    if target.text is None and (excluded := why_not_applied(target.desired(), None)):
        return _result(step, Ending.EXCLUDED, excluded)
    try:
        written = _apply_new(live, rules, target)
    except ClusterError as error:
        if error.status == _CONFLICT and not error.outcome_unknown:
            return _result(step, Ending.STALE, "another object of this name appeared after the plan was made")
        raise
    if written.is_new or _is_ours_alone(written.body):
        return _result(step, Ending.DONE, written=written)
    metadata = mapping(written.body.get("metadata"))
    identity = {name: metadata[name] for name in ("name", "namespace", "uid") if name in metadata}
    # Applying nothing takes back exactly the fields that only we set.
    live.apply({"apiVersion": target.desired()["apiVersion"], "kind": step.key.kind, "metadata": identity})
    return _result(step, Ending.STALE, "another object of this name appeared after the plan was made; it is unchanged")


def _apply_new(live: LiveCluster, rules: Rules, target: Target) -> Written:
    """Apply a new object, again while an admission webhook does not know what the run has just created."""
    body = target.text or target.desired()
    while True:
        try:
            written = live.apply(body, metadata_only=True)
        except ClusterError as error:
            if error.outcome_unknown or not rules.recent.are_missed(error.message):
                raise
            continue
        rules.recent.add(target.step.key.name)
        return written


def _rival(live: LiveCluster, rules: Rules, key: ObjectKey) -> InventoryClaim | None:
    """Return the other config repository that has created an object, or is about to."""
    if key not in rules.claims:
        return None
    body = existing_object(live, key)
    uid = text(mapping((body or {}).get("metadata")).get("uid"))
    return next(iter(claimants(rules.claims, key, uid)), None)


def _is_ours_alone(body: Mapping[str, Any]) -> bool:
    """Return whether nobody else wrote the object: then an earlier try of ours, without an answer, created it."""
    entries = [mapping(entry) for entry in sequence(mapping(body.get("metadata")).get("managedFields"))]
    writers = {text(entry.get("manager")) for entry in entries if not entry.get("subresource")}
    return writers == {MANAGER}


def _update(live: LiveCluster, rules: Rules, target: Target) -> StepResult:
    """Update an object that still is as planned. Its status may change meanwhile, as it does all the time."""
    step, desired, is_stripped = target.step, target.desired(), False
    for _ in range(_ATTEMPTS):
        body = live.get(step.key, version=text(desired.get("apiVersion")).rpartition("/")[2])
        if body is None:
            return _result(step, Ending.STALE, "it was deleted after the plan was made")
        if problem := _moved(rules, target, body):
            return _result(step, Ending.STALE, problem)
        if excluded := why_not_applied(desired, body):
            return _result(step, Ending.EXCLUDED, excluded)
        try:
            if target.added:
                body, is_stripped = _stripped(live, target, body), True
                target = replace(target, added=(), planned=rules.version_of(step.path, body))
            metadata = mapping(body["metadata"])
            exactly = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            sent = desired if target.sent is None else target.sent(body)
            body = {**sent, "metadata": {**sent["metadata"], **exactly}}
            written = live.apply(body, force=True, metadata_only=True)
        except ClusterError as error:
            if error.status == _CONFLICT:
                continue
            raise
        is_same = mapping(written.body.get("metadata")).get("resourceVersion") == metadata["resourceVersion"]
        return _result(step, Ending.UNCHANGED if is_same and not is_stripped else Ending.DONE, written=written)
    return _result(step, Ending.STALE, "it changes too often to be written safely")


def _stripped(live: LiveCluster, target: Target, body: Body) -> Body:
    """Remove what others added to an object, which no apply does, from exactly this version; return it after that."""
    version = text(body.get("apiVersion")).rpartition("/")[2]
    return live.patch(target.step.key, removal(body, target.added), version=version).body


def _delete(live: LiveCluster, rules: Rules, target: Target) -> StepResult:
    """Delete an object that is ours, still is as planned, and in which nothing runs."""
    step = target.step
    for _ in range(_ATTEMPTS):
        body = existing_object(live, step.key)
        if body is None:
            return _result(step, Ending.UNCHANGED, "it was already gone")
        if kept := _kept(live, rules, target, body):
            return kept
        metadata = mapping(body["metadata"])
        propagation = "Foreground" if step.summary.is_workload else "Background"
        try:
            version = metadata["resourceVersion"]
            live.delete(step.key, uid=metadata["uid"], resource_version=version, propagation=propagation)
        except ClusterError as error:
            if error.status == _CONFLICT:
                continue
            raise
        return _result(step, Ending.DONE)
    return _result(step, Ending.STALE, "it changes too often to be deleted safely")


_MAX_NAME = 40  # of a name that only a dry run sees


def _recreate(live: LiveCluster, rules: Rules, target: Target) -> StepResult:
    """Delete an object and create it again under its name, if a dry run of the new one under another name succeeds."""
    step, desired = target.step, target.desired()
    metadata = desired["metadata"]
    try:
        name = f"{metadata['name'][:_MAX_NAME].rstrip('-.')}-recreated"
        live.apply({**desired, "metadata": {**metadata, "name": name}}, dry_run=True)
    except ClusterError as error:
        is_denial = bool(error.status) and not error.retryable
        message = f"it stays as it is, because a dry run of the new one failed: {error.message}"
        return _result(step, Ending.DENIED if is_denial else Ending.FAILED, message)
    deleted = _delete(live, rules, target)
    if deleted.ending not in (Ending.DONE, Ending.UNCHANGED):
        return deleted
    if problem := rules.wait_gone(step):
        return _result(step, Ending.FAILED, f"the old one still exists, so the new one was not created: {problem}")
    created = _create(live, rules, target)
    if created.ending.is_success:
        return created
    return replace(created, message=f"the old one is deleted, but the new one was not created: {created.message}")


def existing_object(live: LiveCluster, key: ObjectKey) -> Mapping[str, Any] | None:
    """Return an object; None if it or its kind does not exist."""
    try:
        return live.get(key)
    except UnknownKind:  # its kind is gone, and all objects with it
        return None


def _kept(live: LiveCluster, rules: Rules, target: Target, body: Mapping[str, Any]) -> StepResult | None:
    """Return the reason that an existing object is not deleted; None if it is."""
    step = target.step
    if not owns(rules.uids.get(step.key, frozenset()), body, MANAGER):
        return _result(step, Ending.REFUSED, "the inventory does not list it with this UID, so it is not deleted")
    if excluded := why_not_deleted(body):
        return _result(step, Ending.EXCLUDED, excluded)
    if mapping(body["metadata"]).get("deletionTimestamp"):
        return _result(step, Ending.DONE, "it was already being deleted")
    if problem := _moved(rules, target, body):
        return _result(step, Ending.STALE, problem)
    if running := "" if step.path in rules.approved else what_runs_in(live, rules.kinds, body):
        return _result(step, Ending.REFUSED, f"{running} in it; stop or move them, or approve the plan")
    return None


def _moved(rules: Rules, target: Target, body: Mapping[str, Any]) -> str:
    """Return the difference of an object from the plan, with who changed it last; empty if it is as planned."""
    if mapping(body["metadata"]).get("deletionTimestamp"):
        return "it is being deleted"
    if rules.version_of(target.step.path, body) == target.planned:
        return ""
    who = last_writer(body)
    return f"it changed after the plan was made{f', last by {who}' if who else ''}"


def what_runs_in(live: LiveCluster, kinds: Kinds, body: Mapping[str, Any]) -> str:
    """Return the workloads in a queue, in words; empty if none runs. Raises `ClusterError` if that cannot be read."""
    deletion = kinds.of(body).life.deletion
    if deletion is None or deletion.users is None:
        return ""
    users = deletion.users(body)
    try:
        resource = live.resource(*users.kind)
    except UnknownKind:  # without Workloads nothing is admitted
        return ""
    running = {
        mapping(one["metadata"])["uid"]
        for labels in users.labels
        for one in live.list(resource, namespace=users.namespace, labels=labels).objects
        if users.runs(one)
    }
    return f"{plural(len(running), resource.kind)} run" + ("s" if len(running) == 1 else "") if running else ""

"""Data that a change or deletion of a built-in object destroys: volumes, and claims of StatefulSets."""

from collections.abc import Iterator

from reconciler.kinds.facts import Body, Loss
from reconciler.kinds.immutable import value_of
from reconciler.kube.values import count, plural

_RULE = "risk.volume-data-loss"
_DELETE = "Delete"
_RETENTION = "spec.persistentVolumeClaimRetentionPolicy"


def volume(before: Body, after: Body | None) -> Iterator[Loss]:
    """Yield the loss of a PersistentVolume; unless it says otherwise, one that was written by hand is retained."""
    old = value_of(before, "spec.persistentVolumeReclaimPolicy")
    if after is None:
        if old == _DELETE:
            hint = "set persistentVolumeReclaimPolicy: Retain in a change of its own first, or back up the data"
            yield _loss("the volume is deleted, and its data with it, because its reclaim policy is Delete", hint)
    elif value_of(after, "spec.persistentVolumeReclaimPolicy") == _DELETE != old:
        text = "the reclaim policy becomes Delete: from now on the data is deleted with the claim or the volume"
        yield _loss(text, "keep Retain unless the data can be made again")


def storage_class(before: Body, after: Body | None) -> Iterator[Loss]:
    """Yield the loss of a StorageClass, whose default is Delete; volumes keep the policy that they were made with."""
    if after is not None and _reclaims(after) == _DELETE != _reclaims(before):
        text = (
            "the reclaim policy becomes Delete: the data of volumes that are made from now on is deleted with the claim"
        )
        yield _loss(text, "keep Retain, or use a class of another name for data that can be made again")


def _reclaims(storage: Body) -> str:
    policy = value_of(storage, "reclaimPolicy")
    return policy if isinstance(policy, str) else _DELETE


def stateful_set(before: Body, after: Body | None) -> Iterator[Loss]:
    """Yield the claims that are deleted with a StatefulSet or its last pods, because its retention policy says so."""
    if not value_of(before if after is None else after, "spec.volumeClaimTemplates"):
        return
    if after is None:
        if value_of(before, f"{_RETENTION}.whenDeleted") == _DELETE:
            text = "the claims of the set are deleted with it, and their data, because whenDeleted is Delete"
            yield _loss(text, f"set {_RETENTION}.whenDeleted: Retain in a change of its own first, or back up the data")
        return
    for field, when in (("whenDeleted", "with the set"), ("whenScaled", "whenever the set is scaled down")):
        policy = f"{_RETENTION}.{field}"
        if value_of(after, policy) == _DELETE != value_of(before, policy):
            yield _loss(f"{field} becomes Delete: claims are deleted {when}, and their data", "keep Retain")
    old, new = (count(value_of(body, "spec.replicas"), 1) for body in (before, after))
    if new < old and value_of(after, f"{_RETENTION}.whenScaled") == _DELETE:
        pods = plural(old - new, "pod")
        text = f"the claims of the last {pods} are deleted, and their data, because whenScaled is Delete"
        yield _loss(text, f"set {_RETENTION}.whenScaled: Retain first, or back up the data")


def _loss(message: str, hint: str) -> Loss:
    return Loss(rule=_RULE, message=message, hint=hint)

"""The digest of a plan, the digest that an approval names, and the checksum of a saved plan."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from reconciler.core.plan.plan import Plan


def digest(plan: "Plan") -> str:
    """Return the SHA-256 of the whole plan, as canonical JSON: its inputs, and everything that outputs show.

    Labels, commit ids, the age of evidence and approvals are not part of it, so that equal files under
    another name or commit, or on another day, give the same plan. The checksum of a saved plan covers them.
    """
    anonymous = {side: replace(getattr(plan, side), label="", commit="") for side in ("base", "head")}
    capacity = tuple(replace(line, evidence_days=None) for line in plan.capacity)
    breaches = tuple(replace(breach, approved=False) for breach in plan.breaches)
    return _sha256(replace(plan, digest="", approvals=(), breaches=breaches, capacity=capacity, **anonymous))


def approval_digest(plan: "Plan", judged_by: str, lost: Iterable[str] = ()) -> str:
    """Return the SHA-256 of what an approval allows: every changed object, before and after, and `judged_by`.

    It is the same for a branch, its merge with unrelated changes, and the commit that renders the merge: what differs
    between them, such as labels, dates and unchanged objects, is not part of it. `judged_by` is the digest of the
    settings, policies and evidence of the head, `lost` the kept objects that vanish.
    """
    changes = sorted(
        (change.path, change.moved_from, change.digest_before, change.digest_after) for change in plan.changes
    )
    folders = sorted(breach.actual for breach in plan.breaches if breach.budget == "sources.empty")
    return _sha256((changes, folders, sorted(lost), judged_by))


def checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a saved plan without its own `checksum`, as canonical JSON."""
    return _sha256({name: value for name, value in document.items() if name != "checksum"})


def _sha256(value: Any) -> str:
    try:
        content = msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:  # a file name that is not UTF-8
        content = json.dumps(msgspec.to_builtins(value), sort_keys=True).encode()
    return "sha256:" + hashlib.sha256(content).hexdigest()

"""The digest of a plan, the token that acknowledges the plan with this digest, and the checksum of a saved plan."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from reconciler.core.plan.plan import Plan


def digest(plan: "Plan") -> str:
    """Return the SHA-256 of the whole plan, as canonical JSON: its inputs, and everything that outputs show.

    Labels, commit ids, the age of evidence and the acknowledgement are not part of it, so that equal files under
    another name or commit, or on another day, give the same plan. The checksum of a saved plan covers them.
    """
    anonymous = {side: replace(getattr(plan, side), label="", commit="") for side in ("base", "head")}
    capacity = tuple(replace(line, evidence_days=None) for line in plan.capacity)
    return _sha256(replace(plan, digest="", acknowledged=False, capacity=capacity, **anonymous))


def acknowledgement(plan_digest: str) -> str:
    """Return the token with which a user accepts the exceeded budgets of exactly this plan."""
    return hashlib.sha256(f"acknowledge {plan_digest}".encode()).hexdigest()[:12]


def checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a saved plan without its own `checksum`, as canonical JSON."""
    return _sha256({name: value for name, value in document.items() if name != "checksum"})


def _sha256(value: Any) -> str:
    try:
        content = msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:  # a file name that is not UTF-8
        content = json.dumps(msgspec.to_builtins(value), sort_keys=True).encode()
    return "sha256:" + hashlib.sha256(content).hexdigest()

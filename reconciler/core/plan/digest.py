"""The digest that binds a plan to what it was made from, and the acknowledgement bound to the digest."""

import hashlib
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from reconciler.core.plan.plan import Plan


def digest(plan: "Plan") -> str:
    """SHA-256 over both trees, evidence, policies, engine version and every file that changes, as canonical JSON.

    Labels and commit ids are left out: the same files under another name, or in an amended commit, are the same plan.
    """
    bound = {
        "engine": plan.engine,
        "base": plan.base.tree,
        "head": plan.head.tree,
        "evidence": plan.evidence,
        "policies": plan.policies,
        "changes": sorted(
            (change.path, change.operation.value, change.moved_from, change.digest_before, change.digest_after)
            for change in plan.changes
        ),
        "held_back": sorted(plan.held_back),
        "breaches": sorted((breach.budget, breach.limit, breach.actual) for breach in plan.breaches),
    }
    return "sha256:" + hashlib.sha256(msgspec.json.encode(bound, order="sorted")).hexdigest()


def acknowledgement(plan_digest: str) -> str:
    """Return what a user types to go over budget: it allows this very plan and no other."""
    return hashlib.sha256(f"acknowledge {plan_digest}".encode()).hexdigest()[:12]

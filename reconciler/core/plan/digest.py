"""The digest of a plan and its inputs, and the token that acknowledges the plan with this digest."""

import hashlib
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from reconciler.core.plan.plan import Plan


def digest(plan: "Plan") -> str:
    """Return the SHA-256 of both trees, evidence, policies, engine version and all changed files, as canonical JSON.

    Labels and commit ids are not part of it, so that equal files under another name or commit give the same plan.
    """
    content = {
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
    return "sha256:" + hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def acknowledgement(plan_digest: str) -> str:
    """Return the token with which a user accepts the exceeded budgets of exactly this plan."""
    return hashlib.sha256(f"acknowledge {plan_digest}".encode()).hexdigest()[:12]

"""Starting files of policies and quarantines, to edit; `kinds/torchrun/starter.py` writes them with comments."""

from collections.abc import Mapping
from typing import Any

from reconciler.kinds.health import POLICY, QUARANTINE

Fields = Mapping[str, Any]


def policy_document(name: str) -> dict[str, Any]:
    """Return a HealthPolicy that proposes at most: nothing reaches a node without a merge."""
    spec = {
        "mode": "propose",
        "checks": {"gpu.reachable": {"mode": "propose"}, "hbm.bandwidth": {"mode": "shadow"}},
        "breaker": {"window": "24h", "perPool": "5%"},
        "lifecycle": {"confirmations": 2, "of": 3},
    }
    return _document(POLICY, name, spec)


POLICY_EXAMPLES: Fields = {
    "xid": {"79": {"mode": "propose", "severity": "fatal", "action": "power_cycle"}},
    "jobs": {"exclude": True, "prefer": True},
    "remediation": "provider",
}
"""Further fields of a policy, which its file shows as comments."""


def quarantine_document(node: str, *, uid: str, reason: str, effect: str) -> dict[str, Any]:
    """Return the quarantine of a node; an empty `uid` is not known."""
    known = {"nodeUID": uid} if uid else {}
    return _document(QUARANTINE, node, {"node": node, **known, "reason": reason, "effect": effect})


QUARANTINE_EXAMPLES: Fields = {
    "slots": ["0000:9b:00.0"],
    "check": "hbm.bandwidth",
    "action": "run_diag",
    "until": "2030-01-01T00:00:00Z",
}
"""Further fields of a quarantine, which its file shows as comments."""


def _document(kind: tuple[str, str], name: str, spec: Fields) -> dict[str, Any]:
    return {"apiVersion": f"{kind[0]}/v1alpha1", "kind": kind[1], "metadata": {"name": name}, "spec": dict(spec)}

"""What the controller may do in a cluster, by mode: the rules of its roles, from the registry of kinds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.kinds.facts import KindId
from reconciler.kinds.health import REPORT
from reconciler.kinds.kai import POD_GROUP
from reconciler.kinds.kind import ANY_KIND, Kind, Kinds
from reconciler.kinds.kueue import LOCAL_QUEUE, WORKLOAD
from reconciler.kinds.records import RECORDS
from reconciler.kinds.workloads import DEFINITION, DEPLOYMENT, MUTATIONS, NODE, POD, WEBHOOKS
from reconciler.repo.config.config import GROUP

Rule = dict[str, list[str]]
"""A `PolicyRule` of Kubernetes for one API group."""

MODES = ("observe", "commit", "apply")

OBSERVED: tuple[KindId, ...] = (NODE, POD, WORKLOAD, LOCAL_QUEUE, REPORT, DEFINITION, DEPLOYMENT)
"""What evidence is made from, besides the jobs of a repository."""

_OF_ADMINISTRATORS: tuple[KindId, ...] = (("storage.k8s.io", "VolumeAttributesClass"),)
_UNMANAGED = frozenset((*MUTATIONS, *WEBHOOKS, *_OF_ADMINISTRATORS, *(RECORDS - {WORKLOAD, POD_GROUP})))
"""What no repository of workloads holds for long, and what could change or refuse all other objects."""

_OBSERVE = ("list",)
_MANAGE = ("get", "list", "create", "patch", "delete")
_SOURCES: tuple[Rule, ...] = (
    {"apiGroups": [GROUP], "resources": ["configsources"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [GROUP], "resources": ["configsources/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
)
_REPLICAS: tuple[Rule, ...] = (
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
)
_TEST = ["get", "list", "create", "delete"]
_REPORTS_OF_NODES = "nodehealthreports"
_AGENT: dict[str, tuple[Rule, ...]] = {
    "reports": (
        {"apiGroups": [GROUP], "resources": [_REPORTS_OF_NODES], "verbs": ["get", "create", "patch"]},
        {"apiGroups": [GROUP], "resources": [f"{_REPORTS_OF_NODES}/status"], "verbs": ["patch"]},
    ),
    "api": ({"apiGroups": [GROUP], "resources": [_REPORTS_OF_NODES], "verbs": ["list"]},),
    "tests": ({"apiGroups": [GROUP], "resources": [_REPORTS_OF_NODES], "verbs": ["list"]},),
    "policies": ({"apiGroups": [GROUP], "resources": ["healthpolicies"], "verbs": ["list"]},),
    "storageClasses": ({"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["get"]},),
    "storage": ({"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": _TEST},),
    "storagePods": ({"apiGroups": [""], "resources": ["pods"], "verbs": _TEST},),
    "selectNodes": ({"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},),
}
_INVENTORY: tuple[Rule, ...] = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "update", "delete"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
)
_HEALTH: tuple[Rule, ...] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": [GROUP], "resources": ["nodehealthreports"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": ["remediation.medik8s.io"], "resources": ["nodehealthchecks"], "verbs": ["list"]},
)
"""What the lanes of node health do: marks on nodes, and on reports acknowledgements and what Git expects.

Pods are listed, to tell their owners. No deletion, no eviction.
"""

_HEALTH_STATE: tuple[Rule, ...] = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update"]},
)

_DEEP_RUNS: tuple[Rule, ...] = ({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},)
"""Jobs of deep runs. They delete themselves."""


_DRAIN: tuple[Rule, ...] = ({"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list", "patch"]},)
"""Workloads of Kueue on nodes that are drained: they are stopped, and become active again."""

_REPAIR: tuple[Rule, ...] = (
    {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["get"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},
)
"""Jobs of repairs, from the CronJobs of the user, in the namespaces that the values name."""


def access(kinds: Kinds) -> dict[str, Any]:
    """Return the rules by their purpose.

    sources: on ConfigSources, where they are. replicas: in the namespace of the release. inventory: the same, for the
    mode `apply`. health, healthState: in the cluster and in that namespace, for node health; deepRuns: in that
    namespace. drain: in the cluster. repair: in the namespaces of repairs. observed: for evidence, in
    the whole cluster. objects: by mode, on those of repositories. agent: what the
    agents of nodes may do, by purpose.
    """
    return {
        "sources": list(_SOURCES),
        "replicas": list(_REPLICAS),
        "inventory": list(_INVENTORY),
        "health": list(_HEALTH),
        "healthState": list(_HEALTH_STATE),
        "deepRuns": list(_DEEP_RUNS),
        "drain": list(_DRAIN),
        "repair": list(_REPAIR),
        "observed": _rules(dict.fromkeys(OBSERVED, _OBSERVE)),
        "agent": {purpose: list(rules) for purpose, rules in _AGENT.items()},
        "objects": {mode: _object_rules(kinds, mode) for mode in MODES},
    }


def managed_kinds(kinds: Kinds) -> list[Kind]:
    """Return the kinds whose objects a repository renders to a cluster, without `_UNMANAGED`."""
    rows = (row for row in kinds.values() if row.group not in kinds.own_groups and row.kind != ANY_KIND)
    return [row for row in rows if row.source.refusal is None and row.id not in _UNMANAGED]


def plural(kind: str) -> str:
    """Return the resource of a kind, such as `priorityclasses`, as API servers name it by convention."""
    name = kind.lower()
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") and name[-2] not in "aeiou" else f"{name}s"


def _object_rules(kinds: Kinds, mode: str) -> list[Rule]:
    """Return the rules on objects of repositories; what `observed` grants is not repeated."""
    if mode != "apply":
        return _rules({kind: _OBSERVE for kind in _jobs(kinds) if kind not in OBSERVED})
    managed = [row.id for row in managed_kinds(kinds)]
    unseen = tuple(verb for verb in _MANAGE if verb not in _OBSERVE)
    return _rules({kind: unseen if kind in OBSERVED else _MANAGE for kind in managed})


def _rules(verbs: Mapping[KindId, tuple[str, ...]]) -> list[Rule]:
    """Return one rule for each API group and set of verbs."""
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, kind), allowed in verbs.items():
        resources[group, allowed].append(plural(kind))
    return [
        {"apiGroups": [group], "resources": sorted(names), "verbs": list(allowed)}
        for (group, allowed), names in sorted(resources.items())
    ]


def _jobs(kinds: Kinds) -> Iterable[KindId]:
    """Yield the kinds that end, which are observed once they have."""
    return (row.id for row in kinds.values() if row.life.progress is not None)

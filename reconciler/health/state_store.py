"""The memory of the lanes about a fleet, in a ConfigMap of the cluster: it survives restarts and an outage of Git."""

import base64
import zlib

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import ConfigError, OutsideError, StalePlan
from reconciler.kinds.workloads import CONFIG_MAP
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.fleet.failures import short
from reconciler.nodehealth.fleet.repairs import RepairTry
from reconciler.nodehealth.fleet.state import BreakerState, FleetState, HealthPhase, NodeState
from reconciler.nodehealth.inflight.notes import JobNote
from reconciler.nodehealth.inflight.postflight import JobErrors
from reconciler.nodehealth.inflight.preflight import PreflightAttempt

LABEL = "gpureconciler.io/health-state"
OWNER = "reconciler-health-owner"
"""The ConfigMap that names the source which decides about the nodes of a cluster."""

_STATE, _BREAKER, _SOURCE = "state", "breaker", "source"
_MAX_COUNT = 900_000  # bytes of a ConfigMap, which may have 1 MiB
_MAX_TEXT = 200  # characters of a message
_CONFLICT, _NOT_FOUND = 409, 404


class HealthCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault of one node, from its first sign to the return. `evidence` is the digest of what was proposed last.

    branch: the tip that we pushed. mirrored: Git has shown a file for it. closed_at: when somebody removed the branch
    or the file without a merge.
    """

    id: str
    opened_at: float
    evidence: str = ""
    proposal: str = ""
    branch: str = ""
    mirrored: bool = False
    closed_at: float = 0.0


class LaneState(Struct, frozen=True, kw_only=True):
    """Everything that is kept between two rounds.

    told: the messages that people got, by what they are about. deep_runs: when the last one was started, by node.
    workloads: the names of pods with Xids, by UID.
    jobs: what is said about jobs. job_errors: what the last job of each GPU left.
    repairs: the last attempts.
    preflights: failed preflight checks of the last day. proven: the workloads that ended well on nodes in probation, by
    UID.
    """

    fleet: FleetState = FleetState()
    cases: dict[str, HealthCase] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    deep_runs: dict[str, float] = field(default_factory=dict)
    workloads: dict[str, str] = field(default_factory=dict)
    jobs: tuple[JobNote, ...] = ()
    job_errors: tuple[JobErrors, ...] = ()
    preflights: tuple[PreflightAttempt, ...] = ()
    proven: dict[str, tuple[str, ...]] = field(default_factory=dict)
    repairs: dict[str, RepairTry] = field(default_factory=dict)


class StoredState(Struct, frozen=True, kw_only=True):
    """A state as it was read, and the version of its ConfigMap; empty if there is none yet."""

    state: LaneState = LaneState()
    version: str = ""


class StateStore:
    """The state of one cluster under one config repository."""

    def __init__(self, cluster: LiveCluster, *, namespace: str, source: str) -> None:
        self._cluster, self._namespace, self._source = cluster, namespace, source
        self._key = ObjectKey(
            group=CONFIG_MAP[0], kind=CONFIG_MAP[1], namespace=namespace, name=f"reconciler-health-{source}"
        )

    def read(self) -> StoredState:
        """Return the stored state. Raises `OutsideError` if it is damaged: without the breaker nothing may act."""
        body = self._cluster.get(self._key)
        if body is None:
            return StoredState()
        try:
            packed = base64.b64decode((body.get("binaryData") or {})[_STATE], validate=True)
            state = msgspec.json.decode(zlib.decompress(packed), type=LaneState)
        except (KeyError, ValueError, zlib.error, msgspec.MsgspecError, RecursionError) as error:
            raise OutsideError(
                f"{self._key}: the state of node health is damaged: {error}",
                hint="check the nodes with the label gpureconciler.io/health, then delete the ConfigMap",
            ) from error
        return StoredState(state=state, version=body["metadata"]["resourceVersion"])

    def write(self, state: LaneState, before: StoredState) -> StoredState:
        """Store a state. Raises `StalePlan` if another replica stored one meanwhile; then nothing may be done."""
        kept = compact(state)
        if before.version and kept == before.state:
            return before
        body = self._body(kept)
        try:
            written = self._replace(body, before) if before.version else self._create(body)
        except ClusterError as error:
            if error.status != _CONFLICT:
                raise
            raise StalePlan(f"{self._key} was written by another replica", hint="run only one replica") from error
        return StoredState(state=kept, version=written["metadata"]["resourceVersion"])

    def _body(self, state: LaneState) -> Body:
        packed = _packed(state)
        if len(packed) > _MAX_COUNT:  # the next reports tell the texts again
            packed = _packed(compact(state, texts=False))
        if len(packed) > _MAX_COUNT:
            raise OutsideError(
                f"{self._key}: the state of node health is too large", hint="too many nodes have open faults"
            )
        metadata = {"name": self._key.name, "namespace": self._namespace, "labels": {LABEL: self._source}}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "binaryData": {_STATE: packed},
            "data": {_BREAKER: breaker_text(state.fleet.breaker)},
        }

    def _replace(self, body: Body, before: StoredState) -> Body:
        metadata = {**body["metadata"], "resourceVersion": before.version}
        return self._cluster.replace({**body, "metadata": metadata}).body

    def _create(self, body: Body) -> Body:
        return _created(self._cluster, body)


def _packed(state: LaneState) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(state, order="sorted"), 9)).decode()


def claim_fleet(cluster: LiveCluster, *, namespace: str, source: str) -> None:
    """Take the nodes of a cluster for one source, the first that asks. Raises `ConfigError` if they are another's.

    Two sources would let two breakers through, and undo the marks of each other.
    """
    key = ObjectKey(group=CONFIG_MAP[0], kind=CONFIG_MAP[1], namespace=namespace, name=OWNER)
    body = cluster.get(key)
    if body is None:
        metadata = {"name": OWNER, "namespace": namespace, "labels": {LABEL: "owner"}}
        claim = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_SOURCE: source}}
        try:
            body = _created(cluster, claim)
        except ClusterError as error:
            if error.status != _CONFLICT:
                raise
            body = cluster.get(key) or {}  # another one was faster
    holder = (body.get("data") or {}).get(_SOURCE)
    if holder != source:
        raise ConfigError(
            f"{key}: the source {holder} decides about the nodes of this cluster, so {source} does nothing to them",
            hint=f"set `health: true` on only one of them; to hand over, delete the ConfigMap {namespace}/{OWNER}",
        )


def _created(cluster: LiveCluster, body: Body) -> Body:
    """Create an object, and its namespace before it if there is none."""
    try:
        return cluster.create(body).body
    except ClusterError as error:
        if error.status != _NOT_FOUND:
            raise
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": body["metadata"]["namespace"]}}
    cluster.create(namespace)
    return cluster.create(body).body


def compact(state: LaneState, *, texts: bool = True) -> LaneState:
    """Return the state without what the next reports say again: healthy nodes without a history, UUIDs at length.

    texts: whether failures keep their messages.
    """
    nodes = {name: _compact_node(node, texts=texts) for name, node in state.fleet.nodes.items() if not _is_plain(node)}
    return replace(state, fleet=replace(state.fleet, nodes=nodes))


def _compact_node(node: NodeState, *, texts: bool) -> NodeState:
    """Return a node with short UUIDs; a failure of a GPU in its slot repeats none."""
    if node.phase is HealthPhase.HEALTHY and not node.failures:
        node = replace(node, received_at=0.0)
    gpus = {slot: short(uuid) for slot, uuid in node.gpus.items()}
    failures = tuple(
        replace(
            one,
            uuid="" if short(one.uuid) == gpus.get(one.slot, "") else short(one.uuid),
            message=one.message[:_MAX_TEXT] if texts else "",
        )
        for one in node.failures
    )
    return replace(node, gpus=gpus, failures=failures)


def _is_plain(node: NodeState) -> bool:
    history = (node.failures, node.returns, node.override_until, node.validated_at, node.flaps, node.unbound)
    return node.phase is HealthPhase.HEALTHY and not (any(history) or node.ours or node.merged)


def breaker_text(breaker: BreakerState) -> str:
    """Return the breaker in words, for `kubectl get configmap`."""
    lines = [f"tripped: {breaker.tripped}" if breaker.tripped else "closed"]
    lines += [f"frozen {check}: {why}" for check, why in sorted(breaker.frozen.items())]
    return "\n".join(lines)

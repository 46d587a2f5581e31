"""The effect that a changed HealthPolicy would have had on the nodes of a cluster, as a plan shows it."""

from msgspec import Struct

from reconciler.kube.objects import ObjectKey, SourceRef


class NodeVerdict(Struct, frozen=True, kw_only=True, rename="camel"):
    """A node that is judged differently: its state under the policies of the base, and under those of the head."""

    node: str
    before: str
    after: str


class PolicyEffect(Struct, frozen=True, kw_only=True, rename="camel"):
    """The effect of all changed HealthPolicies of one cluster. `key` and `place` are those of the first one.

    basis: `reports` (replayed), `health` (health.yaml alone) or empty: nothing is recorded, so the effect is unknown.
    first, last: dates of the records. before, after: quarantines in a week; of health.yaml, nodes that are acted on.
    verdicts: the first `changed` nodes. refused: why the policy must not be merged. unknown: what nobody can tell.
    """

    cluster: str
    key: ObjectKey
    basis: str = ""
    reports: int = 0
    nodes: int = 0
    first: str = ""
    last: str = ""
    before: float = 0.0
    after: float = 0.0
    changed: int = 0
    verdicts: tuple[NodeVerdict, ...] = ()
    refused: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    place: SourceRef | None = None

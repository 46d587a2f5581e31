"""`HealthPolicy`: what findings may lead to, on which nodes, and within which limits."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.kube.patterns import later
from reconciler.nodehealth.findings import FindingSeverity, RepairAction

KIND = "HealthPolicy"
XID_CHECK = "gpu.xid"
"""The check of the kernel's Xid messages. A restart empties them."""

_XIDS = later(r"\bXid (\d+(?: x\d+)?(?:, \d+(?: x\d+)?)*)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = later(r"([0-9]+)([smhd])")

Limit = Any
"""A threshold of a check, as its row of the catalogue names it."""


class CheckMode(StrEnum):
    """The strongest consequence of a FAIL: nothing, a proposal in Git, or an immediate taint if the lane is fast."""

    SHADOW = "shadow"
    PROPOSE = "propose"
    ENFORCE = "enforce"


_MODES = list(CheckMode)


class Lane(StrEnum):
    """The decider. FAST: the merged policy, within the breaker. REVIEWED: the merge of a proposal."""

    FAST = "fast"
    REVIEWED = "reviewed"


class CheckRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rule of one check. None: as in the catalogue. `enabled: false` switches the check off."""

    enabled: bool = True
    mode: CheckMode | None = None
    lane: Lane | None = None
    severity: FindingSeverity | None = None
    action: RepairAction | None = None
    limits: Mapping[str, Limit] = {}
    source: str = ""

    @property
    def strength(self) -> tuple[bool, int, bool, int]:
        """The order of rules: what is judged at all, then the mode, the lane, and the severity."""
        mode, severity = _MODES.index(self.mode or CheckMode.SHADOW), self.severity.weight if self.severity else -1
        return self.enabled, mode, self.lane is Lane.FAST, severity

    def over(self, default: "CheckRule") -> "CheckRule":
        """Return this rule, with the default for what it does not say."""
        return CheckRule(
            enabled=self.enabled and default.enabled,
            mode=self.mode or default.mode,
            lane=self.lane or default.lane,
            severity=self.severity or default.severity,
            action=self.action or default.action,
            limits={**default.limits, **self.limits},
            source=self.source or default.source,
        )


class BreakerLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits on new quarantines. Shares are of all nodes of the pool, the model or the fleet, durations seconds.

    per_pool: for each cause, of a pool and of the fleet. proposals: open ones of new quarantines. thaw: time without
    anything new before a frozen cause is let through again. A larger `reset_generation` resets everything.
    """

    window: float = 86400.0
    per_pool: float = 0.05
    per_model: float = 0.10
    minimum: int = 2
    unavailable: float = 0.20
    spike_nodes: int = 3
    spike_window: float = 3600.0
    thaw: float = 6 * 3600.0
    proposals: int = 20
    reset_generation: int = 0


class LifecycleLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reports that confirm a failure, and the durations of the lifecycle. Durations are in seconds."""

    confirmations: int = 2
    of: int = 3
    healthy_delay: float = 600.0
    stale_after: float = 600.0
    probation: float = 86400.0
    probation_jobs: int = 3
    ttl: float = 86400.0
    operator_override: float = 86400.0
    return_window: float = 7 * 86400.0
    inspect_after: int = 2
    support_after: int = 5


class PreflightRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The init container that checks the GPUs of a job before it starts.

    jobs: `labelled` (those with the label), `all` or `none`. image: with its digest. checks: empty is all. agent: the
    URL of the agents' service, to which a failure is told before the job is tried elsewhere. wait: seconds, at most.
    """

    jobs: str = "none"
    image: str = ""
    profile: str = "preflight"
    checks: tuple[str, ...] = ()
    fail_closed: bool = False
    retries: int = 3
    agent: str = ""
    wait: int = 60


class JobRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of health in rendered jobs. `exclude` keeps them off quarantined nodes, `prefer` off suspects."""

    exclude: bool = False
    prefer: bool = False
    preflight: PreflightRule = PreflightRule()


class ExportChoices(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The labels of other projects that are written to nodes."""

    autopilot_labels: bool = True
    agentaflow_labels: bool = True


class DeepRunRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rule by which deep runs are started on idle nodes, and on how many nodes of the cluster at one time."""

    enabled: bool = False
    at_once: int = 1


class RepairTemplate(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A suspended CronJob of the user, from which each attempt of a repair is a Job, on the node unless it says so."""

    namespace: str
    name: str
    on_node: bool = True


class RepairRule(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The rule of a step that people have merged. mode: `enforce` begins it. timeout: of one attempt.

    cron_job: of repairs; None asks a webhook.
    """

    mode: CheckMode = CheckMode.SHADOW
    attempts: int = 2
    timeout: str = "1h"
    cron_job: RepairTemplate | None = None


class FabricTest(StrEnum):
    """A program that measures the network, and the check that judges its output. Its image is the user's."""

    ALL_REDUCE = "allReduce"  # all_reduce_perf of nccl-tests or rccl-tests
    IB_WRITE = "ibWrite"  # ib_write_bw of perftest

    @property
    def check(self) -> str:
        """The id of the check."""
        return {"allReduce": "net.allreduce", "ibWrite": "net.rdma"}[self.value]


REVIEWED_ONLY = frozenset(one.check for one in FabricTest)
"""The checks that never reach the fast lane: two nodes cannot tell which of them is at fault."""


class NetworkTest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A test of the network within a node or between nodes, rendered as a Job for review.

    program: its path in the image. gpus: of each node, which the test holds. rate: of the port in Gb/s. device: of
    InfiniBand. resources: further ones of each pod. seconds: the deadline. run: a larger number runs it again. floor:
    of this policy, in GB/s of `allReduce` and Gb/s of `ibWrite`; 0: that of the product.
    """

    test: FabricTest
    nodes: tuple[str, ...]
    image: str
    namespace: str
    queue: str = ""
    program: str = ""
    gpus: int = 8
    rate: float = 0.0
    device: str = ""
    env: Mapping[str, str] = {}
    resources: Mapping[str, str] = {}
    seconds: int = 900
    run: int = 1
    floor: float = 0.0


class IperfRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The interval in which every two nodes measure the bandwidth between them; 0 is never. Durations are in seconds.

    slot: the time of one round, in which every node meets another one. seconds: of one measurement.
    """

    every: float = 0.0
    slot: float = 120.0
    seconds: int = 5
    streams: int = 8


class PortExpectation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The expected active ports of one kind, and the least rate of each in Gb/s; 0: any."""

    ports: int
    rate: float = 0.0


class NodeExpectation(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The expected equipment of a node. None or empty: nobody says. Agents compare it with what they read.

    drivers: allowed versions. nvlinks: active links of each GPU. pcie_width: lanes of each GPU. ib, ethernet: ports.
    imex: whether the service runs. imex_nodes: of its domain. xids: severities of codes that
    policies change. origin: who expects it.
    """

    gpus: int | None = None
    drivers: tuple[str, ...] = ()
    denied_drivers: tuple[str, ...] = ()
    nvlinks: int | None = None
    pcie_width: int | None = None
    ib: PortExpectation | None = None
    ethernet: PortExpectation | None = None
    imex: bool | None = None
    imex_nodes: int | None = None
    xids: Mapping[str, FindingSeverity] = {}
    origin: str = ""

    @property
    def said_by(self) -> str:
        """The origin as the end of a message."""
        return f" ({self.origin})" if self.origin else ""


class HealthPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The policy of one node: the base policy with all that select it merged over it.

    remediation: who repairs, `us`, `provider` or `none`.
    """

    name: str = ""
    mode: CheckMode | None = None  # a ceiling for all checks
    checks: Mapping[str, CheckRule] = {}
    xid: Mapping[str, CheckRule] = {}
    breaker: BreakerLimits = BreakerLimits()
    lifecycle: LifecycleLimits = LifecycleLimits()
    jobs: JobRule = JobRule()
    exports: ExportChoices = ExportChoices()
    deep_runs: DeepRunRule = DeepRunRule()
    drain: RepairRule = RepairRule()
    repair: RepairRule = RepairRule()
    iperf: IperfRule = IperfRule()
    network_tests: Mapping[str, NetworkTest] = {}
    expected: NodeExpectation = NodeExpectation()
    remediation: str = "none"
    digest: str = ""

    def rule(self, check: str, default: CheckRule, message: str = "") -> CheckRule:
        """Return the rule of a check: the policy over the catalogue, no mode above the ceiling.

        `message` names the Xids behind a finding. The fast lane takes a policy that says so: a check of the catalogue
        that no policy names is proposed at most, and without any policy it only collects.
        """
        return self.rule_and_cause(check, default, message)[0]

    def rule_and_cause(self, check: str, default: CheckRule, message: str = "") -> tuple[CheckRule, str]:
        """Return the rule and what the breaker counts by: the check, or the Xid with the strongest rule."""
        general = self.checks.get(check)
        if check in REVIEWED_ONLY:
            return msgspec.structs.replace(self._effective(general, default), lane=Lane.REVIEWED), check
        if check != XID_CHECK:
            return self._effective(general, default), check
        codes = [code for found in _XIDS.findall(message) for code in re.findall(r"(\d+)(?: x\d+)?", found)]
        codes = [code for code in codes if code in self.xid or code not in _COMPANIONS] or codes[:1]
        if not codes:
            return self._effective(general, default), check
        found = []
        for code in dict.fromkeys(codes):
            named = self.xid.get(code)
            own = named.over(general) if named is not None and general is not None else named or general
            found.append((self._effective(own, default), f"{check} {code}"))
        return max(found, key=lambda one: one[0].strength)

    def rule_of_cause(self, cause: str, default: CheckRule) -> CheckRule:
        """Return the rule behind a cause."""
        check, _, code = cause.partition(" ")
        return self.rule_and_cause(check, default, f"Xid {code}" if code else "")[0]

    def _effective(self, own: CheckRule | None, default: CheckRule) -> CheckRule:
        ceiling = self.mode or CheckMode.ENFORCE
        if own is None:
            ceiling = min(ceiling, CheckMode.PROPOSE if self.name else CheckMode.SHADOW, key=_MODES.index)
            own = CheckRule()
        rule = own.over(default)
        mode = min(rule.mode or CheckMode.SHADOW, ceiling, key=_MODES.index)
        return msgspec.structs.replace(rule, mode=mode, lane=own.lane or Lane.REVIEWED)


_COMPANIONS = ("43", "45", "63", "154")  # Xids that follow others


class PolicyDocument(Struct, frozen=True, kw_only=True):
    """One HealthPolicy as it is written. `node_labels` selects nodes; a base policy selects all."""

    name: str
    node_labels: Mapping[str, str] = {}
    spec: Mapping[str, Any] = {}

    @property
    def rank(self) -> tuple[int, str]:
        """The order of merging: base policies first, then the more labels the later, then by name."""
        return len(self.node_labels), self.name


class PolicyBook:
    """The policies of one cluster. Each node has one effective policy, which nodes with the same labels share."""

    def __init__(self, documents: Iterable[PolicyDocument] = ()) -> None:
        self.documents = tuple(sorted(documents, key=lambda one: one.rank))
        self._merged: dict[tuple[int, ...], HealthPolicy] = {}

    @property
    def digest(self) -> str:
        """A digest over all policies."""
        return _digest([[one.name, dict(one.node_labels), one.spec] for one in self.documents])

    @property
    def base(self) -> HealthPolicy:
        """The policy of the fleet as a whole: jobs and breaker are taken from it."""
        return self.of_labels({})

    def of_labels(self, labels: Mapping[str, str]) -> HealthPolicy:
        """Return the policy of a node with these labels."""
        matching = tuple(index for index, one in enumerate(self.documents) if one.node_labels.items() <= labels.items())
        if matching not in self._merged:
            self._merged[matching] = merge_policies([self.documents[index] for index in matching])
        return self._merged[matching]


def merge_policies(documents: Iterable[PolicyDocument]) -> HealthPolicy:
    """Merge policies: maps by key, everything else as a whole, later ones over earlier ones."""
    chosen = list(documents)
    spec: dict[str, Any] = {}
    for one in chosen:
        spec = merge_maps(spec, {key: value for key, value in one.spec.items() if key != "selector"})
    policy = read_policy(" + ".join(one.name for one in chosen), spec)
    expecting = " + ".join(one.name for one in chosen if one.spec.get("expected"))
    origin = f"{KIND} {expecting}" if expecting else ""
    xids = {code: rule.severity for code, rule in policy.xid.items() if rule.severity is not None}
    expected = msgspec.structs.replace(policy.expected, origin=origin, xids=xids)
    return msgspec.structs.replace(policy, digest=_digest(spec), expected=expected)


def merge_maps(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both maps as one; where both have a map under one key, those are merged as well."""
    merged = dict(base)
    for key, value in over.items():
        known = merged.get(key)
        merged[key] = merge_maps(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def read_policy(name: str, spec: Mapping[str, Any]) -> HealthPolicy:
    """Read a spec that its schema has accepted."""
    return HealthPolicy(
        name=name,
        mode=CheckMode(spec["mode"]) if "mode" in spec else None,
        checks={check: _rule(rule) for check, rule in spec.get("checks", {}).items()},
        xid={str(code): _rule(rule) for code, rule in spec.get("xid", {}).items()},
        breaker=_breaker(spec.get("breaker", {})),
        lifecycle=msgspec.convert(_values(spec.get("lifecycle", {})), LifecycleLimits),
        jobs=msgspec.convert(_names(spec.get("jobs", {})), JobRule),
        deep_runs=msgspec.convert(_names(spec.get("deepRuns", {})), DeepRunRule),
        drain=msgspec.convert(spec.get("drain", {}), RepairRule),
        repair=msgspec.convert(spec.get("repair", {}), RepairRule),
        iperf=msgspec.convert(_values(spec.get("iperf", {})), IperfRule),
        network_tests=msgspec.convert(spec.get("networkTests", {}), dict[str, NetworkTest]),
        exports=msgspec.convert(_names(spec.get("exports", {})), ExportChoices),
        expected=msgspec.convert(spec.get("expected", {}), NodeExpectation),
        remediation=spec.get("remediation", "none"),
    )


def _rule(rule: Mapping[str, Any]) -> CheckRule:
    return msgspec.convert(dict(rule), CheckRule)


def _breaker(spec: Mapping[str, Any]) -> BreakerLimits:
    values = _values({key: value for key, value in spec.items() if key != "spike"})
    spike = _values(spec.get("spike", {}))
    values |= {f"spike_{key}": value for key, value in spike.items()}
    return msgspec.convert(values, BreakerLimits)


def _values(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with their Python names, durations as seconds and percentages as shares."""
    return {_snake(key): _amount(value) for key, value in spec.items()}


def _names(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {_snake(key): _names(value) if isinstance(value, Mapping) else value for key, value in spec.items()}


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)


def _amount(value: object) -> object:
    """Return `24h` as seconds and `5%` as 0.05; anything else as it is."""
    if not isinstance(value, str):
        return value
    if value.endswith("%"):
        return float(value[:-1]) / 100
    return seconds(value)


def seconds(duration: str) -> float:
    """Return the seconds of a duration such as `90s`, `10m`, `24h` or `7d`."""
    found = _DURATION.fullmatch(duration)
    if found is None:
        raise ValueError(f"{duration!r} is not a duration such as 90s, 10m, 24h or 7d")
    return float(int(found[1]) * _UNITS[found[2]])


def _digest(value: object) -> str:
    return sha256(msgspec.json.encode(value, order="sorted")).hexdigest()

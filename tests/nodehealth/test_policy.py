"""Policies: how several merge, and what a check may lead to."""

import pytest

from reconciler.nodehealth.findings import FindingSeverity, RepairAction
from reconciler.nodehealth.fleet.replay import catalogue_rules
from reconciler.nodehealth.policy import (
    CheckMode,
    CheckRule,
    HealthPolicy,
    Lane,
    NodeExpectation,
    PolicyBook,
    PolicyDocument,
    seconds,
)

VENDOR = CheckRule(mode=CheckMode.ENFORCE, lane=Lane.FAST)


def test_maps_merge_by_key() -> None:
    """Thresholds of a pool override those of the base, and nothing else."""
    base = PolicyDocument(
        name="base",
        spec={
            "checks": {"hbm": {"mode": "propose", "limits": {"failBelow": 0.75, "warnBelow": 0.85}}},
            "breaker": {"perPool": "5%", "window": "12h", "spike": {"nodes": 4}},
        },
    )
    pool = PolicyDocument(
        name="a-pool",
        node_labels={"pool": "h200"},
        spec={"checks": {"hbm": {"limits": {"failBelow": 0.8}}}, "selector": {"nodeLabels": {"pool": "h200"}}},
    )
    book = PolicyBook([pool, base])
    own = book.of_labels({"pool": "h200", "zone": "a"})
    assert own.checks["hbm"].limits == {"failBelow": 0.8, "warnBelow": 0.85}
    assert own.checks["hbm"].mode is CheckMode.PROPOSE
    assert book.base.checks["hbm"].limits["failBelow"] == 0.75
    assert (book.base.breaker.per_pool, book.base.breaker.window, book.base.breaker.spike_nodes) == (0.05, 43200, 4)
    assert own.digest != book.base.digest
    assert book.of_labels({"pool": "h200"}) is own, "nodes with the same policies share one"


def test_what_a_node_should_have_merges_and_names_its_policies() -> None:
    base = PolicyDocument(name="base", spec={"expected": {"gpus": 8, "deniedDrivers": ["570.1"]}})
    other = PolicyDocument(name="other", spec={"mode": "propose"})
    pool = PolicyDocument(name="l40s", node_labels={"pool": "l40s"}, spec={"expected": {"gpus": 4, "pcieWidth": 16}})
    book = PolicyBook([base, other, pool])
    denied = ("570.1",)
    assert book.base.expected == NodeExpectation(gpus=8, denied_drivers=denied, origin="HealthPolicy base")
    assert book.of_labels({"pool": "l40s"}).expected == NodeExpectation(
        gpus=4, denied_drivers=denied, pcie_width=16, origin="HealthPolicy base + l40s"
    )
    assert PolicyBook([other]).base.expected == NodeExpectation()


def test_the_fast_lane_takes_a_policy_that_says_so() -> None:
    """The catalogue alone never taints a node: without a policy it collects, unnamed checks are proposed at most."""
    assert HealthPolicy().rule("gpu.lost", VENDOR).mode is CheckMode.SHADOW
    book = PolicyBook([PolicyDocument(name="base", spec={"checks": {"ecc": {"lane": "fast"}, "hbm": {}}})])
    unnamed, named, without = (book.base.rule(check, VENDOR) for check in ("gpu.lost", "ecc", "hbm"))
    assert (unnamed.mode, unnamed.lane) == (CheckMode.PROPOSE, Lane.REVIEWED)
    assert (named.mode, named.lane) == (CheckMode.ENFORCE, Lane.FAST)
    assert (without.mode, without.lane) == (CheckMode.ENFORCE, Lane.REVIEWED)
    assert catalogue_rules()["gpu.xid"].mode is not None


@pytest.mark.parametrize(
    ("message", "lane", "severity"),
    [
        ("Xid 79 (GPU has fallen off the bus)", Lane.FAST, FindingSeverity.FATAL),
        ("Xid 31 x4, 94; the driver asks", Lane.REVIEWED, FindingSeverity.APP),
        ("Xid 48 (double bit error)", Lane.REVIEWED, None),
    ],
)
def test_an_xid_has_a_rule_of_its_own(message: str, lane: Lane, severity: FindingSeverity | None) -> None:
    spec = {
        "xid": {"79": {"lane": "fast", "severity": "fatal", "action": "power_cycle"}, "94": {"severity": "app"}},
        "checks": {"gpu.xid": {"mode": "enforce"}},
    }
    rule = PolicyBook([PolicyDocument(name="base", spec=spec)]).base.rule("gpu.xid", VENDOR, message)
    assert (rule.lane, rule.severity, rule.mode) == (lane, severity, CheckMode.ENFORCE)
    assert (rule.action is RepairAction.POWER_CYCLE) is (lane is Lane.FAST)


def test_durations() -> None:
    assert [seconds(one) for one in ("90s", "10m", "24h", "7d")] == [90, 600, 86400, 604800]
    with pytest.raises(ValueError, match="not a duration"):
        seconds("soon")

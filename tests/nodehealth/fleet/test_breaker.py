"""The breaker: all six limits, and that nothing but a commit resets it."""

import msgspec
import pytest

from reconciler.nodehealth.fleet.breaker import allowed
from reconciler.nodehealth.fleet.decisions import ProblemStatus
from reconciler.nodehealth.fleet.state import FleetState, HealthPhase
from tests.nodehealth.fleet.rounds import Rounds, fail, report

QUIET = {"spike": {"nodes": 1000}}


def out(fleet: Rounds) -> list[str]:
    return [name for name, one in fleet.state.nodes.items() if one.phase.is_out]


@pytest.mark.parametrize(("nodes", "cap"), [(8, 1), (20, 1), (50, 2), (100, 5)])
def test_five_percent_of_a_pool(nodes: int, cap: int) -> None:
    """F-096: the next node is not taken, whatever it reports; condition and reason are still there."""
    fleet = Rounds(nodes)
    fleet.policy(breaker=QUIET)
    for index in range(cap + 1):
        fleet.round(report(f"n{index:03}", 0, fail("gpu.lost")))
    assert len(out(fleet)) == cap
    refused = fleet.of(f"n{cap:03}")
    assert (refused.phase, refused.taint, refused.condition) == (HealthPhase.SUSPECT, None, ProblemStatus.TRUE)
    assert "pool a has had" in refused.refused
    assert "not quarantined" in refused.reason
    assert len(fleet.alerts) == 1


def test_ten_percent_of_a_model() -> None:
    """Many small pools together: each may lose one node, the model a tenth."""
    fleet = Rounds(20)
    fleet.policy(breaker=QUIET)
    for index, name in enumerate(fleet.facts):
        fleet.change(name, pool=f"pool-{index // 4}")
    for index in (0, 4, 8):
        fleet.round(report(f"n{index:03}", 0, fail("gpu.lost")))
    assert out(fleet) == ["n000", "n004"]
    assert "H100 has had 2 new quarantines within 24 h" in fleet.of("n008").refused


def test_a_fifth_of_the_fleet_is_out_already() -> None:
    """Cordons of others and nodes that are not ready count: they are as lost as ours."""
    fleet = Rounds(20)
    fleet.policy(breaker={**QUIET, "perPool": "50%", "perModel": "50%"})
    for index in range(4):
        fleet.change(f"n01{index}", **({"cordoned": True} if index % 2 else {"ready": False}))
    fleet.round(report("n000", 0, fail("gpu.lost")))
    assert out(fleet) == []
    assert "5 of 20 nodes would be out of use; the limit is 4" in fleet.of("n000").refused
    fleet.policy(breaker={**QUIET, "perPool": "50%", "perModel": "50%", "resetGeneration": 1})
    fleet.change("n010", ready=True, cordoned=False)
    fleet.round(report("n000", 0, fail("gpu.lost")))
    assert out(fleet) == ["n000"]


def test_the_same_check_on_three_nodes_freezes_the_rule() -> None:
    """The nodes stay as they are; other checks still work; one alert names what the nodes share."""
    fleet = Rounds(100)
    for index in range(100):
        fleet.change(f"n{index:03}", labels={"rack": f"r{index // 10}", "zone": "z"})
    made = fleet.round(*(report(f"n{index:03}", 0, fail("gpu.lost")) for index in range(3)))
    assert out(fleet) == []
    (alert,) = made.alerts
    assert alert.reason == "gpu.lost began to fail on 3 nodes within 1 h"
    assert alert.common == ("rack=r0",)
    assert fleet.of("n000").proposal is None
    fleet.round(report("n050", 0, fail("gpu.xid")))
    assert out(fleet) == ["n050"]
    fleet.round(report("n060", 0, fail("gpu.lost")), minutes=600)
    assert out(fleet) == ["n050"], "frozen until a commit"
    fleet.policy(breaker={"resetGeneration": 1})
    fleet.round(report("n061", 0, fail("gpu.lost")), minutes=600)
    assert set(out(fleet)) >= {"n050", "n061"}


def test_one_after_the_other_also_freezes() -> None:
    fleet = Rounds(100)
    for index in range(4):
        fleet.round(report(f"n{index:03}", 0, fail("gpu.lost")), minutes=10)
    assert out(fleet) == ["n000", "n001"]
    assert fleet.state.breaker.frozen


def test_the_last_node_of_a_flavor_stays() -> None:
    fleet = Rounds(12)
    fleet.policy(breaker={**QUIET, "unavailable": "100%", "perPool": "100%", "perModel": "100%"})
    fleet.change("n000", product="H200")
    fleet.change("n001", product="H200")
    fleet.round(report("n000", 0, fail("gpu.lost")))
    fleet.round(report("n001", 0, fail("gpu.lost")))
    assert out(fleet) == ["n000"]
    assert "n001 is the last schedulable node of H200 in pool a" in fleet.of("n001").refused
    assert not fleet.state.breaker.tripped


def test_a_tripped_breaker_stays_tripped_over_restarts_and_time() -> None:
    """The state is written and read again; days later nothing has changed; a larger generation resets it."""
    fleet = Rounds(20)
    fleet.policy(breaker=QUIET)
    for index in range(3):
        fleet.round(report(f"n{index:03}", 0, fail("gpu.lost")))
    assert fleet.state.breaker.tripped
    fleet.state = msgspec.json.decode(msgspec.json.encode(fleet.state), type=FleetState)
    fleet.round(report("n010", 0, fail("gpu.lost")), minutes=3 * 24 * 60)
    assert out(fleet) == ["n000"]
    fleet.policy(breaker={**QUIET, "resetGeneration": 1})
    fleet.round(report("n010", 0, fail("gpu.lost")))
    assert len(out(fleet)) == 2
    fleet.policy(breaker={**QUIET, "resetGeneration": 0})
    fleet.round(report("n011", 0, fail("gpu.lost")))
    assert len(out(fleet)) == 2, "a smaller number resets nothing"


def test_a_policy_that_fails_everything_takes_nothing() -> None:
    """A bad policy on 50 nodes: at most the limit, and one alert."""
    fleet = Rounds(50)
    fleet.round(*(report(name, 0, fail("gpu.lost")) for name in fleet.facts))
    assert len(out(fleet)) <= 2
    assert len(fleet.alerts) == 1
    loose = Rounds(50)
    loose.policy(breaker=QUIET)
    loose.round(*(report(name, 0, fail("gpu.lost")) for name in loose.facts))
    loose.round(*(report(name, 0, fail("gpu.lost")) for name in loose.facts))
    assert len(out(loose)) == 2
    assert len(loose.alerts) == 1


def test_shares_round_down_and_small_groups_get_the_minimum() -> None:
    assert [allowed(0.05, count, 1) for count in (1, 8, 20, 39, 40, 100)] == [1, 1, 1, 1, 2, 5]
    assert allowed(0.05, 8, 0) == 0
    assert allowed(0.29, 100, 1) == 29

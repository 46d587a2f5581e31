"""Mistakes that other health checkers made, each as a test: none of them comes back here."""

import pytest

from reconciler import resources
from reconciler.nodehealth.catalogue import BY_ID, CHECKS
from reconciler.nodehealth.checks.check import CheckScope
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, RepairAction, ThresholdSource
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import Lane
from reconciler.nodehealth.readings import ReadError
from reconciler.nodehealth.xids import read_xids
from tests.nodehealth.readers.fakes.library import changed, sound

SLOT = "0000:10:00.0"
_ROWS = {"corrected": 0, "uncorrected": 0, "pending": 0, "failure": 0}


def statuses(values: dict[str, object], *checks: str) -> list[CheckStatus]:
    sweep = changed(sound(1), values, SLOT)
    return [found.status for found in judge(sweep, only=checks)]


@pytest.mark.parametrize("part", ["uncorrected", "failure", "pending"])
def test_each_part_of_the_remapped_rows_is_looked_at(part: str) -> None:
    """Some look at pending rows alone; one reads the column after the last, so that its limit never fires."""
    checks = {"uncorrected": "remap.count", "failure": "remap.failure", "pending": "remap.pending"}
    sweep = changed(sound(1), {"nvml.remapped_rows": {**_ROWS, part: 600}}, SLOT)
    bad = {found.check for found in judge(sweep, only=checks.values()) if found.status is not CheckStatus.PASS}
    assert bad == {checks[part]}


def test_a_pending_remap_does_not_stop_work() -> None:
    """The vendor says that work may go on: a warning, for a reset when the node is free anyway."""
    sweep = changed(sound(1), {"nvml.remapped_rows": {**_ROWS, "pending": 1}}, SLOT)
    (found,) = judge(sweep, only=["remap.pending"])
    assert (found.status, found.severity) == (CheckStatus.WARN, FindingSeverity.DEGRADED)
    assert (found.action, BY_ID["remap.pending"].lane) == (RepairAction.RESET_GPU, Lane.REVIEWED)


@pytest.mark.parametrize("value", ["[N/A]", "", "40 C", None, [], {}, True, float("inf"), 10**400])
def test_what_cannot_be_parsed_is_not_healthy(value: object) -> None:
    """A parser that drops errors calls every broken GPU healthy."""
    assert statuses({"nvml.temperature_margin": value}, "temp.margin") == [CheckStatus.UNKNOWN]
    assert statuses({"nvml.power_usage": value}, "power.read") == [CheckStatus.UNKNOWN]


def test_normal_reasons_are_no_throttling() -> None:
    """Idle, set clocks and the power cap are how a sound GPU works under load."""
    assert statuses({"nvml.clocks_event_reasons": 0x01 | 0x02 | 0x04}, "throttle") == [CheckStatus.PASS]


def test_a_dead_gpu_does_not_hide_behind_one_call() -> None:
    """Whichever call is the first to say that the GPU is lost, the GPU is lost."""
    for name in ("nvml.utilization", "nvml.memory", "nvml.processes"):
        assert statuses({name: ReadError.GPU_LOST}, "gpu.reachable") == [CheckStatus.FAIL]


def test_a_gpu_falls_off_the_bus_without_an_xid() -> None:
    """The kernel may say so in words alone."""
    lines = [{"monotonic": 1.0, "text": "NVRM: GPU at PCI:0000:10:00: GPU-1 has fallen off the bus."}]
    sweep = changed(sound(1), {"kmsg.lines": lines})
    (found,) = judge(sweep, only=["kmsg.fallen_off"])
    assert found.status is CheckStatus.FAIL
    assert SLOT in found.message


def test_limits_say_where_they_come_from() -> None:
    """No fixed number of one card for all cards, and no number without a source; nothing is called measured that was not."""
    for check in CHECKS:
        for name, limit in check.limits.items():
            assert limit.source in set(ThresholdSource), (check.id, name)
            assert limit.source is not ThresholdSource.VENDOR or limit.citation, (check.id, name)
            assert limit.source is not ThresholdSource.MEASURED or limit.citation, (check.id, name)


def test_rows_are_whole() -> None:
    """Ids are unique, each check reads something, and only what takes a node out at once is in the fast lane."""
    assert len(BY_ID) == len(CHECKS)
    for check in CHECKS:
        assert check.reads, check.id
        assert check.lane is not Lane.FAST or check.severity is FindingSeverity.FATAL, check.id
        assert check.scope in set(CheckScope), check.id


def test_no_code_of_a_program_touches_a_node() -> None:
    """Codes that blame a program are not fatal by themselves, however often one program writes them."""
    for rule in read_xids(resources.read("data/xids.json")).rules.values():
        if rule.severity is FindingSeverity.APP and rule.repeat is not None:
            assert rule.repeat.workloads > 1, rule.code

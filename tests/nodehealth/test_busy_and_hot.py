"""A GPU that is hot and busy: what is worse is said, whatever else is true of it."""

from reconciler.health.pages.probe import worst
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.judge import judge
from tests.nodehealth.readers.fakes.library import changed, sound


def test_high_utilisation_does_not_hide_a_high_temperature() -> None:
    """Defect 21 of agentaflow: "High Utilization" overwrote "Warning (High Temperature)"; load is no status here."""
    base = sound(4)
    slot = base.gpus[0].slot
    hot = {"nvml.temperature_margin": 1}
    busy = {"nvml.utilization": {"gpu": 100, "memory": 99}}
    findings = judge(changed(base, {**hot, **busy}, slot))
    assert [one.check for one in findings if one.slot == slot and one.status is CheckStatus.WARN] == ["temp.margin"]
    assert worst(findings) is CheckStatus.WARN
    assert worst(judge(changed(base, busy, slot))) is not CheckStatus.WARN

"""Samples of gauges from the findings of a sweep: our own, and Autopilot's `autopilot_health_checks`."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.nodehealth.findings import CheckStatus, HealthFinding
from reconciler.nodehealth.readings import GpuIdentity
from reconciler.nodehealth.report import NodeReport

STATUS_VALUES = {CheckStatus.PASS: 0.0, CheckStatus.WARN: 1.0, CheckStatus.FAIL: 2.0, CheckStatus.UNKNOWN: 3.0}
"""The values of `gpuhealth_check_status`. A check that does not apply has no sample."""

AUTOPILOT_CHECKS: Mapping[str, tuple[str, ...]] = {
    "pciebw": ("pcie.h2d", "pcie.d2h"),
    "remapped": ("remap.pending", "remap.failure"),
    "power-slowdown": ("throttle",),
    "dcgm": ("dcgm.level1", "dcgm.level2", "dcgm.level3", "dcgm.level4"),
    "gpumem": ("hbm.bandwidth", "compute.checksum"),
    "ping": ("net.ping",),
    "pvc": ("storage.pvc",),
}
"""The checks of Autopilot by the values of its label `health`, and ours behind each."""

_MEASURED = "pciebw"
_BAD = (CheckStatus.FAIL, CheckStatus.WARN)


def current(report: NodeReport, findings: Sequence[HealthFinding]) -> Iterator[HealthFinding]:
    """Yield what is true now: the findings of the report, and all of the last sweep that they do not overrule."""
    listed = {one.key: one for one in report.findings}
    yield from listed.values()
    yield from (one for one in findings if one.key not in listed)


def check_samples(report: NodeReport, findings: Sequence[HealthFinding]) -> dict[tuple[str, ...], float]:
    """Return the samples of `gpuhealth_check_status` by check, node, slot, model and severity."""
    models = _models(report.gpus)
    return {
        (one.check, report.node, one.slot, models.get(one.slot, ""), one.severity.value): STATUS_VALUES[one.status]
        for one in current(report, findings)
        if one.status in STATUS_VALUES
    }


def autopilot_samples(
    report: NodeReport, findings: Sequence[HealthFinding], cpu_model: str = ""
) -> dict[tuple[str, ...], float]:
    """Return the samples of `autopilot_health_checks` by health, node, CPU model, GPU model and device.

    1 is a failure and 0 a pass; `pciebw` is the bandwidth in GB/s. What is not known has no sample.
    """
    models, index = _models(report.gpus), {gpu.slot: str(gpu.index) for gpu in report.gpus}
    names = {check: name for name, checks in AUTOPILOT_CHECKS.items() for check in checks}
    found: dict[tuple[str, ...], float] = {}
    for one in current(report, findings):
        name = names.get(one.check)
        if name is None or one.status not in (CheckStatus.PASS, *_BAD):
            continue
        key = (name, report.node, cpu_model, models.get(one.slot, ""), index.get(one.slot, ""))
        if name == _MEASURED:
            if isinstance(one.observed, int | float):
                found[key] = min(found.get(key, float("inf")), float(one.observed))
        else:
            found[key] = max(found.get(key, 0.0), 1.0 if one.status in _BAD else 0.0)
    return found


def _models(gpus: Sequence[GpuIdentity]) -> dict[str, str]:
    return {gpu.slot: gpu.product for gpu in gpus}

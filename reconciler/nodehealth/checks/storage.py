"""The storage of the node: a volume can be claimed, and was."""

from reconciler.nodehealth.checks.check import CheckInput, CheckResult, CheckScope, HealthCheck, Unmeasured
from reconciler.nodehealth.findings import CheckStatus, ProbeProfile, Threshold, ThresholdSource
from reconciler.nodehealth.readings import ReadingId

_SECONDS = Threshold(
    value=90, source=ThresholdSource.POLICY, citation="seconds until a claim of 100 MiB is bound and written"
)


def _claim(given: CheckInput) -> CheckResult:
    if given.sweep.find(ReadingId.STORAGE_PVC) is None:
        raise Unmeasured(CheckStatus.SKIP, "no storage class was given")
    found = given.table(ReadingId.STORAGE_PVC)
    phase, seconds = str(found.get("phase")), given.field(ReadingId.STORAGE_PVC, "seconds")
    threshold = given.threshold("seconds")
    if found.get("left"):
        message = f"the claim {found['left']} could not be deleted"
        return CheckResult(status=CheckStatus.WARN, message=message, observed=seconds, threshold=threshold)
    text = f"a claim of class {found.get('storageClass')} is {phase} after {seconds:.0f} s"
    is_written = found.get("written", True) is True
    if not is_written:
        text += f", and was not written: the pod on this node is {found.get('pod')}"
    status = CheckStatus.PASS if phase == "Bound" and is_written else CheckStatus.FAIL
    return CheckResult(status=status, message=text, observed=seconds, threshold=threshold)


CHECKS = (
    HealthCheck(
        id="storage.pvc",
        title="A PersistentVolumeClaim is bound and written in time",
        judge=_claim,
        reads=(ReadingId.STORAGE_PVC,),
        scope=CheckScope.NODE,
        profile=ProbeProfile.DEEP,
        vendor="",
        unit="s",
        limits={"seconds": _SECONDS},
    ),
)

"""The storage of the node: a volume can be claimed, and was."""

from reconciler.nodehealth.checks.check import CheckInput, CheckResult, Unmeasured, health_checks, outcome, warned
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.readings import ReadingId


def _claim(given: CheckInput) -> CheckResult:
    if given.sweep.find(ReadingId.STORAGE_PVC) is None:
        raise Unmeasured(CheckStatus.SKIP, "no storage class was given")
    found = given.table(ReadingId.STORAGE_PVC)
    phase, seconds = str(found.get("phase")), given.field(ReadingId.STORAGE_PVC, "seconds")
    threshold = given.threshold("seconds")
    if found.get("left"):
        return warned(f"the claim {found['left']} could not be deleted", seconds, threshold)
    text = f"a claim of class {found.get('storageClass')} is {phase} after {seconds:.0f} s"
    is_written = found.get("written", True) is True
    if not is_written:
        text += f", and was not written: the pod on this node is {found.get('pod')}"
    return outcome(CheckStatus.PASS if phase == "Bound" and is_written else CheckStatus.FAIL, text, seconds, threshold)


CHECKS = health_checks("storage", {"storage.pvc": _claim})

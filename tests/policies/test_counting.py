"""The shipped rules count GPUs as a plan does, for the kinds that they match."""

import re
from typing import Any

import pytest

from reconciler.kube.yaml import read, write
from reconciler.repo.config import RuleSetting
from tests.kinds.samples import Sample, samples
from tests.kinds.test_devices import counted
from tests.policies.catalogue import catalogue, verdicts

RULE = "max-gpus-per-job"
NONE_ALLOWED = catalogue({RULE: RuleSetting(parameters={"max": 0})})
KINDS = {
    *("Pod", "Job", "CronJob", "JobSet", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"),
    *("TrainJob", "RayJob", "RayCluster", "RayCronJob", "AppWrapper", "LeaderWorkerSet"),
}
COUNTED_BY_PLANS_ALONE = {
    "pods: overhead of its runtime",
    "pods: a fraction",
    "pods: memory of a gpu",
    "pods: fractions of several gpus",
    "training: ray job with a submitter that has a GPU",
    "training: app wrapper that declares its pods",
}
"""What depends on other objects, or on annotations of schedulers; a plan and its quotas count it."""

MATCHED = [sample for sample in samples() if len(sample.objects) == 1 and sample.objects[0]["kind"] in KINDS]


def gpus(body: dict[str, Any]) -> int:
    """Return the GPUs that the rule names when it allows none."""
    (document,) = read("jobs/sample.yaml", write(body)).documents
    said = [one.message for one in verdicts(NONE_ALLOWED, document) if one.rule == RULE]
    found = [re.search(r"requests (\d+) GPUs", message) for message in said]
    return sum(int(match[1]) for match in found if match is not None)


@pytest.mark.parametrize("sample", MATCHED, ids=lambda sample: sample.name)
def test_the_rule_and_the_plan_count_the_same(sample: Sample) -> None:
    by_plan, by_rule = counted(sample).gpus, gpus(sample.objects[0])
    assert (by_rule < by_plan) if sample.name in COUNTED_BY_PLANS_ALONE else (by_rule == by_plan)


def test_the_exceptions_are_samples() -> None:
    assert {sample.name for sample in MATCHED} >= COUNTED_BY_PLANS_ALONE

"""Accelerators are counted as the real controllers create pods, or named; nothing is taken for zero."""

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import ObjectSummary, summarize
from reconciler.queues.queues import QueueUsage
from tests.kinds.samples import Body, Sample, samples

SAMPLES = samples()
MIN_SAMPLES = 205


def row(body: Body) -> ObjectSummary:
    return summarize(BUILT_IN, cluster="main", body=body, path="main/default/x.yaml", digest="d")


def counted(sample: Sample) -> ObjectSummary:
    """Return the first object, with what the others say of it."""
    first, *others = map(row, sample.objects)
    usage = QueueUsage()
    for other in others:
        usage.add_queue(other)
    return usage.resolve(first)


def test_there_are_samples_of_everything() -> None:
    assert len(SAMPLES) >= MIN_SAMPLES
    assert len({sample.name for sample in SAMPLES}) == len(SAMPLES)
    assert all(sample.source for sample in SAMPLES)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_devices_are_counted_or_named(sample: Sample) -> None:
    found = counted(sample)
    devices: dict[str, float] = {}
    for demand in () if found.provides else found.demands:
        devices[demand.resource] = devices.get(demand.resource, 0) + demand.gpus
    assert {name: amount for name, amount in devices.items() if amount} == sample.devices
    assert found.gpus == sum(sample.devices.values())
    assert found.gpu_range == sample.bounds
    assert [one.what for one in found.uncounted][:1] == ([sample.uncounted] if sample.uncounted else [])


def test_every_kind_that_runs_pods_has_a_sample() -> None:
    """A kind of the registry that runs pods is in the samples, beside those that others cover."""
    sampled = {(body["apiVersion"].rpartition("/")[0], body["kind"]) for sample in SAMPLES for body in sample.objects}
    runs = {kind for kind, one in BUILT_IN.items() if one.pods.read or one.pods.provides}
    assert runs - sampled == ELSEWHERE


ELSEWHERE = {
    ("apps", "DaemonSet"),  # of which the evidence says how many pods there are
    ("apps.kruise.io", "DaemonSet"),
    ("apps.kruise.io", "BroadcastJob"),
}

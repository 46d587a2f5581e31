"""The order of steps: what has to exist first, and what is deleted last."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds.registry import BUILT_IN
from reconciler.live.apply.order import order
from reconciler.live.apply.steps import Step, Verb
from tests.live.order.steps import body, job, names, queue, step

CRD = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com")
WIDGET = body("example.com/v1", "Widget", "one", "team")
NAMESPACE = body("v1", "Namespace", "team")
PRIORITY = body("scheduling.k8s.io/v1", "PriorityClass", "high", value=1)
CLAIM = body("v1", "PersistentVolumeClaim", "data", "team", spec={"resources": {"requests": {"storage": "1Gi"}}})
ALL = [job("vit", "a"), WIDGET, CLAIM, queue("a", "root"), queue("root"), PRIORITY, CRD, NAMESPACE]


def ordered(steps: list[Step], **waves: tuple[int, int]) -> list[list[str]]:
    return names(order(BUILT_IN, steps, waves).batches)


def test_creations_begin_with_what_others_need() -> None:
    """Namespaces, kinds, classes, quotas (parents first), configuration, workloads."""
    assert ordered([step(Verb.CREATE, made) for made in ALL]) == [
        ["create team"],
        ["create widgets.example.com"],
        ["create high"],
        ["create root"],
        ["create a"],
        ["create data", "create one"],
        ["create vit"],
    ]


def test_deletions_go_the_other_way() -> None:
    """Nothing is deleted before what needs it."""
    assert ordered([step(Verb.DELETE, made) for made in ALL]) == [
        ["delete vit"],
        ["delete data", "delete one"],
        ["delete a"],
        ["delete root"],
        ["delete high"],
        ["delete widgets.example.com"],
        ["delete team"],
    ]


def test_deletions_come_last() -> None:
    assert ordered([step(Verb.DELETE, queue("old")), step(Verb.CREATE, job("vit"))]) == [["create vit"], ["delete old"]]


def test_a_new_generation_starts_when_the_old_one_is_gone() -> None:
    """A gang is never half old and half new; other workloads do not wait for it."""
    steps = [
        step(Verb.DELETE, job("vit")),
        step(Verb.CREATE, job("vit-g1"), replaces=job("vit")),
        step(Verb.CREATE, job("other")),
    ]
    result = order(BUILT_IN, steps, {})
    assert names(result.batches) == [["create other", "delete vit"], ["create vit-g1"]]
    assert result.needs[steps[1].path] == {steps[0].path}


def test_a_claim_that_moves_is_there_before_the_old_one_goes() -> None:
    other = body("v1", "PersistentVolumeClaim", "data2", "team")
    steps = [step(Verb.DELETE, CLAIM), step(Verb.CREATE, other, replaces=CLAIM)]
    assert ordered(steps) == [["create data2"], ["delete data"]]


def test_a_queue_goes_after_the_job_that_leaves_it() -> None:
    """The update that takes a job out of a queue must succeed before the queue is deleted."""
    update = step(Verb.UPDATE, job("vit", "a"))
    delete = step(Verb.DELETE, queue("a"))
    assert order(BUILT_IN, [update, delete], {}).needs[delete.path] == {update.path}


def test_what_a_failure_stops() -> None:
    """Only what needs a step depends on it: its namespace, kind, queue, claim."""
    steps = {made["metadata"]["name"]: step(Verb.CREATE, made) for made in [*ALL, job("free", namespace="other")]}
    needs = order(BUILT_IN, list(steps.values()), {}).needs
    assert needs[steps["one"].path] == {steps["team"].path, steps["widgets.example.com"].path}
    assert needs[steps["vit"].path] == {steps["team"].path, steps["a"].path}
    assert needs[steps["a"].path] == {steps["root"].path}
    assert needs[steps["free"].path] == set()


def test_sync_waves_count_more_than_kinds() -> None:
    early, late = step(Verb.CREATE, job("early")), step(Verb.CREATE, NAMESPACE)
    result = order(BUILT_IN, [early, late], {early.path: (0, -1)})
    assert names(result.batches) == [["create early"], ["create team"]]
    assert result.needs[early.path] == set()


@given(st.permutations([*ALL, job("a2", "a"), queue("b", "a")]), st.data())
def test_every_step_comes_once_and_after_its_needs(bodies: list[dict[str, object]], data: st.DataObject) -> None:
    steps = [step(data.draw(st.sampled_from(Verb)), made) for made in bodies]
    result = order(BUILT_IN, steps, {})
    flat = list(itertools.chain(*result.batches))
    assert sorted(one.path for one in flat) == sorted(one.path for one in steps)
    position = {one.path: number for number, batch in enumerate(result.batches) for one in batch}
    for path, needs in result.needs.items():
        assert all(position[need] < position[path] for need in needs)


def test_circles_of_queues_do_not_hang() -> None:
    steps = [step(Verb.CREATE, queue("a", "b")), step(Verb.CREATE, queue("b", "a"))]
    assert sorted(name for batch in ordered(steps) for name in batch) == ["create a", "create b"]

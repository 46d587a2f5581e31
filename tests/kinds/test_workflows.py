"""Templates of Argo Workflows within templates: counted however often they are used, and never silently left out."""

from typing import Any

import pytest

from reconciler.kinds.argo import MAX_LEVELS, MAX_TASKS, Stages
from reconciler.kinds.facts import PodSet

GPUS = {"resources": {"limits": {"nvidia.com/gpu": 4}}}
TRAIN = {"name": "train", "container": {"image": "x", **GPUS}}


def pods(*templates: dict[str, Any]) -> list[PodSet]:
    """Return what a workflow runs that begins with the first template."""
    return Stages({"entrypoint": templates[0]["name"], "templates": [*templates, TRAIN]}, "spec.").pods()


def calls(name: str, *stages: tuple[str, ...]) -> dict[str, Any]:
    """Return a template whose stages run other templates at the same time."""
    return {"name": name, "steps": [[{"name": other, "template": other} for other in stage] for stage in stages]}


def chain(count: int, width: int = 1) -> list[dict[str, Any]]:
    """Return templates, each of which calls the next one, and the last of which trains."""
    following = [*(f"t{number}" for number in range(1, count)), "train"]
    return [calls(f"t{number}", (name,) * width) for number, name in enumerate(following)]


def test_templates_within_templates_count_up_to_a_limit() -> None:
    assert [one.unknown for one in pods(*chain(50))] == [""]
    assert [one.template["spec"]["containers"][0]["image"] for one in pods(*chain(MAX_LEVELS - 1))] == ["x"]
    for count in (MAX_LEVELS + 1, 3000):
        (deep,) = pods(*chain(count))
        assert (deep.unknown, deep.template) == (
            f"the GPUs of template t{MAX_LEVELS}, more than {MAX_LEVELS} levels deep",
            {},
        )


def test_a_template_is_read_once_however_often_it_is_called() -> None:
    """Three calls at each of 40 levels are 3^40 pods; the most that are counted are 1,000."""
    assert sum(one.replicas for one in pods(*chain(40, 3))) == 1000


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([("train",), ("main",)], [""]),  # one after the other: no more run at a time
        ([("train", "main")], ["", "how often template main runs itself"]),
        ([("main",)], []),  # without GPUs
    ],
)
def test_a_template_that_runs_itself(stages: list[tuple[str, ...]], expected: list[str]) -> None:
    assert [one.unknown for one in pods(calls("main", *stages))] == expected


def test_two_templates_that_run_each_other() -> None:
    found = pods(calls("a", ("b", "train")), calls("b", ("a", "train")))
    assert [(one.replicas, one.unknown) for one in found] == [(1, "how often template a runs itself"), (2, "")]


def test_the_tasks_of_a_graph_are_bounded() -> None:
    def graph(count: int) -> list[PodSet]:
        tasks = [
            {"name": f"t{n}", "template": "train", **({"depends": f"t{n - 1}.Succeeded"} if n else {})}
            for n in range(count)
        ]
        return pods({"name": "main", "dag": {"tasks": tasks}})

    assert [(one.replicas, one.unknown) for one in graph(MAX_TASKS)] == [(1, "")]
    assert [one.unknown for one in graph(MAX_TASKS + 1)] == ["the GPUs of a graph of more than 1,000 tasks"]

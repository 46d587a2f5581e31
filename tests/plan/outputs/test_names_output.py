"""Names for scripts: three words a line, whatever the objects are called."""

from hypothesis import given, settings

from reconciler.plan import Plan
from reconciler.plan.outputs.names import render_names
from tests import sizes
from tests.plan.outputs import plans
from tests.plan.outputs.strategies import PLANS


def test_one_change_a_line() -> None:
    assert render_names(plans.everything()).splitlines()[:3] == [
        "update main Queue/h200-research",
        "update main Job/research/gpt-35b-pretrain",
        "update main Job/vision/vit-sweep",
    ]
    assert render_names(plans.quiet()) == ""


@settings(max_examples=sizes.examples(60), deadline=None)
@given(PLANS)
def test_three_words_a_line(plan: Plan) -> None:
    lines = render_names(plan).split("\n")
    assert len(lines) == len(plan.changes) + 1
    assert all(len(line.split(" ")) == 3 for line in lines[:-1])

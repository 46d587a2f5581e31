"""The chain of one object: value, formula, source line, evidence (F-141)."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.console.printable import cells
from reconciler.plan.explanation import ExplainedField, Explanation, ValueSource
from reconciler.plan.outputs.explain import render_explain, render_explain_json
from tests.plan.outputs import plans
from tests.plan.outputs.goldens import agrees
from tests.plan.outputs.strategies import KEY, PLACE, TEXT, VALUE, several

JOB = "jobs/pretrain/gpt-35b.yaml"
ORIGINS = (
    ValueSource(
        place=plans.place(JOB, 14, 10), field="spec.gpus", line="  gpus: 32  # four nodes, as agreed on Monday"
    ),
    ValueSource(
        place=plans.place("evidence/main/nodes.yaml", 41, 11),
        field="nodes[3].gpus",
        line="      gpus: 8",
        is_evidence=True,
    ),
)
NODES = ("torchrun.nodes", "32 GPUs / 8 per node = 4 nodes")
EXPLANATION = Explanation(
    cluster="main",
    key=plans.RESIZED.key,
    path=plans.RESIZED.path,
    source=plans.place(JOB, 1, 1),
    fields=(
        ExplainedField(field="spec.completions", value=4, rule=NODES[0], formula=NODES[1], origins=ORIGINS),
        ExplainedField(field="spec.parallelism", value=4, rule=NODES[0], formula=NODES[1], origins=ORIGINS),
        ExplainedField(
            field=f"{plans.TRAINER}.image",
            value="nvcr.io/nvidia/pytorch:24.08-py3",
            rule="source",
            origins=(ValueSource(place=plans.place(JOB, 9, 10), field="spec.image"),),
        ),
        ExplainedField(
            field=f"{plans.TRAINER}.command[2]",
            value=plans.AFTER_SCRIPT,
            rule="source",
            origins=(ValueSource(place=plans.place(JOB, 21, 3), field="spec.setupCommand", line="  setupCommand: |"),),
        ),
        ExplainedField(field="spec.completionMode", value="Indexed", rule="torchrun.indexed"),
    ),
)
EXPLANATIONS = st.builds(
    Explanation,
    cluster=TEXT,
    key=KEY,
    path=TEXT,
    source=PLACE,
    fields=several(
        st.builds(
            ExplainedField,
            field=TEXT,
            value=VALUE,
            rule=TEXT,
            formula=TEXT,
            origins=several(st.builds(ValueSource, place=PLACE, field=TEXT, line=TEXT, is_evidence=st.booleans())),
        )
    ),
)


def test_the_whole_chain() -> None:
    """Rendered value, formula, the literal source line and the evidence behind it (F-141)."""
    assert agrees("explain.txt", render_explain(EXPLANATION, width=80))


def test_json_has_the_same_chain() -> None:
    data = json.loads(render_explain_json(EXPLANATION))
    first = data["fields"][0]
    assert (first["field"], first["value"], first["formula"]) == ("spec.completions", 4, NODES[1])
    assert [origin["evidence"] for origin in first["origins"]] == [False, True]
    assert first["origins"][0]["text"].strip().startswith("gpus: 32")


@settings(max_examples=60, deadline=None)
@given(EXPLANATIONS, st.integers(40, 120))
def test_any_strings_fit_and_command_nothing(explanation: Explanation, width: int) -> None:
    shown = render_explain(explanation, width=width)
    assert "\x1b" not in shown
    assert "##[" not in shown
    room = width + 3 * shown.count("\\x3a") + 3 * shown.count("\\x23")
    assert max(map(cells, shown.splitlines())) <= room

"""The largest batch and the longest samples: the value fits, and the next one does not."""

from hypothesis import given, settings
from msgspec.structs import replace

from reconciler.launch import Framework
from reconciler.sizing.decide import Evaluator
from reconciler.sizing.memory import estimate
from reconciler.sizing.question import Question
from reconciler.sizing.remedies import MAX_BATCH, MAX_SEQUENCE, SEQUENCE_STEP, find_reach
from reconciler.sizing.training import Layout, Method
from tests.sizing.remedies.trainings import question, situations, training


def fits(asked: Question, layout: Layout) -> bool:
    return Evaluator(asked).evaluate(layout).fits


def is_safe(asked: Question, layout: Layout) -> bool:
    """Whether the need fits even if the peak is at the upper end of its range."""
    found = Evaluator(asked).evaluate(layout).estimate
    assert found is not None
    return fits(asked, layout) and found.need_gib * found.high_gib / found.peak_gib <= asked.gpu.memory_gib


def of_length(asked: Question, tokens: int) -> Question:
    return replace(asked, training=replace(asked.training, sequence=tokens))


@settings(max_examples=60, deadline=None)
@given(situations())
def test_the_largest_value_fits_and_the_next_does_not(case: tuple[Question, Layout, Framework | None]) -> None:
    asked, layout, _ = case
    reach = find_reach(asked, layout)
    for most, accepts in ((reach.batch, fits), (reach.safe_batch, is_safe)):
        assert most == 0 or accepts(asked, replace(layout, batch=most))
        assert most == MAX_BATCH or not accepts(asked, replace(layout, batch=most + 1))
    for most, accepts in ((reach.sequence, fits), (reach.safe_sequence, is_safe)):
        assert most % SEQUENCE_STEP == 0
        assert most == 0 or accepts(of_length(asked, most), layout)
        assert most == MAX_SEQUENCE or not accepts(of_length(asked, most + SEQUENCE_STEP), layout)
    assert reach.safe_batch <= reach.batch
    assert reach.safe_sequence <= reach.sequence


@settings(max_examples=30, deadline=None)
@given(situations())
def test_every_smaller_value_fits(case: tuple[Question, Layout, Framework | None]) -> None:
    """The search relies on it: less work never needs more memory."""
    asked, layout, _ = case
    reach = find_reach(asked, layout)
    assert all(fits(asked, replace(layout, batch=batch)) for batch in range(1, min(reach.batch, 40) + 1))
    steps = range(SEQUENCE_STEP, min(reach.sequence, 40 * SEQUENCE_STEP) + 1, SEQUENCE_STEP)
    assert all(fits(of_length(asked, tokens), layout) for tokens in steps)


def test_the_numbers_of_one_question() -> None:
    """LoRA of Llama 3.1 8B on an A100: the need at the limit is within the margin, one sample more is not."""
    layout = Layout(gpus=1, batch=1)
    asked = question(training(method=Method.LORA, framework="fms-hf-tuning"), layout)
    reach = find_reach(asked, layout)
    at_limit, beyond = (
        estimate(asked.training, replace(layout, batch=batch), asked.gpu).need_gib
        for batch in (reach.batch, reach.batch + 1)
    )
    assert at_limit * 1.08 <= 80.0 < beyond * 1.08
    assert 8 <= reach.batch <= 12
    assert reach.layout == layout


def test_nothing_fits() -> None:
    layout = Layout(gpus=1, batch=1)
    reach = find_reach(question(training("llama3.1-70b"), layout, "NVIDIA-A10G"), layout)
    assert (reach.batch, reach.safe_batch, reach.sequence, reach.safe_sequence) == (0, 0, 0, 0)

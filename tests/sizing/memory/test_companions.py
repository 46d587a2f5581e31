"""The models beside a policy, beside figures that were worked out by hand."""

import pytest
from msgspec.structs import replace

from reconciler.sizing.decision import Confidence, Estimate
from reconciler.sizing.memory import estimate
from reconciler.sizing.throughput.forecast import throughput
from reconciler.sizing.training import (
    Architecture,
    Companion,
    CompanionRole,
    Layout,
    Method,
    Objective,
    Precision,
    Strategy,
    Training,
)
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE

GIB = float(1 << 30)


def model(name: str) -> Architecture:
    found = MODEL_TABLE.find(name)
    assert found is not None
    return found


P = model("llama-7b").parameters
TRUNK = model("qwen2.5-7b").parameters - model("qwen2.5-7b").vocabulary * model("qwen2.5-7b").hidden
CARD = GPU_TABLE.find("NVIDIA-H100-80GB-HBM3")
assert CARD is not None
WIDE = replace(CARD, memory_gib=4000.0)
REWARD = Companion(role=CompanionRole.REWARD, architecture=model("qwen2.5-7b"))
VALUE = Companion(role=CompanionRole.VALUE, architecture=model("qwen2.5-7b"))
POLICY = Training(
    model="llama-7b",
    architecture=model("llama-7b"),
    method=Method.FULL,
    sequence=1024,
    objective=Objective.PPO,
    precision=Precision.BF16_MIXED,
    strategy=Strategy.ZERO3,
)


def models(found: Estimate) -> float:
    return next((part.gib for part in found.parts if part.name == "models"), 0.0)


def beside(*companions: Companion, strategy: Strategy = Strategy.ZERO3, **changes: object) -> float:
    """Return GiB of the models beside the policy on one of 8 GPUs."""
    one = replace(POLICY, companions=companions, strategy=strategy, **changes)
    return models(estimate(one, Layout(gpus=8), WIDE))


@pytest.mark.parametrize(
    ("strategy", "bits", "each"),
    [
        (Strategy.ZERO3, 16, 2 / 8),
        (Strategy.ZERO3, 32, 2 / 8),
        (Strategy.ZERO2, 32, 2),
        (Strategy.DDP, 32, 4),
        (Strategy.FSDP_FULL, 32, 4),
        (Strategy.DDP, 4, 0.53),
        (Strategy.DDP, 8, 1.0),
    ],
)
def test_a_frozen_model_is_whole_unless_zero_3_shards_it(strategy: Strategy, bits: int, each: float) -> None:
    """A reward model has a head of one output; DeepSpeed casts it to 2 bytes."""
    assert beside(replace(REWARD, bits=bits), strategy=strategy) == pytest.approx(each * TRUNK / GIB, rel=1e-6)


def test_a_head_over_the_vocabulary_counts_where_it_is_kept() -> None:
    whole = model("qwen2.5-7b").parameters
    assert beside(replace(REWARD, has_vocabulary=True)) == pytest.approx(2 * whole / 8 / GIB, rel=1e-6)
    reference = Companion(role=CompanionRole.REFERENCE, architecture=model("llama-7b"))
    assert beside(reference) == pytest.approx(2 * P / 8 / GIB, rel=1e-6)


def test_a_value_model_that_takes_turns_keeps_its_weights_and_its_optimizer() -> None:
    """Under ZeRO: 2 bytes and 12 (arXiv 1910.02054, section 3). The larger of two models has the gradients."""
    small = replace(VALUE, architecture=model("qwen2.5-3b"))  # whose head is tied
    assert beside(small) == pytest.approx(14 * small.architecture.parameters / 8 / GIB, rel=1e-6)
    larger = replace(POLICY, architecture=model("qwen2.5-3b"), companions=(VALUE,))
    assert models(estimate(larger, Layout(gpus=8), WIDE)) >= 16 * TRUNK / 8 / GIB
    assert beside(small, rollout=0.1, rollout_sleeps=True, rollout_sheds=True) == pytest.approx(
        2 * small.architecture.parameters / 8 / GIB, rel=1e-6
    )


def test_a_joint_value_model_is_trained_whole_beside_adapters() -> None:
    joint = replace(VALUE, joint=True)
    turns, whole = (beside(one, method=Method.LORA) for one in (VALUE, joint))
    assert turns < 3 * TRUNK / 8 / GIB
    assert whole >= 16 * TRUNK / 8 / GIB


def test_the_logits_of_generated_tokens_are_kept_twice() -> None:
    """TRL pads the logits of all answers, in fp32, into a copy, however few answers are generated at once."""
    one = replace(POLICY, strategy=Strategy.DDP, method=Method.LORA, generates=True, scored=0.5, rollout_batch=1)
    layout = Layout(gpus=1, batch=4, accumulation=64)
    plain, keeps = (estimate(each, layout, WIDE) for each in (one, replace(one, keeps_scores=True)))
    logits = 4 * 64 * 512 * 32000 * 8
    assert keeps.need_gib - plain.need_gib > 0
    assert keeps.need_gib == pytest.approx((2 * P + logits + 1024 * 524288) / GIB, rel=0.02)


def test_what_nobody_measured_is_uncertain() -> None:
    one = replace(POLICY, companions=(REWARD, VALUE))
    found = estimate(one, Layout(gpus=8), WIDE)
    assert found.confidence is Confidence.LOW
    assert found.low_gib <= 0.7 * found.peak_gib
    assert found.high_gib >= 1.5 * found.peak_gib
    assert throughput(one, Layout(gpus=8), WIDE) is None


@pytest.mark.parametrize("strategy", [Strategy.DDP, Strategy.ZERO2, Strategy.ZERO3, Strategy.FSDP_FULL])
def test_more_gpus_never_need_more_memory_each(strategy: Strategy) -> None:
    joint = (REWARD, replace(VALUE, joint=True))
    one = replace(POLICY, companions=joint, strategy=strategy, generates=True, keeps_scores=True, rollout_batch=64)
    needs = [estimate(one, Layout(gpus=gpus, batch=16 // gpus), WIDE).need_gib for gpus in (1, 2, 4, 8, 16)]
    assert needs == sorted(needs, reverse=True)


def test_a_larger_reward_model_never_needs_less() -> None:
    names = ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-72b")
    needs = []
    for name in names:
        one = replace(POLICY, companions=(replace(REWARD, architecture=model(name)), VALUE))
        needs.append(estimate(one, Layout(gpus=8), WIDE).need_gib)
    assert needs == sorted(needs)

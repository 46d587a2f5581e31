"""The terms of a prediction, beside figures that were worked out by hand."""

import pytest
from msgspec.structs import replace

from reconciler.sizing.decision import Confidence, Estimate
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import estimate, fits, is_known_optimizer
from reconciler.sizing.memory.stacks import STACKS, Stack, stack_of
from reconciler.sizing.memory.terms import terms_of
from reconciler.sizing.training import Attention, Layout, Method, Objective, Offload, Precision, Strategy, Training
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE

GIB = float(1 << 30)
P = 6_738_415_616  # parameters of llama-7b


def card(name: str = "NVIDIA-A100-SXM4-80GB") -> Gpu:
    found = GPU_TABLE.find(name)
    assert found is not None
    return found


def training(**changes: object) -> Training:
    model = MODEL_TABLE.find("llama-7b")
    assert model is not None
    assert model.parameters == P
    return replace(Training(model="llama-7b", architecture=model, method=Method.FULL, sequence=2048), **changes)


def part(found: Estimate, name: str) -> float:
    return next(one.gib for one in found.parts if one.name == name)


def states(found: Estimate) -> float:
    return part(found, "weights") + part(found, "gradients") + part(found, "optimizer")


@pytest.mark.parametrize(
    ("precision", "strategy", "gpus", "bytes_each"),
    [
        (Precision.BF16, Strategy.DDP, 1, 2 + 2 + 4),
        (Precision.FP32, Strategy.DDP, 1, 4 + 4 + 8),
        (Precision.BF16_MIXED, Strategy.DDP, 1, 4 + 4 + 8),
        (Precision.BF16, Strategy.FSDP_FULL, 4, 8 / 4),
        (Precision.BF16_MIXED, Strategy.FSDP_FULL, 8, 16 / 8),
        (Precision.BF16, Strategy.FSDP_GRAD_OP, 4, 2 + (2 + 4) / 4),
        (Precision.BF16_MIXED, Strategy.ZERO1, 4, 2 + 2 + 12 / 4),
        (Precision.BF16_MIXED, Strategy.ZERO2, 4, 2 + (2 + 12) / 4),
        (Precision.BF16_MIXED, Strategy.ZERO3, 4, 16 / 4),
    ],
)
def test_states_are_those_of_the_papers(precision: Precision, strategy: Strategy, gpus: int, bytes_each: float) -> None:
    """Bytes of each parameter as in ZeRO (arXiv 1910.02054), and pure bf16."""
    found = estimate(training(precision=precision, strategy=strategy), Layout(gpus=gpus), card())
    assert states(found) == pytest.approx(bytes_each * P / GIB, rel=1e-6)


def test_hybrid_shards_within_one_node() -> None:
    run = training(strategy=Strategy.FSDP_HYBRID)
    one, two = (estimate(run, Layout(gpus=8 * nodes, workers=nodes), card()) for nodes in (1, 2))
    assert states(one) == states(two)


@pytest.mark.parametrize(
    ("optimizer", "bytes_each"),
    [
        ("adamw_torch", 4),
        ("adamw_bnb_8bit", 2),
        ("paged_adamw_32bit", 8),
        ("lion_8bit", 1),
        ("sgd", 0),
        ("soap", 4),  # not known: counted as AdamW
    ],
)
def test_optimizers_of_pure_bf16(optimizer: str, bytes_each: float) -> None:
    found = estimate(training(optimizer=optimizer), Layout(gpus=1), replace(card(), memory_gib=1000.0))
    assert part(found, "optimizer") == pytest.approx(bytes_each * P / GIB, rel=1e-6)


def test_an_unknown_optimizer_lowers_the_confidence() -> None:
    """Never a silent default."""
    assert not is_known_optimizer("soap")
    assert is_known_optimizer("adamw_torch")
    found = estimate(training(optimizer="soap"), Layout(gpus=1), card())
    assert found.confidence is Confidence.LOW


def test_adapters_are_counted_by_their_matrices() -> None:
    found = estimate(training(method=Method.LORA, lora_rank=8), Layout(gpus=1), card())
    adapters = 8 * (4096 + 4096) * 2 * 32
    assert part(found, "weights") == pytest.approx((2 * P + 2 * adapters) / GIB, rel=1e-6)
    assert part(found, "optimizer") == pytest.approx(4 * adapters / GIB, rel=1e-6)
    everywhere = estimate(training(method=Method.LORA, lora_targets=("all-linear",)), Layout(gpus=1), card())
    assert part(everywhere, "optimizer") > 2 * part(found, "optimizer")


@pytest.mark.parametrize(("method", "bytes_each"), [(Method.QLORA, 0.53), (Method.GPTQ_LORA, 0.52)])
def test_a_base_in_four_bits_keeps_its_ends_in_two_bytes(method: Method, bytes_each: float) -> None:
    found = estimate(training(method=method, lora_rank=1, upcast=False), Layout(gpus=1), card())
    ends = 2 * 32_000 * 4096
    expected = (bytes_each * (P - ends) + 2 * ends) / GIB
    assert part(found, "weights") == pytest.approx(expected, rel=0.01)


def test_checkpointing_attention_and_fused_loss() -> None:
    plain = estimate(training(), Layout(gpus=1, batch=4), replace(card(), memory_gib=1000.0))
    wide = replace(card(), memory_gib=1000.0)
    kept = estimate(training(checkpointing=False), Layout(gpus=1, batch=4), wide)
    eager = estimate(training(attention=Attention.EAGER), Layout(gpus=1, batch=4), wide)
    sdpa = estimate(training(attention=Attention.SDPA), Layout(gpus=1, batch=4), wide)
    fused = estimate(training(fused_loss=True), Layout(gpus=1, batch=4), wide)
    assert part(kept, "activations") > 8 * part(plain, "activations")
    assert part(eager, "activations") > part(plain, "activations") == part(sdpa, "activations")
    assert part(fused, "logits") < part(plain, "logits") / 5


def test_what_is_offloaded_is_not_on_the_card() -> None:
    run = training(precision=Precision.BF16_MIXED, strategy=Strategy.ZERO3)
    layout = Layout(gpus=4)
    here = estimate(run, layout, card())
    optimizer = estimate(replace(run, offload=Offload.OPTIMIZER), layout, card())
    everything = estimate(replace(run, offload=Offload.ALL), layout, card())
    assert part(optimizer, "optimizer") == 0
    assert part(everything, "weights") == 0
    assert everything.peak_gib < optimizer.peak_gib < here.peak_gib


def test_tensor_and_pipeline_parallel_divide_the_model() -> None:
    run = training(strategy=Strategy.DDP)
    one = estimate(run, Layout(gpus=1), card())
    four = estimate(replace(run, tensor=2, pipeline=2), Layout(gpus=4), card())
    assert states(four) == pytest.approx(states(one) / 4)


def test_accumulation_keeps_gradients_whole_under_fsdp() -> None:
    """Accelerate's `no_sync`: about 2 bytes a parameter on every GPU, however many there are."""
    run = training(strategy=Strategy.FSDP_FULL)
    once, often = (estimate(run, Layout(gpus=8, accumulation=steps), card()) for steps in (1, 4))
    assert often.peak_gib - once.peak_gib == pytest.approx(2 * P / GIB, rel=0.01)
    deepspeed = replace(run, strategy=Strategy.ZERO3)
    assert estimate(deepspeed, Layout(gpus=8, accumulation=4), card()).peak_gib == pytest.approx(
        estimate(deepspeed, Layout(gpus=8), card()).peak_gib
    )


def test_a_paged_optimizer_spills_and_says_so() -> None:
    """It runs, far slower: both numbers are told."""
    run = training(optimizer="paged_adamw_32bit")
    small = (
        card("NVIDIA-A100-40GB-PCIe") if GPU_TABLE.find("NVIDIA-A100-40GB-PCIe") else replace(card(), memory_gib=40.0)
    )
    found = estimate(run, Layout(gpus=1), small)
    assert found.unpaged_gib is not None
    assert found.peak_gib <= small.memory_gib < found.unpaged_gib
    assert fits(found, small, 0.08)
    assert estimate(run, Layout(gpus=1), replace(card(), memory_gib=1000.0)).unpaged_gib is None


def test_the_allocator_gives_back_what_it_keeps() -> None:
    """Near the end of a card the predicted peak is cut, down to what is needed, and never below."""
    run = training(method=Method.LORA, strategy=Strategy.DDP)
    roomy = estimate(run, Layout(gpus=1, batch=16), replace(card(), memory_gib=1000.0))
    tight = replace(card(), memory_gib=roomy.peak_gib - 1)
    found = estimate(run, Layout(gpus=1, batch=16), tight)
    assert found.need_gib == roomy.need_gib
    assert found.need_gib < found.peak_gib < tight.memory_gib < roomy.peak_gib


def test_stacks_are_found_by_the_first_word() -> None:
    assert stack_of("fms-hf-tuning v1.6.0-era (0.4)") is STACKS["fms-hf-tuning"]
    assert stack_of("Qwen finetune.py") is STACKS["qwen"]
    assert stack_of("LitGPT") is STACKS["litgpt"]
    assert stack_of("") == stack_of("some stack of ours") == Stack()


def test_other_constants_may_be_given() -> None:
    run, layout = training(), Layout(gpus=1)
    assert estimate(run, layout, card(), Stack(context=9.2)).peak_gib == pytest.approx(
        estimate(run, layout, card(), Stack(context=1.2)).peak_gib + 8, rel=0.2
    )


def _per_token(run: Training, gpus: int = 1) -> float:
    """Return the bytes of the peak that another token adds, on a card without a limit."""
    wide = replace(card(), memory_gib=10_000.0)
    few, many = (estimate(run, Layout(gpus=gpus, batch=batch), wide).peak_gib for batch in (64, 128))
    return (many - few) * GIB / (64 * run.sequence)


INPUTS = 2 * 32 * 4096
"""Bytes of the inputs of all layers, for one token."""


def test_a_sharded_frozen_base_keeps_inputs_twice() -> None:
    """Measured with fms-hf-tuning on Mistral 7B: 593,000 bytes per token on one GPU, 891,000 on two or four."""
    run = training(method=Method.LORA, precision=Precision.BF16_MIXED, fused_loss=True, framework="fms-hf-tuning 2.7.1")
    alone, sharded = _per_token(run), _per_token(replace(run, strategy=Strategy.FSDP_FULL), 2)
    assert sharded - alone == pytest.approx(1.2 * INPUTS, rel=0.01)
    zero = _per_token(replace(run, strategy=Strategy.ZERO3), 2)
    assert zero == pytest.approx(alone, rel=0.01)


def test_peft_prepares_a_base_in_four_bits() -> None:
    """Embedding, head and the inputs of layers are in fp32 then; FSDP cannot shard a base of two types."""
    run = training(method=Method.QLORA, framework="fms-hf-tuning 2.7.1")
    prepared = replace(run, upcast=True)
    ends = 2 * 32_000 * 4096
    small, large = (estimate(one, Layout(gpus=1), card()) for one in (run, prepared))
    assert part(large, "weights") - part(small, "weights") == pytest.approx(2 * ends / GIB, rel=0.01)
    assert _per_token(prepared) - _per_token(run) >= INPUTS
    sharded = replace(prepared, strategy=Strategy.FSDP_FULL)
    assert _per_token(sharded, 2) == _per_token(replace(sharded, upcast=False), 2)
    assert estimate(replace(run, framework="trl"), Layout(gpus=1), card()).parts[0] == large.parts[0]


def test_a_fused_loss_does_not_depend_on_the_vocabulary() -> None:
    run = training(fused_loss=True)
    wide = replace(run, architecture=replace(run.architecture, vocabulary=256_000))
    assert part(estimate(run, Layout(gpus=1), card()), "logits") == pytest.approx(
        part(estimate(wide, Layout(gpus=1), card()), "logits")
    )


def test_the_loss_and_the_last_block_follow_each_other() -> None:
    """With a small vocabulary the block counts, with a large one the loss."""
    small, large = (
        replace(training(), architecture=replace(training().architecture, vocabulary=size)) for size in (1, 256_000)
    )
    assert _per_token(small) == pytest.approx(INPUTS + 2 * (9 * 4096 + 3 * 4096 + 8 * 11_008), rel=0.01)
    assert _per_token(large) > INPUTS + 13.5 * 256_000


def test_parallelism_divides_activations() -> None:
    run = training(method=Method.LORA, strategy=Strategy.DDP)
    one = _per_token(run)
    tensor = _per_token(replace(run, tensor=2), 2)
    assert one / 2 < tensor < one
    assert _per_token(replace(run, tensor=2, sequence_parallel=True), 2) == pytest.approx(one / 2)
    assert _per_token(replace(run, context=4), 4) == pytest.approx(one / 4)
    assert _per_token(replace(run, pipeline=4), 4) == pytest.approx(one / 4)


def test_a_base_in_four_bits_is_gathered_in_four_bits() -> None:
    sixteen, four = (
        estimate(
            training(method=method, strategy=Strategy.FSDP_FULL, framework="fsdp_qlora"), Layout(gpus=8), card()
        ).need_gib
        for method in (Method.LORA, Method.QLORA)
    )
    layers = P - 2 * 32_000 * 4096
    assert sixteen - four == pytest.approx((1.47 * layers * (1 / 8 + 2 / 32) - 2 * 4096 * 11_008) / GIB, rel=0.03)


def test_samples_of_other_lengths_leave_blocks() -> None:
    """ms-swift does not pack: up to 2,048 tokens, its loss is reserved twice."""
    run = training(method=Method.LORA, framework="ms-swift", sequence=2048)
    assert _per_token(run) == pytest.approx(_per_token(replace(run, sequence=512)))
    assert _per_token(replace(run, sequence=8192)) < 0.75 * _per_token(run)


@pytest.mark.parametrize(("batch", "share"), [(1, 0.0), (64, 1.0)])
def test_gradients_take_the_blocks_of_the_loss(batch: int, share: float) -> None:
    """Without accumulation, and if the loss was large enough."""
    run = training(strategy=Strategy.FSDP_FULL)
    wide = replace(card(), memory_gib=10_000.0)
    once = estimate(run, Layout(gpus=8, batch=batch), wide)
    states = (P * 2 * 2 + P * 4) / 8 / GIB
    together = states + part(once, "transients") + part(once, "overhead")
    flow = _per_token(run, 8) * batch * run.sequence / GIB
    reused = together + flow - once.peak_gib
    assert reused == pytest.approx(share * 2 * 2 * P / 8 / GIB, abs=0.2)


@pytest.mark.parametrize(
    ("objective", "copies", "answers"),
    [
        (Objective.DPO, 2, 2),
        (Objective.KTO, 2, 1),
        (Objective.ORPO, 1, 2),
        (Objective.REWARD, 1, 2),
        (Objective.VALUE_HEAD, 1, 2),
        (Objective.GRPO, 2, 1),
    ],
)
def test_preference_training_holds_a_reference_and_pairs(objective: Objective, copies: int, answers: int) -> None:
    """Of all weights a second, frozen copy; the base of adapters is its own reference."""
    plain, run = training(), training(objective=objective)
    wide = replace(card(), memory_gib=10_000.0)
    one, two = (estimate(each, Layout(gpus=1), wide) for each in (plain, run))
    assert part(two, "weights") == pytest.approx(copies * part(one, "weights"))
    assert part(two, "gradients") == part(one, "gradients")
    assert two.confidence is Confidence.LOW
    lora = replace(run, method=Method.LORA)
    tuned, preferred = (estimate(each, Layout(gpus=1), wide) for each in (replace(plain, method=Method.LORA), lora))
    assert part(preferred, "weights") == part(tuned, "weights")
    if objective is Objective.REWARD:
        assert part(preferred, "logits") == 0
    elif objective is Objective.VALUE_HEAD:
        assert part(preferred, "logits") < part(tuned, "logits")
    else:
        scored = 6.0 if copies > 1 and objective is not Objective.GRPO else 0.0
        assert part(preferred, "logits") == pytest.approx(answers * part(tuned, "logits") * (13.5 + scored) / 13.5)
    sharded = estimate(replace(run, strategy=Strategy.FSDP_FULL), Layout(gpus=4), wide)
    assert part(sharded, "weights") == pytest.approx(part(two, "weights") / 4)


def test_a_soft_cap_keeps_the_output_of_tanh() -> None:
    """Of the logits, and of the scores where attention stores them (Gemma 2)."""
    run = training(method=Method.LORA)
    capped = replace(run, architecture=replace(run.architecture, softcap=True))
    assert _per_token(capped) - _per_token(run) == pytest.approx(4 * 32_000, rel=0.01)
    eager = [replace(each, attention=Attention.EAGER, checkpointing=False) for each in (run, capped)]
    scores = 32 * 0.9 * 4 * 32 * 2048  # layers, kept fraction, bytes, heads, places
    assert _per_token(eager[1]) - _per_token(eager[0]) == pytest.approx(
        scores + 0.9 * 4 * 32 * 2048 + 4 * 32_000, rel=0.1
    )


def test_norms_after_the_blocks_keep_their_inputs() -> None:
    run = training(method=Method.LORA, checkpointing=False)
    more, fewer = (replace(run, architecture=replace(run.architecture, layer_norms=norms)) for norms in (4, 1))
    vector = 32 * 0.9 * 2 * 4096
    assert _per_token(more) - _per_token(run) == pytest.approx(4 * vector, rel=0.05)
    assert _per_token(run) - _per_token(fewer) == pytest.approx(2 * vector, rel=0.05)


@pytest.mark.parametrize(
    ("offload", "nodes", "bytes_each"),
    [(Offload.NONE, 1, 0), (Offload.OPTIMIZER, 1, 14), (Offload.ALL, 1, 16), (Offload.ALL, 2, 16 / 2)],
)
def test_what_is_offloaded_is_in_the_memory_of_nodes(offload: Offload, nodes: int, bytes_each: float) -> None:
    """ZeRO-3 in mixed precision: 2 + 2 + 12 bytes per parameter over all nodes."""
    run = training(precision=Precision.BF16_MIXED, strategy=Strategy.ZERO3, offload=offload)
    found = estimate(run, Layout(gpus=8 * nodes, workers=nodes), card())
    assert found.host_gib == pytest.approx(bytes_each * P / GIB)


QWEN_LORA = ((256, 33.7, 20.1), (512, 34.1, 20.4), (1024, 35.2, 21.5), (2048, 35.1, 23.8), (4096, 39.2, 29.7))
"""Tokens, GB with and without embedding and head beside the adapters: Qwen-7B with `finetune.py` on an A100
(https://github.com/QwenLM/Qwen, README, "Profiling of Memory and Speed"). The first column is in no table of runs."""


@pytest.mark.parametrize(("sequence", "whole", "adapters"), QWEN_LORA)
def test_matrices_beside_adapters_are_trained_whole(sequence: int, whole: float, adapters: float) -> None:
    """Embedding and head are copied, and the copies have gradients and states: within 8 % of the measured peaks."""
    model = MODEL_TABLE.find("Qwen/Qwen-7B")
    assert model is not None
    run = training(
        architecture=model,
        method=Method.LORA,
        sequence=sequence,
        framework="qwen",
        strategy=Strategy.DDP,
        lora_rank=64,
        lora_targets=("all-linear",),
    )
    plain, saved = (
        estimate(each, Layout(gpus=1), card())
        for each in (run, replace(run, saved_modules=("transformer.wte", "lm_head")))
    )
    assert plain.peak_gib * GIB / 1e9 == pytest.approx(adapters, rel=0.08)
    assert saved.peak_gib * GIB / 1e9 == pytest.approx(whole, rel=0.08)
    ends = 2 * model.vocabulary * model.hidden
    assert states(saved) - states(plain) == pytest.approx(ends * (2 + 2 + 4) / GIB, rel=1e-6)


def test_a_base_in_eight_bits_and_in_fp32() -> None:
    """One byte for each weight but embedding and head; four bytes if the base was loaded in fp32."""
    run = training(method=Method.LORA, precision=Precision.BF16_MIXED, strategy=Strategy.DDP, framework="axolotl")
    int8, wide = replace(run, method=Method.INT8_LORA), replace(run, wide_base=True)
    plain, small, large = (part(estimate(each, Layout(gpus=1), card()), "weights") for each in (run, int8, wide))
    ends = 2 * 32000 * 4096
    assert small - plain == pytest.approx(-(P - ends) / GIB, rel=1e-6)
    assert large - plain == pytest.approx(2 * P / GIB, rel=1e-6)
    assert estimate(int8, Layout(gpus=1), card()).confidence is Confidence.LOW


def test_autocast_keeps_copies_of_a_wide_base_without_checkpointing() -> None:
    run = training(
        method=Method.LORA, precision=Precision.BF16_MIXED, strategy=Strategy.DDP, wide_base=True, checkpointing=False
    )
    assert part(estimate(run, Layout(gpus=1), card()), "transients") >= 2 * P / GIB


def test_dora_keeps_outputs_for_its_magnitudes() -> None:
    run = training(method=Method.LORA, strategy=Strategy.DDP, checkpointing=False)
    plain, dora = (estimate(each, Layout(gpus=1), card()) for each in (run, replace(run, dora=True)))
    kept = 2 * 2048 * 2 * 32 * 2 * 4096  # bytes x tokens x tensors x layers x queries and values
    assert part(dora, "activations") - part(plain, "activations") == pytest.approx(kept / GIB, rel=0.1)


def test_offloaded_activations_are_in_the_memory_of_nodes() -> None:
    """Two layers stay on the GPU; the host holds the inputs of all layers, for each of its GPUs."""
    run = training(strategy=Strategy.FSDP_FULL)
    wide = replace(card(), memory_gib=10_000.0)
    here, away = (
        estimate(each, Layout(gpus=4, batch=8), wide) for each in (run, replace(run, offloads_activations=True))
    )
    inputs = 2 * 32 * 4096 * 8 * 2048
    assert away.host_gib - here.host_gib == pytest.approx(4 * inputs / GIB, rel=1e-6)
    assert away.need_gib < here.need_gib
    assert away.confidence is Confidence.LOW


@pytest.mark.parametrize(
    ("optimizer", "gradients", "bytes_each"),
    [
        ("stable_adamw", 2, 4 + 2),
        ("adam_mini", 2, 2),
        ("adamw_torch_in_backward", 0, 4),
        ("paged_adamw_8bit_in_backward", 0, 2),
        ("lomo", 0, 0),
    ],
)
def test_other_optimizers_of_pure_bf16(optimizer: str, gradients: int, bytes_each: float) -> None:
    found = estimate(training(optimizer=optimizer, strategy=Strategy.DDP), Layout(gpus=1), card())
    assert part(found, "optimizer") == pytest.approx(bytes_each * P / GIB, rel=1e-6)
    if gradients:
        assert part(found, "gradients") == pytest.approx(gradients * P / GIB, rel=1e-6)
    else:
        assert part(found, "gradients") < 0.1 * P / GIB
    assert is_known_optimizer(optimizer)


def test_muon_has_one_momentum_for_matrices_and_adam_for_the_ends() -> None:
    found = estimate(training(optimizer="muon", strategy=Strategy.DDP), Layout(gpus=1), card())
    ends = 2 * 32000 * 4096
    assert part(found, "optimizer") == pytest.approx((2 * (P - ends) + 4 * ends) / GIB, rel=1e-6)


def test_a_preference_objective_may_do_without_its_reference() -> None:
    run = training(objective=Objective.DPO, strategy=Strategy.DDP)
    wide = replace(card(), memory_gib=10_000.0)
    both, one = (estimate(each, Layout(gpus=1), wide) for each in (run, replace(run, has_reference=False)))
    assert part(both, "weights") == pytest.approx(2 * part(one, "weights"))


def test_a_pipeline_keeps_gathered_weights_and_summed_gradients() -> None:
    """FSDP frees neither between the microbatches; gradients are summed in fp32 if the weights are."""
    run = training(strategy=Strategy.FSDP_FULL, precision=Precision.BF16_MIXED)
    flat, staged = (
        estimate(each, Layout(gpus=8), replace(card(), memory_gib=1000.0)) for each in (run, replace(run, pipeline=2))
    )
    assert part(staged, "transients") >= (2 + 4) * P / 2 / GIB
    assert part(flat, "transients") < part(staged, "transients")


def test_an_engine_beside_the_training_reserves_its_fraction() -> None:
    run = training(objective=Objective.GRPO, has_reference=False, strategy=Strategy.FSDP_FULL)
    wide = replace(card(), memory_gib=400.0)
    plain, beside = (estimate(each, Layout(gpus=8), wide) for each in (run, replace(run, rollout=0.25)))
    assert part(beside, "rollout") == pytest.approx(100.0)
    assert beside.need_gib - plain.need_gib == pytest.approx(100.0)
    assert beside.confidence is Confidence.LOW


def test_a_sleeping_engine_takes_turns_with_the_training() -> None:
    """While answers are generated, the states stay on the GPU unless they are offloaded."""
    run = training(objective=Objective.GRPO, has_reference=False, strategy=Strategy.FSDP_FULL, rollout=0.5)
    wide = replace(card(), memory_gib=400.0)
    asleep = estimate(replace(run, rollout_sleeps=True), Layout(gpus=8), wide)
    alone = estimate(replace(run, rollout_sleeps=True, rollout_alone=True), Layout(gpus=8), wide)
    assert asleep.need_gib == pytest.approx(200.0 + (2 + 4) * P / 8 / GIB, rel=1e-6)
    assert alone.need_gib == pytest.approx(200.0)


def test_a_policy_that_generates_holds_all_weights_and_the_cache_of_its_answers() -> None:
    run = training(objective=Objective.GRPO, has_reference=False, strategy=Strategy.ZERO3, generates=True)
    found = estimate(run, Layout(gpus=8, batch=64), replace(card(), memory_gib=4000.0))
    cache = 64 * 2048 * 4 * 32 * 32 * 128
    assert found.need_gib >= (2 * P + cache) / GIB


def test_a_value_model_doubles_weights_and_states() -> None:
    run = training(objective=Objective.GRPO, has_reference=False, strategy=Strategy.FSDP_FULL)
    wide = replace(card(), memory_gib=400.0)
    policy, both = (estimate(each, Layout(gpus=8), wide) for each in (run, replace(run, critic=True)))
    for name, times in (("weights", 2), ("optimizer", 2), ("gradients", 1)):
        assert part(both, name) == pytest.approx(times * part(policy, name))


def test_the_loss_leaves_out_prompts() -> None:
    run = training(objective=Objective.GRPO, has_reference=False, method=Method.LORA)
    all_tokens, half = (estimate(each, Layout(gpus=1, batch=8), card()) for each in (run, replace(run, scored=0.5)))
    assert part(half, "logits") == pytest.approx(part(all_tokens, "logits") / 2)


@pytest.mark.parametrize("checkpointing", [True, False])
def test_tensor_parallelism_divides_what_it_computes_in_parts(checkpointing: bool) -> None:
    """Without sequence parallelism, the 7 vectors of the hidden width stay whole (arXiv 2205.05198, section 4.2)."""
    run = training(checkpointing=checkpointing)
    one, two, both = (
        terms_of(each, None, sharded=False).activations
        for each in (run, replace(run, tensor=2), replace(run, tensor=2, sequence_parallel=True))
    )
    whole, divided = 7 * 4096, 3 * 4096 + 4 * 11008
    share = (whole + divided / 2) / (whole + divided)
    assert two.forward == pytest.approx(one.forward * share)
    assert both.forward == pytest.approx(one.forward / 2)
    assert two.kept == pytest.approx(one.kept * (1 if checkpointing else share))
    assert both.kept == pytest.approx(one.kept / 2)


def test_a_frozen_last_matrix_keeps_no_input_whether_its_block_has_a_gate_or_not() -> None:
    """GELU keeps its input, and SiLU with a gate three values; the input of a frozen matrix is not needed again."""
    for name, middle in (("llama-7b", 11_008), ("phi-1.5", 8192)):
        model = MODEL_TABLE.find(name)
        assert model is not None
        run = training(architecture=model, method=Method.LORA, checkpointing=False, lora_targets=("q_proj", "v_proj"))
        some, every = (
            terms_of(replace(run, lora_targets=targets), None, sharded=False).activations.kept
            for targets in (run.lora_targets, ("all-linear",))
        )
        assert every - some == pytest.approx(0.9 * 2 * model.layers * middle)


def test_the_head_of_a_prepared_base_is_copied_in_two_bytes() -> None:
    """PEFT makes it fp32; autocast computes with a copy, which the backward pass needs."""
    run = training(method=Method.QLORA, strategy=Strategy.DDP)
    prepared, plain = (terms_of(replace(run, upcast=upcast), None, sharded=False) for upcast in (True, False))
    assert prepared.copy - plain.copy == 2 * 32000 * 4096


def test_a_loss_that_works_in_place_holds_fewer_logits_of_a_small_vocabulary() -> None:
    """Llama's 32,000 entries fit into the kernel, those of Llama 3 do not."""
    large = MODEL_TABLE.find("llama3.1-8b")
    assert large is not None
    plain, fast = (training(method=Method.LORA, fast_loss=fast) for fast in (False, True))
    assert [terms_of(one, None, sharded=False).loss.live for one in (plain, fast)] == [11 * 32000, 6 * 32000]
    plain, fast = (replace(one, architecture=large) for one in (plain, fast))
    assert terms_of(fast, None, sharded=False).loss == terms_of(plain, None, sharded=False).loss


def test_a_model_may_store_scores_with_any_kernel() -> None:
    """ChatGLM3: 20 bytes for each of 32 heads and each pair of tokens, of one layer at a time."""
    model = MODEL_TABLE.find("chatglm3-6b")
    assert model is not None
    found = training(architecture=model, method=Method.LORA, lora_targets=("query_key_value",), sequence=8192)
    plain = replace(found, architecture=replace(model, own_scores=0))
    needs = [estimate(one, Layout(gpus=1), card()).need_gib for one in (found, plain)]
    assert needs[0] - needs[1] > 0.8 * 20 * 32 * 8192**2 / GIB - 4
    eager = [estimate(replace(one, attention=Attention.EAGER), Layout(gpus=1), card()) for one in (found, plain)]
    assert eager[0].need_gib == needs[0] > eager[1].need_gib


def _linear(rank: int, moments: float) -> float:
    """Return the bytes of states of llama-7b's matrices: 4096 x 4096 four times a layer, 4096 x 11008 three times."""
    square = rank * (4096 * moments + 4096 * 2)
    wide = rank * (11008 * moments + 4096 * 2)
    return 32 * (4 * square + 3 * wide)


@pytest.mark.parametrize(("optimizer", "moments"), [("galore_adamw", 4), ("galore_adamw_8bit", 2), ("apollo_adamw", 4)])
def test_projected_gradients_have_small_states(optimizer: str, moments: int) -> None:
    """Moments of r x max(m, n) and a projection of r x min(m, n); embedding, head and norms have both moments."""
    rest = P - 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    found = estimate(training(optimizer=optimizer, optimizer_rank=128), Layout(gpus=1), card())
    assert part(found, "optimizer") * GIB == pytest.approx(_linear(128, moments) + rest * moments)
    assert part(found, "gradients") * GIB == pytest.approx(2 * P)
    wide = estimate(training(optimizer=optimizer, optimizer_rank=100_000), Layout(gpus=1), card())
    assert part(wide, "optimizer") * GIB == pytest.approx(P * moments)


def test_layer_by_layer_no_gradients_are_kept() -> None:
    one, other = (training(optimizer=f"galore_adamw{end}") for end in ("", "_layerwise"))
    needs = [estimate(found, Layout(gpus=1), card()) for found in (one, other)]
    assert part(needs[0], "optimizer") == part(needs[1], "optimizer")
    assert part(needs[0], "gradients") > 10 * part(needs[1], "gradients")


def test_badam_keeps_states_of_one_layer() -> None:
    """A copy in fp32, a gradient and two moments of 4 bytes each: 2P + 16P/D of the paper, without the ends."""
    layer = 4 * 4096**2 + 3 * 4096 * 11008
    found = estimate(training(optimizer="badam"), Layout(gpus=1), card())
    assert part(found, "weights") * GIB == pytest.approx(2 * P)
    assert (part(found, "gradients") + part(found, "optimizer")) * GIB == pytest.approx(16 * layer)

"""Pre-training beside the formulas that its frameworks publish, and figures that were worked out by hand.

Expected values follow `megatron/training/theoretical_memory_usage.py` of Megatron-LM, and Korthikanti et al. (arXiv
2205.05198), table 2: bytes of a layer per token, times the hidden width.
"""

import pytest
from msgspec.structs import replace

from reconciler.sizing.decision import Estimate
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import estimate
from reconciler.sizing.memory.stages import in_flight, layer_bytes, stage_parameters
from reconciler.sizing.models.table import parse_model_config
from reconciler.sizing.training import Architecture, Attention, Layout, Method, Objective, Precision, Strategy, Training
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE

GIB = float(1 << 30)
WIDTH, DEPTH, WORDS = 12288, 96, 51200  # GPT-3


def gpt() -> Architecture:
    data = {"model_type": "nemotron", "hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": 96}
    data |= {"intermediate_size": 4 * WIDTH, "vocab_size": WORDS, "tie_word_embeddings": True}
    found = parse_model_config(data, "gpt3-175b")
    assert isinstance(found, Architecture)
    return found


def megatron(**changes: object) -> Training:
    whole = Training(
        model="gpt3-175b",
        architecture=gpt(),
        method=Method.FULL,
        sequence=2048,
        precision=Precision.BF16_MIXED,
        optimizer="adamw_apex_fused",
        checkpointing=False,
        strategy=Strategy.ZERO1,
        framework="megatron-lm",
    )
    return replace(whole, **changes)


def titan(name: str, **changes: object) -> Training:
    model = MODEL_TABLE.find(name)
    assert model is not None
    whole = Training(
        model=name,
        architecture=model,
        method=Method.FULL,
        sequence=8192,
        precision=Precision.BF16_MIXED,
        optimizer="adamw_torch_fused",
        sequence_parallel=True,
        framework="torchtitan",
    )
    return replace(whole, **changes)


def card() -> Gpu:
    found = GPU_TABLE.find("NVIDIA-H100-80GB-HBM3")
    assert found is not None
    return found


def part(found: Estimate, *names: str) -> float:
    return sum(one.gib for one in found.parts if one.name in names)


@pytest.mark.parametrize(
    ("strategy", "tensor", "pipeline", "replicas"),
    [(Strategy.DDP, 8, 8, 2), (Strategy.ZERO1, 8, 8, 2), (Strategy.ZERO1, 8, 1, 16), (Strategy.ZERO1, 8, 16, 1)],
)
def test_states_are_those_of_megatrons_calculator(
    strategy: Strategy, tensor: int, pipeline: int, replicas: int
) -> None:
    """18 bytes per parameter of the fullest shard, or 6 and 12 divided by the replicas."""
    run = megatron(strategy=strategy, tensor=tensor, pipeline=pipeline)
    found = estimate(run, Layout(gpus=tensor * pipeline * replicas, workers=16), card())
    block = 2 * WIDTH * (4 * WIDTH + 2 + WIDTH * 2) * DEPTH + 2 * WIDTH
    shard = (block / pipeline + WORDS * WIDTH) / tensor
    bytes_each = 18 if strategy is Strategy.DDP else 6 + 12 / replicas
    assert part(found, "weights", "gradients", "optimizer") == pytest.approx(shard * bytes_each / GIB, rel=1e-4)


@pytest.mark.parametrize(
    ("tensor", "sequence_parallel", "attention", "per_width"),
    [
        (1, False, Attention.FLASH, 34.0),
        (8, False, Attention.FLASH, 10 + 24 / 8),
        (8, True, Attention.FLASH, 34 / 8),
        (8, False, Attention.EAGER, 10 + 24 / 8 + 5 * 96 * 2048 / (WIDTH * 8)),
        (8, True, Attention.EAGER, 34 / 8 + 5 * 96 * 2048 / (WIDTH * 8)),
    ],
)
def test_a_layer_keeps_what_the_paper_says(
    tensor: int, sequence_parallel: bool, attention: Attention, per_width: float
) -> None:
    run = megatron(tensor=tensor, sequence_parallel=sequence_parallel, attention=attention)
    assert layer_bytes(run).everything == pytest.approx(per_width * WIDTH)


def test_a_recomputed_layer_keeps_its_input() -> None:
    """2 bytes of the hidden width, or a share of them with sequence parallelism; of groups the first layer's alone."""
    plain = megatron(tensor=8, checkpointing=True)
    assert layer_bytes(plain).input == 2 * WIDTH
    assert layer_bytes(replace(plain, sequence_parallel=True)).input == 2 * WIDTH / 8
    whole, half, none = (
        part(estimate(replace(plain, recomputed=share), Layout(gpus=8), card()), "activations")
        for share in (1.0, 0.5, 0.0)
    )
    assert whole < half < none
    grouped = estimate(replace(plain, together=4), Layout(gpus=8), card())
    kept = 2048 * 2 * WIDTH * DEPTH / GIB
    assert part(grouped, "activations") == pytest.approx(
        whole - kept * 3 / 4 + 3 * 2048 * layer_bytes(plain).everything / GIB
    )


@pytest.mark.parametrize(
    ("stages", "chunks", "steps", "first", "last"),
    [
        (1, 1, 64, 1, 1),
        (8, 1, 64, 8, 1),
        (8, 1, 4, 4, 1),  # fewer microbatches than stages
        (8, 2, 64, 8 * (1 + 7 / 16), (8 * 2 - 7) / 2),
        (4, 3, 64, 4 * (1 + 3 / 12), 3),
    ],
)
def test_microbatches_in_flight(stages: int, chunks: int, steps: int, first: float, last: float) -> None:
    """1F1B keeps as many as stages; interleaved stages times 1 + (p - 1) / (p v), as Megatron's calculator says."""
    run = megatron(pipeline=stages, chunks=chunks)
    assert in_flight(run, steps, "first") == pytest.approx(first)
    assert in_flight(run, steps, "last") == pytest.approx(last)


def test_the_ends_of_a_pipeline_differ() -> None:
    """The embedding is on the first stage, the head on the last one, also if they are tied; logits only there."""
    model = titan("llama3-8b").architecture
    run = titan("llama3-8b", pipeline=4)
    words = model.vocabulary * model.hidden
    first, last = stage_parameters(run, "first"), stage_parameters(run, "last")
    assert first.ends == last.ends == words
    assert first.dense == pytest.approx((model.parameters - 2 * words) / 4)
    tied = megatron(pipeline=4)
    assert stage_parameters(tied, "first").ends == stage_parameters(tied, "last").ends == WORDS * WIDTH
    deep = estimate(megatron(tensor=8, pipeline=4), Layout(gpus=32, accumulation=64), card())
    assert part(deep, "logits") == 0  # the first stage is the fuller one
    shallow = estimate(titan("llama3-8b", pipeline=4, sequence=65_536), Layout(gpus=4), card())
    assert part(shallow, "logits") > 0


def test_layers_that_do_not_divide_count_on_the_fullest_stage() -> None:
    run = titan("llama3.1-405b", pipeline=8)  # 126 layers: 16 on some stages
    model = run.architecture
    block = model.parameters - model.embedding
    assert stage_parameters(run, "first").dense == pytest.approx(block * 16 / 126)


def test_experts_are_divided_among_their_own_groups() -> None:
    """Megatron: weights over expert and expert tensor parallelism, the optimizer over replicas of the experts."""
    model = MODEL_TABLE.find("mixtral-8x7b-v0.1")
    assert model is not None
    run = megatron(architecture=model, tensor=2, expert=8, expert_tensor=1)
    experts = sum(one.size * one.count for one in model.linears if one.active < one.count)
    dense = model.parameters - experts
    assert run.expert_ways == 8
    assert run.multiple == 8
    found = estimate(run, Layout(gpus=32, workers=4), card())
    assert part(found, "weights") == pytest.approx(2 * (dense / 2 + experts / 8) / GIB)
    assert part(found, "gradients") == pytest.approx(4 * (dense / 2 + experts / 8) / GIB)
    assert part(found, "optimizer") == pytest.approx(12 * (dense / 2 / 16 + experts / 8 / 4) / GIB)


def test_fsdp_shards_experts_over_all_gpus_however_many_share_them() -> None:
    plain = titan("mixtral-8x7b-v0.1")
    divided = replace(plain, expert=8)
    before, after = (estimate(run, Layout(gpus=16, workers=2), card()) for run in (plain, divided))
    assert part(before, "weights") == pytest.approx(part(after, "weights"))
    assert part(before, "transients") > part(after, "transients")  # gathered layers have an eighth of the experts


def test_compiled_layers_and_a_compiled_loss_keep_less() -> None:
    """torch.compile drops the result of a block under `op`, and makes gradients of 2-byte logits in one kernel."""
    plain = titan("llama3-8b", keeps_products=True)
    tokens, hidden, words = 8192, plain.architecture.hidden, plain.architecture.vocabulary
    layers, both = (replace(plain, compiled=True, compiled_loss=loss) for loss in (False, True))
    eager, compiled, fused = (estimate(run, Layout(gpus=8), card()) for run in (plain, layers, both))
    assert part(eager, "logits") == part(compiled, "logits") == pytest.approx(14 * tokens * words / GIB)
    assert part(fused, "logits") == pytest.approx(4 * tokens * words / GIB)
    results = 32 * 2 * tokens * hidden / GIB
    assert part(eager, "activations") - part(compiled, "activations") >= results


def test_logits_in_parts_have_more_copies_and_layers_gather_their_inputs() -> None:
    """PyTorch's `tensor/parallel/loss.py`; sequence parallelism makes whole inputs while a layer is computed."""
    whole, parts = (estimate(titan("llama3-8b", tensor=ways), Layout(gpus=8, batch=ways), card()) for ways in (1, 8))
    assert part(parts, "logits") == pytest.approx(part(whole, "logits") * 18 / 14)
    assert layer_bytes(titan("llama3-8b")).gathered == 0
    assert layer_bytes(titan("llama3-8b", tensor=8)).gathered == 3 * 2 * 4096 * 7 / 8


def test_the_last_stage_keeps_the_logits_of_all_microbatches() -> None:
    """PyTorch's schedules merge them at the end; the gradients of an interleaved chunk are whole one after the other."""
    run = titan("llama3-8b", pipeline=2, microbatch=1, sequence=65_536)
    two, three = (estimate(run, Layout(gpus=8, batch=batch), card()) for batch in (2, 3))
    kept = 65_536 * 2 * run.architecture.vocabulary / GIB
    assert part(three, "activations") - part(two, "activations") == pytest.approx(kept)
    chunked = estimate(replace(run, chunks=2), Layout(gpus=8, batch=2), card())
    last = stage_parameters(run, "last")
    assert part(two, "transients") - part(chunked, "transients") == pytest.approx(2 * (last.ends + last.dense) / GIB)
    reduced = 2 * last.ends + 6 * last.dense / 16
    assert part(two, "transients") == pytest.approx((6 * (last.ends + last.dense) + reduced) / GIB)


def test_replicas_of_shards_hold_everything() -> None:
    """HSDP: 16 GPUs in 4 replicas hold as much each as 4 GPUs."""
    run = titan("llama3-8b", strategy=Strategy.FSDP_HYBRID, replicas=4)
    sixteen = estimate(run, Layout(gpus=16, workers=2), card())
    four = estimate(titan("llama3-8b"), Layout(gpus=4), card())
    assert part(sixteen, "weights", "gradients", "optimizer") == pytest.approx(
        part(four, "weights", "gradients", "optimizer")
    )
    assert run.multiple == 4


def test_context_parallelism_divides_samples_and_shards_over_its_gpus() -> None:
    one = estimate(titan("llama3-8b", sequence=32_768), Layout(gpus=8), card())
    eight = estimate(titan("llama3-8b", sequence=262_144, context=8), Layout(gpus=8), card())
    assert one.peak_gib == pytest.approx(eight.peak_gib)


def test_adapters_on_a_pipeline_hold_the_frozen_base() -> None:
    run = titan("llama3-8b", method=Method.LORA, framework="megatron-swift", strategy=Strategy.ZERO1, pipeline=2)
    found = estimate(run, Layout(gpus=2), card())
    assert 7.0 < part(found, "weights") < 8.5
    assert part(found, "optimizer") < 0.1


@pytest.mark.parametrize(("precision", "width"), [(Precision.BF16_MIXED, 2), (Precision.FP32, 4)])
def test_fsdp_gathers_frozen_weights_like_trained_ones(precision: Precision, width: int) -> None:
    """In mixed precision both are kept in fp32 and gathered in 2 bytes; a stage of a pipeline stays gathered."""
    layout = Layout(gpus=16, batch=8)
    full = titan("llama-3.1-8b", strategy=Strategy.FSDP_FULL, pipeline=2, precision=precision, optimizer="sgd")
    adapters = replace(full, method=Method.LORA, lora_rank=8)
    stage = width * sum(stage_parameters(full, "first").on_gpu(full)) / GIB
    frozen, trained = (part(estimate(training, layout, card()), "transients") for training in (adapters, full))
    assert frozen == pytest.approx(stage, rel=0.01)
    assert frozen < trained
    referred = replace(full, objective=Objective.DPO)
    assert part(estimate(referred, layout, card()), "transients") == pytest.approx(trained + stage)


def test_fp32_is_gathered_and_reduced_in_four_bytes() -> None:
    layout = Layout(gpus=16, batch=8)
    narrow = titan("llama-3.1-8b", strategy=Strategy.FSDP_FULL, precision=Precision.BF16, optimizer="sgd")
    wide = replace(narrow, precision=Precision.FP32)
    two, four = (part(estimate(training, layout, card()), "transients") for training in (narrow, wide))
    assert four == pytest.approx(2 * two)

"""What holds for every prediction, whatever is trained."""

from math import isclose

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.sizing.decision import Estimate
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import estimate, fits
from reconciler.sizing.memory.states import FSDP, OPTIMIZERS
from reconciler.sizing.training import Attention, Layout, Method, Objective, Offload, Precision, Strategy, Training
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE

SAFETY = 0.08
FRAMEWORKS = (
    *("", "fms-hf-tuning 2.7.1", "LitGPT", "Qwen finetune.py", "torchtune", "axolotl", "ms-swift"),
    *("torchtitan", "megatron-lm"),
)

gpus = st.sampled_from(tuple(GPU_TABLE))
trainings = st.builds(
    Training,
    model=st.just("a model"),
    architecture=st.sampled_from(tuple(MODEL_TABLE)),
    method=st.sampled_from(Method),
    sequence=st.integers(1, 65_536),
    objective=st.sampled_from((Objective.SFT, *Objective)),
    precision=st.sampled_from(Precision),
    optimizer=st.sampled_from((*OPTIMIZERS, "soap")),
    checkpointing=st.booleans(),
    attention=st.sampled_from(Attention),
    strategy=st.sampled_from(Strategy),
    offload=st.sampled_from(Offload),
    tensor=st.sampled_from((1, 1, 2, 8)),
    pipeline=st.sampled_from((1, 1, 2)),
    context=st.sampled_from((1, 1, 2)),
    expert=st.sampled_from((1, 1, 4)),
    chunks=st.sampled_from((1, 1, 2)),
    recomputed=st.sampled_from((1.0, 0.5)),
    sequence_parallel=st.booleans(),
    upcast=st.sampled_from((None, True, False)),
    lora_rank=st.integers(1, 16),
    lora_targets=st.sampled_from((("q_proj", "v_proj"), ("all-linear",), ("no_such_layer",))),
    fused_loss=st.booleans(),
    framework=st.sampled_from(FRAMEWORKS),
)
layouts = st.builds(
    lambda nodes, each, batch, accumulation: Layout(
        gpus=nodes * each, workers=nodes, batch=batch, accumulation=accumulation
    ),
    st.sampled_from((1, 2, 4)),
    st.sampled_from((1, 2, 4, 8)),
    st.integers(1, 128),
    st.sampled_from((1, 2, 4, 8)),
)


def _never_begins_to_fit(gpu: Gpu, easier: Estimate, harder: Estimate) -> None:
    assert fits(easier, gpu, SAFETY) or not fits(harder, gpu, SAFETY)
    assert easier.need_gib <= harder.need_gib * (1 + 1e-9)
    assert easier.floor_gib <= harder.floor_gib * (1 + 1e-9)


@given(trainings, layouts, gpus)
def test_parts_sum_to_the_peak_and_the_band_holds_it(training: Training, layout: Layout, gpu: Gpu) -> None:
    found = estimate(training, layout, gpu)
    assert isclose(sum(part.gib for part in found.parts), found.peak_gib, rel_tol=1e-6)
    assert all(part.gib >= -1e-9 for part in found.parts)
    assert 0 < found.low_gib <= found.peak_gib <= found.high_gib
    assert found.floor_gib <= found.need_gib
    assert [part.name for part in found.parts] == [
        "weights",
        "gradients",
        "optimizer",
        "transients",
        "activations",
        "logits",
        "overhead",
    ]


@given(trainings, layouts, gpus)
def test_what_cannot_be_avoided_is_never_said_to_fit(training: Training, layout: Layout, gpu: Gpu) -> None:
    found = estimate(training, layout, gpu)
    assert found.floor_gib <= gpu.memory_gib or not fits(found, gpu, 0.0)


@given(trainings, layouts, gpus, st.sampled_from((2, 4)))
def test_more_gpus_never_hurt(training: Training, layout: Layout, gpu: Gpu, times: int) -> None:
    """With the same batch of each GPU, with the same batch of all, or with less accumulation instead.

    From two GPUs on with DDP, which one GPU does not need buckets for, with adapters under FSDP, which keeps the inputs
    of layers twice, and with states in host memory under FSDP, which gathers layers and has little left to shard.
    """
    is_light = training.method.has_adapters or training.offload is not Offload.NONE
    begins = training.strategy is Strategy.DDP or (training.strategy in FSDP and is_light)
    assume(not begins or layout.gpus_per_worker > training.ways)
    few = estimate(training, layout, gpu)
    single = replace(layout, workers=1, gpus=layout.gpus_per_worker)
    few_of_node = estimate(training, single, gpu)
    more = replace(single, gpus=single.gpus * times)
    _never_begins_to_fit(gpu, estimate(training, more, gpu), few_of_node)
    nodes = replace(layout, gpus=layout.gpus * times, workers=layout.workers * times)
    _never_begins_to_fit(gpu, estimate(training, nodes, gpu), few)
    thinner = replace(nodes, batch=max(1, layout.batch // times))
    _never_begins_to_fit(gpu, estimate(training, thinner, gpu), few)
    sooner = replace(nodes, accumulation=max(1, layout.accumulation // times))
    _never_begins_to_fit(gpu, estimate(training, sooner, gpu), few)


@given(trainings, layouts, gpus, st.integers(1, 10_000))
def test_fewer_tokens_never_hurt(training: Training, layout: Layout, gpu: Gpu, more: int) -> None:
    found = estimate(training, layout, gpu)
    _never_begins_to_fit(gpu, found, estimate(replace(training, sequence=training.sequence + more), layout, gpu))
    _never_begins_to_fit(gpu, found, estimate(training, replace(layout, batch=layout.batch + more), gpu))


@given(trainings, layouts, gpus)
def test_adapters_never_need_more_than_all_weights(training: Training, layout: Layout, gpu: Gpu) -> None:
    """Where the GPU holds gradients and the optimizer: elsewhere adapters save little there, and add their own weights.

    LOMO keeps neither, and an offloaded optimizer is in host memory.
    """
    assume(training.optimizer not in OPTIMIZERS or OPTIMIZERS[training.optimizer].gradients)
    training = replace(training, offload=Offload.NONE)
    lora = estimate(replace(training, method=Method.LORA), layout, gpu)
    full = estimate(replace(training, method=Method.FULL), layout, gpu)
    _never_begins_to_fit(gpu, lora, full)


@given(trainings, layouts, gpus)
def test_asking_twice_gives_the_same(training: Training, layout: Layout, gpu: Gpu) -> None:
    assert estimate(training, layout, gpu) == estimate(replace(training), replace(layout), gpu)

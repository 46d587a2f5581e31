"""Rows of runs as people write them: read, or refused with a sentence that says what is wrong."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.sizing.run_columns import PRECISIONS
from benchmarks.sizing.run_table import SEQUENCE, parse_run
from benchmarks.sizing.runs import ROWS
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import is_known_optimizer
from reconciler.sizing.training import Attention, Layout, Method, Objective, Offload, Precision, Strategy, Training
from tests.sizing.tables import TABLES

PLAIN = {"model": "llama3.1-8b", "method": "full", "gpu_model": "NVIDIA-A100-SXM4-80GB"}


def read(**cells: str) -> tuple[Training, Layout, Gpu]:
    found = parse_run(PLAIN | cells, TABLES)
    assert not isinstance(found, str), found
    return found


def error(**cells: str) -> str:
    found = parse_run(PLAIN | cells, TABLES)
    assert isinstance(found, str)
    assert "\n" not in found
    return found


def test_every_measured_row_is_understood() -> None:
    """181 rows in five ways of writing; only vendors' tables without a model are refused."""
    rows = list(csv.DictReader(ROWS.read_text().splitlines()))
    refused = [row for row in rows if isinstance(parse_run(row, TABLES), str)]
    assert len(rows) == 230
    assert {row["kind"] for row in refused} == {"vendor-estimate"}


def test_what_is_empty_is_the_default() -> None:
    training, layout, gpu = read()
    assert training.sequence == SEQUENCE
    assert training.precision is Precision.BF16
    assert training.optimizer == "adamw_torch"
    assert training.checkpointing
    assert training.attention is Attention.FLASH
    assert training.strategy is Strategy.DDP
    assert layout == Layout(gpus=1)
    assert gpu.memory_gib == 80.0


@pytest.mark.parametrize(
    ("written", "precision", "method", "read_as"),
    [
        ("pure bf16", Precision.BF16, "full", Method.FULL),
        ("bf16-true", Precision.BF16, "lora", Method.LORA),
        ("16-bit", Precision.BF16, "lora", Method.LORA),
        ("bf16 mixed (accelerate bf16 + bf16)", Precision.BF16_MIXED, "full", Method.FULL),
        ("16-bit AMP", Precision.BF16_MIXED, "full", Method.FULL),
        ("fp16, 4-bit GPTQ base", Precision.FP16, "qlora", Method.GPTQ_LORA),
        ("fp16, 4-bit GPTQ base", Precision.FP16, "gptq-lora", Method.GPTQ_LORA),
        ("4-bit", Precision.BF16, "lora", Method.QLORA),
        ("bf16", Precision.BF16, "qlora", Method.QLORA),
        ("fp32", Precision.FP32, "full", Method.FULL),
        ("FP16-mixed", Precision.FP16_MIXED, "full", Method.FULL),
    ],
)
def test_precisions(written: str, precision: Precision, method: str, read_as: Method) -> None:
    training, _, _ = read(precision=written, method=method)
    assert training.precision is precision
    assert training.method is read_as


@pytest.mark.parametrize(
    ("written", "gpus", "nodes", "strategy"),
    [
        ("none", 1, 1, Strategy.DDP),
        ("none", 4, 1, Strategy.DDP),
        ("", 4, 1, Strategy.FSDP_FULL),
        ("FSDP", 4, 1, Strategy.FSDP_FULL),
        ("FSDP2", 8, 1, Strategy.FSDP_FULL),
        ("FSDP FULL_SHARD", 16, 2, Strategy.FSDP_FULL),
        ("FSDP FULL/HYBRID_SHARD", 8, 1, Strategy.FSDP_FULL),
        ("FSDP FULL/HYBRID_SHARD", 8, 2, Strategy.FSDP_FULL),
        ("FSDP FULL/HYBRID_SHARD", 16, 2, Strategy.FSDP_HYBRID),
        ("FSDP SHARD_GRAD_OP", 4, 1, Strategy.FSDP_GRAD_OP),
        ("DeepSpeed ZeRO", 2, 1, Strategy.ZERO3),
        ("DeepSpeed ZeRO-2", 2, 1, Strategy.ZERO2),
        ("zero3", 2, 1, Strategy.ZERO3),
    ],
)
def test_strategies(written: str, gpus: int, nodes: int, strategy: Strategy) -> None:
    assert read(parallelism=written, gpus=str(gpus), nodes=str(nodes))[0].strategy is strategy


def test_offload_tensor_and_pipeline_parallel() -> None:
    training, _, _ = read(parallelism="ZeRO-3 + CPU offload, TP 2, PP=4", gpus="16")
    assert (training.strategy, training.offload) == (Strategy.ZERO3, Offload.ALL)
    assert (training.tensor, training.pipeline) == (2, 4)


def test_batches_count_without_accumulation() -> None:
    assert read(gpus="8", global_batch="64", grad_accum="4")[1] == Layout(gpus=8, batch=8, accumulation=4)
    assert read(gpus="8", per_gpu_batch="8.0")[1].batch == 8


def test_frameworks_have_their_own_defaults() -> None:
    assert not read(framework="LitGPT", checkpointing="config default", method="lora")[0].checkpointing
    assert read(framework="Qwen finetune.py", method="lora")[0].lora_rank == 64
    assert read(framework="torchtune", gpu_model="RTX 4090")[0].optimizer == "paged_adamw_8bit_in_backward"
    assert read(framework="LitGPT", checkpointing="yes", method="lora")[0].checkpointing


@pytest.mark.parametrize("name", ["adamw_torch", "paged_adamw_32bit", "PagedAdamW", "AdamW8bit", "sgd", "adafactor"])
def test_optimizers(name: str) -> None:
    assert is_known_optimizer(read(optimizer=name)[0].optimizer)


def test_memory_in_the_row_wins_over_the_table() -> None:
    assert read(gpu_model="any", gpu_mem_gib="31.5")[2] == Gpu(product="any", memory_gib=31.5, source="the row")
    assert read(gpu_mem_gib="79.1")[2].memory_gib == 79.1


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"model": "any-7B"}, "model: unknown value 'any-7B'"),
        ({"model": ""}, "model: is required"),
        ({"method": "freeze"}, "method: unknown value 'freeze'"),
        ({"method": ""}, "method"),
        ({"gpu_model": "toaster"}, "gpu_model: unknown value 'toaster'"),
        ({"gpu_model": ""}, "gpu_model: is required"),
        ({"precision": "bf17"}, "precision: unknown value 'bf17'; allowed values:"),
        ({"precision": "8-bit"}, "cannot be fully fine-tuned"),
        ({"precision": "4-bit"}, "cannot be fully fine-tuned"),
        ({"optimizer": "soap"}, "optimizer: unknown value 'soap'"),
        ({"attention": "magic"}, "attention: unknown value 'magic'"),
        ({"parallelism": "FSDP3"}, "parallelism: unknown value 'FSDP3'"),
        ({"checkpointing": "perhaps"}, "checkpointing: unknown value 'perhaps'"),
        ({"gpus": "0"}, "gpus: '0' is not a positive number"),
        ({"gpus": "-1"}, "gpus"),
        ({"gpus": "nan"}, "gpus: 'nan' is not a positive number"),
        ({"gpus": "1e400"}, "gpus"),
        ({"seq": "99999999999999"}, "seq: '99999999999999' is not a positive number up to 1000000000"),
        ({"gpus": "2.5"}, "gpus: '2.5' is not an integer"),
        ({"gpus": "1", "nodes": "2"}, "nodes: 2 is more than the number of GPUs (1)"),
        ({"gpus": "4", "global_batch": "6"}, "global_batch: 6 does not divide among 4 GPUs"),
        ({"gpus": "4", "global_batch": "8", "per_gpu_batch": "4"}, "global_batch: 8 is not per_gpu_batch x gpus = 16"),
        ({"seq": "long"}, "seq: 'long' is not a positive number"),
    ],
)
def test_what_cannot_be_read_is_told(cells: dict[str, str], says: str) -> None:
    assert says in error(**cells)


@given(
    st.dictionaries(
        st.sampled_from(
            ("model", "method", "gpu_model", "gpu_mem_gib", "gpus", "nodes", "seq", "precision", "parallelism")
        ),
        st.text(max_size=40) | st.sampled_from(("1", "8", "full", "lora", "FSDP", *PRECISIONS)),
    )
)
def test_no_cell_makes_it_stumble(cells: dict[str, str]) -> None:
    assert parse_run(PLAIN | cells, TABLES) is not None
    assert parse_run(cells, TABLES) is not None


@pytest.mark.parametrize(
    ("written", "objective"),
    [
        ("", Objective.SFT),
        ("DPO", Objective.DPO),
        ("kto", Objective.KTO),
        ("simpo", Objective.ORPO),
        ("rm", Objective.REWARD),
        ("value-head", Objective.VALUE_HEAD),
        ("grpo", Objective.GRPO),
    ],
)
def test_objectives(written: str, objective: Objective) -> None:
    assert read(objective=written)[0].objective is objective
    assert "objective: unknown value 'ppo'" in error(objective="ppo")


def test_degrees_of_parallelism() -> None:
    training = read(gpus="16", parallelism="FSDP + TP 2 + SP, PP 4 + CP 2")[0]
    assert (training.tensor, training.pipeline, training.context, training.sequence_parallel) == (2, 4, 2, True)
    assert training.strategy is Strategy.FSDP_FULL
    assert not read(parallelism="TP 2")[0].sequence_parallel


def test_degrees_of_pretraining() -> None:
    written = "distributed optimizer + TP 2 + PP 4 + EP 8 + ETP 1 + VP 2 + microbatches 4"
    training = read(gpus="64", nodes="8", per_gpu_batch="8", parallelism=written)[0]
    assert training.strategy is Strategy.ZERO1
    assert (training.expert, training.expert_tensor, training.chunks, training.microbatch) == (8, 1, 2, 2)
    assert training.multiple == 32
    assert read(gpus="16", nodes="2", parallelism="FSDP hybrid + HSDP 4")[0].replicas == 4
    titan = read(framework="torchtitan", checkpointing="")[0]
    assert (titan.recomputed, titan.keeps_products) == (0.5, False)
    assert read(framework="torchtitan", checkpointing="selective")[0].keeps_products


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        ("llama3.1-8b", ("q_proj", "v_proj")),
        ("chatglm3-6b", ("query_key_value",)),
        ("baichuan2-7b", ("W_pack",)),
        ("kimi-k2", ("all-linear",)),
    ],
)
def test_adapters_go_where_peft_puts_them(model: str, targets: tuple[str, ...]) -> None:
    assert read(model=model, method="lora")[0].lora_targets == targets


@pytest.mark.parametrize(
    ("cells", "upcast", "fast", "fused"),
    [
        ({}, None, False, False),
        ({"note": "baseline-peft-bnb"}, True, False, False),
        ({"note": "accelerated-peft-bnb-foak"}, False, True, False),
        ({"note": "accelerated-peft-bnb-foak-liger"}, False, False, True),
        ({"note": "accelerated-peft-bnb-foak-padding-free"}, False, True, False),
        ({"note": "foak-fast-kernels"}, None, True, False),
        ({"note": "baseline-peft-bnb", "upcast": "no", "fused_loss": "yes"}, False, False, True),
        ({"note": "like baseline-peft-bnb"}, None, False, False),
    ],
)
def test_configurations_of_fms_acceleration(
    cells: dict[str, str], upcast: bool | None, fast: bool, fused: bool
) -> None:
    found = read(**cells)[0]
    assert (found.upcast, found.fast_loss, found.fused_loss) == (upcast, fast, fused)


@pytest.mark.parametrize(
    ("text", "layers", "loss"), [("", False, False), ("layers", True, False), ("yes", True, True), ("No", False, False)]
)
def test_what_is_compiled(text: str, layers: bool, loss: bool) -> None:
    found = read(framework="torchtitan", compile=text)[0]
    assert (found.compiled, found.compiled_loss) == (layers, loss)


@pytest.mark.parametrize(("framework", "strategy"), [("megatron-lm", Strategy.DDP), ("megatron-swift", Strategy.ZERO1)])
def test_megatron_never_shards_weights_by_default(framework: str, strategy: Strategy) -> None:
    training = read(gpus="8", framework=framework, parallelism="", optimizer="", checkpointing="")[0]
    assert (training.strategy, training.optimizer, training.checkpointing) == (strategy, "adamw_apex_fused", False)


@pytest.mark.parametrize(("written", "upcast"), [("", None), ("yes", True), ("no", False)])
def test_a_prepared_base(written: str, upcast: bool | None) -> None:
    assert read(method="qlora", upcast=written)[0].upcast is upcast

"""From a line to its question: what is read, what is taken, which card, which model; hostile lines and files."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.launch import Diagnostic, Launch, parse_launch
from reconciler.sizing.config import Goal, SizingSettings
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.job_questions import JobQuestions, build_questions
from reconciler.sizing.resolve import resolve_gpus, resolve_model
from reconciler.sizing.training import Architecture, Attention, Method, Precision, Strategy
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE, TABLES

SFT = (
    "accelerate launch --num_processes 8 -m tuning.sft_trainer --model_name_or_path ibm-granite/granite-3.1-8b-instruct"
)
FULL = f"{SFT} --per_device_train_batch_size 4 --max_seq_length 4096"
A100 = GPU_TABLE.find("NVIDIA-A100-SXM4-80GB")
MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 28 --hidden-size 3584 --num-attention-heads 28 --bf16"
    " --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --vocab-size 152064"
)
TENSOR = "accelerate launch --use_parallelism_config"
TRL = "-m trl.scripts.sft --max_length 512 --per_device_train_batch_size 1"
L40S = GPU_TABLE.find("NVIDIA-L40S")
assert A100 is not None
assert L40S is not None
SETTINGS = SizingSettings(default_gpu_model="NVIDIA-A100-SXM4-80GB")

ACME = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}


def launch(line: str, env: dict[str, str | None] | None = None) -> Launch:
    found = parse_launch(("sh", "-c", line), (), env or {}, lambda _: None).launch
    assert found is not None
    return found


def asking(line: str, env: dict[str, str | None] | None = None, **more: Any) -> JobQuestions:
    return build_questions(launch(line, env), more.pop("settings", SETTINGS), TABLES, **more)


def troubles(found: JobQuestions) -> list[str]:
    assert not found.questions
    return [f"{one.rule}: {one.message}" for one in found.diagnostics]


# --- what is read and what is taken ---------------------------------------------------------------------------------


def test_a_line_becomes_a_question() -> None:
    line = f"{FULL} --peft_method lora --r 16 --lora_alpha 32 --gradient_accumulation_steps 2 --gradient_checkpointing True"
    found = asking(line, requested_gpus=16)
    (question,) = found.questions
    training = question.training
    assert (question.batch, question.processes, question.accumulation) == (4, 8, 2)
    assert question.effective_batch == 64
    assert question.requested_gpus == 16
    assert question.gpu.product == "NVIDIA-A100-SXM4-80GB"
    assert (training.architecture.name, training.method, training.sequence) == (
        "granite-3.1-8b",
        Method.LORA,
        4096,
    )
    assert (training.lora_rank, training.checkpointing, training.precision) == (16, True, Precision.BF16)
    assert (training.strategy, training.attention) == (Strategy.DDP, Attention.FLASH)
    assert training.framework == "fms-hf-tuning"
    assert not found.diagnostics


def test_every_value_that_was_taken_is_named_with_its_origin() -> None:
    found = asking(FULL)
    origins = {name: fact.origin for name, fact in found.defaults}
    assert origins["optimizer"] == "default of fms-hf-tuning"
    assert origins["strategy"] == "no sharding on the line"
    assert origins["checkpointing"] == "default of fms-hf-tuning"
    assert origins["gpu"] == "spec.sizing.defaultGpuModel"
    assert all(origins.values())
    said = {name for name, fact in found.facts if fact.snippet}
    assert said == {"model", "sequence", "batch", "processes"}


def test_only_fms_hf_tunings_own_launcher_shards_unasked() -> None:
    """Under a bare `accelerate launch` its trainer runs with DDP, and full fine-tuning of 8B would run out of memory."""
    flags = FULL.partition("tuning.sft_trainer ")[2]
    found = asking(f"python /app/accelerate_launch.py {flags}")
    assert found.questions[0].training.strategy is Strategy.FSDP_FULL
    origin = dict(found.defaults)["strategy"].origin
    assert origin == "default of fms-hf-tuning's accelerate_launch.py (accelerate_fsdp_defaults.yaml)"
    for launcher in ("accelerate launch --num_processes 8", "torchrun --nproc-per-node 8"):
        assert asking(f"{launcher} -m tuning.sft_trainer {flags}").questions[0].training.strategy is Strategy.DDP
    sharded = f"accelerate launch --use_fsdp --num_processes 8 -m tuning.sft_trainer {flags}"
    assert asking(sharded).questions[0].training.strategy is Strategy.FSDP_FULL


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            f"{MEGATRON} --tensor-model-parallel-size 8",
            "sizing.parallelism: 28 attention heads cannot be divided among 8 GPUs",
        ),
        (
            f"{TENSOR} --parallelism_config_tp_size 3 --num_processes 3 {TRL} --model_name_or_path Qwen/Qwen3-8B",
            "sizing.parallelism: 32 attention heads cannot be divided among 3 GPUs",
        ),
        (
            f"{MEGATRON} --tensor-model-parallel-size 1 --pipeline-model-parallel-size 8",
            "sizing.parallelism: 28 layers cannot be divided among 8 stages",
        ),
        (
            f"{MEGATRON} --swiglu --disable-bias-linear --num-experts 12 --expert-model-parallel-size 8",
            "sizing.parallelism: 12 experts cannot be divided among 8 GPUs",
        ),
    ],
)
def test_degrees_divide_the_model_or_the_job_cannot_start(line: str, message: str) -> None:
    """Megatron asserts it; transformers cannot split projections into heads."""
    found = asking(line)
    assert troubles(found) == [message]
    assert found.diagnostics[0].span is not None


def test_litgpt_checkpoints_on_several_gpus_alone() -> None:
    line = "litgpt finetune_full meta-llama/Llama-3.1-8B --devices 2 --train.max_seq_length 2048"
    (one,) = asking(line).questions
    assert (one.training.checkpointing, one.training.checkpoints_shards) == (True, True)
    assert one.training.precision is Precision.BF16_MIXED
    assert not asking(FULL).questions[0].training.checkpoints_shards


def test_litgpt_quantizes_on_one_gpu_alone() -> None:
    line = "litgpt finetune_lora meta-llama/Llama-3.1-8B --quantize bnb.nf4 --precision bf16-true"
    (one,) = asking(f"{line} --train.max_seq_length 2048").questions
    assert one.exact_gpus == 1


def test_stages_may_be_uneven_if_a_flag_says_so() -> None:
    """Such a flag widens the estimate, so that the line is uncertain."""
    line = f"{MEGATRON} --pipeline-model-parallel-size 8 --decoder-first-pipeline-num-layers 7"
    assert asking(line, is_uncertain=True).questions


def test_a_framework_without_sharding_is_not_sharded() -> None:
    line = "torchrun --nproc_per_node 4 train.py --model_name_or_path meta-llama/Llama-3.1-8B --num_train_epochs 1"
    (question,) = asking(f"{line} --per_device_train_batch_size 2 --max_length 2048 --bf16").questions
    assert question.training.strategy is Strategy.DDP
    assert question.training.precision is Precision.BF16_MIXED
    assert (question.batch, question.processes) == (2, 4)


def test_settings_go_into_the_question() -> None:
    settings = SizingSettings(
        default_gpu_model="NVIDIA-L40S",
        goal=Goal.AVOID_OOM,
        gpus_per_worker=4,
        max_gpus=16,
        safety=0.2,
        allow_paged=True,
        allow_disagreement=True,
        model_version="3.0.0",
        prices=(("NVIDIA-L40S", 9.0),),
    )
    (question,) = asking(FULL, settings=settings).questions
    assert (question.goal, question.gpus_per_worker, question.max_gpus) == (Goal.AVOID_OOM, 4, 16)
    assert (question.safety, question.allow_paged, question.allow_disagreement) == (0.2, True, True)
    assert (question.model_version, question.gpu.price) == ("3.0.0", 9.0)


@pytest.mark.parametrize(
    ("line", "env", "requested", "batch"),
    [
        ("accelerate launch --num_processes 4", {}, None, (2, 4)),
        ("accelerate launch --num_processes 4", {}, 16, (2, 4)),
        ("accelerate launch", {}, 16, (2, 16)),
        ("accelerate launch", {}, None, (2, 1)),
        ("torchrun --nproc_per_node gpu", {}, 8, (2, 8)),
        ("torchrun --nproc_per_node 4 --nnodes 2", {}, None, (2, 8)),
        ("accelerate launch --num_processes 4", {"AUTOCONF_BATCH_SIZE": "64"}, None, (16, 4)),
        ("accelerate launch", {"AUTOCONF_BATCH_SIZE": "64"}, 16, (4, 16)),
        ("accelerate launch", {"AUTOCONF_BATCH_SIZE": "64"}, None, (64, 1)),
    ],
)
def test_who_shares_the_batch(
    line: str, env: dict[str, str | None], requested: int | None, batch: tuple[int, int]
) -> None:
    """F-003: AUTOCONF_BATCH_SIZE is that of all processes."""
    script = "-m tuning.sft_trainer --model_name_or_path llama-7b --per_device_train_batch_size 2 --max_seq_length 1024"
    (question,) = asking(f"{line} {script}", env, requested_gpus=requested).questions
    assert (question.batch, question.processes) == batch


def test_a_kind_that_starts_a_process_a_gpu() -> None:
    """A TorchrunJob's own command is a plain python line; its controller starts a process for each GPU."""
    line = (
        "python -m tuning.sft_trainer --model_name_or_path llama-7b --per_device_train_batch_size 2 --max_seq_length 64"
    )
    assert asking(line, requested_gpus=8).questions[0].processes == 1
    assert asking(line, requested_gpus=8, starts_processes=True).questions[0].processes == 8


# --- what keeps a job from being asked ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            f"{FULL} --gradient_accumulation_steps $N",
            "launch.unknown-value: the value of `--gradient_accumulation_steps $N`",
        ),
        (f"{FULL} --optim soap", "sizing.optimizer: the memory of optimizer 'soap' is unknown"),
        (f"{FULL} --peft_method lora --target_modules q_prj", "sizing.lora-target: LoRA target of granite"),
        (
            f"{FULL} --peft_method lora --lora_modules_to_save head",
            "sizing.lora-target: fully trained module of granite",
        ),
        (f"{FULL} --model_name_or_path acme/secret-9b", "sizing.model: unknown model 'acme/secret-9b'"),
    ],
)
def test_what_is_not_known_is_never_guessed(line: str, words: str) -> None:
    found = asking(line)
    assert any(one.startswith(words) for one in troubles(found)), found.diagnostics
    assert all(one.hint for one in found.diagnostics)
    assert all(one.span is not None for one in found.diagnostics), "people see the words that are meant"


def test_a_variable_cannot_train_a_quantised_base_as_a_whole() -> None:
    found = asking(f"{FULL} --load_in_4bit True", {"AUTOCONF_METHOD": "full"})
    assert troubles(found) == ["sizing.quantisation: a quantized base cannot be fully fine-tuned"]


def test_all_troubles_at_once() -> None:
    found = asking(f"{SFT.replace('granite-3.1-8b-instruct', 'x')} --max_seq_length $L", settings=SizingSettings())
    assert [one.rule for one in found.diagnostics] == ["sizing.model", "sizing.gpu", "launch.unknown-value"]


def test_processes_that_nobody_knows_are_a_trouble() -> None:
    line = FULL.replace("--num_processes 8", "--num_processes $COUNT")
    assert "launch.unknown-value: the value of `--num_processes $COUNT` is unknown" in troubles(asking(line))[0]


def test_a_batch_in_all_that_does_not_divide() -> None:
    found = asking(FULL.replace("--num_processes 8", ""), {"AUTOCONF_BATCH_SIZE": "6"}, requested_gpus=4)
    assert troubles(found) == ["sizing.batch: a batch of 6 does not divide among 4 processes"]


def test_default_targets_that_the_model_lacks_give_way() -> None:
    """A model whose attention is one matrix has no q_proj: PEFT's own table is taken, and named."""
    line = "accelerate launch --num_processes 1 -m tuning.sft_trainer --model_name_or_path bigcode/starcoder"
    found = asking(f"{line} --per_device_train_batch_size 1 --max_seq_length 512 --peft_method lora")
    assert found.questions[0].training.lora_targets == ("c_attn",)
    assert dict(found.defaults)["lora_targets"].origin == "PEFT's default for the model type"


# --- which card -----------------------------------------------------------------------------------------------------

MEASURED = Gpu(product="NVIDIA-A100-SXM4-80GB", memory_gib=79.3, source="measured on node a")


@pytest.mark.parametrize(
    ("names", "product", "origin"),
    [
        (("L40S", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H200"), "NVIDIA-L40S", "env AUTOCONF_GPU_MODEL"),
        (("", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H200"), "NVIDIA-A100-SXM4-80GB", "node selection"),
        (("", "", "NVIDIA-H200"), "NVIDIA-H200", "spec.sizing.defaultGpuModel"),
    ],
)
def test_the_first_that_names_a_card_wins(names: tuple[str, str, str], product: str, origin: str) -> None:
    """F-005: variable, selection, default, then what the cluster offers."""
    variable, selected, default = names
    cards = resolve_gpus(GPU_TABLE, variable=variable, selected=selected, default=default, offered=[MEASURED])
    assert not isinstance(cards, Diagnostic)
    assert [gpu.product for gpu in cards.gpus] == [product]
    assert cards.origin == origin


def test_without_a_name_all_that_is_offered_is_asked() -> None:
    """F-005: the queue's flavors and the evidence come last, and all of them count."""
    found = asking(FULL, settings=SizingSettings(prices=(("NVIDIA-L40S", 0.1),)), offered=[A100, L40S])
    assert [question.gpu.product for question in found.questions] == ["NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"]
    assert found.questions[1].gpu.price == 0.1
    assert dict(found.facts)["gpu"].origin == "what the cluster offers"


def test_what_was_measured_wins_over_the_table() -> None:
    cards = resolve_gpus(GPU_TABLE, default="NVIDIA-A100-SXM4-80GB", offered=[MEASURED])
    assert not isinstance(cards, Diagnostic)
    assert cards.gpus[0].memory_gib == 79.3


def test_a_card_that_only_the_evidence_knows() -> None:
    own = Gpu(product="ACME-X1", memory_gib=64.0)
    cards = resolve_gpus(GPU_TABLE, selected="ACME-X1", offered=[own])
    assert not isinstance(cards, Diagnostic)
    assert cards.gpus == (own,)


@pytest.mark.parametrize("names", [("toaster", "", ""), ("", "NVIDIA-H100", "NVIDIA-L40S"), ("", "", "x" * 1000)])
def test_a_card_that_nobody_knows_is_not_replaced_by_another(names: tuple[str, str, str]) -> None:
    """F-005: a name that means nothing, or several cards, is a trouble and no reason to look further."""
    variable, selected, default = names
    cards = resolve_gpus(GPU_TABLE, variable=variable, selected=selected, default=default, offered=[MEASURED])
    assert isinstance(cards, Diagnostic)
    assert cards.rule == "sizing.gpu"
    assert len(cards.message) < 200


def test_nobody_names_a_card() -> None:
    assert isinstance(resolve_gpus(GPU_TABLE), Diagnostic)


# --- which model ----------------------------------------------------------------------------------------------------


def files(*paths: str, config: dict[str, Any] | None = None) -> Any:
    raw = json.dumps(ACME if config is None else config).encode()
    return lambda path: raw if path in paths else None


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("acme/llm-1b", "acme/llm-1b/config.json"),
        ("acme/llm-1b", "models/acme/llm-1b/config.json"),
        ("acme/llm-1b", "jobs/team/llm-1b/config.json"),
        ("acme/llm-1b", "jobs/team/acme/llm-1b/config.json"),
        ("acme/llm-1b", "jobs/team/config.json"),
        ("./local/llm-1b/", "local/llm-1b/config.json"),
        ("/mnt/models/llm-1b", "models/llm-1b/config.json"),
        ("/mnt/models/llm-1b", "jobs/team/llm-1b/config.json"),
    ],
)
def test_a_model_is_known_by_its_config(written: str, path: str) -> None:
    """F-004: any model by its `config.json` in the repository or beside the job."""
    found = resolve_model(MODEL_TABLE, written, files(path), "jobs/team")
    assert not isinstance(found, Diagnostic), found
    architecture, origin = found
    assert (architecture.name, architecture.layers, origin) == ("llm-1b", 16, f"file {path}")
    assert 1.2e9 < architecture.parameters < 1.3e9


def test_a_config_at_the_models_own_path_wins_over_the_table_and_one_beside_the_job_does_not() -> None:
    own = resolve_model(MODEL_TABLE, "meta-llama/Llama-3.1-8B", files("meta-llama/Llama-3.1-8B/config.json"), "jobs")
    beside = resolve_model(MODEL_TABLE, "meta-llama/Llama-3.1-8B", files("jobs/config.json"), "jobs")
    assert not isinstance(own, Diagnostic)
    assert not isinstance(beside, Diagnostic)
    assert (own[0].layers, beside[0].layers) == (16, 32)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{", b'{"model_type": "bert"}', b'{"model_type": "llama"}', b"\xff\xfe", b"[" * 5000, b"null"]
)
def test_a_config_that_tells_nothing_is_a_trouble(raw: bytes) -> None:
    found = resolve_model(MODEL_TABLE, "acme/llm", lambda _: raw)
    assert isinstance(found, Diagnostic)
    assert found.message.startswith("cannot read the architecture of the model from acme/llm/config.json: ")


@pytest.mark.parametrize(
    "written", ["../../etc", "a/../../b", "..", "/", "", "hf://x/y", "s3://b/../c", "a\0b", "x" * 5000]
)
def test_no_path_leaves_the_repository(written: str) -> None:
    asked: list[str] = []

    def watch(path: str) -> bytes | None:
        asked.append(path)
        return None

    assert isinstance(resolve_model(MODEL_TABLE, written, watch, "jobs"), Diagnostic)
    assert all(path == "jobs/config.json" for path in asked)


@given(st.text(max_size=80), st.text("abc/.-", max_size=12))
def test_no_name_breaks_the_search(written: str, folder: str) -> None:
    asked: list[str] = []
    found = resolve_model(MODEL_TABLE, written, asked.append, folder)
    assert isinstance(found, Diagnostic) or isinstance(found[0], Architecture)
    assert all(not path.startswith("/") for path in asked)


flags = st.lists(
    st.tuples(
        st.sampled_from(
            (
                *("--max_seq_length", "--per_device_train_batch_size", "--gradient_accumulation_steps", "--optim"),
                *("--peft_method", "--r", "--target_modules", "--bf16", "--fp16", "--torch_dtype", "--packing"),
                *("--gradient_checkpointing", "--load_in_4bit", "--load_in_8bit", "--attn_implementation", "--fsdp"),
            )
        ),
        st.sampled_from(("0", "1", "8", "-1", "1e3", "x", "", "true", "lora", "bf16", "$X", "all-linear", "99999999")),
    ),
    max_size=8,
)


@given(flags, st.none() | st.integers(1, 100))
def test_any_line_gives_a_question_or_says_why_not(pairs: list[tuple[str, str]], requested: int | None) -> None:
    """What ends in a question names every value; what does not has a trouble here or in the reading."""
    words = " ".join(f"{name} {value}" for name, value in pairs)
    reading = parse_launch(("sh", "-c", f"{FULL} {words}"), (), {}, lambda _: None)
    if reading.launch is None:
        assert reading.diagnostics
        return
    found = build_questions(reading.launch, SETTINGS, TABLES, requested_gpus=requested)
    assert bool(found.questions) != bool(found.diagnostics)
    assert all(fact.snippet or fact.origin for _, fact in found.facts)


def test_no_pod_gets_more_than_the_largest_node_has() -> None:
    """The evidence bounds the settings; a card that nobody measured is bound by the settings alone."""
    assert A100 is not None
    assert L40S is not None
    cards = [A100, replace(L40S, per_node=4)]
    found = asking(FULL, settings=SizingSettings(gpus_per_worker=6), offered=cards)
    assert [one.gpus_per_worker for one in found.questions] == [6, 4]


def test_a_configuration_beside_the_job_is_the_policys_alone() -> None:
    """A reward model of an unknown name never gets the sizes of the policy."""
    line = (
        "llamafactory-cli train --stage ppo --model_name_or_path acme/policy --per_device_train_batch_size 1 "
        "--reward_model acme/judge --reward_model_type full --bf16 true"
    )
    beside = {"jobs/config.json": json.dumps(ACME).encode()}
    (problem,) = troubles(asking(line, files=beside.get, folder="jobs"))
    assert problem == "sizing.model: unknown model 'acme/judge'"
    large = {"models/acme/judge/config.json": json.dumps({**ACME, "num_hidden_layers": 32}).encode()}
    (question,) = asking(line, files={**beside, **large}.get, folder="jobs").questions
    (companion,) = question.training.companions
    assert (question.training.architecture.layers, companion.architecture.layers) == (16, 32)

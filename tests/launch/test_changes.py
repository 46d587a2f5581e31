"""What a change is called by each framework: the names exist, and a line with them says what the change is."""

import json
import shlex
from typing import Any

import pytest
import yaml

from reconciler.launch import FRAMEWORKS, Framework, parse_launch, review_flags
from reconciler.launch.changes import SettingEdit, SettingOwner, edits_for, format_edits, is_configured_by_file
from reconciler.launch.launch import Launch
from reconciler.launch.launchers import LAUNCHERS
from reconciler.launch.settings import flag_name
from tests.sizing.tables import TABLES

VALUES = {"rank": "16", "degree": "2"}
MODEL = "--model_name_or_path meta-llama/Llama-3.1-8B"
LINES = {
    "fms-hf-tuning": f"accelerate launch --num_processes 4 -m tuning.sft_trainer {MODEL} --max_seq_length 2048",
    "trl": f"trl sft {MODEL} --num_processes 4 --gradient_checkpointing false",
    "ms-swift": "NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B --max_length 2048 --train_type full",
    "transformers": f"torchrun --nproc_per_node 4 run_clm.py {MODEL} --block_size 2048",
    "torchtune": "tune run --nproc_per_node 4 full_finetune_distributed --config a.yaml",
    "litgpt": "litgpt finetune_lora checkpoints/meta-llama/Llama-3.1-8B --devices 4 --train.max_seq_length 2048",
    "llama-recipes": "torchrun --nproc_per_node 4 -m llama_recipes.finetuning --model_name meta-llama/Llama-3.1-8B",
    "axolotl": "axolotl train a.yaml --num-processes 4",
    "megatron-lm": "torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --vocab-size 32000 "
    "--num-attention-heads 16 --micro-batch-size 1 --seq-length 2048 --bf16",
    "megatron-swift": "NPROC_PER_NODE=4 megatron sft --model Qwen/Qwen2.5-7B --max_length 2048 "
    "--use_distributed_optimizer false",
    "torchtitan": "torchrun --nproc_per_node 4 -m torchtitan.train --job.config_file a.toml "
    "--parallelism.data_parallel_shard_degree 1 --activation_checkpoint.mode none",
    "llama-factory": "llamafactory-cli train a.yaml",
}
FILES: dict[str, dict[str, Any]] = {
    "torchtune": {
        "checkpointer": {"checkpoint_dir": "/tmp/Meta-Llama-3.1-8B-Instruct"},
        "tokenizer": {"max_seq_len": 2048},
        "batch_size": 2,
        "dtype": "bf16",
        "optimizer": {"_component_": "torch.optim.AdamW"},
        "fsdp_reshard_after_forward": False,
    },
    "axolotl": {"base_model": "meta-llama/Llama-3.1-8B", "sequence_len": 2048, "bf16": True},
    "llama-factory": {
        "model_name_or_path": "meta-llama/Llama-3.1-8B",
        "stage": "sft",
        "finetuning_type": "full",
        "disable_gradient_checkpointing": True,
    },
}
TOML = b'[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'
FACTS = {
    "checkpointing": ("checkpointing", "true"),
    "fused-loss": ("fused_loss", "true"),
    "8-bit-optimizer": ("optimizer", "adamw_bnb_8bit"),
    "lora": ("lora_rank", "16"),
    "4-bit-base": ("method", "qlora"),
    "fsdp-full": ("strategy", "fsdp-full"),
    "fsdp-full all": ("offload", "all"),
    "zero-1": ("strategy", "zero-1"),
    "tensor": ("tensor", "2"),
    "sequence-parallel": ("sequence_parallel", "true"),
    "zero-2": ("strategy", "zero-2"),
    "zero-3": ("strategy", "zero-3"),
    "zero-2 optimizer": ("offload", "optimizer"),
    "zero-3 all": ("offload", "all"),
    "sdpa": ("attention", "sdpa"),
}
DEEPSPEED_FILES = {
    "ds_z2_config.json": {"stage": 2},
    "ds_z3_config.json": {"stage": 3},
    "ds_z2_offload_config.json": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    "ds_z3_offload_config.json": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu"},
        "offload_param": {"device": "cpu"},
    },
}
"""The stages of LLaMA-Factory's examples/deepspeed/*.json."""

BY_NAME = {row.name: row for row in FRAMEWORKS if row.changes}
NAMED = [(name, change) for name, row in BY_NAME.items() for change in row.changes]


def read(name: str, line: str, edits: tuple[SettingEdit, ...] = (), content: dict[str, Any] | None = None) -> Launch:
    """Read a line, with its configuration file, or another content of it."""
    configuration = yaml.safe_dump(FILES.get(name) if content is None else content).encode()

    def files(path: str) -> bytes | None:
        if (stages := DEEPSPEED_FILES.get(path.rpartition("/")[2])) is not None:
            return json.dumps({"zero_optimization": stages}).encode()
        return TOML if path.endswith(".toml") else configuration

    parsed = parse_launch(("bash", "-c", line), (), {}, files, edits=edits)
    assert parsed.diagnostics == ()
    assert parsed.launch is not None
    assert parsed.launch.framework.name == name
    return parsed.launch


def base(name: str, change: str) -> str:
    """Return a line that the change applies to: only adapters get a 4-bit base."""
    if name == "litgpt":  # it quantizes on one GPU alone
        return LINES[name].replace("--devices 4", "--devices 1") if change == "4-bit-base" else LINES[name]
    if change != "4-bit-base":
        return LINES[name]
    return f"{LINES[name]} --use_peft --peft_method lora" if name == "llama-recipes" else LINES[name]


def edits_of(name: str, change: str, launch: Launch) -> tuple[SettingEdit, ...]:
    edits = edits_for(change, BY_NAME[name], launch, VALUES)
    assert edits is not None
    adapters = edits_for("lora", BY_NAME[name], launch, VALUES) if change == "4-bit-base" else None
    return (*(adapters or ()), *edits)


@pytest.mark.parametrize(("name", "change"), [pair for pair in NAMED if pair[1] in FACTS])
def test_the_line_says_the_change(name: str, change: str) -> None:
    before = read(name, base(name, change))
    edits = edits_of(name, change, before)
    after = read(name, base(name, change), edits)
    fact, value = FACTS[change]
    found = after.fact(fact)
    assert found is not None
    assert found.value == value
    if change not in {"lora", "4-bit-base"}:  # nothing else changes but what follows from sharding
        changed = {key for key in {*before.facts, *after.facts} if before.fact(key) != after.fact(key)}
        shards = "fsdp" in change or "zero" in change
        assert changed <= ({fact, "strategy", "shards", "offload", "precision", "checkpointing"} if shards else {fact})


@pytest.mark.parametrize(("name", "change"), [pair for pair in NAMED if pair[1] in FACTS])
def test_an_edit_is_read_like_the_words(name: str, change: str) -> None:
    """The facts with an edit are those of a line on which the words of `format_edits` stand."""
    line = base(name, change)
    before = read(name, line)
    edits = edits_of(name, change, before)
    content = FILES.get(name)
    words = [edit for edit in edits if edit.owner is SettingOwner.FRAMEWORK]
    launcher = [edit for edit in edits if edit.owner is SettingOwner.LAUNCHER]
    framework = BY_NAME[name]
    if content is not None and name != "torchtune":
        content = _merged(content, words)
    elif words:
        names = {edit.name for edit in words}
        kept = [word for word in shlex.split(line) if word not in {"--train_type", "full"}]
        line = " ".join(kept) if "train_type" in names else line
        line = f"{line} {format_edits(words, framework)}"
    if launcher:
        line = line.replace("accelerate launch", f"accelerate launch {format_edits(launcher, framework)}")
    written, edited = read(name, line, content=content), read(name, base(name, change), edits)
    facts = {key for key in {*written.facts, *edited.facts} if key != "model"}
    assert {key: _value(written, key) for key in facts} == {key: _value(edited, key) for key in facts}


def _value(launch: Launch, name: str) -> str | None:
    fact = launch.fact(name)
    return None if fact is None else fact.value


def _merged(content: dict[str, Any], edits: list[SettingEdit]) -> dict[str, Any]:
    """Return a configuration with edits, as somebody writes them."""
    merged = dict(content)
    for edit in edits:
        place = merged
        *outer, last = edit.name.split(".")
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = [edit.value] if edit.appends else yaml.safe_load(edit.value)
    return merged


@pytest.mark.parametrize(("name", "change"), NAMED)
def test_the_names_are_those_of_the_framework(name: str, change: str) -> None:
    """Every name is in the framework's own definitions, or accelerate's."""
    edits = edits_for(change, BY_NAME[name], None, VALUES) or ()
    for edit in edits:
        owner = "accelerate" if edit.owner is SettingOwner.LAUNCHER else name
        assert TABLES.flags.effect(owner, flag_name(edit.name)) != "unknown", edit


def test_the_launchers_names_are_known() -> None:
    names = {name for launcher in LAUNCHERS for settings in launcher.changes.values() for name in settings}
    assert {name for name in names if TABLES.flags.effect("accelerate", name) == "unknown"} == set()


def test_every_framework_that_names_changes_has_a_line() -> None:
    """Only such a framework gets remedies. verl and OpenRLHF (rewards) and Unsloth, whose memory is its own, do not."""
    named = {row.name for row in FRAMEWORKS if row.name and not row.unsupported and row.changes}
    assert named <= LINES.keys()
    assert named.isdisjoint({"verl", "openrlhf", "unsloth"})


def test_accelerate_comes_before_a_framework_without_a_file() -> None:
    launch = read("fms-hf-tuning", LINES["fms-hf-tuning"])
    edits = edits_for("fsdp-full", BY_NAME["fms-hf-tuning"], launch)
    assert format_edits(edits or (), BY_NAME["fms-hf-tuning"]).startswith("--use_fsdp --fsdp_sharding_strategy")
    alone = edits_for("fsdp-full", BY_NAME["fms-hf-tuning"])
    assert format_edits(alone or (), BY_NAME["fms-hf-tuning"]) == "--fsdp 'full_shard auto_wrap'"


def test_the_stage_of_a_file_changes_in_the_file() -> None:
    line = f"deepspeed --num_gpus 4 run_clm.py {MODEL} --block_size 2048 --deepspeed ds_z2_config.json"
    launch = read("transformers", line)
    edits = edits_for("zero-3 all", launch.framework, launch)
    assert edits is not None
    assert format_edits(edits, launch.framework) == (
        "zero_optimization.stage: 3, zero_optimization.offload_optimizer.device: cpu, "
        "zero_optimization.offload_param.device: cpu"
    )
    after = read("transformers", line, edits)
    assert (_value(after, "strategy"), _value(after, "offload")) == ("zero-3", "all")


def test_the_name_on_the_line_is_kept() -> None:
    framework = BY_NAME["ms-swift"]
    launch = read("ms-swift", LINES["ms-swift"])
    assert format_edits(edits_for("lora", framework, launch, VALUES) or (), framework).startswith("--train_type lora")
    assert format_edits(edits_for("lora", framework, None, VALUES) or (), framework).startswith("--tuner_type lora")


def test_lists_get_an_item() -> None:
    framework: Framework = BY_NAME["axolotl"]
    text = format_edits(edits_for("fused-loss", framework) or (), framework)
    assert text.startswith("plugins: [..., axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin], cut_cross_en")
    assert is_configured_by_file(framework)


def test_a_change_that_nobody_has() -> None:
    assert edits_for("lora", BY_NAME["torchtune"]) is None
    assert edits_for("context", BY_NAME["litgpt"]) is None


def test_context_parallelism_is_read_as_what_it_is() -> None:
    """What is not modelled on a line is refused there, and never taken for another size."""
    launch = read("axolotl", LINES["axolotl"])
    edits = edits_for("context", launch.framework, launch, VALUES) or ()
    after = read("axolotl", LINES["axolotl"], edits)
    assert after.fact("context") is not None or review_flags(after, TABLES.flags).refused

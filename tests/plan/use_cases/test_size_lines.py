"""Launch lines by value: any text is sized, or refused with its reasons; edits of any line are read without a fault."""

import shlex

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import InvalidInput
from reconciler.kube.problems import Problem
from reconciler.launch import resolve_file
from reconciler.launch.changes import DEEPSPEED_CHANGES
from reconciler.launch.launchers import LAUNCHERS
from reconciler.launch.settings import flag_name
from reconciler.size.ask import Asked, Bounds, answer_question
from reconciler.size.files import standalone_settings
from reconciler.size.line import size_line
from reconciler.size.pages.answer import SizeAnswer
from reconciler.sizing.training import Strategy
from tests import sizes
from tests.launch.cases import cases
from tests.sizing.tables import TABLES

SETTINGS = standalone_settings(TABLES, gpu="NVIDIA-A10G", max_gpus=4)
WORDS = st.sampled_from(
    (
        *("accelerate launch", "trl sft", "axolotl train a.yaml", "swift sft", "-m tuning.sft_trainer", "python", "|"),
        *("--model_name_or_path llama3.1-8b", "--model Qwen/Qwen2.5-7B", "--max_length 4096", "--use_peft", "'", "$A"),
        *("--per_device_train_batch_size 64", "--deepspeed zero2", "--fsdp full_shard", "\n", "--num_processes=2"),
    )
)


def sized(text: str, files: dict[str, bytes], gpus: int | None, **env: str) -> SizeAnswer | tuple[Problem, ...]:
    """Return the answer about a line, or why there is none."""

    def read(written: str) -> bytes | None:
        path = resolve_file(written, files, "")
        return files[path] if path else None

    try:
        return size_line(text, TABLES, SETTINGS, read, gpus=gpus, env={"A": "1", **env})[0]
    except InvalidInput as error:
        return tuple(error.problems)


@settings(max_examples=sizes.examples(90), deadline=None)
@given(st.lists(WORDS, max_size=10).map(" ".join), st.none() | st.integers(1, 8))
def test_any_text_is_sized_or_refused(text: str, gpus: int | None) -> None:
    answer = sized(text, {}, gpus)
    if isinstance(answer, tuple):
        assert answer
        assert all(problem.place.path == "line" and problem.place.line >= 1 for problem in answer)
        return
    subject = answer.requested or answer.decision.chosen
    assert (answer.remedies is not None) <= (subject is None or not subject.fits)


def test_remedies_of_real_lines_are_those_of_their_framework() -> None:
    """A framework never gets another one's flags."""
    with_remedies = 0
    for case in cases()[::3]:
        answer = sized(case.script, case.files, 1)
        if isinstance(answer, tuple) or answer.remedies is None or answer.framework is None:
            continue
        with_remedies += 1
        framework = answer.framework
        changes = [*framework.changes.values(), *(one for launcher in LAUNCHERS for one in launcher.changes.values())]
        known = {part.strip("-+") for names in changes for name in names for part in name.split("|")}
        known |= {name for fact in ("batch", "accumulation") for name in framework.settings.get(fact, ())}
        known |= {name for names in DEEPSPEED_CHANGES.values() for name in names}
        edits = [edit for one in (*answer.remedies.enough, *answer.remedies.not_enough) for edit in one.edits]
        assert {flag_name(edit.name) for edit in edits} <= {flag_name(name) for name in known}, case.name
    assert with_remedies >= 10


_LINES = {
    "fms-hf-tuning": ("accelerate launch --num_processes 4", "-m tuning.sft_trainer --max_seq_length {length}"),
    "trl": ("accelerate launch --num_processes 4", "sft.py --max_length {length} --gradient_checkpointing false"),
    "trl-grpo": ("trl grpo --num_processes 4", "--max_prompt_length 512 --max_completion_length {length}"),
    "transformers": ("torchrun --nproc_per_node 4", "run_clm.py --block_size {length}"),
    "llama-recipes": ("torchrun --nproc_per_node 4", "-m llama_recipes.finetuning --context_length {length}"),
    "ms-swift": ("NPROC_PER_NODE=4 swift sft", "--max_length {length}"),
    "openrlhf": ("deepspeed --num_gpus 4", "--module openrlhf.cli.train_sft --max_len {length}"),
    "openrlhf-ppo": (
        "python3 -m openrlhf.cli.train_ppo_ray",
        (
            "--colocate_all_models --actor_num_gpus_per_node 4 --ref_num_gpus_per_node 4 --critic_num_gpus_per_node 4 "
            "--reward_num_gpus_per_node 4 --vllm_num_engines 4 --vllm_enable_sleep --vllm_gpu_memory_utilization 0.5 "
            "--reward_pretrain Qwen/Qwen2.5-3B --zero_stage 3 --generate_max_len {length}"
        ),
    ),
    "trl-ppo": (
        "accelerate launch --num_processes 4",
        "examples/scripts/ppo/ppo.py --reward_model_path Qwen/Qwen2.5-3B --response_length 256",
    ),
    "llama-factory-ppo": (
        "NPROC_PER_NODE=4 llamafactory-cli train",
        (
            "--stage ppo --finetuning_type full --reward_model Qwen/Qwen2.5-3B --reward_model_type full --bf16 true "
            "--cutoff_len {length} --max_new_tokens 256"
        ),
    ),
}
_FLAGS = {
    "fms-hf-tuning": ("model_name_or_path", "per_device_train_batch_size", "--peft_method lora"),
    "trl": ("model_name_or_path", "per_device_train_batch_size", "--use_peft"),
    "trl-grpo": ("model_name_or_path", "per_device_train_batch_size", "--use_peft"),
    "llama-recipes": ("model_name", "batch_size_training", "--use_peft --peft_method lora"),
    "ms-swift": ("model", "per_device_train_batch_size", ""),
    "openrlhf": ("pretrain", "micro_train_batch_size", "--lora_rank 16"),
    "openrlhf-ppo": ("pretrain", "micro_train_batch_size", "--lora_rank 16"),
    "trl-ppo": ("sft_model_path", "per_device_train_batch_size", "--use_peft"),
    "llama-factory-ppo": ("model_name_or_path", "per_device_train_batch_size", "--finetuning_type lora"),
}
"""Flags of the model and of the batch, and those that train adapters."""


@settings(max_examples=sizes.examples(90), deadline=None)
@given(
    name=st.sampled_from(sorted(_LINES)),
    model=st.sampled_from(("Qwen/Qwen2.5-7B", "meta-llama/Llama-3.1-8B", "google/gemma-2-2b")),
    length=st.sampled_from((1024, 4096, 16384)),
    batch=st.sampled_from((1, 4, 16)),
    adapters=st.booleans(),
)
def test_every_remedy_is_read_as_it_promises(name: str, model: str, length: int, batch: int, adapters: bool) -> None:
    """The words of each remedy, written on the line, need exactly what it says; none is refused."""
    launcher, script = _LINES[name]
    usual = ("model_name_or_path", "per_device_train_batch_size", "")
    flags = _FLAGS.get(name, usual)
    peft = flags[2] if adapters else ""
    script = f"{script.format(length=length)} --{flags[0]} {model} --{flags[1]} {batch} {peft}"
    env = {"AUTOCONF_TOKENS_PER_SAMPLE": str(length)} if name == "trl-ppo" else {}
    before = sized(f"{launcher} {script}", {}, 4, **env)
    assert not isinstance(before, tuple), before
    remedies = before.remedies
    for remedy in (*remedies.enough, *remedies.not_enough) if remedies is not None else ():
        if not remedy.edits or remedy.after.layout.gpus != 4 or remedy.after.gpu != before.question.gpu:
            continue
        words: dict[str, str] = {"launcher": launcher, "framework": script}
        for edit in remedy.edits:
            words[edit.owner] += f" --{edit.name} {shlex.quote(edit.value) if edit.value else ''}"
        line = f"{words['launcher']} {words['framework']}"
        after = sized(line, {}, 4, **env)
        assert not isinstance(after, tuple), (line, after)
        assert after.requested is not None
        assert after.requested.estimate is not None
        assert remedy.after.estimate is not None
        assert after.requested.estimate.need_gib == remedy.after.estimate.need_gib, line
        assert after.requested.fits == remedy.after.fits, line


def test_a_question_takes_the_strategy_of_its_framework() -> None:
    """Megatron never shards weights; the others are asked about with FSDP, as the help says."""
    asked = Asked(model="llama3.1-8b", gpu="NVIDIA-H100-80GB-HBM3", sequence=4096, batch=1)
    written = {"": {}, "offload": {"offload": "optimizer"}, "DDP": {"parallelism": "DDP"}}
    for name, default in {
        "megatron-lm": Strategy.DDP,
        "megatron-swift": Strategy.ZERO1,
        **dict.fromkeys(("torchtitan", "trl", ""), Strategy.FSDP_FULL),
    }.items():
        found = {
            key: answer_question(replace(asked, framework=name, **flags), Bounds(), TABLES).question.training.strategy
            for key, flags in written.items()
        }
        assert found == {"": default, "offload": default, "DDP": Strategy.DDP}, name

"""Job scripts around a launch line: what they write, count and wrap, and lines that end too early."""

import pytest

from reconciler import resources
from reconciler.launch import FlagTable, Launch, ParsedLaunch, parse_launch, review_flags

TABLE = FlagTable(resources.read("data/flags.json"))
CLM = "run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --block_size 2048 --per_device_train_batch_size 1"
SCRIPT = "--model_name_or_path Qwen/Qwen2.5-7B --max_length 2048 --per_device_train_batch_size 1"
RECIPE = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 2048\nmicro_batch_size: {batch}\n"
WRITES = "cat > {path} <<END\n" + RECIPE + "END\n"


def read(script: str, files: dict[str, str] | None = None, env: dict[str, str | None] | None = None) -> ParsedLaunch:
    contents = {path: text.encode() for path, text in (files or {}).items()}
    return parse_launch(["bash", "-c"], [script], env or {}, contents.get)


def launch_of(script: str, files: dict[str, str] | None = None, env: dict[str, str | None] | None = None) -> Launch:
    parsed = read(script, files, env)
    assert parsed.launch is not None, parsed.diagnostics
    assert not parsed.diagnostics
    return parsed.launch


def value(launch: Launch, name: str) -> str:
    fact = launch.fact(name)
    return "" if fact is None else fact.value


@pytest.mark.parametrize(
    "lost",
    [
        f"torchrun --nproc_per_node 4 {CLM} --bf16 \\ \n  --fsdp full_shard",
        f"torchrun --nproc_per_node 4 {CLM} --bf16\n  --fsdp full_shard",
        f"torchrun --nproc_per_node 4 {CLM} --bf16 \\\n  # --gradient_checkpointing \\\n  --fsdp full_shard",
    ],
    ids=["a blank behind the backslash", "no backslash", "a comment between"],
)
def test_flags_that_stand_alone_are_an_error(lost: str) -> None:
    """The shell runs `--fsdp` as a command, so that the training is another one than it seems."""
    (problem,) = read(lost).diagnostics
    assert problem.rule == "launch.shell"
    assert "`--fsdp full_shard` stands alone" in problem.message


def test_a_file_of_a_here_document_is_read() -> None:
    launch = launch_of(
        "export BATCH=4\n" + WRITES.format(path="/tmp/a.yaml", batch="${BATCH}") + "axolotl train /tmp/a.yaml"
    )
    assert value(launch, "batch") == "4"
    assert value(launch, "model") == "Qwen/Qwen2.5-7B"


def test_a_quoted_delimiter_expands_nothing() -> None:
    text = WRITES.format(path="a.yaml", batch="$BATCH").replace("<<END", "<<'END'")
    parsed = read(f"BATCH=4\n{text}axolotl train ./a.yaml")
    assert "expected a whole number" in parsed.diagnostics[0].message


def test_a_written_file_wins_over_that_of_the_repository() -> None:
    script = WRITES.format(path="a.yaml", batch=4) + "axolotl train a.yaml"
    assert value(launch_of(script, {"a.yaml": RECIPE.format(batch=1)}), "batch") == "4"


@pytest.mark.parametrize(
    "change",
    [
        "sed -i 's/micro_batch_size: .*/micro_batch_size: 8/' a.yaml",
        "yq -i '.micro_batch_size = 8' a.yaml",
        "envsubst < template.yaml > a.yaml",
        "echo 'micro_batch_size: 8' >> a.yaml",
        "echo x | tee a.yaml",
        'if [ -n "$(hostname)" ]; then\n'
        + WRITES.format(path="a.yaml", batch=8)
        + "else\n"
        + WRITES.format(path="a.yaml", batch=4)
        + "fi",
    ],
)
def test_a_file_that_the_script_changes_is_not_that_of_the_repository(change: str) -> None:
    parsed = read(f"{change}\naxolotl train a.yaml", {"a.yaml": RECIPE.format(batch=1)})
    assert "`a.yaml` is changed by the script" in parsed.diagnostics[0].message


@pytest.mark.parametrize(
    "count",
    [
        "nvidia-smi -L | wc -l",
        "nvidia-smi --list-gpus 2>/dev/null | wc -l",
        "nvidia-smi --query-gpu=name --format=csv,noheader | wc -l",
    ],
)
def test_the_gpus_of_the_node_are_counted_when_the_job_runs(count: str) -> None:
    launch = launch_of(f"GPUS=$({count})\ntorchrun --nproc_per_node=$GPUS {CLM}")
    assert [problem.rule for problem in launch.unresolved] == ["launch.decided-later"]


@pytest.mark.parametrize("count", ["tr ',' '\\n' | wc -l", "tr ',' ' ' | wc -w", "awk -F',' '{print NF}'"])
def test_visible_devices_are_counted(count: str) -> None:
    script = f"export CUDA_VISIBLE_DEVICES=0,1,2\nN=$(echo $CUDA_VISIBLE_DEVICES | {count})\ntorchrun --nproc_per_node=$N {CLM}"
    assert value(launch_of(script), "processes") == "3"


def test_devices_that_are_not_known_are_not_counted() -> None:
    parsed = read(f"N=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l)\ntorchrun --nproc_per_node=$N {CLM}")
    assert parsed.launch is not None
    assert parsed.launch.unresolved[0].rule == "launch.unknown-value"


@pytest.mark.parametrize(
    "wrapper",
    ["srun --nodes 2 --ntasks-per-node=1", "srun -N 2", "apptainer exec --nv --bind /data train.sif"],
)
def test_launchers_are_found_behind_wrappers(wrapper: str) -> None:
    assert value(launch_of(f"{wrapper} torchrun --nnodes 2 --nproc_per_node 8 {CLM}"), "processes") == "16"


@pytest.mark.parametrize("line", [f"srun -n 8 python {CLM}", f"srun bash -c 'python {CLM}'"])
def test_tasks_of_srun_are_not_one_process(line: str) -> None:
    (problem,) = read(line).diagnostics
    assert problem.rule == "launch.tasks"


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nproc_per_node 2 /venv/bin/llamafactory-cli train a.yaml",
        "torchrun --nproc_per_node 2 -m llamafactory.cli train a.yaml",
    ],
)
def test_commands_of_frameworks_below_a_launcher(line: str) -> None:
    launch = launch_of(line, {"a.yaml": "model_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: full\n"})
    assert launch.framework.name == "llama-factory"
    assert value(launch, "processes") == "2"


def test_a_script_that_names_adapters_needs_the_method() -> None:
    line = f"torchrun --nproc_per_node 2 scripts/run_fsdp_qlora.py {SCRIPT}"
    (problem,) = read(line).diagnostics
    assert problem.message == "`run_fsdp_qlora.py` names adapters, or weights in few bits, and no flag says which"
    assert value(launch_of(line, env={"AUTOCONF_METHOD": "qlora"}), "method") == "qlora"
    assert value(launch_of(f"{line} --lora_r 8"), "method") == "lora"


def test_what_a_script_of_ones_own_is_taken_for_is_said() -> None:
    launch = launch_of("python finetune.py --model_name Qwen/Qwen2.5-7B --max_length 512 --micro_batch_size 1")
    (warning,) = review_flags(launch, TABLE).warnings
    assert "and all weights count as trained in fp32" in warning.message


def test_a_flag_in_a_variable_is_named() -> None:
    launch = launch_of(f'ARGS="{SCRIPT} --tune_mm_mlp_adapter True"\npython llava/train/train.py $ARGS')
    (refused,) = review_flags(launch, TABLE).refused
    assert refused.message.startswith("`tune_mm_mlp_adapter True` in `$ARGS`")


@pytest.mark.parametrize(
    ("flags", "refuses"),
    [
        ("", False),
        ("--mm_tunable_parts=mm_mlp_adapter,mm_language_model", False),
        ("--mm_tunable_parts=mm_vision_tower,mm_mlp_adapter,mm_language_model", True),
        ("--mm_tunable_parts mm_mlp_adapter", True),
        ("--unfreeze_mm_vision_tower True", True),
    ],
)
def test_a_frozen_encoder_of_images_only_widens_the_estimate(flags: str, refuses: bool) -> None:
    line = f"deepspeed llava/train/train_mem.py {SCRIPT} --vision_tower openai/clip-vit-large-patch14-336 {flags}"
    review = review_flags(launch_of(line), TABLE)
    assert bool(review.refused) is refuses
    assert any("image encoder" in warning.message for warning in review.warnings)


def test_the_flags_of_trl_before_0_8() -> None:
    launch = launch_of(
        "python examples/scripts/sft.py --model_name org/m --batch_size 4 --seq_length 512 --use_peft --peft_lora_r 32"
    )
    assert [value(launch, name) for name in ("framework", "batch", "sequence", "lora_rank")] == ["", "4", "512", "32"]


def test_llama_recipes_in_half_precision() -> None:
    line = "torchrun --nproc_per_node 2 -m llama_recipes.finetuning --enable_fsdp --model_name org/m --mixed_precision --use_fp16"
    launch = launch_of(line)
    assert value(launch, "precision") == "fp16-mixed"
    assert not review_flags(launch, TABLE).warnings


def test_a_document_that_cannot_be_expanded_is_not_read_and_breaks_nothing() -> None:
    script = f"cat > notes.md <<END\nuse `this\n${{\nEND\ntorchrun --nproc_per_node 2 {CLM}"
    assert value(launch_of(script), "processes") == "2"


def test_quotes_stay_in_a_document() -> None:
    script = (
        'cat > a.yaml <<END\nbase_model: "org/m"\nsequence_len: 2048\nmicro_batch_size: 2\nEND\naxolotl train a.yaml'
    )
    assert value(launch_of(script), "model") == "org/m"


@pytest.mark.parametrize("variable", ["ACCELERATE_USE_FSDP=1", "ACCELERATE_USE_DEEPSPEED=true"])
def test_variables_of_accelerate_that_shard_are_an_error(variable: str) -> None:
    line = f"{variable} torchrun --nproc_per_node 8 {CLM}"
    assert "shards the model" in read(line).diagnostics[0].message
    assert value(launch_of(f"{line} --fsdp full_shard"), "strategy") == "fsdp-full"
    assert value(launch_of(line.replace("=1", "=0").replace("true", "false")), "strategy") == "ddp"


def test_the_type_by_a_variable_of_accelerate() -> None:
    assert value(launch_of(f"ACCELERATE_MIXED_PRECISION=bf16 torchrun {CLM}"), "precision") == "bf16-mixed"
    assert value(launch_of(f"ACCELERATE_MIXED_PRECISION=bf16 torchrun {CLM} --fp16"), "precision") == "fp16-mixed"


def test_the_optimizer_of_a_deepspeed_file_wins() -> None:
    files = {"z.json": '{"zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}}'}
    launch = launch_of(f"deepspeed {CLM} --deepspeed z.json --optim adafactor", files)
    assert value(launch, "optimizer") == "adamw_torch"
    assert not review_flags(launch, TABLE).warnings
    files = {"z.json": files["z.json"].replace("AdamW", "OneBitAdam")}
    (warning,) = review_flags(launch_of(f"deepspeed {CLM} --deepspeed z.json", files), TABLE).warnings[:1]
    assert "OneBitAdam" in warning.message


def test_a_deepspeed_configuration_on_the_line() -> None:
    config = '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}'
    launch = launch_of(f"deepspeed {CLM} --deepspeed '{config}'")
    assert [value(launch, name) for name in ("strategy", "offload")] == ["zero-3", "optimizer"]


@pytest.mark.parametrize(
    "line", [f"python gaudi_spawn.py --world_size 8 {CLM}", f"python -m tools.launch --nproc 8 {CLM}"]
)
def test_launchers_of_ones_own_are_an_error(line: str) -> None:
    assert "in an unknown number of processes" in read(line).diagnostics[0].message

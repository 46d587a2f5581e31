"""Flags that no reader understands: they refuse the job or widen the band, by the frameworks' own definitions."""

import json
from collections import Counter

import pytest

from reconciler import resources
from reconciler.launch import FlagReview, FlagTable, parse_launch, review_flags

TABLE = FlagTable(resources.read("data/flags.json"))
TRL = "trl sft --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --use_peft"
OWN = "python train.py --model_name_or_path Qwen/Qwen2.5-7B --max_seq_length 1024 --micro_batch_size 2"


def review(script: str, files: dict[str, bytes] | None = None) -> FlagReview:
    launch = parse_launch(["bash", "-c"], [script], {}, (files or {}).get).launch
    assert launch is not None
    return review_flags(launch, TABLE)


def messages(review: FlagReview) -> tuple[list[str], list[str]]:
    return [one.message for one in review.refused], [one.message for one in review.warnings]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--use_loftq True", "`--use_loftq True` changes the shape of the adapters"),
        ("--use_loftq", "`--use_loftq` changes the shape of the adapters"),
        ("--lora_target_parameters mlp.experts", "changes which weights are trained"),
        ("--force_use_ref_model", "changes the model, or adds another one"),
        ("--optim_target_modules attn mlp", "selects an optimizer"),
        ("--parallelism_config cp.json --fsdp_config.x 1", ""),
    ],
)
def test_a_flag_that_changes_memory_is_refused(flags: str, said: str) -> None:
    refused, _ = messages(review(f"{TRL} {flags}"))
    assert len(refused) == bool(said)
    assert all(said in message for message in refused)


@pytest.mark.parametrize(
    "flags",
    [
        "--learning_rate 2e-5 --logging_steps 1 --save_strategy epoch --report_to wandb --lora_alpha 16 --seed 1",
        "--use_dora False --activation_offloading false --torch_compile False --lora_modules_to_save",
        "--no_remove_unused_columns --dataset_name a/b --per_device_eval_batch_size 4",
    ],
)
def test_a_flag_without_effect_or_with_a_neutral_value_is_accepted(flags: str) -> None:
    assert messages(review(f"{TRL} {flags.removesuffix(' --lora_modules_to_save')}")) == ([], [])


def test_a_flag_of_unknown_size_widens_the_band() -> None:
    refused, warnings = messages(review(f"{TRL} --torch_compile --per_device_eval_batch_size 64"))
    assert not refused
    assert [message.partition(";")[0] for message in warnings] == [
        "`--torch_compile` replaces kernels with ones that keep different tensors",
        "`--per_device_eval_batch_size 64` evaluates during training, which is not sized",
    ]


def test_a_flag_that_the_definitions_do_not_list_is_named() -> None:
    (warning,) = review(f"{TRL} --warp_factor 9 --flux 1").warnings
    assert "`warp_factor`, `flux`: not in the known definitions of trl" in warning.message
    assert warning.span is not None


def test_a_script_of_our_users_is_read_with_a_warning() -> None:
    refused, warnings = messages(review(f"{OWN} --warp 9"))
    assert not refused
    assert warnings[0].startswith("`train.py` is not a script of a known framework")
    assert "`warp` could mean anything" in warnings[0]
    assert messages(review(f"{OWN} --use_galore"))[0]


def test_the_files_of_a_line_are_judged_too() -> None:
    """Keys of DeepSpeed's and accelerate's files, by the definitions of these."""
    line = "accelerate launch --config_file a.yaml -m trl.scripts.sft --deepspeed d.json" + TRL.removeprefix("trl sft")
    accelerate = b"compute_environment: LOCAL_MACHINE\nnum_processes: 8\nparallelism_config:\n  parallelism_config_dp_replicate_size: 4\n"
    zero = {
        "zero_optimization": {"stage": 3, "zero_quantized_weights": True, "overlap_comm": True},
        "steps_per_print": 9,
    }
    files = {"a.yaml": accelerate, "d.json": json.dumps(zero).encode()}
    refused, warnings = messages(review(line, files))
    assert [message.partition("`")[2].partition(":")[0] for message in refused] == [
        "deepspeed.zero_optimization.zero_quantized_weights",
        "parallelism_config.parallelism_config_dp_replicate_size",
    ]
    assert not warnings


def test_every_framework_has_a_table_with_sources() -> None:
    """The tables come from the packages' own definitions; few flags are left without a judgement."""
    table = json.loads(resources.read("data/flags.json"))
    counts: Counter[str] = Counter()
    for row in table["sets"].values():
        assert row["sources"]
        assert set(row["memory"]) <= set(table["effects"])
        counts["memory"] += sum(len(flags.split()) for flags in row["memory"].values())
        counts |= Counter({kind: counts[kind] + len(row[kind].split()) for kind in ("none", "unknown")})
    assert counts["memory"] > 700
    assert counts["none"] > 1000
    assert counts["unknown"] < 0.05 * counts.total()

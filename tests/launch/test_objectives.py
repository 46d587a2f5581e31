"""Objectives: preferences are read, and those that hold more models are rejected."""

import pytest

from reconciler.launch import parse_launch

FLAGS = "--model_name_or_path Qwen/Qwen2.5-7B --max_length 1024 --per_device_train_batch_size 2 --num_train_epochs 1"
FACTORY = "--model_name_or_path Qwen/Qwen2.5-7B --finetuning_type lora --per_device_train_batch_size 1"


def rules(script: str, files: dict[str, bytes] | None = None) -> list[str]:
    parsed = parse_launch(["bash", "-c"], [script], {}, (files or {}).get)
    return [diagnostic.rule for diagnostic in parsed.diagnostics]


@pytest.mark.parametrize(
    "script",
    [
        f"trl distillation {FLAGS}",
        f"torchrun --nproc-per-node 8 examples/scripts/online_dpo.py {FLAGS}",
        f"python run_dpo.py {FLAGS}",
        f"llamafactory-cli train --stage ppo {FACTORY}",
        f"accelerate launch src/train_bash.py --stage=ppo {FACTORY}",
        "tune run --nproc_per_node 2 ppo_full_finetune_single_device --config mistral/7B_full_ppo batch_size=1",
        "tune run --nproc_per_node 2 knowledge_distillation_distributed --config qwen2/kd batch_size=1",
    ],
)
def test_other_objectives_are_rejected(script: str) -> None:
    assert "launch.value" in rules(script)


@pytest.mark.parametrize(
    ("script", "objective"),
    [
        (f"trl dpo {FLAGS}", "dpo"),
        (f"trl kto {FLAGS}", "kto"),
        (f"trl grpo {FLAGS}", "grpo"),
        (f"torchrun --nproc-per-node 8 trl/scripts/rloo.py {FLAGS}", "grpo"),
        (f"trl reward {FLAGS}", "reward"),
        (f"accelerate launch -m trl.scripts.dpo {FLAGS}", "dpo"),
        (f"accelerate launch --num_processes 8 examples/scripts/dpo.py {FLAGS}", "dpo"),
        (f"accelerate launch examples/scripts/cpo.py {FLAGS}", "orpo"),
        (f"llamafactory-cli train --stage dpo {FACTORY}", "dpo"),
        (f"llamafactory-cli train --stage orpo {FACTORY}", "orpo"),
        (f"accelerate launch src/train_bash.py --stage=rm {FACTORY}", "value-head"),
        ("swift rlhf --rlhf_type rm --model Qwen/Qwen2.5-7B --max_length 1024", "reward"),
        (
            "tune run lora_dpo_distributed --config c checkpointer.checkpoint_dir=m tokenizer.max_seq_len=9 batch_size=1",
            "dpo",
        ),
    ],
)
def test_preferences_are_read(script: str, objective: str) -> None:
    parsed = parse_launch(["bash", "-c"], [script], {}, lambda _: None)
    assert parsed.launch is not None
    assert parsed.diagnostics == ()
    assert parsed.launch.facts["objective"].value == objective


def test_the_configuration_file_sets_the_objective() -> None:
    """Axolotl sets the objective in its configuration file, LLaMA-Factory may."""
    axolotl = b"base_model: Qwen/Qwen2.5-7B\nmicro_batch_size: 1\nsequence_len: 2048\nrl: gdpo\n"
    assert "launch.value" in rules("axolotl train a.yaml", {"a.yaml": axolotl})
    assert rules("axolotl train a.yaml", {"a.yaml": axolotl.replace(b"gdpo", b"dpo")}) == []
    factory = b"model_name_or_path: Qwen/Qwen2.5-7B\nstage: ppo\nper_device_train_batch_size: 1\n"
    assert "launch.value" in rules("llamafactory-cli train a.yaml", {"a.yaml": factory})
    assert rules("llamafactory-cli train a.yaml", {"a.yaml": factory.replace(b"ppo", b"sft")}) == []


@pytest.mark.parametrize(
    "script",
    [
        f"trl sft {FLAGS}",
        f"accelerate launch -m trl.scripts.sft {FLAGS}",
        f"llamafactory-cli train --stage sft {FACTORY}",
        f"llamafactory-cli train --stage pt {FACTORY}",
        f"python train.py --stage 2 {FLAGS.replace('--max_length', '--max_seq_length')}",
    ],
)
def test_supervised_training_is_read(script: str) -> None:
    """A flag of the same name in another framework has no effect."""
    assert rules(script) == []


def test_a_loss_of_answers_needs_logits() -> None:
    """LLaMA-Factory applies Liger's loss to supervised training alone."""
    for stage, fused in (("sft", "true"), ("dpo", "false"), ("kto", "false")):
        script = f"llamafactory-cli train --stage {stage} {FACTORY} --enable_liger_kernel true"
        launch = parse_launch(["bash", "-c"], [script], {}, lambda _: None).launch
        assert launch is not None
        fact = launch.fact("fused_loss")
        assert fact is not None
        assert fact.value == fused, stage

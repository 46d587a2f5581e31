"""Trainings other than supervised fine-tuning are rejected: they need more memory than their model."""

import pytest

from reconciler.core.launch import parse_launch

FLAGS = "--model_name_or_path Qwen/Qwen2.5-7B --max_length 1024 --per_device_train_batch_size 2 --num_train_epochs 1"
FACTORY = "--model_name_or_path Qwen/Qwen2.5-7B --finetuning_type lora --per_device_train_batch_size 1"


def rules(script: str, files: dict[str, bytes] | None = None) -> list[str]:
    parsed = parse_launch(["bash", "-c"], [script], {}, (files or {}).get)
    return [diagnostic.rule for diagnostic in parsed.diagnostics]


@pytest.mark.parametrize(
    "script",
    [
        f"trl dpo {FLAGS}",
        f"trl grpo {FLAGS}",
        f"trl kto {FLAGS}",
        f"trl reward {FLAGS}",
        f"accelerate launch -m trl.scripts.dpo {FLAGS}",
        f"accelerate launch --num_processes 8 examples/scripts/dpo.py {FLAGS}",
        f"torchrun --nproc-per-node 8 trl/scripts/grpo.py {FLAGS}",
        f"python run_dpo.py {FLAGS}",
        f"llamafactory-cli train --stage dpo {FACTORY}",
        f"accelerate launch src/train_bash.py --stage=rm {FACTORY}",
        "tune run --nproc_per_node 2 lora_dpo_distributed --config llama3_1/8B_lora_dpo batch_size=1",
        "tune run --nproc_per_node 2 knowledge_distillation_distributed --config qwen2/kd batch_size=1",
    ],
)
def test_other_objectives_are_rejected(script: str) -> None:
    assert "launch.value" in rules(script)


def test_the_configuration_file_sets_the_objective() -> None:
    """Axolotl sets the objective in its configuration file, LLaMA-Factory may."""
    axolotl = b"base_model: Qwen/Qwen2.5-7B\nmicro_batch_size: 1\nsequence_len: 2048\nrl: dpo\n"
    assert "launch.value" in rules("axolotl train a.yaml", {"a.yaml": axolotl})
    assert rules("axolotl train a.yaml", {"a.yaml": axolotl.replace(b"rl: dpo\n", b"")}) == []
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

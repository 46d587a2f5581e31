"""`read_launch`: troubles, overrides, hostile input. The table of real lines is in `test_launch_lines.py`."""

from collections.abc import Mapping

from reconciler.core.launch.launch import LaunchReading
from reconciler.core.launch.reading import read_launch

LINE = (
    "accelerate launch --num_processes=4 -m tuning.sft_trainer --model_name_or_path ibm-granite/granite-3.1-8b-instruct "
    "--max_seq_length 2048 --per_device_train_batch_size 2 --peft_method lora"
)


def read(
    script: str, env: Mapping[str, str | None] | None = None, files: Mapping[str, bytes] | None = None
) -> LaunchReading:
    return read_launch(["bash", "-c"], [script], env or {}, (files or {}).get)


def values(reading: LaunchReading) -> dict[str, str]:
    assert reading.launch is not None, reading.troubles
    return {name: fact.value for name, fact in reading.launch.facts.items()}


def rules(reading: LaunchReading) -> list[str]:
    return [trouble.rule for trouble in reading.troubles]


def test_overrides_win_over_the_line() -> None:
    """F-003: AUTOCONF_* differ from the flags and are used; the batch they name is that of all processes."""
    env = {
        "AUTOCONF_MODEL_NAME": "llama-7b",
        "AUTOCONF_METHOD": "full",
        "AUTOCONF_TOKENS_PER_SAMPLE": "512",
        "AUTOCONF_BATCH_SIZE": "32",
        "AUTOCONF_GPU_MODEL": "NVIDIA-A100-SXM4-80GB",
    }
    reading = read(LINE, env)
    found = values(reading)
    assert not reading.troubles
    assert found["model"] == "llama-7b"
    assert found["method"] == "full"
    assert found["sequence"] == "512"
    assert found["global_batch"] == "32"
    assert found["batch"] == "8"
    assert found["gpu_model"] == "NVIDIA-A100-SXM4-80GB"
    assert reading.launch is not None
    assert reading.launch.facts["model"].origin == "env AUTOCONF_MODEL_NAME"


def test_what_is_missing_is_named() -> None:
    """F-003: the error names the missing field and how to give it."""
    reading = read("python train.py --per_device_train_batch_size 4 --max_seq_length 128")
    assert rules(reading) == ["launch.missing"]
    assert "model" in reading.troubles[0].message
    assert "--model_name_or_path" in reading.troubles[0].hint
    assert "AUTOCONF_MODEL_NAME" in reading.troubles[0].hint


def test_unknown_is_never_empty() -> None:
    """A value from a reference or from a command is a trouble only where a fact depends on it."""
    reading = read(LINE + " --output_dir $(date +%F) --run_name $NOWHERE")
    assert not reading.troubles
    reading = read(LINE + " --max_seq_length $SEQ", {"SEQ": None})
    assert rules(reading) == ["launch.unknown-value"]
    assert "valueFrom" in reading.troubles[0].message
    reading = read(LINE.replace(" --max_seq_length 2048", " $EXTRA"))
    assert rules(reading) == ["launch.unknown-words"]


def test_no_line_and_two_lines() -> None:
    assert rules(read("echo hello")) == ["launch.none"]
    reading = read(f"{LINE}; {LINE} --num_train_epochs 2")
    assert rules(reading) == ["launch.several"]
    assert reading.troubles[0].message.count("accelerate launch") == 2

"""`parse_launch`: diagnostics, overrides, hostile input. The table of real lines is in `test_launch_lines.py`."""

from collections.abc import Mapping

from reconciler.core.launch import ParsedLaunch, parse_launch

LINE = (
    "accelerate launch --num_processes=4 -m tuning.sft_trainer --model_name_or_path ibm-granite/granite-3.1-8b-instruct "
    "--max_seq_length 2048 --per_device_train_batch_size 2 --peft_method lora"
)


def read(
    script: str, env: Mapping[str, str | None] | None = None, files: Mapping[str, bytes] | None = None
) -> ParsedLaunch:
    return parse_launch(["bash", "-c"], [script], env or {}, (files or {}).get)


def values(reading: ParsedLaunch) -> dict[str, str]:
    assert reading.launch is not None, reading.diagnostics
    return {name: fact.value for name, fact in reading.launch.facts.items()}


def rules(reading: ParsedLaunch) -> list[str]:
    return [diagnostic.rule for diagnostic in reading.diagnostics]


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
    assert not reading.diagnostics
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
    assert "model" in reading.diagnostics[0].message
    assert "--model_name_or_path" in reading.diagnostics[0].hint
    assert "AUTOCONF_MODEL_NAME" in reading.diagnostics[0].hint


def test_unknown_is_never_empty() -> None:
    """A value from a reference or from a command is a diagnostic only where a fact depends on it."""
    reading = read(LINE + " --output_dir $(date +%F) --run_name $NOWHERE")
    assert not reading.diagnostics
    reading = read(LINE + " --max_seq_length $SEQ", {"SEQ": None})
    assert rules(reading) == ["launch.unknown-value"]
    assert "valueFrom" in reading.diagnostics[0].message
    reading = read(LINE.replace(" --max_seq_length 2048", " $EXTRA"))
    assert rules(reading) == ["launch.unknown-words"]


def test_flags_belong_to_the_side_they_stand_on() -> None:
    """F-002: in front of the module they are the launcher's, behind it the script's."""
    found = values(
        read("accelerate launch --num_processes 2 -m t.s --model_name_or_path m --num_processes 8 --max_length 9")
    )
    assert found["processes"] == "2"
    reading = read("accelerate launch -m t.s --model_name_or_path m --max_length 9 --num_processes 8")
    assert "processes" not in values(reading)


def test_a_program_that_is_not_known_is_named() -> None:
    """The words after it train, so it matters which program it is."""
    reading = read("$PYTHON train.py --model_name_or_path m")
    assert rules(reading) == ["launch.unknown-program"]
    assert "PYTHON" in reading.diagnostics[0].message
    assert values(read("$PYTHON train.py --model_name_or_path m --max_length 9", {"PYTHON": "python3"}))["model"] == "m"


def test_the_script_may_stand_in_command_or_args() -> None:
    """F-001: `sh -c` with its options, arguments behind the script, and the script in either list."""
    script = 'exec "$0" launch --num_processes $1 -m t.s --model_name_or_path m --max_length 9 "${@:2}"'
    reading = parse_launch(
        ["/bin/bash", "-euxo", "pipefail"], ["-c", script, "accelerate", "4"], {}, dict[str, bytes]().get
    )
    assert rules(reading) == ["launch.unknown-words"]
    script = 'exec "$0" launch --num_processes $1 -m t.s --model_name_or_path m --max_length 9'
    for command, args in (
        (["bash", "-lc", script, "accelerate", "4"], []),
        (["/bin/sh"], ["-ec", script, "accelerate", "4"]),
        (["/usr/bin/env", "bash", "-c"], ["--", script, "accelerate", "4"]),
        (["tini", "--", "bash", "-c", script], ["accelerate", "4"]),
    ):
        assert values(parse_launch(command, args, {}, dict[str, bytes]().get))["processes"] == "4"


def test_batches_of_autoconf_are_shared_among_processes() -> None:
    """F-003: the global batch over the processes; where it does not divide, only the global one is known."""
    found = values(read(LINE, {"AUTOCONF_BATCH_SIZE": "6"}))
    assert found["global_batch"] == "6"
    assert "batch" not in found
    reading = read(LINE, {"AUTOCONF_BATCH_SIZE": "many", "AUTOCONF_METHOD": "magic"})
    assert rules(reading) == ["launch.value", "launch.value"]
    reading = read(LINE, {"AUTOCONF_METHOD": None})
    assert rules(reading) == ["launch.unknown-value"]


def test_no_line_and_two_lines() -> None:
    assert rules(read("echo hello")) == ["launch.none"]
    reading = read(f"{LINE}; {LINE} --num_train_epochs 2")
    assert rules(reading) == ["launch.several"]
    assert reading.diagnostics[0].message.count("accelerate launch") == 2

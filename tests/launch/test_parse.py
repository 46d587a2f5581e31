"""`parse_launch`: diagnostics and overrides. The tables of real lines are in `test_lines.py`."""

from collections.abc import Mapping

from reconciler.launch import ParsedLaunch, parse_launch

LINE = (
    "accelerate launch --num_processes=4 -m tuning.sft_trainer --model_name_or_path ibm-granite/granite-3.1-8b-instruct "
    "--max_seq_length 2048 --per_device_train_batch_size 2 --peft_method lora"
)


def read(
    script: str, env: Mapping[str, str | None] | None = None, files: Mapping[str, bytes] | None = None
) -> ParsedLaunch:
    return parse_launch(["bash", "-c"], [script], env or {}, (files or {}).get)


def values(parsed: ParsedLaunch) -> dict[str, str]:
    assert parsed.launch is not None, parsed.diagnostics
    return {name: fact.value for name, fact in parsed.launch.facts.items()}


def rules(parsed: ParsedLaunch) -> list[str]:
    return [diagnostic.rule for diagnostic in parsed.diagnostics]


def test_overrides_win_over_the_line() -> None:
    """F-003: AUTOCONF_* win over the flags; their batch is that of all processes."""
    env = {
        "AUTOCONF_MODEL_NAME": "llama-7b",
        "AUTOCONF_METHOD": "full",
        "AUTOCONF_TOKENS_PER_SAMPLE": "512",
        "AUTOCONF_BATCH_SIZE": "32",
        "AUTOCONF_GPU_MODEL": "NVIDIA-A100-SXM4-80GB",
    }
    parsed = read(LINE, env)
    found = values(parsed)
    assert not parsed.diagnostics
    assert found["model"] == "llama-7b"
    assert found["method"] == "full"
    assert found["sequence"] == "512"
    assert found["global_batch"] == "32"
    assert found["batch"] == "8"
    assert found["gpu_model"] == "NVIDIA-A100-SXM4-80GB"
    assert parsed.launch is not None
    assert parsed.launch.facts["model"].origin == "env AUTOCONF_MODEL_NAME"


def test_what_is_missing_is_named() -> None:
    """F-003: the error names the missing field and how to set it."""
    parsed = read("python train.py --per_device_train_batch_size 4 --max_seq_length 128")
    assert rules(parsed) == ["launch.missing"]
    assert "model" in parsed.diagnostics[0].message
    assert "--model_name_or_path" in parsed.diagnostics[0].hint
    assert "AUTOCONF_MODEL_NAME" in parsed.diagnostics[0].hint


def test_unknown_is_never_empty() -> None:
    """A value from a reference or a command is an error only where a fact depends on it."""
    parsed = read(LINE + " --output_dir $(date +%F) --run_name $NOWHERE")
    assert not parsed.diagnostics
    parsed = read(LINE + " --max_seq_length $SEQ", {"SEQ": None})
    assert rules(parsed) == ["launch.unknown-value"]
    assert "valueFrom" in parsed.diagnostics[0].message
    parsed = read(LINE.replace(" --max_seq_length 2048", " $EXTRA"))
    assert rules(parsed) == ["launch.unknown-words"]


def test_flags_belong_to_the_launcher_or_the_script() -> None:
    """F-002: flags before the module are the launcher's, flags after it the script's."""
    found = values(
        read("accelerate launch --num_processes 2 -m t.s --model_name_or_path m --num_processes 8 --max_length 9")
    )
    assert found["processes"] == "2"
    parsed = read("accelerate launch -m t.s --model_name_or_path m --max_length 9 --num_processes 8")
    assert "processes" not in values(parsed)


def test_an_unknown_program_is_named() -> None:
    """Its flags are those of a training, so the program matters."""
    parsed = read("$PYTHON train.py --model_name_or_path m")
    assert rules(parsed) == ["launch.unknown-program"]
    assert "PYTHON" in parsed.diagnostics[0].message
    assert values(read("$PYTHON train.py --model_name_or_path m --max_length 9", {"PYTHON": "python3"}))["model"] == "m"


def test_the_script_may_be_in_command_or_args() -> None:
    """F-001: `sh -c` with its options, arguments after the script, and the script in either list."""
    script = 'exec "$0" launch --num_processes $1 -m t.s --model_name_or_path m --max_length 9 "${@:2}"'
    parsed = parse_launch(
        ["/bin/bash", "-euxo", "pipefail"], ["-c", script, "accelerate", "4"], {}, dict[str, bytes]().get
    )
    assert rules(parsed) == ["launch.unknown-words"]
    script = 'exec "$0" launch --num_processes $1 -m t.s --model_name_or_path m --max_length 9'
    for command, args in (
        (["bash", "-lc", script, "accelerate", "4"], []),
        (["/bin/sh"], ["-ec", script, "accelerate", "4"]),
        (["/usr/bin/env", "bash", "-c"], ["--", script, "accelerate", "4"]),
        (["tini", "--", "bash", "-c", script], ["accelerate", "4"]),
    ):
        assert values(parse_launch(command, args, {}, dict[str, bytes]().get))["processes"] == "4"


def test_batches_of_autoconf_are_shared_among_processes() -> None:
    """F-003: without a whole number of samples per process, only the global batch is known."""
    found = values(read(LINE, {"AUTOCONF_BATCH_SIZE": "6"}))
    assert found["global_batch"] == "6"
    assert "batch" not in found
    parsed = read(LINE, {"AUTOCONF_BATCH_SIZE": "many", "AUTOCONF_METHOD": "magic"})
    assert rules(parsed) == ["launch.value", "launch.value"]
    parsed = read(LINE, {"AUTOCONF_METHOD": None})
    assert rules(parsed) == ["launch.unknown-value"]


def test_no_line_and_two_lines() -> None:
    assert rules(read("echo hello")) == ["launch.none"]
    parsed = read(f"{LINE}; {LINE} --num_train_epochs 2")
    assert rules(parsed) == ["launch.several"]
    assert parsed.diagnostics[0].message.count("accelerate launch") == 2

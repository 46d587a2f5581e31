"""What training engineers ask `reconciler size`: does it fit, how far does it reach, what would help, what to change."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import click
import jsonschema_rs
import pytest

from reconciler.size.ask import framework_names
from reconciler.size.commands import ask
from reconciler.size.pages.report import schema
from tests.cli.fleet import Fleet, Ran, run_verb
from tests.cli.test_sized_plan import JOB
from tests.ready import new_cache

SCHEMA = Path(__file__).parents[2] / "schemas/gpureconciler.io/v1alpha1/sizereport.json"
CARD = ("--gpu", "NVIDIA-A100-SXM4-80GB")
ASK = ("ask", "--model", "llama3.1-8b", *CARD, "--method", "full", "--seq", "8192", "--batch", "1")
LINE = """
export BATCH=4
accelerate launch --num_processes=4 -m tuning.sft_trainer --model_name_or_path meta-llama/Llama-3.1-8B \\
  --max_seq_length 8192 --per_device_train_batch_size $BATCH --torch_dtype bfloat16
"""


@pytest.fixture
def size(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `size` in an empty folder, in no repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    return lambda *arguments: run_verb(capsys, ["size", *arguments])


def answer(ran: Ran) -> dict[str, Any]:
    """Return a JSON answer, which is what the schema says."""
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_bytes()))
    assert [error.message for error in validator.iter_errors(found)] == []
    return found


def changes(remedies: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [tuple(one["changes"]) for one in remedies]


def test_the_shipped_schema_is_that_of_the_values() -> None:
    """Stale? Write `json.dumps(schema(), indent=2)` and a line end to the file."""
    assert SCHEMA.read_text(encoding="utf-8") == json.dumps(schema(), indent=2) + "\n"


def test_remedies_for_flags(size: Any) -> None:
    arguments = (*ASK, "--framework", "trl", "--no-checkpointing", "--gpus", "4")
    found = answer(size(*arguments, "-o", "json"))
    assert found["kind"] == "SizeReport"
    assert not found["requested"]["fits"]
    enough = found["remedies"]["enough"]
    checkpointing = next(one for one in enough if one["changes"] == ["checkpointing"])
    assert checkpointing["instruction"] == "--gradient_checkpointing true"
    assert checkpointing["settings"] == [
        {"owner": "framework", "name": "gradient_checkpointing", "value": "true"},
    ]
    assert checkpointing["need_before_gib"] == found["requested"]["need_gib"]
    assert checkpointing["result"]["fits"]
    text = size(*arguments, "--width", "200").out
    row = next(line for line in text.splitlines() if line.strip().startswith("gradient checkpointing"))
    need = f"{checkpointing['need_before_gib']:.1f} → {checkpointing['result']['need_gib']:.1f}"
    for part in (
        need,
        f"{checkpointing['result']['tokens_per_s']:,.0f}",
        f"{checkpointing['cost']:.2f}",
        "--gradient_",
    ):
        assert part in row
    again = answer(size(*ASK, "--framework", "trl", "--checkpointing", "--gpus", "4", "-o", "json"))
    assert again["requested"]["need_gib"] == checkpointing["result"]["need_gib"]
    assert again["remedies"] is None


def test_the_reach_is_asked_again(size: Any) -> None:
    """The largest batch and the longest samples fit as a question of their own; one more does not."""
    options = ("ask", "--model", "llama3.1-8b", *CARD, "--method", "lora", "--gpus", "1", "-o", "json")
    reach = answer(size(*options, "--seq", "4096", "--batch", "2"))["reach"]

    def fits(seq: int, batch: int) -> bool:
        fits: bool = answer(size(*options, "--seq", str(seq), "--batch", str(batch)))["requested"]["fits"]
        return fits

    assert fits(4096, reach["batch"])
    assert not fits(4096, reach["batch"] + 1)
    assert fits(reach["sequence"], 2)
    assert not fits(reach["sequence"] + 128, 2)
    assert 0 < reach["safe_batch"] <= reach["batch"]
    text = size(*options[:-2], "--seq", "4096", "--batch", "2", "--width", "200").out
    assert f"At most on 1 GPU: {reach['batch']} samples of 4,096 tokens (safely {reach['safe_batch']})" in text
    assert "tokens/s" in text


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--method", "lora", "--lora-rank", "64"), {"lora_rank": 64}),
        (("--method", "lora", "--lora-targets", "all-linear"), {"lora_targets": ["all-linear"]}),
        (("--fused-loss",), {"fused_loss": True}),
        (("--parallelism", "ZeRO-2", "--offload", "optimizer"), {"strategy": "zero-2", "offload": "optimizer"}),
        (("--offload", "all"), {"offload": "all"}),
        (("--parallelism", "CP 2"), {"context": 2}),
        (("--objective", "dpo"), {"objective": "dpo"}),
        (("--objective", "simpo", "--framework", "trl"), {"objective": "orpo"}),
        (("--objective", "value-head"), {"objective": "value-head"}),
        (("--model", "chatglm3-6b", "--method", "lora"), {"lora_targets": ["query_key_value"]}),
        (("--framework", "trl"), {"precision": "bf16-mixed", "attention": "sdpa", "sequence": 1024}),
        (("--framework", "TRL", "--seq", "4096"), {"sequence": 4096}),
        (("--framework", "ms-swift"), {"method": "lora", "lora_targets": ["all-linear"]}),
        (("--framework", "axolotl"), {"checkpointing": False, "optimizer": "adamw_torch_fused"}),
        (("--framework", "axolotl", "--checkpointing"), {"checkpointing": True}),
        (("--optimizer", "adamw_bnb_8bit"), {"optimizer": "adamw_bnb_8bit"}),
        ((), {"method": "full", "sequence": 2048, "checkpointing": True, "attention": "flash-attn-2"}),
    ],
)
def test_flags_and_defaults_of_frameworks(size: Any, flags: tuple[str, ...], expected: dict[str, Any]) -> None:
    found = answer(size("ask", "--model", "llama3.1-8b", *CARD, *flags, "-o", "json"))
    training = found["question"]["training"]
    assert {name: training[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--framework", "trll"), "--framework: unknown framework 'trll'; did you mean trl?"),
        (("--framework", "megatron"), "known frameworks: fms-hf-tuning, llama-factory, axolotl"),
        (("--method", "lora", "--lora-targets", "qproj"), "--lora-targets: "),
        (("--offload", "disk"), "--offload"),
        (("--objective", "ppo"), "--objective: unknown value 'ppo'; allowed values: cpo, dpo, grpo"),
        (("--lora-rank", "0"), "--lora-rank"),
    ],
)
def test_invalid_flags(size: Any, flags: tuple[str, ...], said: str) -> None:
    ran = size("ask", "--model", "llama3.1-8b", *CARD, *flags)
    assert ran.code == 2
    assert said in ran.err


def test_frameworks_are_completed(size: Any) -> None:
    option = next(one for one in ask.params if one.name == "framework")
    found = option.shell_complete(click.Context(ask), "l")
    assert [item.value for item in found] == ["llama-factory", "litgpt", "llama-recipes"]
    assert len(framework_names()) >= 12


def test_a_launch_line(size: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input, one word, or words: the same line has the same answer, and its own framework's flags."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINE.encode())))
    by_input = answer(size("line", *CARD, "--gpus", "4", "-o", "json", "-"))
    words = LINE.replace("\\\n", " ").replace("$BATCH", "4").split()[2:]
    assert answer(size("line", *CARD, "--gpus", "4", "-o", "json", "--", *words)) == by_input
    assert answer(size("line", *CARD, "--gpus", "4", "-o", "json", "--env", "B=4", " ".join(words).replace("size 4", "size $B"))) == by_input  # fmt: skip
    remedies = by_input["remedies"]
    sharding = next(one for one in remedies["not_enough"] if one["changes"] == ["sharding"])
    assert sharding["instruction"].startswith("--use_fsdp --fsdp_sharding_strategy FULL_SHARD")
    refusals = {tuple(one["changes"]): one["refusal"] for one in remedies["refused"]}
    assert refusals["context-parallelism",] == "fms-hf-tuning has no known setting for it"
    assert by_input["question"]["training"]["framework"] == "fms-hf-tuning"


def test_a_remedy_is_what_the_changed_line_says(size: Any) -> None:
    """The words of every remedy, written on the line, need exactly what the remedy says."""
    start, program = "accelerate launch --num_processes 4", "-m tuning.sft_trainer"
    rest = "--model_name_or_path meta-llama/Llama-3.1-8B --max_seq_length 4096 --per_device_train_batch_size 4"
    asked = ("line", *CARD, "--gpus", "4", "-o", "json")
    found = answer(size(*asked, f"{start} {program} {rest}"))["remedies"]
    checked = 0
    for remedy in (*found["enough"], *found["not_enough"]):
        if not remedy["settings"] or remedy["result"]["gpus"] != 4:
            continue
        flags: dict[str, str] = {"launcher": "", "framework": ""}
        for setting in remedy["settings"]:
            value = f" '{setting['value']}'" if setting["value"] else ""
            flags[setting["owner"]] += f" --{setting['name']}{value}"
        line = f"{start}{flags['launcher']} {program} {rest}{flags['framework']}"
        assert answer(size(*asked, line))["requested"]["need_gib"] == remedy["result"]["need_gib"], line
        checked += 1
    assert checked >= 6


def test_a_configuration_beside_the_line(size: Any) -> None:
    content = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 8192\nmicro_batch_size: 4\nbf16: full\n"
    Path("a.yaml").write_text(content)
    found = answer(size("line", *CARD, "--gpus", "2", "-o", "json", "axolotl train a.yaml --num-processes 2"))
    listed = [*found["remedies"]["enough"], *found["remedies"]["not_enough"]]
    texts = {tuple(one["changes"]): one["instruction"] for one in listed}
    assert texts["checkpointing",] == "gradient_checkpointing: true"
    assert texts["sharding",].startswith("fsdp_version: 2, fsdp_config.auto_wrap_policy")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo hello", "line:1:1: no launch line found"),
        ("true\ntrl sft --model_name_or_path nobody/knows", "line:2:"),
        ("axolotl train absent.yaml", "absent.yaml"),
        ("torchrun --nproc_per_node 4 -m torchtitan.train --model llama3", "line:1:"),
    ],
)
def test_a_line_that_cannot_be_sized(size: Any, line: str, said: str) -> None:
    ran = size("line", *CARD, line)
    assert ran.code == 3
    assert said in ran.err


def test_a_flag_of_unknown_effect_warns(size: Any) -> None:
    ran = size("line", *CARD, "trl sft --model_name_or_path llama3.1-8b --torch_compile true")
    assert ran.code == 0
    assert ran.err.startswith("warning: line:1:")


def test_a_variable_without_a_name(size: Any) -> None:
    ran = size("line", *CARD, "--env", "=4", "trl sft")
    assert ran.code == 2
    assert "expected NAME=VALUE" in ran.err


def test_remedies_for_a_job_of_a_repository(fleet: Fleet) -> None:
    """Other cards are those of the cluster, and the settings are those of the job's launch line."""
    path = fleet.root / "jobs/language/llama-lora.yaml"
    ran = run_verb(fleet.capture, ["size", str(path), "--gpus", "1", "-o", "json"])
    remedies = answer(ran)["remedies"]
    assert ("accumulation",) in changes(remedies["enough"])
    accumulation = next(one for one in remedies["enough"] if one["changes"] == ["accumulation"])
    names = [setting["name"] for setting in accumulation["settings"]]
    assert names == ["per_device_train_batch_size", "gradient_accumulation_steps"]
    products = {one["result"]["product"] for one in remedies["enough"]}
    assert products <= {"NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"}


def test_the_problem_of_a_job_names_the_best_remedy(fleet: Fleet) -> None:
    """In one line: what to change, with the flag, and how many GPUs are then enough."""
    job = JOB.replace("name: llama-lora", "name: huge").replace("--gradient_checkpointing true", "")
    fleet.write("jobs/huge.yaml", job.replace("--max_seq_length 4096", "--max_seq_length 65536"))
    planned = " ".join(fleet.run("plan", "--width", "1000").out.split())
    hint = planned.partition("sizing.no-recommendation")[2]
    assert "try " in hint
    assert "then enough; see: reconciler size jobs/huge.yaml" in hint


@pytest.mark.parametrize("flag", [("--lora-rank", "16"), ("--lora-targets", "all-linear")])
def test_adapters_need_a_method_that_trains_them(size: Any, flag: tuple[str, str]) -> None:
    ran = size(*ASK, *flag)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"error: {flag[0]}: the method full trains no LoRA adapters; add --method lora, or remove the flag\n"
    )
    assert size(*ASK, "--method", "lora", *flag).code == 0


def test_a_file_without_a_job_is_an_error_for_every_verb(fleet: Fleet) -> None:
    """A mistyped file must not look like one whose jobs have their sizes."""
    fleet.write("queues/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: ml}\n")
    path = str(fleet.root / "queues/settings.yaml")
    for verb in ((), ("write",), ("record",)):
        ran = fleet.run("size", *verb, path)
        assert (ran.code, ran.out) == (2, ""), verb
        assert "queues/settings.yaml: no training job found; supported kinds: " in ran.err
    job = str(fleet.root / "jobs/language/llama-lora.yaml")
    assert fleet.run("size", "write", job).out.startswith("wrote ")
    assert "1 job is already sized" in fleet.run("size", "write", job).out

"""The first line of a researcher: short names of GPUs, files where the launcher finds them, and what the line omits."""

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.fleet import Ran, run_verb
from tests.ready import new_cache

CONFIG = """\
base_model: meta-llama/Llama-3.1-8B
adapter: lora
sequence_len: 2048
micro_batch_size: 1
datasets: [{path: data, type: alpaca}]
"""
LINES = (
    "torchrun --nproc_per_node 8 train.py --model meta-llama/Llama-3.1-8B --batch-size 4",
    "accelerate launch sft.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 4",
    "python train.py --model gpt2",
    "python finetune_lora.py --model Qwen/Qwen2.5-7B",
    "axolotl train configs/lora.yml",
    "trl sft --model_name_or_path Qwen/Qwen2.5-7B --dataset_name data",
    "trl dpo --model_name_or_path meta-llama/Llama-3.1-8B-Instruct --use_peft",
    "llamafactory-cli train --model_name_or_path meta-llama/Meta-Llama-3-8B --stage sft --finetuning_type lora",
    "tune run --nproc_per_node 2 lora_finetune_distributed --config llama3_1/8B_lora",
    "swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type lora --dataset data",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a researcher, in no repository, and work in it."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/lora.yml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    return tmp_path


@pytest.fixture
def size(folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(line: str, *flags: str) -> Ran:
        return run_verb(capsys, ["size", "line", *(flags or ("--gpu", "H100")), "--", line])

    assert folder.is_dir()
    return run


def answer(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.mark.parametrize("line", LINES)
def test_an_ordinary_line_has_an_answer(size: Any, line: str) -> None:
    found = answer(size(line, "--gpu", "H100", "-o", "json"))
    assert found["question"]["gpu"]["product"] == "NVIDIA-H100-80GB-HBM3"
    assert found["candidates"]


@pytest.mark.parametrize(
    ("name", "product", "may_be_others"),
    [
        ("H100", "NVIDIA-H100-80GB-HBM3", True),
        ("a100", "NVIDIA-A100-SXM4-40GB", True),
        ("H100-NVL", "NVIDIA-H100-NVL", False),
        ("4090", "NVIDIA-GeForce-RTX-4090", False),
        ("rtx4090", "NVIDIA-GeForce-RTX-4090", False),
        ("mi300x", "AMD_Instinct_MI300X_OAM", False),
        ("MI325X", "AMD_Instinct_MI325_OAM", False),
    ],
)
def test_a_short_name_is_a_product(size: Any, name: str, product: str, may_be_others: bool) -> None:
    """Of several GPUs, the one with the least memory is assumed: what fits it fits the others."""
    ran = size(LINES[3], "--gpu", name, "-o", "json")
    assert answer(ran)["question"]["gpu"]["product"] == product
    assert (f"--gpu {name}: assuming {product}; it may also be" in ran.err) == may_be_others


@pytest.mark.parametrize("name", ["80GB", "H", "x", "8xH100", "", " "])
def test_what_names_no_gpu_is_refused(size: Any, name: str) -> None:
    assert size(LINES[3], "--gpu", name).code in {2, 3}


def test_a_terminal_is_asked_which_gpu(size: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(click.termui, "visible_prompt_func", lambda _: "3")
    ran = size(LINES[3], "--gpu", "H100", "-o", "json")
    assert answer(ran)["question"]["gpu"]["product"] == "NVIDIA-H100-NVL"
    assert "1  NVIDIA-H100-80GB-HBM3 (80 GiB)" in ran.err


def test_files_are_where_the_launcher_finds_them(size: Any, folder: Path) -> None:
    """A file of the same name in the current folder is another one."""
    (folder / "c.yml").write_text(CONFIG)
    refused = size("axolotl train does/not/exist/c.yml")
    assert refused.code == 3
    assert "`does/not/exist/c.yml` was not found" in refused.err
    assert answer(size("axolotl train configs/lora.yml", "--gpu", "H100", "-o", "json"))["assumed"] == []
    absolute = size(f"axolotl train {folder}/configs/lora.yml", "--gpu", "H100", "-o", "json")
    assert answer(absolute)["read"].startswith("llama3.1-8b")


def test_what_the_line_omits_is_assumed_and_named(size: Any) -> None:
    ran = size("python finetune_qlora.py --model Qwen/Qwen2.5-7B --batch-size 4 --lr 1e-4", "--gpu", "H100")
    text = " ".join(ran.out.split())
    assert "`--model Qwen/Qwen2.5-7B` names the model" in text
    assert "the method is qlora, as the name of `finetune_qlora.py` says" in text
    assert "a sample has 2,048 tokens, because the line leaves its length to the data" in text
    assert "`--batch-size 4` is the batch of each GPU" in text
    assert "batch-size" not in ran.err, "a flag that is explained needs no warning"


def test_assumptions_widen_the_band(size: Any) -> None:
    """The same training, stated and assumed: the estimate is the same, its range is not."""
    flags = ("--gpu", "H100", "-o", "json")
    line = "swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type lora --dataset data"
    stated, assumed = answer(size(f"{line} --max_length 2048", *flags)), answer(size(line, *flags))
    assert stated["assumed"] == stated["by_length"] == []
    assert assumed["chosen"]["peak_gib"] == stated["chosen"]["peak_gib"]
    assert assumed["chosen"]["high_gib"] > stated["chosen"]["high_gib"]
    numbers = [one["gpus"] for one in assumed["by_length"]]
    assert numbers == sorted(numbers), "longer samples never need fewer GPUs"
    assert [one["sequence"] for one in assumed["by_length"]] == [1024, 2048, 4096, 8192, 16_384]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("python train.py --model no-such-model", "does not set the model"),
        ("axolotl train no.yml --deepspeed ds.json", "`no.yml` was not found"),
        ("trl grpo --model_name_or_path gpt2 --reward_model_name_or_path Qwen/Qwen2.5-7B", "adds another one"),
        ("python train.py --model my-org/secret-14b", "does not set the model"),
        ("python train.py --model gpt2 $FLAGS", "may add any flags"),
        ("ls", "no launch line found"),
    ],
)
def test_what_makes_an_answer_meaningless_is_refused(size: Any, line: str, said: str) -> None:
    ran = size(line)
    assert ran.code == 3
    assert said in ran.err
    assert ran.out == ""

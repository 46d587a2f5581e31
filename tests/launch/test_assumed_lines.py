"""Lines that leave something open: they are answered, what is assumed is named, and the band is wider."""

import pytest

from reconciler.errors import InvalidInput
from reconciler.size.files import standalone_settings
from reconciler.size.line import size_line
from reconciler.size.pages.answer import SizeAnswer
from reconciler.sizing.training import Method, Objective, Offload, Strategy
from tests.launch.test_corpus import Line, lines
from tests.sizing.tables import TABLES

SETTINGS = standalone_settings(TABLES, gpu="NVIDIA-H100-80GB-HBM3", max_gpus=64)
TRL = "trl sft --max_length 2048 --model_name_or_path"
QWEN = f"{TRL} Qwen/Qwen2.5-7B"
OWN = "--model_name_or_path Qwen/Qwen2.5-7B --max_length 2048 --per_device_train_batch_size 1"


def answer(script: str, **files: bytes) -> SizeAnswer:
    return size_line(script, TABLES, SETTINGS, files.get)[0]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("my-org/Qwen2.5-14B-foo", "qwen2.5-14b"),
        ("llama-3-8b-custom", "llama3-8b"),
        ("/data/models/Meta-Llama-3-8B_ms", "llama3-8b"),
        ("out/qwen2.5-3b-sft/final_v2", "qwen2.5-3b"),
        ("lmsys/vicuna-7b-v1.3", "vicuna-7b-v1.5"),
        ("my/Mixtral-8x7B-foo", "mixtral-8x7b-v0.1"),
        ("my/qwen3-30b-a3b-x", "qwen3-30b-a3b"),
        ("x/gemma-2-2b-mine", "gemma2-2b"),
        ("x/gemma-2b-mine", "gemma-2b"),
        ("Llama2_7b_x", "llama2-7b"),
        ("x/Llama-3.2-8B-merge", "llama3.1-8b"),
    ],
)
def test_a_model_is_known_by_family_and_size(written: str, name: str) -> None:
    assert TABLES.models.find(written) is None, "a job is never sized by a guess"
    found = answer(f"{TRL} {written}")
    assert found.question.training.architecture.name == name
    assert found.assumed == (f"`{written}` has the sizes of {name}, as its name says",)


@pytest.mark.parametrize(
    "written",
    [
        *(
            "my-org/judge",
            "my-org/secret-14b",
            "google/flan-t5-7b",
            "Dream-org/Dream-v0-Instruct-7B",
            "x/qwen3-30b-a9b",
        ),
        *(
            "LiquidAI/LFM2-8B-A1B",
            "x/deepseek-vl-7b-mine",
            "x/Meta-Llama-3-8B-AQLM-2Bit",
            "x/llama-5-8b",
            "x/qwen3-99b",
        ),
    ],
)
def test_another_name_says_no_architecture(written: str) -> None:
    """Neither a family without its size, nor a size without a family, nor other layers, versions or experts."""
    assert TABLES.models.with_families().find(written) is None
    with pytest.raises(InvalidInput, match="launch line") as refused:
        answer(f"{TRL} {written}")
    assert [problem.message for problem in refused.value.problems] == [f"unknown model {written!r}"]


@pytest.mark.parametrize(
    ("line", "strategy", "offload", "said"),
    [
        ("--deepspeed a/zero3.json", Strategy.ZERO3, Offload.NONE, "stage 3 of ZeRO"),
        (
            "--deepspeed a/ds_z2_offload_config.json",
            Strategy.ZERO2,
            Offload.OPTIMIZER,
            "stage 2 of ZeRO with offloading",
        ),
        ("--deepspeed a/stage3_no_offload.json", Strategy.ZERO3, Offload.NONE, "stage 3 of ZeRO"),
        ("--deepspeed ds_config.json", Strategy.ZERO2, Offload.NONE, "stage 2 of ZeRO"),
    ],
)
def test_a_deepspeed_file_that_is_not_here(line: str, strategy: Strategy, offload: Offload, said: str) -> None:
    found = answer(f"torchrun --nproc_per_node 8 train.py {OWN} {line}")
    assert found.question.training.strategy is strategy
    assert found.question.training.offload is offload
    assert found.assumed == (f"`{line.split()[1]}` was not found: it is taken to say {said}",)


@pytest.mark.parametrize(
    ("path", "strategy"),
    [
        ("configs/deepspeed_zero3.yaml", Strategy.ZERO3),
        ("fsdp.yaml", Strategy.FSDP_FULL),
        ("default_config.yaml", Strategy.DDP),
    ],
)
def test_an_accelerate_file_that_is_not_here(path: str, strategy: Strategy) -> None:
    found = answer(f"accelerate launch --config_file {path} --num_processes 8 train.py {OWN}")
    assert found.question.training.strategy is strategy
    assert f"`{path}` was not found" in found.assumed[0]


@pytest.mark.parametrize(
    ("script", "objective"),
    [
        ("train_dpo.py", Objective.DPO),
        ("simpo_tune.py", Objective.ORPO),
        ("run_orpo.py", Objective.ORPO),
        ("train_rm.py", Objective.REWARD),
    ],
)
def test_the_objective_of_a_script_by_its_name(script: str, objective: Objective) -> None:
    """DPO keeps a reference model, so that it needs more than SFT; a sample of the others is a pair, too."""
    found = answer(f"torchrun --nproc_per_node 8 {script} {OWN} --bf16")
    supervised = answer(f"torchrun --nproc_per_node 8 sft.py {OWN} --bf16")
    assert found.question.training.objective is objective
    assert found.assumed == (f"the objective is {objective}, as the name of `{script}` says",)
    needs = [one.decision.candidates[0].estimate for one in (found, supervised)]
    assert needs[0] is not None
    assert needs[1] is not None
    assert objective is Objective.REWARD or needs[0].need_gib > needs[1].need_gib


def test_a_reference_model_beside_adapters_is_one_model_more() -> None:
    line = "llamafactory-cli train --stage dpo --finetuning_type {} --model_name_or_path Qwen/Qwen2.5-7B {}"
    reference = "--ref_model meta-llama/Llama-3.1-8B"
    with_it, without = (answer(line.format("lora", words)) for words in (reference, ""))
    (companion,) = with_it.question.training.companions
    assert companion.architecture.name == "llama3.1-8b"
    assert with_it.assumed == ()
    first, second = (one.decision.candidates[0].estimate for one in (with_it, without))
    assert first is not None
    assert second is not None
    assert first.need_gib - second.need_gib == pytest.approx(14.96, abs=0.1)  # 8.03 B weights of 2 bytes
    assert answer(line.format("full", reference)).question.training.companions == ()


def test_a_flag_that_is_not_modelled_widens_the_band() -> None:
    line = "swift sft --model Qwen/Qwen2.5-7B-Instruct --max_length 2048 --train_type {}"
    known, open_ = answer(line.format("full")), answer(line.format("full --lisa_activated_layers 2"))
    assert open_.assumed == (
        "`--lisa_activated_layers 2` changes which weights are trained: it counts as if it were not set",
    )
    layout = known.decision.candidates[-1].layout
    bands = [
        estimate
        for one in (known, open_)
        for candidate in one.decision.candidates
        if candidate.layout == layout and (estimate := candidate.estimate) is not None
    ]
    assert bands[0].peak_gib == bands[1].peak_gib
    assert bands[1].high_gib == pytest.approx(bands[0].high_gib * 1.3)
    assert bands[1].low_gib == pytest.approx(bands[0].low_gib * 0.7)


@pytest.mark.parametrize(
    ("flags", "method", "said"),
    [
        ("--train_type adalora", Method.LORA, "`--train_type adalora` counts as LoRA of its rank"),
        (
            "--train_type llamapro",
            Method.FULL,
            "`--train_type llamapro` counts as if all weights were trained, an upper bound",
        ),
    ],
)
def test_adapters_of_another_kind(flags: str, method: Method, said: str) -> None:
    found = answer(f"swift sft --model Qwen/Qwen2.5-7B-Instruct --max_length 2048 {flags}")
    assert found.question.training.method is method
    assert found.assumed == (said,)


def test_adapters_by_flags_of_a_script_of_its_own() -> None:
    found = answer(f"python main.py {OWN} --lora_dim 128 --only_optimize_lora")
    assert found.question.training.method is Method.LORA
    assert found.assumed == ("the method is lora, as a flag's name says",)


def test_values_that_the_script_computes() -> None:
    found = answer(f"torchrun --nproc_per_node $COUNT train.py {OWN} --gradient_accumulation_steps $STEPS")
    assert [text.split("(")[1].split(")")[0] for text in found.assumed] == ["processes", "accumulation"]


def test_several_assumptions_at_once() -> None:
    found = answer("deepspeed train_dpo.py --model my-org/Qwen2.5-14B-foo --deepspeed ds_z3.json --freeze_tower True")
    assert len(found.assumed) == 7, found.assumed
    assert found.by_length
    assert found.question.training.architecture.name == "qwen2.5-14b"


def is_answered(line: Line) -> bool:
    try:
        env = {name: value for name, value in line.env.items() if value is not None}
        size_line(line.script, TABLES, SETTINGS, lambda path: line.files.get(path.removeprefix("./")), env=env)
    except InvalidInput:
        return False
    return True


def test_most_lines_of_the_corpus_are_answered() -> None:
    """Of 523 lines, many of which were chosen because nobody can size them, 80 % have an answer."""
    corpus = lines()
    assert sum(map(is_answered, corpus)) >= 0.8 * len(corpus)

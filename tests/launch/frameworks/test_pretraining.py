"""Pre-training from the launch line to the question: sizes, batches, degrees, and what is refused or doubted."""

import pytest

from reconciler import resources
from reconciler.launch import FlagTable, parse_launch, review_flags
from reconciler.launch.frameworks.sizes import list_of
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decide import decide
from reconciler.sizing.job_questions import JobQuestions, build_questions, no_files
from reconciler.sizing.question import Question
from tests.sizing.tables import MODEL_TABLE, TABLES

FLAGS = FlagTable(resources.read("data/flags.json"))
SETTINGS = SizingSettings(default_gpu_model="NVIDIA-H100-80GB-HBM3", max_gpus=2048)
GPT = "torchrun --nproc_per_node 8 pretrain_gpt.py --seq-length 4096 --micro-batch-size 1 --bf16"
LLAMA = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --swiglu --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type "
    "rope --normalization RMSNorm --vocab-size 128256"
)
DEEPSEEK = (
    "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --multi-latent-attention "
    "--q-lora-rank 1536 --kv-lora-rank 512 --num-experts 256 --moe-layer-freq '([0]*3+[1]*58)' --moe-ffn-hidden-size 2048 "
    "--moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 --swiglu --disable-bias-linear --vocab-size 129280 "
    "--untie-embeddings-and-output-weights --position-embedding-type rope"
)


def questions(line: str, requested: int | None = None) -> JobQuestions:
    parsed = parse_launch(["bash", "-c", line], [], {}, no_files)
    assert parsed.launch is not None
    assert parsed.diagnostics == ()
    return build_questions(parsed.launch, SETTINGS, TABLES, requested_gpus=requested)


def question(line: str, requested: int | None = None) -> Question:
    found = questions(line, requested)
    assert found.questions, found.diagnostics
    return found.questions[0]


def said(line: str) -> tuple[list[str], list[str]]:
    """Return why a line is refused, and what widens its range."""
    parsed = parse_launch(["bash", "-c", line], [], {}, no_files)
    assert parsed.launch is not None
    review = review_flags(parsed.launch, FLAGS)
    refused = [one.message for one in (*parsed.diagnostics, *review.refused)]
    return refused, [one.message for one in review.warnings]


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (LLAMA, "llama3-8b"),
        (DEEPSEEK, "deepseek-v3"),
        (f"{LLAMA} --num-experts 8 --vocab-size 32000", "mixtral-8x7b-v0.1"),
    ],
)
def test_sizes_give_the_parameters_of_the_models_that_have_them(flags: str, name: str) -> None:
    known = MODEL_TABLE.find(name)
    assert known is not None
    found = question(f"{GPT} {flags}").training.architecture
    assert found.parameters == pytest.approx(known.parameters, rel=1e-3)
    assert found.active_parameters == pytest.approx(known.active_parameters, rel=2e-3)
    assert (found.layers, found.hidden, found.vocabulary) == (known.layers, known.hidden, known.vocabulary)


def test_gpt3_has_175_billion_parameters() -> None:
    """Learned positions, biases, a tied head, a vocabulary that is padded for 8 tensors."""
    line = "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --max-position-embeddings 2048 "
    line += "--tokenizer-type GPT2BPETokenizer --tensor-model-parallel-size 8"
    found = question(f"{GPT} {line}").training.architecture
    assert found.vocabulary == 51200
    assert found.parameters == pytest.approx(174.6e9, rel=0.002)
    assert found.tied


def test_the_vocabulary_of_a_named_tokenizer() -> None:
    line = f"{GPT} {LLAMA} --tokenizer-type HuggingFaceTokenizer --tokenizer-model Qwen/Qwen3-0.6B".replace(
        " --vocab-size 128256", ""
    )
    assert question(line).training.architecture.vocabulary == -(-151936 // 128) * 128
    (problem,) = questions(line.replace("Qwen/Qwen3-0.6B", "/data/my-tokenizer")).diagnostics
    assert problem.message == "the vocabulary of '/data/my-tokenizer' is unknown"


def test_the_global_batch_gives_the_steps() -> None:
    """512 samples over 4 replicas of 8 GPUs with one sample each: 128 steps."""
    line = f"torchrun --nproc_per_node 8 --nnodes 4{GPT.partition('8')[2]} {LLAMA} --global-batch-size 512"
    asked = question(f"{line} --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2")
    assert (asked.replicas, asked.accumulation, asked.effective_batch) == (4, 128, 512)
    assert asked.keeps_batch
    assert {layout.gpus for layout in (one.layout for one in decide(asked, every=True).candidates)} >= {8, 16, 32, 64}
    (problem,) = questions(f"{line.replace('512', '510')} --tensor-model-parallel-size 8").diagnostics
    assert problem.message == "a batch of 510 does not divide among 4 replicas with 1 samples each"


def test_processes_are_a_multiple_of_what_is_shared() -> None:
    (problem,) = questions(f"{GPT} {LLAMA} --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4").diagnostics
    assert problem.message == "8 processes are not a multiple of the 32 that share samples or experts"
    line = f"torchrun pretrain_gpt.py{GPT.partition('.py')[2]} {LLAMA} --tensor-model-parallel-size 8"
    open_job = question(f"{line} --pipeline-model-parallel-size 4 --global-batch-size 64")
    assert (open_job.processes, open_job.accumulation) == (32, 64)


def test_all_numbers_of_gpus_that_are_tried_can_run() -> None:
    asked = question(f"{GPT} {LLAMA} --tensor-model-parallel-size 4 --global-batch-size 64")
    tried = [one.layout.gpus for one in decide(asked, every=True).candidates]
    assert tried
    assert all(gpus % 4 == 0 for gpus in tried)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("--use-torch-fsdp2", "divides the model or the samples"),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", "divides the model"),
        ("--num-distributed-optimizer-instances 2", "divides the model"),
        ("--mtp-num-layers 1", "changes the model"),
        ("--hybrid-override-pattern M-M*", "changes the model"),
        ("--cpu-offloading-num-layers 2", "moves states to host memory"),
        ("--encoder-tensor-model-parallel-size 2", "divides the model"),
        ("--perform-rl-step", "changes the model"),
    ],
)
def test_what_is_not_modelled_is_refused(flags: str, why: str) -> None:
    refused, _ = said(f"{GPT} {LLAMA} {flags}")
    assert refused
    assert all(why in message for message in refused)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("--fp8-format hybrid", "computes in FP8"),
        ("--decoder-first-pipeline-num-layers 7", "unevenly"),
        ("--main-grads-dtype bf16", "changes the type of gradients"),
        ("--recompute-granularity selective --recompute-modules moe layernorm", "keep less than predicted"),
        ("--fp32-residual-connection", "replaces kernels"),
        ("--warp-drive 9", "not in the known definitions of megatron-lm"),
    ],
)
def test_what_is_uncertain_widens_the_range(flags: str, why: str) -> None:
    refused, warnings = said(f"{GPT} {LLAMA} {flags}")
    assert refused == []
    assert len(warnings) == 1
    assert why in warnings[0]


@pytest.mark.parametrize(
    "flags",
    [
        "--lr 1e-4 --min-lr 1e-5 --train-iters 100 --weight-decay 0.1 --log-interval 1 --save /x --overlap-grad-reduce",
        "--overlap-param-gather --manual-gc --distributed-timeout-minutes 60 --ckpt-format torch_dist --no-load-optim",
        "--attention-dropout 0 --hidden-dropout 0 --init-method-std 0.01 --eod-mask-loss --dist-ckpt-strictness log_all",
        "--moe-token-dispatcher-type alltoall --moe-aux-loss-coeff 1e-2 --moe-permute-fusion --data-path x --split 99,1,0",
    ],
)
def test_what_does_not_change_memory_is_accepted(flags: str) -> None:
    assert said(f"{GPT} {LLAMA} {flags}") == ([], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1,0]*2", [1, 0, 1, 0]),
        ("([0]*1+[1]*2)*2", [0, 1, 1, 0, 1, 1]),
        ("[1]*100001", None),
        ("([1]*9999)*9999", None),
        ("__import__('os')", None),
        ("[" * 300, None),
    ],
)
def test_lists_of_layers(text: str, expected: list[int] | None) -> None:
    assert list_of(text) == expected


HSDP = (
    "accelerate launch --use_fsdp --parallelism_config_dp_replicate_size 2 --parallelism_config_dp_shard_size 4 "
    "-m tuning.sft_trainer --model_name_or_path meta-llama/Llama-3.1-8B --max_seq_length 2048"
)
GROUPS = (
    "torchrun -m llama_recipes.finetuning --enable_fsdp --hsdp --sharding_group_size 4 --replica_group_size 4 "
    "--model_name meta-llama/Llama-3.1-8B --context_length 2048"
)


@pytest.mark.parametrize(("line", "replicas", "gpus"), [(HSDP, 2, 8), (GROUPS, 4, 16)])
def test_replicas_of_shards_leave_one_number_of_gpus(line: str, replicas: int, gpus: int) -> None:
    assert said(line)[0] == []
    asked = question(line)
    assert (asked.training.strategy, asked.training.replicas, asked.exact_gpus) == ("fsdp-hybrid", replicas, gpus)
    assert [one.layout.gpus for one in decide(asked, every=True).candidates] == [gpus]


def test_replicas_without_the_shards_of_each_are_refused() -> None:
    """How many GPUs share the weights is then unknown."""
    line = HSDP.replace("--parallelism_config_dp_shard_size 4 ", "")
    assert any("divides the model" in message for message in said(line)[0])


@pytest.mark.parametrize(
    ("flags", "layers", "loss"),
    [
        ("", False, False),
        ("--training.compile", True, True),
        ("--compile.enable", True, True),
        ("--compile.enable --compile.components model", True, False),
        ("--compile.enable --compile.components loss", False, True),
        ("--compile.components model,loss", False, False),
    ],
)
def test_torchtitan_compiles_layers_and_the_loss(flags: str, layers: bool, loss: bool) -> None:
    line = "torchrun --nproc_per_node 8 -m torchtitan.train --model.flavor 8B --training.seq_len 8192"
    training = question(f"{line} {flags}").training
    assert (training.compiled, training.compiled_loss) == (layers, loss)


def test_the_script_of_torchtitan_is_told_from_others_of_its_name() -> None:
    files = {"llama3_8b.toml": b'[model]\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'}
    line = "CONFIG_FILE=llama3_8b.toml NGPU=4 {}run_train.sh --parallelism.tensor_parallel_degree 2"
    for shell in ("./", "bash ", "bash ./"):
        parsed = parse_launch(["bash", "-c", line.format(shell)], [], {}, files.get)
        assert parsed.launch is not None, shell
        found = {name: fact.value for name, fact in parsed.launch.facts.items()}
        assert (found["model"], found["processes"], found["tensor"]) == ("llama3.1-8b", "4", "2")
    other = parse_launch(["bash", "-c", "NGPU=4 bash run_train.sh --task x"], [], {}, files.get)
    assert [one.rule for one in other.diagnostics] == ["launch.script-file"]
    own = parse_launch(["bash", "-c", line.format("bash ")], [], {}, {**files, "run_train.sh": b"echo"}.get)
    assert [one.rule for one in own.diagnostics] == ["launch.none"]  # the repository's own script counts


def test_a_broken_toml_file_is_an_error() -> None:
    line = "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file a.toml"
    parsed = parse_launch(["bash", "-c", line], [], {}, {"a.toml": b"[model\n"}.get)
    assert parsed.diagnostics[0].rule == "launch.file"
    assert "cannot be read" in parsed.diagnostics[0].message


NUMBERS = ("0", "-1", "1", "3", "99999999", "1" + "0" * 5000, "9" * 12, "x", "", "1e3", "٣", "$UNKNOWN")
SIZES = (
    "num-layers",
    "hidden-size",
    "num-attention-heads",
    "num-query-groups",
    "vocab-size",
    "num-experts",
    "kv-channels",
)
DEGREES = (
    "tensor-model-parallel-size",
    "pipeline-model-parallel-size",
    "expert-model-parallel-size",
    "recompute-num-layers",
)


@pytest.mark.parametrize("flag", [*SIZES, *DEGREES, "moe-layer-freq", "num-layers-per-virtual-pipeline-stage"])
@pytest.mark.parametrize("number", NUMBERS)
def test_any_number_is_sized_or_refused(flag: str, number: str) -> None:
    line = f"{GPT} {LLAMA} --num-experts 8 --recompute-granularity full --recompute-method block --{flag} {number}"
    parsed = parse_launch(["bash", "-c", line], [], {}, no_files)
    assert parsed.launch is not None
    if parsed.diagnostics or parsed.launch.unresolved:
        return
    found = build_questions(parsed.launch, SETTINGS, TABLES)
    assert found.questions or found.diagnostics
    for asked in found.questions:
        decision = decide(asked)
        assert decision.chosen is not None or decision.text


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "key", ["selective_ac_option", "local_batch_size", "tensor_parallel_degree", "global_batch_size"]
)
def test_any_number_of_torchtitan_is_sized_or_refused(key: str, number: str) -> None:
    section = {"selective_ac_option": "activation_checkpoint", "tensor_parallel_degree": "parallelism"}.get(
        key, "training"
    )
    line = f"torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file a.toml --{section}.{key}={number}"
    files = {"a.toml": b'[model]\nflavor = "8B"\n[training]\nseq_len = 8192\n'}
    parsed = parse_launch(["bash", "-c", line], [], {}, files.get)
    assert parsed.launch is not None
    if not parsed.diagnostics and not parsed.launch.unresolved:
        found = build_questions(parsed.launch, SETTINGS, TABLES)
        assert found.questions or found.diagnostics

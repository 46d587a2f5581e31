"""Ask other estimators of training memory about the measured runs, and record their answers.

    pip install --no-deps --target FOLDER accelerate deepspeed llm-analysis fire termcolor
    python -m benchmarks.sizing.record_peers FOLDER

writes `tests/data/sizing/peer_answers.csv`. accelerate and DeepSpeed import torch, which their estimates do not need:
their functions are taken out of the installed files and called. The runs are those that train all weights.
"""

import ast
import csv
import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, NamedTuple, Optional

from benchmarks.sizing.peers import ANSWERS
from benchmarks.sizing.runs import Run, measured
from reconciler.sizing.memory.states import MIXED, shards_of
from reconciler.sizing.training import Attention, Method, Precision

_GIB = float(1 << 30)
Ask = Callable[[Run], float]
"""Return the bytes of one GPU for a run."""


class Installed(NamedTuple):
    """A package of the folder; `ask` calls it."""

    name: str
    package: str
    ask: Ask


def installed(folder: Path) -> list[Installed]:
    """Return the packages that are asked."""
    return [
        Installed("accelerate", "accelerate", _accelerate(folder)),
        Installed("DeepSpeed", "deepspeed", _deepspeed(folder)),
        Installed("llm-analysis", "llm-analysis", _llm_analysis(folder)),
    ]


def _function(file: Path, name: str) -> Callable[..., Any]:
    """Return a function of a file, without importing the file."""
    found = [
        node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    names: dict[str, Any] = {"Optional": Optional}
    exec(compile(ast.Module(body=list(found), type_ignores=[]), str(file), "exec"), names)  # noqa: S102 - a peer's code
    own: Callable[..., Any] = names[name]
    return own


def _accelerate(folder: Path) -> Ask:
    own = _function(folder / "accelerate/commands/estimate.py", "estimate_training_usage")

    def ask(run: Run) -> float:
        precision = "float32" if run.training.precision is Precision.FP32 else "float16"
        return float(max(own(4 * run.training.architecture.parameters, precision).values()))

    return ask


def _deepspeed(folder: Path) -> Ask:
    zero = folder / "deepspeed/runtime/zero"
    stage_3 = _function(zero / "stage3.py", "estimate_zero3_model_states_mem_needs")
    stage_2 = _function(zero / "stage_1_and_2.py", "estimate_zero2_model_states_mem_needs")

    def ask(run: Run) -> float:
        model, shards, ways = run.training.architecture, shards_of(run.training, run.layout), run.training.ways
        if shards.optimizer > shards.weights:
            return float(stage_2(model.parameters, shards.optimizer * ways, cpu_offload=False)[1])
        largest = max(model.vocabulary * model.hidden, *(linear.size for linear in model.linears))
        return float(stage_3(model.parameters, largest, shards.weights * ways, cpu_offload=False)[1])

    return ask


def _llm_analysis(folder: Path) -> Ask:
    sys.path.insert(0, str(folder))
    analysis, config = (importlib.import_module(f"llm_analysis.{name}") for name in ("analysis", "config"))
    importlib.import_module("llm_analysis.logger").logger.setLevel(logging.ERROR)  # it warns of every run

    def shape(run: Run) -> Any:
        model = run.training.architecture
        width = model.intermediate * (1.5 if model.gated else 1.0)
        return config.ModelConfig(
            name=model.name,
            num_layers=model.layers,
            n_head=model.heads,
            hidden_dim=model.hidden,
            vocab_size=model.vocabulary,
            max_seq_len=run.training.sequence,
            num_key_value_heads=model.kv_heads,
            ffn_embed_dim=width,
            expansion_ratio=width / model.hidden,
            moe_num_experts=max(1, model.experts),
            moe_top_k=max(1, model.active_experts),
        )

    def ask(run: Run) -> float:
        training, layout, shards = run.training, run.layout, shards_of(run.training, run.layout)
        stage = sum(ways > 1 for ways in shards)
        recompute, zero = analysis.ActivationRecomputation, analysis.DSZeRO
        is_wide = training.precision in MIXED or training.precision is Precision.FP32
        ways = config.ParallelismConfig(training.tensor, training.pipeline, layout.gpus // training.ways)
        gpu = config.GPUConfig(run.gpu.product, run.gpu.memory_gib * 100, 2000, 600, 1e-5, 300)  # never full
        told = analysis.LLMAnalysis(shape(run), gpu, config.DtypeConfig(), ways, flops_efficiency=0.5).training(
            batch_size_per_gpu=layout.batch,
            gradient_accumulation_steps=layout.accumulation,
            seq_len=training.sequence,
            total_num_tokens=1_000_000,
            activation_recomputation=recompute.FULL if training.checkpointing else recompute.NONE,
            ds_zero=zero(stage),
            flash_attn=training.attention is not Attention.EAGER,
            mlp_gated_linear_units=training.architecture.gated,
            master_weights_dtype_bytes=4 if is_wide else 2,
            other_op_bytes=8 if is_wide else 4,
        )
        return float(told["(weight+op_state+grad+act)_memory_per_gpu"])

    return ask


def rows(folder: Path) -> Iterator[list[str]]:
    """Yield the header, and a row for each run."""
    found: dict[str, Distribution] = {one.metadata["Name"].lower(): one for one in distributions(path=[str(folder)])}
    asked = installed(folder)
    yield ["id", *(f"{one.name} {found[one.package].version}" for one in asked)]
    for run in measured():
        if run.training.method is Method.FULL:
            yield [run.row["id"], *(f"{one.ask(run) / _GIB:.3f}" for one in asked)]


def main(arguments: list[str]) -> int:
    """Write the answers."""
    lines = list(rows(Path(arguments[0])))
    with ANSWERS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    print(f"wrote {ANSWERS.name}: {len(lines) - 1} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

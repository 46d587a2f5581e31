"""Other estimators of training memory: the installed ones are called, of the others their documented formula."""

import ast
import importlib
import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Optional

from benchmarks.sizing.runs import Run
from reconciler.core.sizing.training import Method, Precision

_GIB = float(1 << 30)


class Peer(NamedTuple):
    """An estimator; `predict` gives GiB of one GPU, None where it cannot tell. `how` says what was run."""

    name: str
    how: str
    predict: Callable[[Run], float | None]


def peers() -> list[Peer]:
    """Return the estimators, installed or by formula."""
    found = [_accelerate(), _deepspeed(), Peer("16 bytes per parameter", "ZeRO, arXiv 1910.02054, section 3", _sixteen)]
    llm_analysis = _llm_analysis()
    return [*found, llm_analysis] if llm_analysis else found


def missing() -> list[str]:
    """Name the estimators that are not installed."""
    return [name for name in ("accelerate", "deepspeed", "llm_analysis") if find_spec(name) is None]


def _module(name: str) -> Any | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _own(package: str, file: str, function: str) -> Callable[..., Any] | None:
    """Return a function of an installed package, without importing the package: both need torch, and it does not."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    tree = ast.parse((Path(spec.origin).parent / file).read_text())
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    names: dict[str, Any] = {"Optional": Optional}
    exec(compile(ast.Module(body=list(found), type_ignores=[]), file, "exec"), names)  # noqa: S102 - a peer's own code
    own: Callable[..., Any] | None = names.get(function)
    return own


def _accelerate() -> Peer:
    own = _own("accelerate", "commands/estimate.py", "estimate_training_usage")

    def predict(run: Run) -> float:
        size = 4 * run.training.architecture.parameters
        mixed = "float32" if run.training.precision is Precision.FP32 else "bfloat16"
        if own is not None:
            return float(max(own(size, mixed).values())) / _GIB
        return (4 if mixed == "float32" else 2) * size / _GIB

    formula = "formula of `accelerate estimate-memory`: Adam, the largest of 4, 6, 8 P"
    return Peer("accelerate", "its `estimate_training_usage()`, Adam" if own else formula, predict)


def _deepspeed() -> Peer:
    name = "estimate_zero3_model_states_mem_needs"
    own = _own("deepspeed", "runtime/zero/stage3.py", name)

    def predict(run: Run) -> float:
        model, layout = run.training.architecture, run.layout
        largest = model.vocabulary * model.hidden
        if own is not None:
            arguments = (model.parameters, largest, layout.gpus_per_worker, layout.workers)
            return float(own(*arguments, cpu_offload=False)[1]) / _GIB
        return (4 * largest + 18 * model.parameters / layout.gpus) / _GIB

    return Peer(
        "DeepSpeed", f"its `{name}()`" if own else f"formula of `{name}`: 4 x largest layer + 18 P / N", predict
    )


def _sixteen(run: Run) -> float:
    return 16 * run.training.architecture.parameters / run.layout.gpus / _GIB


def _llm_analysis() -> Peer | None:
    analysis, config = _module("llm_analysis.analysis"), _module("llm_analysis.config")
    if analysis is None or config is None:
        return None

    def predict(run: Run) -> float | None:
        training, layout = run.training, run.layout
        model = training.architecture
        if training.method is not Method.FULL:
            return None  # it knows no adapters
        shape = config.ModelConfig(
            name=model.name,
            num_layers=model.layers,
            n_head=model.heads,
            hidden_dim=model.hidden,
            vocab_size=model.vocabulary,
            max_seq_len=training.sequence,
            num_key_value_heads=model.kv_heads,
            ffn_embed_dim=-(-model.intermediate // model.hidden) * model.hidden,  # it takes multiples only
        )
        gpu = config.GPUConfig(run.gpu.product, run.gpu.memory_gib * 100, 2000, 600, 1e-5, 300)
        logging.disable(logging.WARNING)  # it warns of every run
        told = analysis.LLMAnalysis(
            shape,
            gpu,
            config.DtypeConfig(),
            config.ParallelismConfig(dp_size=layout.gpus),
            flops_efficiency=0.5,
        ).training(
            batch_size_per_gpu=layout.batch,
            gradient_accumulation_steps=layout.accumulation,
            seq_len=training.sequence,
            total_num_tokens=1_000_000,
            activation_recomputation=analysis.ActivationRecomputation.FULL,
            ds_zero=analysis.DSZeRO.STAGE_3 if layout.gpus > 1 else analysis.DSZeRO.NONE,
            mlp_gated_linear_units=model.gated,
        )
        logging.disable(logging.NOTSET)
        return float(told["(weight+op_state+grad+act)_memory_per_gpu"]) / _GIB

    return Peer(
        "llm-analysis", "its `LLMAnalysis.training()`, ZeRO-3, full recompute; feed-forward width rounded up", predict
    )

"""Defaults of frameworks' published recipes, for the fields that a row leaves empty."""

from collections.abc import Callable

from msgspec import Struct

from reconciler.core.sizing.training import Attention, Method, Offload, Strategy

_LINEARS = ("all-linear",)
_FRUGAL_GIB = 32
_LITGPT_EVERYWHERE = ("gemma", "phi", "tinyllama")
_HUGE = 60_000_000_000


class Recipe(Struct, frozen=True, kw_only=True):
    """Defaults of one framework for one kind of run; `alone` is the strategy on one GPU, where nothing is sharded."""

    optimizer: str = "adamw_torch"
    checkpointing: bool = True
    attention: Attention = Attention.FLASH
    strategy: Strategy = Strategy.FSDP_FULL
    alone: Strategy = Strategy.DDP
    offload: Offload = Offload.NONE
    rank: int = 8
    targets: tuple[str, ...] = ("q_proj", "v_proj")


class Run(Struct, frozen=True):
    """The run that a recipe is chosen for."""

    method: Method
    model: str
    parameters: int
    gpus: int
    memory_gib: float


_PLAIN = Recipe()


def recipe_of(framework: str, run: Run) -> Recipe:
    """Return the defaults of a framework, named as in `Training.framework`; Hugging Face's for any other."""
    words = framework.lower().split()
    recipe = _RECIPES.get(words[0]) if words else None
    return _PLAIN if recipe is None else recipe(run)


def _litgpt(run: Run) -> Recipe:
    """LitGPT `config_hub/finetune/*.yaml`.

    Rank 32 on queries and values; Gemma, Phi and TinyLlama: 8 to 32 on every matrix and the head. No checkpointing on
    one GPU.
    """
    everywhere = run.model.startswith(_LITGPT_EVERYWHERE)
    targets = _LINEARS if everywhere else _PLAIN.targets
    return Recipe(checkpointing=run.gpus > 1, rank=16 if everywhere else 32, targets=targets)


def _qwen(run: Run) -> Recipe:
    """Qwen `finetune.py` and its scripts: rank 64 on every matrix, DeepSpeed except for LoRA on one GPU."""
    strategy = Strategy.ZERO3 if run.method is Method.FULL else Strategy.ZERO2
    alone = Strategy.DDP if run.method is Method.LORA else Strategy.ZERO2
    return Recipe(rank=64, targets=_LINEARS, strategy=strategy, alone=alone)


def _torchtune(run: Run) -> Recipe:
    """Torchtune `recipes/configs`.

    All weights on one GPU: paged 8-bit AdamW, on small GPUs in the backward pass. Adapters: no checkpointing on large
    GPUs. From 60B parameters on: everything is offloaded.
    """
    full, frugal = run.method is Method.FULL, run.memory_gib < _FRUGAL_GIB
    if full and run.gpus == 1:
        return Recipe(optimizer="paged_adamw_8bit_in_backward" if frugal else "paged_adamw_8bit", targets=_LINEARS)
    if full:
        everything = run.parameters >= _HUGE
        return Recipe(optimizer="adamw_torch_fused", offload=Offload.ALL if everything else Offload.NONE)
    return Recipe(checkpointing=frugal or run.gpus > 1, optimizer="adamw_torch_fused", targets=_LINEARS)


_RECIPES: dict[str, Callable[[Run], Recipe]] = {
    "litgpt": _litgpt,
    "qwen": _qwen,
    "torchtune": _torchtune,
    "llama-recipes": lambda _: Recipe(checkpointing=False),
}
"""By the first word of `Training.framework`, in lower case."""

"""What a framework does where a job or a row says nothing: the defaults of its published recipes."""

from msgspec import Struct

from reconciler.core.sizing.training import Attention, Method, Offload, Strategy

_LINEARS = ("all-linear",)
_FRUGAL_GIB = 32
_LITGPT_EVERYWHERE = ("gemma", "phi", "tinyllama")
_HUGE = 60_000_000_000


class Recipe(Struct, frozen=True, kw_only=True):
    """Defaults of one framework for one kind of run; `alone` is the engine on one GPU, where nothing is divided."""

    optimizer: str = "adamw_torch"
    checkpointing: bool = True
    attention: Attention = Attention.FLASH
    strategy: Strategy = Strategy.FSDP_FULL
    alone: Strategy = Strategy.DDP
    offload: Offload = Offload.NONE
    rank: int = 8
    targets: tuple[str, ...] = ("q_proj", "v_proj")


class Run(Struct, frozen=True):
    """What a recipe is chosen by."""

    method: Method
    model: str
    parameters: int
    gpus: int
    memory_gib: float


_PLAIN = Recipe()


def recipe_of(framework: str, run: Run) -> Recipe:
    """Return the defaults of a framework as `Training.framework` writes it; Hugging Face's where it is not known.

    Sources: LitGPT `config_hub/finetune/*.yaml` (rank 32 on queries and values; Gemma, Phi and TinyLlama: 8 to 32 on
    every matrix and the head; no checkpointing on one GPU). Qwen `finetune.py` and its scripts (rank 64 on every
    matrix; DeepSpeed but for LoRA on one GPU). torchtune `recipes/configs` (all weights on one GPU: paged 8-bit AdamW,
    on small cards in the backward pass; with adapters no checkpointing where the card is large; from 70B on everything
    offloaded).
    """
    name = framework.lower().split()[0] if framework.split() else ""
    full = run.method is Method.FULL
    if name == "litgpt":
        everywhere = run.model.startswith(_LITGPT_EVERYWHERE)
        targets = _LINEARS if everywhere else _PLAIN.targets
        return Recipe(checkpointing=run.gpus > 1, rank=16 if everywhere else 32, targets=targets)
    if name == "qwen":
        alone = Strategy.DDP if run.method is Method.LORA else Strategy.ZERO2
        return Recipe(rank=64, targets=_LINEARS, strategy=Strategy.ZERO3 if full else Strategy.ZERO2, alone=alone)
    if name == "torchtune":
        return _torchtune(run, full=full)
    if name == "llama-recipes":
        return Recipe(checkpointing=False)
    return _PLAIN


def _torchtune(run: Run, *, full: bool) -> Recipe:
    frugal = run.memory_gib < _FRUGAL_GIB
    if full and run.gpus == 1:
        return Recipe(optimizer="paged_adamw_8bit_in_backward" if frugal else "paged_adamw_8bit", targets=_LINEARS)
    if full:
        everything = run.parameters >= _HUGE
        return Recipe(optimizer="adamw_torch_fused", offload=Offload.ALL if everything else Offload.NONE)
    return Recipe(checkpointing=frugal or run.gpus > 1, optimizer="adamw_torch_fused", targets=_LINEARS)

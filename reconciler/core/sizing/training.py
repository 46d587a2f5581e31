"""What is trained, and how: all that decides the memory of one GPU, except how many GPUs there are."""

from enum import StrEnum

from msgspec import Struct

from reconciler.core.sizing.architecture import Architecture


class Method(StrEnum):
    """Which weights are trained."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"  # adapters over a base in 4 bits (bitsandbytes NF4)
    GPTQ_LORA = "gptq-lora"  # adapters over a base in 4 bits (GPTQ)

    @property
    def has_adapters(self) -> bool:
        """The base is frozen; only low-rank adapters are trained."""
        return self is not Method.FULL


class Precision(StrEnum):
    """The type of weights at rest; `-mixed` keeps a copy in fp32 that the optimizer updates."""

    BF16 = "bf16"
    BF16_MIXED = "bf16-mixed"
    FP16 = "fp16"
    FP16_MIXED = "fp16-mixed"
    FP32 = "fp32"


class Attention(StrEnum):
    """Which attention kernel runs; only `eager` keeps the matrix of scores."""

    FLASH = "flash-attn-2"
    SDPA = "sdpa"
    EAGER = "eager"


class Strategy(StrEnum):
    """What is divided among the GPUs."""

    DDP = "ddp"  # nothing: every GPU holds all
    FSDP_FULL = "fsdp-full"  # weights, gradients and optimizer, over all GPUs
    FSDP_HYBRID = "fsdp-hybrid"  # the same over the GPUs of one node, copied between nodes
    FSDP_GRAD_OP = "fsdp-grad-op"  # gradients and optimizer
    ZERO1 = "zero-1"  # optimizer
    ZERO2 = "zero-2"  # optimizer and gradients
    ZERO3 = "zero-3"  # optimizer, gradients and weights


class Offload(StrEnum):
    """What lies in the host's memory instead."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    ALL = "all"  # optimizer and parameters


class Training(Struct, frozen=True, kw_only=True, cache_hash=True):
    """One training run. Names of optimizers are those of `transformers.TrainingArguments.optim`."""

    model: str  # as the job wrote it
    architecture: Architecture
    method: Method
    sequence: int  # tokens of a sample at most; so packing samples to that length changes no peak
    precision: Precision = Precision.BF16
    optimizer: str = "adamw_torch"
    checkpointing: bool = True
    attention: Attention = Attention.FLASH
    strategy: Strategy = Strategy.FSDP_FULL
    offload: Offload = Offload.NONE
    tensor: int = 1  # ways of tensor parallelism
    pipeline: int = 1  # stages of pipeline parallelism
    lora_rank: int = 8
    lora_targets: tuple[str, ...] = ("q_proj", "v_proj")  # `all-linear` means every linear layer
    fused_loss: bool = False  # liger and its like never hold all logits at once
    framework: str = ""  # `fms-hf-tuning 2.4.0`, `litgpt`: where its stack is known to differ; empty: Hugging Face


class Layout(Struct, frozen=True, kw_only=True):
    """How a run is spread: `gpus` in all, over `workers` nodes; `batch` samples a GPU, `accumulation` steps."""

    gpus: int
    workers: int = 1
    batch: int = 1
    accumulation: int = 1

    @property
    def effective_batch(self) -> int:
        """Samples between two updates of the weights."""
        return self.gpus * self.batch * self.accumulation

    @property
    def gpus_per_worker(self) -> int:
        """GPUs of one node."""
        return -(-self.gpus // self.workers)

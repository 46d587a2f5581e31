"""A training run: the architecture of its model, how it is trained, and how it is laid out on GPUs."""

from collections.abc import Iterator
from enum import StrEnum
from math import lcm

from msgspec import Struct


class BlockRole(StrEnum):
    """The block that a matrix belongs to."""

    ATTENTION = "attention"
    FEED_FORWARD = "feed-forward"
    STATE_SPACE = "state-space"


class Linear(Struct, frozen=True, kw_only=True, gc=False):
    """A linear layer of `inputs` x `outputs`. The model has `count` of them, each token uses `active`.

    `name` is the last part of the module's name, as adapters name their targets. `fused`: not a module of its own
    (experts in one tensor), so that it cannot get an adapter.
    """

    name: str
    inputs: int
    outputs: int
    count: int
    active: int
    role: BlockRole
    bias: bool = False
    fused: bool = False

    @property
    def size(self) -> int:
        """Parameters of one layer."""
        return self.inputs * self.outputs + (self.outputs if self.bias else 0)


class ParameterParts(Struct, frozen=True, kw_only=True):
    """The parameters of a model by block; `norms` are all vectors that are not part of a matrix."""

    embedding: int
    attention: int
    feed_forward: int
    state_space: int
    vision: int
    norms: int

    @property
    def total(self) -> int:
        """Parameters of all parts."""
        return self.embedding + self.attention + self.feed_forward + self.state_space + self.vision + self.norms


class Architecture(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The sizes of a decoder, as in its Hugging Face `config.json`; `source` is where they were read.

    `parameters` counts all weights, including every expert and a tied embedding once; `active_parameters` those that
    one token uses. `intermediate` is the width of a dense feed-forward block or of one expert. `experts` is 0 for dense
    models. `attention_layers` is the number of layers with attention if the others are state-space layers, else 0.
    `linears`, `embedding`, `norms` and `vision` are the parts that sum to `parameters`.
    """

    name: str  # canonical, such as `llama3.1-8b`
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    parameters: int
    active_parameters: int
    gated: bool = True  # gate, up and down projections; otherwise up and down
    experts: int = 0
    active_experts: int = 0  # experts per token, including shared ones
    attention_layers: int = 0
    windowed_layers: int = 0  # layers that attend to the last `window` tokens alone
    window: int = 0
    layer_norms: int = 2  # in a layer: 4 with norms after the blocks, 1 if both blocks share one
    softcap: bool = False  # logits, and scores of attention, go through a tanh (Gemma 2, arXiv 2408.00118)
    own_scores: int = 0  # bytes for each score of attention that its own code stores, whatever the kernel
    autoconf: str = ""  # name in ado-autoconf; empty if it has none
    source: str = ""
    approximate: bool = False  # the vendor has not published all numbers
    linears: tuple[Linear, ...] = ()
    embedding: int = 0
    norms: int = 0
    vision: int = 0  # vision tower and projector


def parameter_parts(architecture: Architecture) -> ParameterParts:
    """Return the parameters by block."""

    def of(role: BlockRole) -> int:
        return sum(linear.size * linear.count for linear in architecture.linears if linear.role is role)

    return ParameterParts(
        embedding=architecture.embedding,
        attention=of(BlockRole.ATTENTION),
        feed_forward=of(BlockRole.FEED_FORWARD),
        state_space=of(BlockRole.STATE_SPACE),
        vision=architecture.vision,
        norms=architecture.norms,
    )


def undivided_heads(model: Architecture, ways: int) -> str:
    """Return the heads of a model that tensor parallelism over `ways` GPUs cannot divide; empty if it can.

    Each GPU has as many heads of attention. Those of keys and values are divided, too, or else repeated equally.
    """
    if model.heads % ways:
        return f"{model.heads} attention heads"
    if max(model.kv_heads, ways) % min(model.kv_heads, ways):
        return f"{model.kv_heads} heads of keys and values"
    return ""


class Method(StrEnum):
    """The weights that are trained."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"  # adapters on a 4-bit base (bitsandbytes NF4)
    GPTQ_LORA = "gptq-lora"  # adapters on a 4-bit base (GPTQ)
    INT8_LORA = "int8-lora"  # adapters on an 8-bit base (bitsandbytes LLM.int8, GPTQ with 8 bits)

    @property
    def has_adapters(self) -> bool:
        """True if the base is frozen and only low-rank adapters are trained."""
        return self is not Method.FULL


QUANTIZED = frozenset({Method.QLORA, Method.GPTQ_LORA, Method.INT8_LORA})
"""Methods with a base in 4 or 8 bits."""


class Precision(StrEnum):
    """The type of the weights at rest. `-mixed` keeps an fp32 copy that the optimizer updates."""

    BF16 = "bf16"
    BF16_MIXED = "bf16-mixed"
    FP16 = "fp16"
    FP16_MIXED = "fp16-mixed"
    FP32 = "fp32"


class Attention(StrEnum):
    """The attention kernel. Only `eager` stores the matrix of scores."""

    FLASH = "flash-attn-2"
    SDPA = "sdpa"
    EAGER = "eager"


class Strategy(StrEnum):
    """The states that are sharded over the GPUs."""

    DDP = "ddp"  # nothing: every GPU holds everything
    FSDP_FULL = "fsdp-full"  # weights, gradients and optimizer, over all GPUs
    FSDP_HYBRID = "fsdp-hybrid"  # the same over the GPUs of one node, replicated across nodes
    FSDP_GRAD_OP = "fsdp-grad-op"  # gradients and optimizer
    ZERO1 = "zero-1"  # optimizer
    ZERO2 = "zero-2"  # optimizer and gradients
    ZERO3 = "zero-3"  # optimizer, gradients and weights


class Offload(StrEnum):
    """The states that are kept in host memory."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    ALL = "all"  # optimizer and parameters


class Objective(StrEnum):
    """The objective of a run. Preference training compares answers, so that a sample is a pair of them."""

    SFT = "sft"
    DPO = "dpo"  # arXiv 2305.18290
    KTO = "kto"  # arXiv 2402.01306
    ORPO = "orpo"  # arXiv 2403.07691; SimPO and CPO are like it
    REWARD = "reward"  # a head of one output instead of the vocabulary
    GRPO = "grpo"  # arXiv 2402.03300; RLOO (arXiv 2402.14740) and others without a value model are like it
    PPO = "ppo"  # arXiv 1909.08593: the models that judge the answers are companions
    VALUE_HEAD = "value-head"  # a head of one output beside the vocabulary's, whose logits exist but are not trained

    @property
    def answers(self) -> int:
        """Sequences of a sample: chosen and rejected answer go through the model together."""
        return 1 if self in {Objective.SFT, Objective.KTO, Objective.GRPO, Objective.PPO} else 2

    @property
    def has_reference(self) -> bool:
        """True if a frozen copy of the model scores the answers, too. With adapters it is the base without them."""
        return self in {Objective.DPO, Objective.KTO, Objective.GRPO}


class CompanionRole(StrEnum):
    """The role of a model beside the policy in PPO (arXiv 1909.08593, section 2; arXiv 2203.02155, section 3.5)."""

    REFERENCE = "reference"  # frozen: the policy must not leave it too far
    REWARD = "reward"  # frozen: scores the answers
    VALUE = "value"  # trained: predicts the score of each token


class Companion(Struct, frozen=True, kw_only=True, cache_hash=True):
    """A model beside the one that is trained, of any size.

    `bits` are those of a frozen weight (DeepSpeed casts 32 to 16). `has_vocabulary`: it keeps its head over the
    vocabulary beside one of one output. `joint`: a value model that is one module with the policy, so that gradients
    and activations of both exist at the same time, and all of its weights are trained whatever the method; else it
    takes turns with the policy, and gets adapters as the policy does.
    """

    role: CompanionRole
    architecture: Architecture
    bits: int = 16
    has_vocabulary: bool = False
    joint: bool = False


class Training(Struct, frozen=True, kw_only=True, cache_hash=True):
    """All that determines the memory of a GPU but the layout. `optimizer` is a name of `transformers` (`optim`)."""

    model: str  # as written in the job
    architecture: Architecture
    method: Method
    sequence: int  # maximum tokens per sample, so packing to that length does not change the peak
    objective: Objective = Objective.SFT
    precision: Precision = Precision.BF16
    optimizer: str = "adamw_torch"
    optimizer_rank: int = 128  # of the gradients' projections (GaLore, APOLLO)
    checkpointing: bool = True
    checkpoints_shards: bool = False  # on several GPUs alone
    attention: Attention = Attention.FLASH
    strategy: Strategy = Strategy.FSDP_FULL
    offload: Offload = Offload.NONE
    tensor: int = 1  # degree of tensor parallelism
    pipeline: int = 1  # stages of pipeline parallelism
    context: int = 1  # GPUs among which context parallelism divides each sample
    sequence_parallel: bool = False  # tensor parallelism divides the inputs of layers, too
    expert: int = 1  # GPUs among which the experts of a layer are divided
    expert_tensor: int = 0  # degree of tensor parallelism of the experts; 0: that of the other matrices
    chunks: int = 1  # parts of the model that a stage of an interleaved pipeline holds (arXiv 2104.04473, section 2.2)
    microbatch: int = 0  # samples of the parts into which a pipeline divides a batch; 0: it takes them step by step
    replicas: int = 1  # groups of GPUs that hold all shards each (HSDP); 1: with `fsdp-hybrid`, the nodes
    recomputed: float = 1.0  # fraction of the layers that checkpointing recomputes; the others keep everything
    together: int = 1  # layers that are recomputed at once: only the input of the first one is kept
    keeps_products: bool = False  # a recomputed layer keeps the results of attention and of every second matrix
    compiled: bool = False  # torch.compile makes one graph of each layer
    compiled_loss: bool = False  # and one of the cross entropy
    lora_rank: int = 8
    lora_targets: tuple[str, ...] = ("q_proj", "v_proj")  # `all-linear` means every linear layer
    saved_modules: tuple[str, ...] = ()  # matrices that are trained whole beside the adapters (PEFT's modules_to_save)
    dora: bool = False  # adapters also learn magnitudes (DoRA, arXiv 2402.09353)
    wide_base: bool = False  # the frozen base of adapters is loaded in fp32, and autocast casts it
    has_reference: bool = True  # False: a preference objective runs without its reference model
    scored: float = 1.0  # fraction of a sample's tokens in the loss
    critic: bool = False  # a value model of the same size is trained, too (PPO, arXiv 1707.06347)
    companions: tuple[Companion, ...] = ()  # the other models of PPO
    generates: bool = False  # the model itself writes the answers that it learns from
    rollout_batch: int = 0  # answers that PPO generates and judges at once; 0: as many as in a step
    keeps_scores: bool = False  # the logits of all generated tokens are kept until their probabilities are known
    rollout: float = 0.0  # fraction of the GPU's memory that an engine beside it reserves to write them
    rollout_sleeps: bool = False  # the engine frees its memory while the model trains
    rollout_alone: bool = False  # the states of the training are in host memory while the engine writes
    rollout_sheds: bool = False  # the gradients and the optimizer are
    offloads_activations: bool = False  # what layers keep for the backward pass is in host memory
    fused_loss: bool = False  # Liger and similar kernels never hold all logits at once
    fast_loss: bool = False  # the cross entropy works in place on the logits (Unsloth's kernel)
    upcast: bool | None = None  # whether PEFT casts what a 4-bit base leaves in 16 bits to fp32; None: as the framework
    framework: str = ""  # such as `fms-hf-tuning 2.4.0` or `litgpt`; empty: Hugging Face

    @property
    def ways(self) -> int:
        """GPUs that share one replica of the model."""
        return self.tensor * self.pipeline

    @property
    def group(self) -> int:
        """GPUs that work on the same samples."""
        return self.ways * self.context

    @property
    def expert_ways(self) -> int:
        """GPUs that share one replica of the experts."""
        return self.pipeline * self.expert * (self.expert_tensor or self.tensor)

    @property
    def multiple(self) -> int:
        """A number of GPUs must be a multiple of it: of those that share samples, experts and replicas of shards."""
        return lcm(self.group, self.expert_ways if self.expert > 1 else 1) * self.replicas

    @property
    def holds_reference(self) -> bool:
        """True if a frozen copy of the model scores the answers."""
        return self.has_reference and self.objective.has_reference


def impossible_degrees(training: Training, *, evenly: bool) -> Iterator[tuple[str, str]]:
    """Yield the name of each degree with which a training cannot start, and what it does not divide.

    `evenly`: stages have as many layers (Megatron's `get_num_layers_to_build`), and GPUs as many experts (`MoELayer`).
    """
    model = training.architecture
    heads = undivided_heads(model, training.tensor)
    if heads:
        yield "tensor", f"{heads} cannot be divided among {training.tensor} GPUs"
    if evenly and model.layers % training.pipeline:
        yield "pipeline", f"{model.layers} layers cannot be divided among {training.pipeline} stages"
    if evenly and model.experts % training.expert:
        yield "expert", f"{model.experts} experts cannot be divided among {training.expert} GPUs"


class Layout(Struct, frozen=True, kw_only=True):
    """The spread of a run: `gpus` in total over `workers` nodes, `batch` samples per GPU, `accumulation` steps."""

    gpus: int
    workers: int = 1
    batch: int = 1
    accumulation: int = 1

    @property
    def gpus_per_worker(self) -> int:
        """GPUs per node."""
        return -(-self.gpus // self.workers)

"""The parameters of low-rank adapters (LoRA, arXiv 2106.09685), with the names of Hugging Face PEFT."""

from collections.abc import Iterable

from reconciler.sizing.training import Architecture

ALL_LINEAR = "all-linear"
EMBEDDINGS = frozenset({"embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "word_embeddings", "embeddings"})
"""Names of embedding and head."""
_DEFAULT_TARGETS = (
    (("q_proj", "v_proj", "dense"), ("q_proj", "v_proj", "fc1", "fc2")),  # phi
    (("q_proj", "v_proj"), ("q_proj", "v_proj")),
    (("qkv_proj",), ("qkv_proj",)),
    (("query_key_value",), ("query_key_value",)),
    (("c_attn",), ("c_attn",)),
    (("Wqkv",), ("Wqkv",)),
    (("W_pack",), ("W_pack",)),
)
"""Layers that identify a family, and its targets: PEFT's `TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING`."""


class UnknownTargetError(KeyError):
    """A target that is not a layer of the model. The text lists its layers."""

    def __init__(self, target: str, known: Iterable[str]) -> None:
        super().__init__(target)
        self.target = target
        self.known = tuple(known)

    def __str__(self) -> str:
        return f"{self.target!r} is not a layer; allowed values: {', '.join(self.known)}"


def adapter_parameters(architecture: Architecture, rank: int, targets: tuple[str, ...]) -> int:
    """Return the parameters of adapters of `rank` on `targets`: rank x (inputs + outputs) of each matrix.

    `all-linear` means every linear layer except the head, as in PEFT. Of a dotted name, the last part counts. A vision
    tower gets no adapters. Raises UnknownTargetError.
    """
    linears = _adaptable(architecture)
    selected = set()
    embeddings = 0
    for target in dict.fromkeys(target.rsplit(".", 1)[-1] for target in targets):
        if target == ALL_LINEAR:
            selected |= linears
        elif target in linears:
            selected.add(target)
        elif target in EMBEDDINGS:
            embeddings += rank * (architecture.vocabulary + architecture.hidden)
        else:
            raise UnknownTargetError(target, (*sorted(linears), ALL_LINEAR))
    return embeddings + sum(
        rank * (linear.inputs + linear.outputs) * linear.count
        for linear in architecture.linears
        if linear.name in selected and not linear.fused
    )


def adapter_parameters_or_default(architecture: Architecture, rank: int, targets: tuple[str, ...]) -> int:
    """Return the same for any targets: unknown ones are ignored, and PEFT's default is used if none is left."""
    known = _adaptable(architecture)
    chosen = tuple(target for target in targets if target == ALL_LINEAR or target in known)
    return adapter_parameters(architecture, rank, chosen or default_targets(architecture))


def saved_parameters(architecture: Architecture, modules: tuple[str, ...]) -> int:
    """Return the parameters of modules that are trained whole (PEFT's `modules_to_save`).

    Of a dotted name, the last part counts. Embedding and head are matrices of vocabulary x hidden width, names with
    `norm` are all vectors of that kind. Raises UnknownTargetError.
    """
    sizes = {linear.name: linear.size * linear.count for linear in architecture.linears if not linear.fused}
    total = 0
    for module in dict.fromkeys(name.rsplit(".", 1)[-1] for name in modules):
        if module in EMBEDDINGS:
            total += architecture.vocabulary * architecture.hidden
        elif module in sizes:
            total += sizes[module]
        elif "norm" in module or module.startswith("ln_"):
            total += architecture.norms
        else:
            raise UnknownTargetError(module, (*sorted(sizes), "embed_tokens", "lm_head", "norm"))
    return total


def saved_parameters_or_none(architecture: Architecture, modules: tuple[str, ...]) -> int:
    """Return the same; 0 if a module is not known."""
    try:
        return saved_parameters(architecture, modules)
    except UnknownTargetError:
        return 0


def targets_or_default(architecture: Architecture, targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the targets; if one is not a layer of the model, PEFT's default for its family, or all linear layers."""
    try:
        adapter_parameters(architecture, 1, targets)
    except UnknownTargetError:
        return default_targets(architecture) or (ALL_LINEAR,)
    return targets


def target_outputs(architecture: Architecture, targets: tuple[str, ...]) -> int:
    """Return the outputs of all matrices with adapters that one token goes through."""
    return sum(
        linear.outputs * linear.active
        for linear in architecture.linears
        if not linear.fused and (ALL_LINEAR in targets or linear.name in targets)
    )


def default_targets(architecture: Architecture) -> tuple[str, ...]:
    """Return the targets that PEFT uses if none are given; empty for families without a default."""
    names = {linear.name for linear in architecture.linears}
    return next((targets for layers, targets in _DEFAULT_TARGETS if names.issuperset(layers)), ())


def _adaptable(architecture: Architecture) -> set[str]:
    return {linear.name for linear in architecture.linears if not linear.fused}

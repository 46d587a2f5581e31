"""How many parameters a low-rank adapter adds (LoRA, arXiv 2106.09685), with the names of Hugging Face PEFT."""

from collections.abc import Iterable

from reconciler.core.sizing.architecture import Architecture

ALL_LINEAR = "all-linear"
_EMBEDDINGS = frozenset({"embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "word_embeddings"})
_DEFAULTS = (
    (("q_proj", "v_proj", "dense"), ("q_proj", "v_proj", "fc1", "fc2")),  # phi
    (("q_proj", "v_proj"), ("q_proj", "v_proj")),
    (("qkv_proj",), ("qkv_proj",)),
    (("query_key_value",), ("query_key_value",)),
    (("c_attn",), ("c_attn",)),
    (("Wqkv",), ("Wqkv",)),
)
"""By the layers that tell a family: PEFT's `TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING`."""


class UnknownTargetError(KeyError):
    """A target that no layer of the model has; the text names those that it has."""

    def __init__(self, target: str, known: Iterable[str]) -> None:
        super().__init__(target)
        self.target = target
        self.known = tuple(known)

    def __str__(self) -> str:
        return f"no layer is named {self.target!r}; there are {', '.join(self.known)}"


def adapter_parameters(architecture: Architecture, rank: int, targets: tuple[str, ...]) -> int:
    """Return the parameters of adapters of `rank` on `targets`: rank x (inputs + outputs) of each matrix.

    `all-linear` means every linear layer except the head, as PEFT reads it; a name of several parts counts by its
    last. Only the decoder is counted, not a tower for images. Raises UnknownTargetError for a target that the model
    has not.
    """
    linears = {linear.name for linear in architecture.linears if not linear.fused}
    wanted = set()
    embeddings = 0
    for target in dict.fromkeys(target.rsplit(".", 1)[-1] for target in targets):
        if target == ALL_LINEAR:
            wanted |= linears
        elif target in linears:
            wanted.add(target)
        elif target in _EMBEDDINGS:
            embeddings += rank * (architecture.vocabulary + architecture.hidden)
        else:
            raise UnknownTargetError(target, (*sorted(linears), ALL_LINEAR))
    return embeddings + sum(
        rank * (linear.inputs + linear.outputs) * linear.count
        for linear in architecture.linears
        if linear.name in wanted and not linear.fused
    )


def default_targets(architecture: Architecture) -> tuple[str, ...]:
    """Return the targets that PEFT takes where none are given; empty for families that it has none for."""
    names = {linear.name for linear in architecture.linears}
    return next((targets for layers, targets in _DEFAULTS if names.issuperset(layers)), ())

"""The shape of a language model: the numbers that decide its memory."""

from enum import StrEnum

from msgspec import Struct


class Role(StrEnum):
    """What a matrix belongs to."""

    ATTENTION = "attention"
    FEED_FORWARD = "feed-forward"
    STATE_SPACE = "state-space"


class Linear(Struct, frozen=True, kw_only=True, gc=False):
    """A matrix of weights, `inputs` x `outputs`, of which the model holds `count`; one token passes `active` of them.

    `name` is its module's last name, as adapters name their targets. A `fused` one is no module of its own (experts in
    one tensor), so that no adapter is put on it.
    """

    name: str
    inputs: int
    outputs: int
    count: int
    active: int
    role: Role
    bias: bool = False
    fused: bool = False

    @property
    def size(self) -> int:
        """Parameters of one of them."""
        return self.inputs * self.outputs + (self.outputs if self.bias else 0)


class ParameterParts(Struct, frozen=True, kw_only=True):
    """All weights of a model by what they belong to; `norms` holds every small vector that is in no matrix."""

    embedding: int
    attention: int
    feed_forward: int
    state_space: int
    vision: int
    norms: int

    @property
    def total(self) -> int:
        """Their sum."""
        return self.embedding + self.attention + self.feed_forward + self.state_space + self.vision + self.norms


class Architecture(Struct, frozen=True, kw_only=True, cache_hash=True):
    """A decoder's numbers as in its Hugging Face `config.json`; `source` says where they were read.

    `parameters` counts all weights, with every expert and a tied embedding once; `active_parameters` those that one
    token passes. `intermediate` is the width of one dense feed-forward block or of one expert; `experts` 0: dense.
    `attention_layers` are the layers with attention, where others are state-space layers (0: all of them).
    `linears`, `embedding`, `norms` and `vision` are the parts that `parameters` is the sum of.
    """

    name: str  # canonical, as `llama3.1-8b`
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
    active_experts: int = 0  # experts of one token, shared ones included
    attention_layers: int = 0
    autoconf: str = ""  # the name that ado-autoconf knows; empty: it does not
    source: str = ""
    approximate: bool = False  # its maker has not published all of these numbers: trust no estimate highly
    linears: tuple[Linear, ...] = ()
    embedding: int = 0
    norms: int = 0
    vision: int = 0  # a tower for images, and its projector


def parameter_parts(architecture: Architecture) -> ParameterParts:
    """Return the parts of `parameters`, exact for what `linears` tells."""

    def of(role: Role) -> int:
        return sum(linear.size * linear.count for linear in architecture.linears if linear.role is role)

    return ParameterParts(
        embedding=architecture.embedding,
        attention=of(Role.ATTENTION),
        feed_forward=of(Role.FEED_FORWARD),
        state_space=of(Role.STATE_SPACE),
        vision=architecture.vision,
        norms=architecture.norms,
    )

"""The shape of a language model: the numbers that decide its memory."""

from msgspec import Struct


class Architecture(Struct, frozen=True, kw_only=True):
    """A decoder's numbers as in its Hugging Face `config.json`; `source` says where they were read.

    `parameters` counts all weights, with every expert and a tied embedding once; `active_parameters` those that one
    token passes. `intermediate` is the width of one dense feed-forward block or of one expert; `experts` 0: dense.
    `attention_layers` are the layers with attention, where others are state-space layers (0: all of them).
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

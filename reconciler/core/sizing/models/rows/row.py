"""A row of the table of models: the names of a model and the numbers of its `config.json`."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

Shape = tuple[int, int, int, int, int, int]
"""Layers, hidden, intermediate, heads, kv heads, vocabulary."""

_KEYS = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
)


class Row(Struct, frozen=True):
    """`name` is ours; `repositories` are those on Hugging Face with this shape, the first the source of `config`.

    `also` are further names that people and the autoconf controller use, `autoconf` is ado-autoconf's own.
    """

    name: str
    repositories: str  # separated by spaces
    config: Mapping[str, Any]
    autoconf: str = ""
    also: str = ""  # separated by spaces
    source: str = ""  # where the numbers come from, if not from the first repository's config.json
    approximate: bool = False  # the maker has not published all of the numbers


def decoder(kind: str, shape: Shape, **more: Any) -> dict[str, Any]:
    """Return the keys of a `config.json` that decide the shape of a decoder built like Llama."""
    return {"model_type": kind, **dict(zip(_KEYS, shape, strict=True)), **more}

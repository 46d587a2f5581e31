"""The model that the flags of Megatron-LM describe, as the keys of a `config.json`."""

import ast
from typing import Any

from msgspec.structs import replace

from reconciler.launch.framework import MAX_NUMBER, Extraction
from reconciler.launch.settings import is_true

_HINT = "exclude the job from sizing, or set AUTOCONF_MODEL_NAME to a model of the same shape"
_FIXED_VOCABULARIES = {"GPT2BPETokenizer": 50257, "Llama2Tokenizer": 32000, "TikTokenizer": 131072}
"""Tokenizers whose vocabulary is known (`megatron/training/tokenizer`); the last one's is a default."""
_WITHOUT_END = frozenset({"NullTokenizer"})
"""Tokenizers that add a token for the end of a document to `--vocab-size`."""
_PADDING = 128  # the default of --make-vocab-size-divisible-by
_GATES = ("swiglu", "quick_geglu")
_MAX_LAYERS, _MAX_DIGITS = 10_000, 9


def read_sizes(extraction: Extraction) -> None:
    """Read the model from its sizes, unless the container names one. What is missing is reported as the model."""
    script = extraction.script
    outside = script.find(("use_checkpoint_args", "yaml_cfg"))
    if "AUTOCONF_MODEL_NAME" in extraction.line.env:
        return
    if outside is not None:
        message = f"`{outside.fact.snippet}` takes the sizes of the model from elsewhere"
        extraction.reject("model", message, outside.fact.span, _HINT)
        return
    sizes = {name: _number(extraction, name) for name in ("num_layers", "hidden_size", "num_attention_heads")}
    layers, hidden, heads = sizes.values()
    if layers is None or hidden is None or heads is None:
        extraction.facts.pop("model", None)
        missing = ", ".join(f"--{name.replace('_', '-')}" for name, value in sizes.items() if value is None)
        if "model" not in extraction.unresolved:
            message = f"the launch line does not set the sizes of the model: {missing}"
            extraction.reject("model", message, None, "set them, or the variable AUTOCONF_MODEL_NAME")
        return
    config: dict[str, Any] = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
    config |= _attention(extraction, heads) | _feed_forward(extraction, hidden, layers) | _vocabulary(extraction)
    config["model_type"] = _kind(config)
    setting = script.find(("num_layers",))
    if setting is not None and "model" not in extraction.unresolved:
        extraction.facts["model"] = replace(setting.fact, value=f"{layers} layers x {hidden}")
        extraction.model_config = config


def _kind(config: dict[str, Any]) -> str:
    """Return the type of models in transformers that has these matrices."""
    if "kv_lora_rank" in config:
        return "deepseek_v3"
    if "num_local_experts" in config:
        return "mixtral"
    return "llama" if config.pop("gated") else "nemotron"


def _number(extraction: Extraction, name: str, default: int | None = None) -> int | None:
    """Return a whole number of the model; `default` if it is not set, or wrong (which is reported)."""
    setting = extraction.resolve("model", extraction.script.find((name,)))
    if setting is None:
        return default
    text = setting.text.strip()
    if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and 0 < int(text) <= MAX_NUMBER:
        return int(text)
    extraction.reject("model", f"`{setting.fact.snippet}`: expected a whole number", setting.fact.span)
    return default


def _attention(extraction: Extraction, heads: int) -> dict[str, Any]:
    script = extraction.script
    config: dict[str, Any] = {"attention_bias": not is_true(script.find(("disable_bias_linear",)))}
    groups = _number(extraction, "num_query_groups", 1)
    config["num_key_value_heads"] = groups if is_true(script.find(("group_query_attention",))) else heads
    width = _number(extraction, "kv_channels")
    if width is not None:
        config["head_dim"] = width
    if is_true(script.find(("multi_latent_attention",))):
        config["kv_lora_rank"] = _number(extraction, "kv_lora_rank", 32)
        config["qk_nope_head_dim"] = _number(extraction, "qk_head_dim", 128)
        config["qk_rope_head_dim"] = _number(extraction, "qk_pos_emb_head_dim", 64)
        config["v_head_dim"] = _number(extraction, "v_head_dim", 128)
        config["q_lora_rank"] = _number(extraction, "q_lora_rank")
    kind = script.text("position_embedding_type")
    rotates = is_true(script.find(("use_rotary_position_embeddings", "no_position_embedding")))
    positions = _number(extraction, "max_position_embeddings")
    if kind in {"", "learned_absolute"} and not rotates and positions is not None:
        config["learned_positions"] = positions
    return config


def _feed_forward(extraction: Extraction, hidden: int, layers: int) -> dict[str, Any]:
    """Return the widths. By default 4 times the hidden one, with SwiGLU two thirds of that in steps of 64."""
    script = extraction.script
    gated = any(is_true(script.find((name,))) for name in _GATES)
    usual = 4 * hidden * 2 // 3 // 64 * 64 if is_true(script.find(("swiglu",))) else 4 * hidden
    width = _number(extraction, "ffn_hidden_size", usual)
    biased = not is_true(script.find(("disable_bias_linear",)))
    config: dict[str, Any] = {"intermediate_size": width, "gated": gated, "mlp_bias": biased}
    experts = _number(extraction, "num_experts")
    if experts is None:
        return config
    if not gated:
        setting = script.find(("num_experts",))
        message = "experts without gated linear units are not modelled"
        extraction.reject("model", message, None if setting is None else setting.fact.span, _HINT)
    config |= {"num_local_experts": experts, "num_experts_per_tok": _number(extraction, "moe_router_topk", 2)}
    config["moe_intermediate_size"] = _number(extraction, "moe_ffn_hidden_size", width)
    config["shared_expert_intermediate_size"] = _number(extraction, "moe_shared_expert_intermediate_size")
    return config | _expert_layers(extraction, layers)


def _expert_layers(extraction: Extraction, layers: int) -> dict[str, Any]:
    """Return the layers that have experts: every n-th, or a list such as `([0]*3+[1]*58)`."""
    setting = extraction.script.find(("moe_layer_freq",))
    if setting is None or setting.text == "1":
        return {}
    if setting.text.isdecimal() and len(setting.text) <= _MAX_DIGITS:
        return {"moe_layer_freq": int(setting.text)}
    pattern = list_of(setting.text)
    if pattern is None or len(pattern) != layers:
        message = f"`{setting.fact.snippet}` is not a list with a number for each of the {layers} layers"
        extraction.reject("model", message, setting.fact.span)
        return {}
    return {"moe_layers": [index for index, has_experts in enumerate(pattern) if has_experts]}


def list_of(text: str) -> list[int] | None:
    """Return the list that sums and products of lists describe; None for anything else."""
    try:
        return _list(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _list(node: ast.expr) -> list[int]:
    match node:
        case ast.List(elts=elements):
            return [item.value for item in elements if isinstance(item, ast.Constant) and isinstance(item.value, int)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            found = _list(left) + _list(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant(value=int(times))) if times <= _MAX_LAYERS:
            found = _list(left) * times
        case _:
            raise ValueError(ast.dump(node))
    if len(found) > _MAX_LAYERS:
        raise ValueError(len(found))
    return found


def _vocabulary(extraction: Extraction) -> dict[str, Any]:
    """Return the vocabulary, or the model whose tokenizer has it; it is padded for tensor parallelism."""
    script = extraction.script
    config: dict[str, Any] = {
        "tie_word_embeddings": not is_true(script.find(("untie_embeddings_and_output_weights",))),
    }
    if (padded := _number(extraction, "padded_vocab_size")) is not None:
        return config | {"vocab_size": padded}
    multiple = _number(extraction, "make_vocab_size_divisible_by", _PADDING) or _PADDING
    config["vocabulary_multiple"] = multiple * (extraction.number("tensor") or 1)
    kind = extraction.resolve("model", script.find(("tokenizer_type",)))
    name = "" if kind is None else kind.text
    size = _number(extraction, "vocab_size")
    model = extraction.resolve("model", script.find(("tokenizer_model", "tokenizer_name_or_path")))
    if size is not None:
        return config | {"vocab_size": size + (name in _WITHOUT_END)}
    if name in _FIXED_VOCABULARIES:
        return config | {"vocab_size": _FIXED_VOCABULARIES[name]}
    if model is not None and model.text:
        return config | {"vocabulary_of": model.text}
    if "model" not in extraction.unresolved:
        span = None if kind is None else kind.fact.span
        extraction.reject("model", "the size of the vocabulary is unknown", span, "set it with --vocab-size")
    return config

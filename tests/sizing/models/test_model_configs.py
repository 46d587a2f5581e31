"""Architectures read from the `config.json` of any model."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.sizing.models import parse_model_config
from reconciler.sizing.training import Architecture, parameter_parts
from tests.sizing.tables import MODEL_TABLE

LLAMA = json.loads("""{
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000,
  "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.43.0.dev0", "use_cache": true,
  "vocab_size": 128256
}""")

HYBRID = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "attention_bias": False,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "layer_types": ([*["mamba"] * 5, "attention", *["mamba"] * 4] * 4),
    "mamba_chunk_size": 256,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 64,
    "mamba_proj_bias": False,
    "model_type": "granitemoehybrid",
    "num_attention_heads": 32,
    "num_experts_per_tok": 0,
    "num_hidden_layers": 40,
    "num_key_value_heads": 8,
    "num_local_experts": 0,
    "shared_intermediate_size": 8192,
    "tie_word_embeddings": True,
    "vocab_size": 100352,
}


def read(config: Mapping[str, Any]) -> Architecture:
    found = parse_model_config(config, "mine")
    assert isinstance(found, Architecture), found
    return found


def test_a_whole_file_of_llama() -> None:
    found = read(LLAMA)
    assert found.name == "mine"
    assert (found.layers, found.hidden, found.heads, found.kv_heads, found.head_dim) == (32, 4096, 32, 8, 128)
    assert not found.tied
    known = MODEL_TABLE.find("llama3.1-8b")
    assert known is not None
    assert found.parameters == known.parameters
    parts = parameter_parts(found)
    assert parts.embedding == 2 * 128256 * 4096
    assert parts.attention == 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
    assert parts.feed_forward == 32 * 3 * 4096 * 14336
    assert parts.norms == 65 * 4096
    assert (parts.state_space, parts.vision) == (0, 0)


def test_a_whole_file_of_a_hybrid() -> None:
    found = read(HYBRID)
    assert found.attention_layers == 4
    assert found.experts == 0
    known = MODEL_TABLE.find("granite-4.0-h-micro")
    assert known is not None
    assert found.parameters == known.parameters


def test_a_multimodal_file_is_its_text_and_its_tower() -> None:
    whole = MODEL_TABLE.find("gemma3-4b")
    assert whole is not None
    text = {**next(row.config for row in MODEL_TABLE.rows if row.name == "gemma3-4b")["text_config"]}
    assert read(text).parameters + whole.vision == whole.parameters
    assert 0.4e9 < whole.vision < 0.45e9


def test_layers_with_experts_are_counted_as_each_family_tells_them() -> None:
    base = {
        **LLAMA,
        "model_type": "qwen3_moe",
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 100,
    }
    routers = {linear.name: linear.count for linear in read(base).linears if linear.name == "gate"}
    assert routers == {"gate": 32}
    for change, count in (
        ({"decoder_sparse_step": 2}, 16),
        ({"mlp_only_layers": [0, 1, 2]}, 29),
        ({"first_k_dense_replace": 3}, 29),
        ({"first_k_dense_replace": 3, "moe_layer_freq": 2}, 14),
        ({"moe_layers": [1, 3]}, 2),
        ({"expert_layer_period": 4, "expert_layer_offset": 1}, 8),
    ):
        found = read({**base, **change})
        assert next(linear.count for linear in found.linears if linear.name == "gate") == count, change


def test_an_unknown_type_with_llamas_keys_is_read_and_says_so() -> None:
    found = read({**LLAMA, "model_type": "novel"})
    assert found.parameters == read(LLAMA).parameters
    assert "'novel', read as a variant of Llama" in found.source
    assert found.approximate
    assert not read(LLAMA).approximate
    assert read({**LLAMA, "model_type": "novel", "cross_attention_hidden_size": None, "is_moe": False}) == found


SMALL = {
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 640,
    "vocab_size": 1000,
}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ({"model_type": "exaone4", "head_dim": 32}, 2_480_064),
        ({"model_type": "ernie4_5", "head_dim": 128}, 3_698_432),
        ({"model_type": "seed_oss", "head_dim": 64}, 2_973_696),
        ({"model_type": "hunyuan_v1_dense", "head_dim": 32}, 2_480_064),
        ({"model_type": "arcee"}, 1_988_352),
        ({"model_type": "nemotron"}, 1_990_144),
        ({"model_type": "olmo3"}, 2_480_832),
        ({"model_type": "glm", "head_dim": 32}, 2_481_024),
        (
            {
                "model_type": "granitemoeshared",
                "num_local_experts": 4,
                "num_experts_per_tok": 2,
                "shared_intermediate_size": 128,
            },
            7_201_536,
        ),
        ({"model_type": "stablelm", "use_qkv_bias": True}, 2_482_816),
        ({"model_type": "ministral", "head_dim": 32}, 2_479_872),
        ({"model_type": "llama", "attention_bias": True, "mlp_bias": True}, 2_486_400),
    ],
    ids=lambda value: value.get("model_type") if isinstance(value, dict) else None,
)
def test_types_without_a_row_count_as_transformers_counts_them(config: dict[str, Any], parameters: int) -> None:
    """Counted by transformers 4.57.6 on torch's meta device."""
    found = read({**SMALL, **config})
    assert found.parameters == parameters
    assert not found.approximate


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": None}, "model_type is missing"),
        ({"model_type": "bert"}, "is not a decoder"),
        ({"is_encoder_decoder": True}, "is not a decoder"),
        ({"model_type": "novel", "n_experts_special": 3}, "n_experts_special shows that it is not a variant of Llama"),
        ({"model_type": "rwkv9"}, "type rwkv9 shows that it is not a variant of Llama"),
        ({"model_type": "novel", "ssm_cfg": {"a": 1}}, "ssm_cfg shows that it is not a variant of Llama"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": 0}, "hidden_size must be between 1 and"),
        ({"hidden_size": -4096}, "hidden_size must be between 1 and"),
        ({"hidden_size": 10**30}, "hidden_size must be between 1 and"),
        ({"hidden_size": "4096"}, "hidden_size must be an integer"),
        ({"hidden_size": True}, "hidden_size must be an integer"),
        ({"hidden_size": 4096.5}, "hidden_size must be an integer"),
        ({"hidden_size": float("nan")}, "hidden_size must be an integer"),
        ({"hidden_size": float("inf")}, "hidden_size must be an integer"),
        ({"hidden_size": [4096]}, None),
        ({"hidden_size": [4096, 1]}, "hidden_size must be an integer"),
        ({"hidden_size": []}, "hidden_size must be an integer"),
        ({"hidden_size": 4096.0}, None),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers must be between 1 and"),
        ({"vocab_size": {}}, "vocab_size must be an integer"),
        ({"num_key_value_heads": 64}, "num_key_value_heads must be between 1 and 32"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings must be true or false"),
        ({"model_type": "mixtral", "num_local_experts": 8}, "num_experts_per_tok"),
        (
            {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3},
            "num_experts_per_tok is 3, but there are only 2 experts",
        ),
        ({"layer_types": ["mamba"]}, "1 layer type for 32 layers"),
        ({"layer_types": ["mamba"] * 32}, "no layer has attention"),
        ({"layer_types": [*["mamba"] * 31, "attention"]}, "mamba_n_heads is missing"),
        ({"moe_layers": [99], "num_experts": 2, "num_experts_per_tok": 1}, "does not exist"),
        ({"kv_lora_rank": 512}, "qk_nope_head_dim is missing"),
        ({"text_config": {"model_type": "llama"}}, "num_hidden_layers"),
        ({"text_config": LLAMA, "vision_config": {"model_type": "eye"}}, "unknown type of vision tower 'eye'"),
        ({"text_config": LLAMA, "vision_config": []}, None),
        ({"vision_config": {"model_type": "qwen2_vl"}}, "embed_dim"),
        ({"audio_config": {"model_type": "ear"}}, "audio_config is not supported"),
        ({"layer_types": ["full_attention", "sliding_attention"] * 16}, None),
        (
            {"layer_types": ["full_attention", "linear_attention"] * 16},
            "unknown layer type 'linear_attention'",
        ),
        ({"layer_types": [["mamba"]] * 32}, "unknown layer type"),
    ],
)
def test_hostile_files_give_a_reason(change: dict[str, Any], reason: str | None) -> None:
    found = parse_model_config({**LLAMA, **change}, "mine")
    if reason is None:
        assert isinstance(found, Architecture)
    else:
        assert isinstance(found, str)
        assert reason in found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
KEYS = sorted(
    {key for row in MODEL_TABLE.rows for key in row.config} | {"text_config", "vision_config", "attn_layer_indices"}
)


@given(st.dictionaries(st.text(max_size=12) | st.sampled_from(KEYS), JSON, max_size=8))
def test_no_file_raises(config: dict[str, Any]) -> None:
    assert isinstance(parse_model_config(config, "mine"), Architecture | str)


@given(st.sampled_from(MODEL_TABLE.rows), st.data())
def test_no_damaged_file_raises(row: Any, data: st.DataObject) -> None:
    config = dict(row.config)
    for key in data.draw(st.lists(st.sampled_from([*config, *KEYS]), min_size=1, max_size=3)):
        config[key] = data.draw(JSON | st.integers(0, 300))
    found = parse_model_config(config, "mine")
    assert isinstance(found, Architecture | str)
    if isinstance(found, Architecture):
        assert 0 < found.active_parameters <= found.parameters
        assert parameter_parts(found).total == found.parameters


@given(st.sampled_from(MODEL_TABLE.rows), st.integers(2, 4))
def test_more_layers_are_more_parameters(row: Any, factor: int) -> None:
    key = next((key for key in ("num_hidden_layers", "n_layer", "n_layers") if key in row.config), None)
    if key is None or "layer_types" in row.config:
        return
    before, after = read(row.config), read({**row.config, key: row.config[key] * factor})
    assert after.parameters > before.parameters
    assert after.embedding == before.embedding


def test_layers_of_gated_delta_networks_are_counted_from_their_types_or_their_interval() -> None:
    """A `config.json` of Qwen3-Next that lists its layers means the same as one with the interval."""
    row = next(row for row in MODEL_TABLE.rows if row.name == "qwen3-next-80b-a3b")
    listed = {key: value for key, value in row.config.items() if key != "full_attention_interval"}
    kinds = ["full_attention" if layer % 4 == 3 else "linear_attention" for layer in range(48)]
    found, same = parse_model_config(row.config, "a"), parse_model_config({**listed, "layer_types": kinds}, "a")
    assert found == same
    assert not isinstance(found, str)
    assert found.attention_layers == 12


@pytest.mark.parametrize(
    ("config", "billions", "active"),
    [
        (
            {"model_type": "minimax_m2", "hidden_size": 3072, "num_attention_heads": 48, "num_key_value_heads": 8}
            | {"head_dim": 128, "intermediate_size": 1536, "num_local_experts": 256, "num_experts_per_tok": 8}
            | {"num_hidden_layers": 62, "vocab_size": 200_064},
            229,
            11,
        ),
        (
            {"model_type": "dots1", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32}
            | {"intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128}
            | {"n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1}
            | {"num_hidden_layers": 62, "vocab_size": 152_064},
            142.8,
            14,
        ),
    ],
)
def test_mixtures_without_a_row_have_the_published_sizes(
    config: dict[str, Any], billions: float, active: float
) -> None:
    found = parse_model_config(config, "published")
    assert isinstance(found, Architecture)
    assert (found.parameters / 1e9, found.active_parameters / 1e9) == pytest.approx((billions, active), rel=0.005)


@pytest.mark.parametrize(("stated", "capped"), [({}, True), ({"final_logit_softcapping": None}, False)])
def test_a_soft_cap_is_that_of_the_family_unless_stated(stated: dict[str, Any], capped: bool) -> None:
    row = next(row for row in MODEL_TABLE.rows if row.name == "gemma2-2b")
    found = parse_model_config({**row.config, **stated}, "a")
    assert not isinstance(found, str)
    assert (found.softcap, found.layer_norms) == (capped, 4)

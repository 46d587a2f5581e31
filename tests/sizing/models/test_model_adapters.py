"""Parameters of low-rank adapters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.sizing.models.lora import UnknownTargetError, adapter_parameters, default_targets
from reconciler.sizing.training import Architecture
from tests.sizing.tables import MODEL_TABLE

SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def model(name: str) -> Architecture:
    found = MODEL_TABLE.find(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "rank", "targets", "parameters"),
    [
        # PEFT's `print_trainable_parameters` for these
        ("llama-7b", 8, ("q_proj", "v_proj"), 4_194_304),
        ("llama-7b", 16, SEVEN, 39_976_960),
        ("llama3.1-8b", 8, ("q_proj", "v_proj"), 3_407_872),
        ("llama3.1-8b", 16, SEVEN, 41_943_040),
        ("mistral-7b-v0.1", 16, SEVEN, 41_943_040),
        ("gpt2", 8, ("c_attn",), 294_912),
        ("bloom-560m", 8, ("query_key_value",), 786_432),
        ("gemma-2b", 8, SEVEN, 9_805_824),
    ],
)
def test_adapters_have_as_many_parameters_as_peft_says(
    name: str, rank: int, targets: tuple[str, ...], parameters: int
) -> None:
    assert adapter_parameters(model(name), rank, targets) == parameters


def test_all_linear_is_every_layer_but_the_head() -> None:
    for name in ("llama3.1-8b", "granite-3.1-8b", "qwen2.5-7b"):
        assert adapter_parameters(model(name), 16, ("all-linear",)) == adapter_parameters(model(name), 16, SEVEN)
    big_code = adapter_parameters(model("granite-20b-code"), 4, ("all-linear",))
    assert big_code == adapter_parameters(model("granite-20b-code"), 4, ("c_attn", "c_proj", "c_fc"))


def test_experts_in_one_tensor_take_no_adapter() -> None:
    oss = model("gpt-oss-20b")
    attention = adapter_parameters(oss, 8, ("q_proj", "k_proj", "v_proj", "o_proj"))
    assert adapter_parameters(oss, 8, ("all-linear",)) < 2 * attention


def test_embeddings_may_be_targets() -> None:
    llama = model("llama3.1-8b")
    assert adapter_parameters(llama, 8, ("lm_head",)) == 8 * (128256 + 4096)


def test_targets_count_once_and_by_their_last_name() -> None:
    llama = model("llama3.1-8b")
    once = adapter_parameters(llama, 8, ("q_proj", "v_proj"))
    assert adapter_parameters(llama, 8, ("q_proj", "self_attn.q_proj", "v_proj", "v_proj")) == once


def test_an_unknown_target_is_named() -> None:
    with pytest.raises(UnknownTargetError, match="'c_attn' is not a layer; allowed values: down_proj, gate_proj"):
        adapter_parameters(model("llama3.1-8b"), 8, ("q_proj", "c_attn"))
    with pytest.raises(KeyError):
        adapter_parameters(model("llama3.1-8b"), 8, ("",))


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("llama3.1-8b", ("q_proj", "v_proj")),
        ("granite-4.0-h-tiny", ("q_proj", "v_proj")),
        ("phi-3-mini", ("qkv_proj",)),
        ("gpt2", ("c_attn",)),
        ("falcon-7b", ("query_key_value",)),
        ("pythia-1b", ("query_key_value",)),
        ("mpt-7b", ("Wqkv",)),
        ("phi-2", ("q_proj", "v_proj", "fc1", "fc2")),
        ("opt-1.3b", ("q_proj", "v_proj")),
        ("deepseek-v3", ()),
    ],
)
def test_default_targets(name: str, targets: tuple[str, ...]) -> None:
    assert default_targets(model(name)) == targets


@given(st.sampled_from(tuple(MODEL_TABLE)), st.integers(1, 256))
def test_adapters_grow_with_their_rank(found: Architecture, rank: int) -> None:
    targets = default_targets(found) or ("o_proj",)
    assert adapter_parameters(found, rank, targets) == rank * adapter_parameters(found, 1, targets)
    assert adapter_parameters(found, rank, targets) <= adapter_parameters(found, rank, ("all-linear",))

"""The table against models that Hugging Face transformers built from it (recorded by `tools/record_models.py`)."""

import json
from collections import Counter
from pathlib import Path

import pytest

from reconciler.sizing.models.lora import adapter_parameters
from reconciler.sizing.training import Architecture
from tests.sizing.tables import MODEL_TABLE

RECORD = json.loads(Path(__file__).with_name("counted.json").read_text(encoding="utf-8"))["models"]
BY_HAND = {
    # Llama: embedding and head, attention, gate, up and down, two norms of each layer and one at the end.
    "open-llama-3b": 2 * 32000 * 3200 + 26 * (4 * 3200**2 + 3 * 3200 * 8640 + 2 * 3200) + 3200,
    "orca-2-7b": 6_738_415_616 + 2 * 3 * 4096,  # Llama 2 with three tokens more
    # Qwen2-VL: the totals of the published weights (model.safetensors.index.json: half of their bytes).
    "qwen2-vl-2b": 2_208_985_600,
    "qwen2-vl-7b": 8_291_375_616,
    "qwen2-vl-72b": 73_405_560_320,
    # GPT-NeoX: biases, and LayerNorms with a bias; attention has 4 h^2, the feed-forward block 8 h^2.
    "redpajama-incite-3b-v1": 2 * 50432 * 2560 + 32 * (12 * 2560**2 + (3 + 1 + 4 + 1 + 4) * 2560) + 2 * 2560,
    # GPT-2: tied embedding, and positions.
    "cerebras-gpt-1.3b": (50257 + 2048) * 2048 + 24 * (12 * 2048**2 + (3 + 1 + 4 + 1 + 4) * 2048) + 2 * 2048,
}
"""Parameters of models that were added after the recording, by the layers that their papers describe."""
BARE = {"project_in", "project_out"}
"""Of OPT-350M: between its narrow embeddings and its layers; counted with the embeddings."""


def model(name: str) -> Architecture:
    found = MODEL_TABLE.find(name)
    assert found is not None
    return found


def test_the_recording_is_of_this_table() -> None:
    assert {*RECORD, *BY_HAND} <= {row.name for row in MODEL_TABLE.rows}


@pytest.mark.parametrize("name", BY_HAND)
def test_parameters_by_hand(name: str) -> None:
    assert model(name).parameters == BY_HAND[name]


@pytest.mark.parametrize("name", RECORD)
def test_parameters_are_those_of_the_real_model(name: str) -> None:
    """Every parameter, without tolerance."""
    assert model(name).parameters == RECORD[name][0]


@pytest.mark.parametrize("name", RECORD)
def test_linear_layers_are_those_of_the_real_model(name: str) -> None:
    sizes: Counter[str] = Counter()
    for linear in model(name).linears:
        if not linear.fused:
            sizes[linear.name] += (linear.inputs + linear.outputs) * linear.count
    assert sizes == {layer: size for layer, size in RECORD[name][1].items() if layer not in BARE}
    assert adapter_parameters(model(name), 4, ("all-linear",)) == 4 * sizes.total()

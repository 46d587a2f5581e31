"""Decisions by physics over all models and cards that ado-autoconf knows: nothing impossible, nothing contrary."""

from collections.abc import Iterator

import pytest

from reconciler.sizing.decide import decide
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.question import Question
from reconciler.sizing.training import Architecture, Method, Training
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE

CARDS = tuple(gpu for gpu in tuple(GPU_TABLE) if gpu.autoconf)
MODELS = tuple({one.autoconf: one for one in tuple(MODEL_TABLE) if one.autoconf}.values())
LENGTHS = (512, 1024, 2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
NONE = 10**6

Key = tuple[Method, int, int]


def answers(architecture: Architecture, gpu: Gpu) -> Iterator[tuple[Key, int]]:
    """Answer all questions about a model and a card; the sharpest claim is checked on the way."""
    for method in (Method.FULL, Method.LORA):
        for length in LENGTHS:
            training = Training(model=architecture.name, architecture=architecture, method=method, sequence=length)
            for batch in BATCHES:
                decision = decide(Question(training=training, gpu=gpu, batch=batch, max_gpus=32))
                found = decision.chosen
                assert found is None or (found.estimate and found.estimate.floor_gib <= gpu.memory_gib)
                yield (method, length, batch), NONE if found is None else found.layout.gpus


def test_the_grid_is_that_of_ado_autoconf() -> None:
    assert (len(MODELS), len(CARDS)) == (30, 4)


@pytest.mark.parametrize("gpu", CARDS, ids=lambda gpu: gpu.product)
def test_no_recommendation_is_impossible_or_contrary(gpu: Gpu) -> None:
    """More tokens, larger batches and all weights instead of adapters never need fewer GPUs."""
    for architecture in MODELS:
        found = dict(answers(architecture, gpu))
        for (method, length, batch), gpus in found.items():
            where = (architecture.name, method, length, batch)
            assert found.get((method, length * 2, batch), NONE) >= gpus, where
            assert found.get((method, length, batch * 2), NONE) >= gpus or gpus == NONE, where
            assert found[Method.FULL, length, batch] >= found[Method.LORA, length, batch], where


def test_the_answer_that_ado_autoconf_gets_wrong() -> None:
    """It recommends 8 A100 for LoRA on 405 billion parameters: 101 GB of weights for each 80 GB."""
    architecture, gpu = MODEL_TABLE.find("meta-llama/Llama-3.1-405B"), GPU_TABLE.find("NVIDIA-A100-SXM4-80GB")
    assert architecture is not None
    assert gpu is not None
    training = Training(model="", architecture=architecture, method=Method.LORA, sequence=2048)
    decision = decide(Question(training=training, gpu=gpu, batch=8, max_gpus=8))
    assert (decision.chosen, decision.reason) == (None, "veto")
    assert "the closest, 8 GPUs, needs 94.5 of 80.0 GiB for weights alone" in decision.text

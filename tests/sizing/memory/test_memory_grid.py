"""The grid on which ado-autoconf was audited: 30 models, 2 methods, 4 cards, 5 lengths, 8 batches, 1 to 32 GPUs."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest

from reconciler.sizing.decision import Estimate
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import estimate, fits
from reconciler.sizing.training import Architecture, Layout, Method, Precision, Strategy, Training
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE

CARDS = ("L40S", "NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-PCIe")
METHODS = (Method.FULL, Method.LORA)
SEQUENCES = (512, 1024, 2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
GPUS = (1, 2, 4, 8, 16, 32)
SAFETY = 0.08

Cell = tuple[str, str, Method, int, int, int]  # model, card, method, sequence, batch of all GPUs, GPUs


def models() -> tuple[Architecture, ...]:
    return tuple({model.autoconf: model for model in tuple(MODEL_TABLE) if model.autoconf}.values())


def card(name: str) -> Gpu:
    found = GPU_TABLE.find(name)
    assert found is not None
    return found


def answer(model: Architecture, gpu: Gpu, method: Method, sequence: int, *, batch: int, gpus: int) -> Estimate:
    layout = Layout(gpus=gpus, workers=-(-gpus // 8), batch=batch // gpus, accumulation=4)
    return estimate(_training(model, method, sequence), layout, gpu)


@cache
def _training(model: Architecture, method: Method, sequence: int) -> Training:
    return Training(
        model=model.name,
        architecture=model,
        method=method,
        sequence=sequence,
        precision=Precision.BF16,
        strategy=Strategy.FSDP_HYBRID,
        framework="fms-hf-tuning 2.4.0",
    )


def cells() -> Iterator[tuple[Cell, Estimate, Gpu]]:
    for gpu in map(card, CARDS):
        for model in models():
            for method in METHODS:
                for sequence in SEQUENCES:
                    for batch in BATCHES:
                        for gpus in GPUS:
                            if batch % gpus == 0:
                                cell = (model.name, gpu.product, method, sequence, batch, gpus)
                                yield cell, answer(model, gpu, method, sequence, batch=batch, gpus=gpus), gpu


@pytest.fixture(scope="module")
def verdicts() -> dict[Cell, bool]:
    return {cell: fits(found, gpu, SAFETY) for cell, found, gpu in cells()}


def test_the_grid_is_autoconfs(verdicts: dict[Cell, bool]) -> None:
    """The 39,600 cells on which ado-autoconf 1.5.0 recommends the impossible 197 times, and 1.9.7 399 times."""
    assert len(models()) == 30
    assert len(verdicts) == 39_600
    assert 0.3 < sum(verdicts.values()) / len(verdicts) < 0.9


def test_nothing_fits_whose_weights_alone_exceed_the_card() -> None:
    """F-006: 0 impossible recommendations."""
    assert [cell for cell, found, gpu in cells() if found.floor_gib > gpu.memory_gib and fits(found, gpu, 0.0)] == []


def _turned(verdicts: dict[Cell, bool], place: int, values: tuple[object, ...]) -> list[Cell]:
    """Return the cells that fit although the same with the value before, which asks for less, does not."""
    turned = []
    for cell, good in verdicts.items():
        following = values[values.index(cell[place]) + 1 :]
        for value in following[:1]:
            harder = (*cell[:place], value, *cell[place + 1 :])
            if harder in verdicts and verdicts[harder] and not good:
                turned.append(cell)
    return turned


def test_longer_samples_larger_batches_and_full_training_never_begin_to_fit(verdicts: dict[Cell, bool]) -> None:
    """F-006: 0 series that are not monotone in tokens, batch, method."""
    assert _turned(verdicts, 3, SEQUENCES) == []
    assert _turned(verdicts, 4, BATCHES) == []
    assert _turned(verdicts, 2, (Method.LORA, Method.FULL)) == []


def test_more_gpus_for_the_same_batch_never_cease_to_fit(verdicts: dict[Cell, bool]) -> None:
    """F-006: 0 series that are not monotone in GPUs (ado-autoconf: 41 to 198 of 8,400)."""
    assert _turned(verdicts, 5, tuple(reversed(GPUS))) == []


def test_more_gpus_for_the_same_batch_of_each_never_cease_to_fit() -> None:
    """F-007: the same where every GPU keeps its own batch."""
    turned = []
    for gpu in map(card, CARDS):
        for model in models():
            for method in METHODS:
                for batch in (1, 8, 64):
                    series = [
                        fits(answer(model, gpu, method, 2048, batch=batch * gpus, gpus=gpus), gpu, SAFETY)
                        for gpus in GPUS
                    ]
                    turned += [(model.name, gpu.product, method, batch) for few, many in pairwise(series) if few > many]
    assert turned == []

"""The real ado-autoconf, where an interpreter that has it is named by ADO_AUTOCONF_PYTHON (several by `:`)."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import PredictorError
from reconciler.sizing.engine_registry import Outcome
from reconciler.sizing.engines.installed import InstalledPredictor
from reconciler.sizing.engines.wrapper import WrapperPredictor
from reconciler.sizing.question import EngineQuestion
from tests.sizing.predictors.asking import asked

PYTHONS = [python for python in os.environ.get("ADO_AUTOCONF_PYTHON", "").split(os.pathsep) if python]
pytestmark = pytest.mark.skipif(not PYTHONS, reason="ADO_AUTOCONF_PYTHON names no interpreter with ado-autoconf")


def ask(**changes: Any) -> EngineQuestion:
    known = {"model": "llama-7b", "gpu_model": "NVIDIA-A100-SXM4-80GB", "tokens_per_sample": 2048}
    return asked(**{**known, **changes})


def candidates(question: EngineQuestion) -> tuple[tuple[int, int], ...]:
    """List the powers of two that divide the batch, with the batch: what the library tries for the fewest GPUs."""
    powers = [1 << exponent for exponent in range(question.max_gpus.bit_length())]
    return tuple((gpus, question.batch_size) for gpus in powers if question.batch_size % gpus == 0)


@pytest.fixture(scope="module", params=PYTHONS)
def real(request: pytest.FixtureRequest) -> Iterator[InstalledPredictor]:
    with InstalledPredictor(request.param, call_seconds=60, start_seconds=120) as found:
        yield found


@pytest.fixture
def release(real: InstalledPredictor) -> str:
    return dict(real.predict(ask()).versions)["ado-autoconf"]


# GPUs that releases 1.5.0 and 1.9.7 recommend for model 3.1.0 (0: no recommendation), as measured once.
GOLDEN: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({}, {"1.5.0": 1, "1.9.7": 2}),
    ({"method": "lora"}, {"1.5.0": 1, "1.9.7": 2}),
    ({"model": "granite-3.1-8b-instruct"}, {"1.5.0": 1, "1.9.7": 1}),
    ({"model": "granite-3.1-8b-instruct", "method": "lora"}, {"1.5.0": 1, "1.9.7": 1}),
    ({"model": "mistral-7b-v0.1"}, {"1.5.0": 2, "1.9.7": 2}),
    ({"model": "mistral-7b-v0.1", "method": "lora"}, {"1.5.0": 1, "1.9.7": 1}),
    ({"model": "llama3-70b"}, {"1.5.0": 8, "1.9.7": 4}),
    ({"model": "llama3-70b", "method": "lora"}, {"1.5.0": 4, "1.9.7": 4}),
    ({"model": "mixtral-8x7b-instruct-v0.1"}, {"1.5.0": 0, "1.9.7": 0}),
    ({"model": "mixtral-8x7b-instruct-v0.1", "method": "lora"}, {"1.5.0": 2, "1.9.7": 2}),
    ({"model": "llama3.1-405b"}, {"1.5.0": 0, "1.9.7": 4}),
    ({"model": "llama3.1-405b", "method": "lora"}, {"1.5.0": 8, "1.9.7": 0}),
    ({"gpu_model": "L40S"}, {"1.5.0": 2, "1.9.7": 1}),
    ({"gpu_model": "L40S", "method": "lora"}, {"1.5.0": 1, "1.9.7": 1}),
    ({"gpu_model": "NVIDIA-A100-80GB-PCIe"}, {"1.5.0": 1, "1.9.7": 1}),
    ({"gpu_model": "NVIDIA-A100-80GB-PCIe", "method": "lora"}, {"1.5.0": 2, "1.9.7": 2}),
    ({"gpu_model": "NVIDIA-H100-PCIe"}, {"1.5.0": 1, "1.9.7": 1}),
    ({"batch_size": 16}, {"1.5.0": 2, "1.9.7": 2}),
    ({"batch_size": 32}, {"1.5.0": 4, "1.9.7": 4}),
    ({"batch_size": 64}, {"1.5.0": 8, "1.9.7": 4}),
    ({"batch_size": 128}, {"1.5.0": 8, "1.9.7": 8}),
    ({"batch_size": 256}, {"1.5.0": 0, "1.9.7": 0}),
    ({"tokens_per_sample": 16_384}, {"1.5.0": 4, "1.9.7": 4}),
    ({"tokens_per_sample": 10_000_000}, {"1.5.0": 4, "1.9.7": 4}),
]


def test_golden_answers(real: InstalledPredictor, release: str) -> None:
    """F-006: what the library itself is known to answer."""
    said = {str(changes): real.predict(ask(**changes)).gpus for changes, _ in GOLDEN}
    expected = {str(changes): gpus[release] for changes, gpus in GOLDEN if release in gpus}
    assert expected
    assert {key: said[key] for key in expected} == expected


@pytest.mark.parametrize(
    "change",
    [
        {"model": "mistral-7b"},
        {"model": "meta-llama/Llama-3.1-8B"},
        {"model": "granite-3.3-8b-instruct"},
        {"gpu_model": "NVIDIA-H100-80GB-HBM3"},
        {"gpu_model": "NVIDIA-L40S"},
        {"method": "qlora"},
        {"method": "LoRA"},
        {"batch_size": 0},
        {"batch_size": -1},
        {"batch_size": 10**8},
        {"model_version": "2.0.0"},
        {"model_version": "4.0.0"},
    ],
)
def test_its_domain_is_kept(real: InstalledPredictor, change: dict[str, Any]) -> None:
    said = real.predict(ask(**change), ((1, 8),))
    assert (said.outcome, said.chances) == (Outcome.REFUSAL, ())


def test_the_first_likely_layout_is_the_recommendation(real: InstalledPredictor) -> None:
    """What it recommends is what its chances say: so the chances are those it looks at itself."""
    for batch in (1, 6, 8, 48, 64, 128):
        for model in ("llama-7b", "granite-4.0-micro", "llama3-70b"):
            question = ask(model=model, batch_size=batch)
            said = real.predict(question, candidates(question))
            likely = [gpus for gpus, _, chance in said.chances if chance >= 0.5]
            assert said.gpus * said.workers == (likely[0] if likely else 0)


def test_threads_get_the_answers_to_their_own_questions(real: InstalledPredictor) -> None:
    """Release 1.5.0 hangs where two threads call it at once; here they take turns."""
    questions = [ask(batch_size=batch, method=method) for batch in (1, 8, 64) for method in ("full", "lora")] * 4
    alone = [real.predict(question, candidates(question)) for question in questions]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda question: real.predict(question, candidates(question)), questions)) == alone


@pytest.mark.parametrize("python", PYTHONS)
def test_the_script_of_the_autoconf_controller_says_the_same(python: str, tmp_path: Path) -> None:
    """F-009: a script written to its protocol, run by the interpreter that has the library."""
    script = tmp_path / "wrapper.py"
    script.write_text(
        "import json, sys\n"
        "from autoconf.min_gpu_recommender import min_gpu_recommender\n"
        "out, model, method, gpu, tokens, batch, version = sys.argv[1:]\n"
        "said = min_gpu_recommender(model_name=model, method=method, gpu_model=gpu, tokens_per_sample=int(tokens),\n"
        "                           batch_size=int(batch), model_version=version)\n"
        "json.dump({'workers': said.get('workers'), 'gpus': said.get('gpus'), 'error': ''}, open(out, 'w'))\n"
    )
    assert shutil.which(python)
    with InstalledPredictor(python) as real, WrapperPredictor(script, python=python) as found:
        for question in (ask(), ask(batch_size=256)):
            said, expected = found.predict(question), real.predict(question)
            assert (said.outcome, said.gpus, said.workers) == (expected.outcome, expected.gpus, expected.workers)
        with pytest.raises(PredictorError, match="exited with code 1: ValueError"):
            found.predict(ask(model="671b"))

"""Questions, and engines that answer as a test wants them to."""

from typing import Any

from reconciler.sizing.answers import Answer, Answers, Chance, Recommendation, chances_answer
from reconciler.sizing.decide import Estimator, Speed, engine_layouts
from reconciler.sizing.decision import Confidence, Estimate, Part
from reconciler.sizing.engine_registry import AUTOCONF, REST, WRAPPER, Outcome
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.question import Question, engine_question
from reconciler.sizing.throughput.cost import Throughput
from reconciler.sizing.training import Architecture, Layout, Method, Training

A100 = Gpu(product="NVIDIA-A100-SXM4-80GB", memory_gib=80.0, price=1.0, autoconf="NVIDIA-A100-SXM4-80GB")
L40S = Gpu(product="NVIDIA-L40S", memory_gib=45.0, price=0.5, autoconf="L40S")
H200 = Gpu(product="NVIDIA-H200", memory_gib=140.0, price=2.5)

LLAMA = Architecture(
    name="llama-7b",
    layers=32,
    hidden=4096,
    intermediate=11008,
    heads=32,
    kv_heads=32,
    head_dim=128,
    vocabulary=32000,
    tied=False,
    parameters=6_738_415_616,
    active_parameters=6_738_415_616,
    autoconf="llama-7b",
)
WHEN = "2026-01-31T12:00:00Z"


def training(**changes: Any) -> Training:
    return Training(
        **{"model": "huggyllama/llama-7b", "architecture": LLAMA, "method": Method.FULL, "sequence": 2048, **changes}
    )


def question(**changes: Any) -> Question:
    return Question(**{"training": training(), "gpu": A100, "batch": 8, **changes})


def estimate(need: float, *, floor: float = 10.0, unpaged: float | None = None) -> Estimate:
    return Estimate(
        peak_gib=need,
        low_gib=need * 0.95,
        high_gib=need * 1.05,
        floor_gib=floor,
        need_gib=need,
        confidence=Confidence.HIGH,
        parts=(Part(name="weights", gib=need * 0.25), Part(name="optimizer", gib=need * 0.75)),
        unpaged_gib=unpaged,
    )


def fits_from(gpus: int) -> Estimator:
    """Make an engine whose runs fit from so many GPUs on: half the card there, twice the card before."""

    def estimator(_: Training, layout: Layout, gpu: Gpu) -> Estimate:
        return estimate(gpu.memory_gib * (0.5 if layout.gpus >= gpus else 2))

    return estimator


def needing(gib: dict[int, float], *, floor: float = 10.0) -> Estimator:
    """Make an engine that knows the need by number of GPUs."""

    def estimator(_: Training, layout: Layout, __: Gpu) -> Estimate:
        return estimate(gib[layout.gpus], floor=floor)

    return estimator


def speed_of(tokens: float, error: float = 0.1) -> Throughput:
    """Make a speed, give or take a tenth."""
    return Throughput(tokens_per_s=tokens, low=tokens * (1 - error), high=tokens * (1 + error))


def steady(_: Training, layout: Layout, __: Gpu) -> Throughput:
    """Predict a thousand tokens a second a GPU."""
    return speed_of(1000.0 * layout.gpus)


def peaking_at(gpus: int, batch: int) -> Speed:
    """Make a speed with one summit."""

    def speed(_: Training, layout: Layout, __: Gpu) -> Throughput:
        return speed_of(9000.0 if (layout.gpus, layout.batch) == (gpus, batch) else 1000.0)

    return speed


def chances(asking: Question, by_gpus: dict[int, float], default: float = 0.0) -> Answers:
    """Record what ado-autoconf gives each layout it is asked about."""
    found = [
        Chance(gpus=one.gpus, batch_size=one.gpus * one.batch, probability=by_gpus.get(one.gpus, default))
        for one in engine_layouts(asking)
    ]
    answer = chances_answer(
        AUTOCONF, engine_question(asking), found, answered_at=WHEN, versions={"ado-autoconf": "1.9.7"}
    )
    return Answers(engine=AUTOCONF).with_answers([answer])


def wrapper_says(asking: Question, *, gpus: int = 0, workers: int = 0, refusal: str = "", error: str = "") -> Answers:
    """Record what a wrapper script recommends, or why it does not."""
    outcome = Outcome.REFUSAL if refusal else Outcome.ERROR if error else Outcome.RECOMMENDATION
    answer = Answer(
        engine=WRAPPER,
        question=engine_question(asking),
        outcome=outcome,
        answered_at=WHEN,
        versions=(("wrapper.py", "1.5.0"),),
        recommendation=Recommendation(gpus=gpus, workers=workers) if gpus else None,
        refusal=refusal,
        error=error,
    )
    return Answers(engine=WRAPPER).with_answers([answer])


def waiting(asking: Question) -> Answers:
    answer = Answer(
        engine=REST,
        question=engine_question(asking),
        outcome=Outcome.PENDING,
        request_id="f6db88",
        submitted_at=WHEN,
    )
    return Answers(engine=REST).with_answers([answer])

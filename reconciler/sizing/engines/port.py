"""The port to external sizing engines; the modules beside this one implement it."""

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from msgspec import Struct

from reconciler.sizing.engine_registry import Engine, Outcome
from reconciler.sizing.question import EngineQuestion


class Prediction(Struct, frozen=True, kw_only=True):
    """The reply of an external sizing engine to one question. `gpus` are those of one worker, as ado-autoconf counts.

    A REFUSAL with `chances` means that no number of GPUs is enough; one without, that the engine does not know the
    model, the GPU or the method. `request` finds the answer to a PENDING question later. `chances` are (total GPUs,
    samples per step over all of them, probability that the run fits). `text` is the engine's own reason, one line.
    `versions` name everything that the reply depends on.
    """

    engine: Engine
    outcome: Outcome
    gpus: int = 0
    workers: int = 0
    chances: tuple[tuple[int, int, float], ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    text: str = ""
    request: str = ""

    def __post_init__(self) -> None:
        """Reject a recommendation without GPUs, and GPUs without a recommendation."""
        if (self.outcome is Outcome.RECOMMENDATION) != (self.gpus > 0 and self.workers > 0):
            raise ValueError(f"{self.outcome}: {self.gpus} GPUs, {self.workers} workers")


class Predictor(Protocol):
    """An external sizing engine. Every method may raise `PredictorError`; none exceeds its deadline."""

    @property
    def engine(self) -> Engine:
        """The row of the engine in the registry."""
        ...

    def predict(self, question: EngineQuestion, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:
        """Answer one question; engines that predict chances do so for `layouts`: (total GPUs, samples per step)."""
        ...

    def close(self) -> None:
        """End everything that was started, if anything outlives a question. May be called twice."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@runtime_checkable
class DeferredPredictor(Predictor, Protocol):
    """An engine that accepts a question now and answers it later, perhaps in another run."""

    def submit(self, question: EngineQuestion) -> str:
        """Submit a question once and return the id of the request."""
        ...

    def resume(self, question: EngineQuestion, request: str) -> Prediction:
        """Return the answer of an earlier request; `Outcome.PENDING` if there is none yet."""
        ...

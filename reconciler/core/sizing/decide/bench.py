"""Where the layouts of one question are weighed: every estimate is made once."""

from collections.abc import Callable

from msgspec.structs import replace

from reconciler.core.sizing.decide.hearing import Voice
from reconciler.core.sizing.decide.layouts import Spread
from reconciler.core.sizing.decide.weigh import LIKELY, candidate
from reconciler.core.sizing.decision import Candidate, Reason
from reconciler.core.sizing.estimate import Estimate
from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.question import Question
from reconciler.core.sizing.training import Layout, Training

Estimator = Callable[[Training, Layout, Gpu], Estimate]
"""Predicts the peak of one GPU."""

Speed = Callable[[Training, Layout, Gpu], tuple[float, float] | None]
"""Predicts tokens a second of all GPUs together, and the relative error of that; None where nothing is known."""


class Bench:
    """Weighs layouts in order, fewest GPUs and largest batches first, so that no later one is judged more harshly.

    ado-autoconf sometimes expects more GPUs to fail where fewer do not. More GPUs and smaller batches never need more
    memory each, so a later layout has at least the chance of those before it that it can only ease; and where physics
    alone has accepted one of those, a bad chance of the later does not count.
    """

    def __init__(self, question: Question, estimator: Estimator, speed: Speed | None, voice: Voice) -> None:
        self.question = question
        self._estimator, self._speed, self._voice = estimator, speed, voice
        self._estimates: dict[Layout, Estimate] = {}
        self._eased: list[tuple[Layout, float]] = []
        self._unheard: list[Layout] = []  # accepted by physics alone

    def weigh(self, layout: Layout) -> Candidate:
        """Weigh one layout, and predict its speed if it fits."""
        chance, said = self._heard(layout)
        found = candidate(self.question, layout, self.estimate(layout), chance, said)
        if chance is not None and found.reason != Reason.VETO:
            self._eased.append((layout, chance))
        if chance is None and found.fits and self._voice.chances:
            self._unheard.append(layout)
        if self._voice.recommendation is not None:
            found = replace(found, probability=None)
        if not found.fits or self._speed is None:
            return found
        predicted = self._speed(self.question.training, layout, self.question.gpu)
        return found if predicted is None else replace(found, tokens_per_s=predicted[0], speed_error=predicted[1])

    def alone(self) -> "Bench":
        """Return a bench for the same question where physics alone is heard; estimates are shared."""
        bench = Bench(self.question, self._estimator, self._speed, Voice())
        bench._estimates = self._estimates
        return bench

    def refuse(self, spread: Spread, reason: Reason = Reason.INDIVISIBLE) -> Candidate:
        """Return the candidate of a number of GPUs that was never put to an engine."""
        question = self.question
        layout = Layout(
            gpus=spread.gpus, workers=spread.workers, batch=question.batch, accumulation=question.accumulation
        )
        return Candidate(layout=layout, gpu=question.gpu, fits=False, reason=reason, text=spread.obstacle)

    def estimate(self, layout: Layout) -> Estimate:
        """Return the estimate of a layout, made once."""
        known = self._estimates.get(layout)
        if known is None:
            known = self._estimates[layout] = self._estimator(self.question.training, layout, self.question.gpu)
        return known

    def _heard(self, layout: Layout) -> tuple[float | None, str]:
        """Return the other engine's chance for a layout and its words; a recommendation is as good as certain."""
        if self._voice.recommendation is not None:
            return 1.0, f"{self._voice.called} recommends it"
        if not self._voice.chances:
            return None, ""
        own = self._voice.chances.get((layout.gpus, layout.gpus * layout.batch))
        before = [chance for one, chance in self._eased if _eases(one, layout)]
        chance = max([*before, *([] if own is None else [own])], default=None)
        if chance is None or (chance < LIKELY and any(_eases(one, layout) for one in self._unheard)):
            return None, ""
        return chance, f"{self._voice.called} gives it a chance of {chance:.0%}"


def _eases(one: Layout, other: Layout) -> bool:
    """Whether the other layout can only need less of each GPU than the first."""
    return one.gpus <= other.gpus and one.batch >= other.batch

"""A decision: what was chosen, every candidate that was weighed, and why."""

from msgspec import Struct

from reconciler.core.sizing.estimate import Confidence, Estimate
from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.question import Goal
from reconciler.core.sizing.training import Layout


class Candidate(Struct, frozen=True, kw_only=True):
    """One layout, weighed.

    `reason` is stable (`ok`, `does-not-fit`, `indivisible`, `paged`, `disagree`, `veto` ...); `text` is the sentence
    with its figures. `estimate` is None where no engine was asked (an indivisible batch).

    `probability` is what another engine gives that it runs; `tokens_per_s` the predicted speed of all GPUs together.
    """

    layout: Layout
    gpu: Gpu
    fits: bool
    reason: str
    text: str
    estimate: Estimate | None = None
    probability: float | None = None
    tokens_per_s: float | None = None


class Decision(Struct, frozen=True, kw_only=True):
    """The answer to one question. `chosen` None: no recommendation, for `reason`; the job is left as it is.

    `engines` are (name, version) of all that were heard. `others` holds the best layouts on other cards, cheapest
    first, where several were offered.
    """

    goal: Goal
    chosen: Candidate | None
    reason: str
    text: str
    confidence: Confidence
    candidates: tuple[Candidate, ...]
    engines: tuple[tuple[str, str], ...]
    others: tuple[Candidate, ...] = ()

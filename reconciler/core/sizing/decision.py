"""A decision: what was chosen, every candidate that was weighed, and why."""

from enum import StrEnum

from msgspec import Struct

from reconciler.core.sizing.estimate import Confidence, Estimate
from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.question import Goal
from reconciler.core.sizing.training import Layout


class Reason(StrEnum):
    """Why a candidate was taken or passed over; stable."""

    OK = "ok"
    VETO = "veto"  # what cannot be avoided (weights, gradients) exceeds the card: no engine may say otherwise
    DOES_NOT_FIT = "does-not-fit"
    BAND = "band"  # so close to the limit that physics alone does not tell
    PAGED = "paged"  # fits only by paging the optimizer to the host
    DISAGREE = "disagree"  # fits by physics, but another engine expects it to fail
    UNMEASURED = "unmeasured"  # samples far longer than any that was measured, and little headroom
    INDIVISIBLE = "indivisible"  # the effective batch cannot be spread over so many GPUs
    OVER_LIMIT = "over-limit"  # more GPUs than may be given
    PENDING = "pending"  # an engine has not answered yet
    REFUSED = "refused"  # an engine gives no recommendation
    ENGINE_ERROR = "engine-error"  # an engine failed
    UNKNOWN_SPEED = "unknown-speed"  # the fastest is sought, and how fast the card is nobody knows
    INVALID = "invalid-input"  # numbers that no run can have


class Candidate(Struct, frozen=True, kw_only=True):
    """One layout, weighed. `text` is the reason as a sentence with its figures.

    `estimate` is None where no engine was asked (an indivisible batch). `probability` is what another engine gives
    that it runs; `tokens_per_s` the predicted speed of all GPUs together, `speed_error` how far off
    that may be, as a share of it.
    """

    layout: Layout
    gpu: Gpu
    fits: bool
    reason: str  # a `Reason`
    text: str
    confidence: Confidence = Confidence.MEDIUM
    estimate: Estimate | None = None
    probability: float | None = None
    tokens_per_s: float | None = None
    speed_error: float | None = None

    @property
    def cost(self) -> float:
        """Relative cost of an hour."""
        return self.gpu.price * self.layout.gpus


class Decision(Struct, frozen=True, kw_only=True):
    """The answer to one question. `chosen` None: no recommendation, for `reason`; the job is left as it is.

    `candidates` are in the order in which they were weighed. `engines` are (name, version) of all that were heard.
    `others` holds the best layouts on other cards, cheapest first, where several were offered.
    """

    goal: Goal
    chosen: Candidate | None
    reason: str  # a `Reason`
    text: str
    confidence: Confidence
    candidates: tuple[Candidate, ...]
    engines: tuple[tuple[str, str], ...]
    others: tuple[Candidate, ...] = ()

    @property
    def is_pending(self) -> bool:
        """Whether an engine still owes its answer: it has not given one yet, or it failed, which is no refusal."""
        return self.reason in {Reason.PENDING, Reason.ENGINE_ERROR}

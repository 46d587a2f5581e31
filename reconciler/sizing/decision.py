"""A decision: the chosen layout, every candidate with its estimated memory, and the reasons."""

from enum import StrEnum

from msgspec import Struct

from reconciler.sizing.gpus import Gpu
from reconciler.sizing.question import Goal
from reconciler.sizing.throughput.cost import Cost, Throughput, layout_cost
from reconciler.sizing.training import Layout


class Confidence(StrEnum):
    """The reliability of a prediction. `high`: similar runs were measured, or the engines agree."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Part(Struct, frozen=True, kw_only=True):
    """A part of the peak: `weights`, `gradients`, `optimizer`, `transients`, `activations`, `logits`, `overhead`.

    Reinforcement learning also has `models` beside the policy, and a `rollout`.
    """

    name: str
    gib: float


class Estimate(Struct, frozen=True, kw_only=True):
    """Peak memory of the fullest GPU, in GiB as NVML reports it. `low_gib` to `high_gib` contain nine runs out of ten.

    `parts` sum to `peak_gib`. `floor_gib` (weights, and gradients of what is trained) cannot be avoided. `need_gib` is
    what is alive at the worst moment: the peak without blocks that the allocator caches and returns when the GPU is
    full; the run succeeds if it fits. `unpaged_gib` is set if `peak_gib` relies on paging the optimizer to the host; it
    is the memory that a run at full speed needs. `host_gib` is the memory of one node that offloaded states take.
    """

    peak_gib: float
    low_gib: float
    high_gib: float
    floor_gib: float
    need_gib: float
    confidence: Confidence
    parts: tuple[Part, ...]
    unpaged_gib: float | None = None
    host_gib: float = 0.0


class DecisionReason(StrEnum):
    """The reason for which a candidate was accepted or rejected. The values are stable."""

    OK = "ok"
    VETO = "veto"  # weights and gradients alone exceed the GPU's memory
    DOES_NOT_FIT = "does-not-fit"
    BAND = "band"  # too close to the limit for the memory model to decide
    HOST_MEMORY = "host-memory"  # what is offloaded exceeds the memory of a node
    PAGED = "paged"  # fits only by paging the optimizer to the host
    DISAGREE = "disagree"  # fits by the memory model, but an external engine expects it to fail
    UNMEASURED = "unmeasured"  # samples much longer than any that were measured, and little free memory
    INDIVISIBLE = "indivisible"  # the effective batch does not divide among the GPUs
    OVER_LIMIT = "over-limit"  # more GPUs than allowed
    PENDING = "pending"  # an engine has not answered yet
    REFUSED = "refused"  # an engine gives no recommendation
    ENGINE_ERROR = "engine-error"  # an engine failed
    ONE_NODE = "one-node"  # needs several nodes, whose pods could not find each other
    UNKNOWN_SPEED = "unknown-speed"  # the goal is throughput, and the speed of the GPU is unknown
    INVALID = "invalid-input"  # numbers that no run can have


class Candidate(Struct, frozen=True, kw_only=True):
    """A layout that was evaluated. `text` is the reason as a sentence with its figures.

    `estimate` is None if the layout was rejected without one (an indivisible batch). `probability` is an external
    engine's estimate that it fits. `speed` is predicted for layouts that fit; None if it is unknown.
    """

    layout: Layout
    gpu: Gpu
    fits: bool
    reason: str  # a `DecisionReason`
    text: str
    confidence: Confidence = Confidence.MEDIUM
    estimate: Estimate | None = None
    probability: float | None = None
    speed: Throughput | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Predicted tokens per second of all GPUs together."""
        return None if self.speed is None else self.speed.tokens_per_s

    @property
    def cost(self) -> Cost:
        """The cost of the layout, per hour and per million tokens."""
        return layout_cost(self.gpu, self.layout.gpus, self.speed)

    @property
    def relative_cost(self) -> Cost:
        """The same in hours of an A100 with 80 GB, whether or not the repository has a price for the GPU."""
        return layout_cost(self.gpu, self.layout.gpus, self.speed, relative=True)


class RunCost(Struct, frozen=True, kw_only=True):
    """The cost of a whole run: GPU hours with their range, and money; None if the GPU has no price.

    `tokens` are those that it trains on, at the full length of its samples, so that the figures are upper bounds if
    samples are shorter.
    """

    tokens: float
    gpu_hours: float
    low_gpu_hours: float
    high_gpu_hours: float
    money: float | None = None
    currency: str = ""

    def __str__(self) -> str:
        """Return GPU hours with their range, and the money."""
        money = "" if self.money is None else f", {self.money:,.2f} {self.currency}"
        return f"{self.gpu_hours:,.1f} GPU hours ({self.low_gpu_hours:,.1f} to {self.high_gpu_hours:,.1f}){money}"


class Decision(Struct, frozen=True, kw_only=True):
    """The answer to a question. `chosen` is None if there is no recommendation; the job is then left unchanged.

    `candidates` are in the order of their evaluation. `engines` are (name, version) of all that contributed. `others`
    are the best layouts on other GPU products, cheapest first. `total_tokens` are those of the whole run, if known.
    """

    goal: Goal
    chosen: Candidate | None
    reason: str  # a `DecisionReason`
    text: str
    confidence: Confidence
    candidates: tuple[Candidate, ...]
    engines: tuple[tuple[str, str], ...]
    others: tuple[Candidate, ...] = ()
    total_tokens: float | None = None

    @property
    def run(self) -> RunCost | None:
        """The cost of the whole run in the chosen layout; None if its tokens or the speed are unknown."""
        chosen = self.chosen
        if chosen is None or chosen.speed is None or self.total_tokens is None:
            return None
        hours = self.total_tokens * chosen.layout.gpus / 3600
        gpu_hours = hours / chosen.speed.tokens_per_s
        return RunCost(
            tokens=self.total_tokens,
            gpu_hours=gpu_hours,
            low_gpu_hours=hours / chosen.speed.high,
            high_gpu_hours=hours / chosen.speed.low,
            money=round(gpu_hours, 2) * chosen.gpu.hourly if chosen.gpu.currency else None,  # as in plans
            currency=chosen.gpu.currency,
        )

    @property
    def is_pending(self) -> bool:
        """True if an engine has not answered yet, or has failed."""
        return self.reason in {DecisionReason.PENDING, DecisionReason.ENGINE_ERROR}

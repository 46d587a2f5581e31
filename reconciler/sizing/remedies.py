"""The changes that would make a training fit, and the reach of a size.

`find_remedies` evaluates each saving of memory, and pairs of them, with the memory model that sizes jobs; `find_reach`
searches the largest batch and the longest samples that fit.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import enumerated
from reconciler.launch import Framework, Launch
from reconciler.launch.changes import DEEPSPEED_CHANGES, SettingEdit, SettingOwner, edits_for, spelled_name
from reconciler.sizing.decide import Evaluator, layout_options
from reconciler.sizing.decision import Candidate, DecisionReason
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.models.lora import adapter_parameters_or_default
from reconciler.sizing.question import Goal, Question
from reconciler.sizing.throughput.cost import layout_cost
from reconciler.sizing.throughput.forecast import throughput
from reconciler.sizing.training import Attention, Layout, Method, Offload, Strategy, Training, undivided_heads

RANK = 16
"""Rank of the adapters that a remedy proposes, on all linear layers."""

EIGHT_BIT = "adamw_bnb_8bit"
_FULL_ADAMS = frozenset(
    (
        *("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused", "adamw_anyprecision"),
        *("adamw_torch_npu_fused", "adamw_torch_xla", "paged_adamw", "paged_adamw_32bit"),
    )
)
_DEEPSPEED = (Strategy.ZERO1, Strategy.ZERO2, Strategy.ZERO3)
_STRONGER: Mapping[Strategy, tuple[Strategy, ...]] = {
    Strategy.DDP: (Strategy.FSDP_FULL, Strategy.ZERO2, Strategy.ZERO3, Strategy.ZERO1),
    Strategy.ZERO1: (Strategy.ZERO2, Strategy.ZERO3),
    Strategy.ZERO2: (Strategy.ZERO3,),
    Strategy.FSDP_GRAD_OP: (Strategy.FSDP_FULL,),
    Strategy.FSDP_HYBRID: (Strategy.FSDP_FULL,),
}
_NAMES = {
    Strategy.ZERO1: "distributed optimizer",
    Strategy.FSDP_FULL: "full sharding",
    Strategy.ZERO2: "ZeRO-2",
    Strategy.ZERO3: "ZeRO-3",
}
_MAX_DEGREE = 8
_MIN_TRAINED = 0.02
"""Fraction of trained parameters from which the optimizer's states matter."""


class SavingKind(StrEnum):
    """The subject of a change. The values are stable; the order is that of equal costs."""

    ATTENTION = "attention"
    FUSED_LOSS = "fused-loss"
    SHARDING = "sharding"
    ACCUMULATION = "accumulation"
    CHECKPOINTING = "checkpointing"
    OPTIMIZER = "8-bit-optimizer"
    SEQUENCE = "sequence-parallelism"
    CONTEXT = "context-parallelism"
    TENSOR = "tensor-parallelism"
    MORE_GPUS = "more-gpus"
    OTHER_GPU = "other-gpu"
    OFFLOAD = "offload"
    LORA = "lora"
    QLORA = "qlora"

    @property
    def keeps_training(self) -> bool:
        """True if the same weights are trained in the same way. 8-bit optimizers count (arXiv 2110.02861)."""
        return self not in {SavingKind.LORA, SavingKind.QLORA}


class Saving(Struct, frozen=True, kw_only=True):
    """One change of a training: `fields` are the new values of `Training`, by name.

    `changes` are its names in the rows of frameworks (`Framework.changes`), and `degree` fills their placeholder.
    """

    kind: SavingKind
    text: str
    fields: tuple[tuple[str, Any], ...] = ()
    changes: tuple[str, ...] = ()
    degree: int = 1

    def apply(self, training: Training) -> Training:
        """Return the training with the change."""
        return replace(training, **dict(self.fields)) if self.fields else training


def savings_of(training: Training, gpus: int, known: Collection[str] | None = None) -> Iterator[Saving]:
    """Yield the changes of a training on `gpus` GPUs that may save memory.

    `known` are the names of the changes that its framework and launcher have; None: nothing is known about them. They
    decide between FSDP and ZeRO, and are not needed for anything else.
    """
    if training.attention is Attention.EAGER:
        yield _saving(SavingKind.ATTENTION, "SDPA instead of eager attention", "sdpa", attention=Attention.SDPA)
    if not training.fused_loss:
        yield _saving(SavingKind.FUSED_LOSS, "fused loss", "fused-loss", fused_loss=True)
    if not training.checkpointing:
        yield _saving(SavingKind.CHECKPOINTING, "gradient checkpointing", "checkpointing", checkpointing=True)
    if training.optimizer in _FULL_ADAMS and _trained_share(training) >= _MIN_TRAINED:
        yield _saving(SavingKind.OPTIMIZER, "8-bit optimizer", "8-bit-optimizer", optimizer=EIGHT_BIT)
    yield Saving(kind=SavingKind.ACCUMULATION, text="gradient accumulation")
    yield from _sharding(training, gpus, known)
    if training.tensor > 1 and not training.sequence_parallel and known is not None and "sequence-parallel" in known:
        yield _saving(SavingKind.SEQUENCE, "sequence parallelism", "sequence-parallel", sequence_parallel=True)
    yield from _degrees(training, gpus, SavingKind.CONTEXT, "context")
    if known is not None and "tensor" in known:
        yield from _degrees(training, gpus, SavingKind.TENSOR, "tensor")
    yield from _adapters(training)


def _trained_share(training: Training) -> float:
    """Return the trained parameters as a fraction of the model's."""
    if not training.method.has_adapters:
        return 1.0
    adapters = adapter_parameters_or_default(training.architecture, training.lora_rank, training.lora_targets)
    return adapters / training.architecture.parameters


def _saving(kind: SavingKind, text: str, *changes: str, **fields: Any) -> Saving:
    return Saving(kind=kind, text=text, fields=tuple(fields.items()), changes=changes)


def _sharding(training: Training, gpus: int, known: Collection[str] | None) -> Iterator[Saving]:
    """Yield the strategies that shard more, and offloading with the current or the first of them.

    Of the strategies that shard equally, the first one that the framework has is proposed.
    """
    is_possible = gpus > training.ways
    stronger = [
        strategy
        for strategy in _STRONGER.get(training.strategy, ())
        if is_possible and (known is None or strategy.value in known)
    ]
    if Strategy.FSDP_FULL in stronger:
        stronger = [Strategy.FSDP_FULL]
    for strategy in stronger:
        yield _saving(SavingKind.SHARDING, _NAMES[strategy], strategy.value, strategy=strategy)
    if training.offload is Offload.ALL:
        return
    current = training.strategy if training.strategy is not Strategy.DDP else next(iter(stronger), None)
    for strategy, offload in _offloads(current):
        change = f"{strategy.value} {offload.value}"
        if offload is not training.offload and (known is None or change in known):
            what = "offloaded optimizer" if offload is Offload.OPTIMIZER else "offloading"
            sharding = f" with {_NAMES[strategy]}" if strategy is not training.strategy else ""
            yield _saving(SavingKind.OFFLOAD, f"{what}{sharding}", change, offload=offload, strategy=strategy)


def _offloads(strategy: Strategy | None) -> Iterator[tuple[Strategy, Offload]]:
    """Yield what a strategy can offload: FSDP weights and optimizer together, ZeRO the optimizer alone, too."""
    if strategy in _DEEPSPEED:
        yield Strategy.ZERO2 if strategy is Strategy.ZERO1 else strategy, Offload.OPTIMIZER
        yield Strategy.ZERO3, Offload.ALL
    elif strategy is not None:
        yield Strategy.FSDP_FULL, Offload.ALL


def _degrees(training: Training, gpus: int, kind: SavingKind, name: str) -> Iterator[Saving]:
    """Yield larger degrees of a parallelism with which the same GPUs can still be divided."""
    degree = 2 * getattr(training, name)
    while degree <= _MAX_DEGREE:
        saving = Saving(
            kind=kind, text=f"{name} parallelism {degree}", fields=((name, degree),), changes=(name,), degree=degree
        )
        is_possible = kind is not SavingKind.TENSOR or not undivided_heads(training.architecture, degree)
        if is_possible and gpus % saving.apply(training).multiple == 0:
            yield saving
        degree *= 2


def _adapters(training: Training) -> Iterator[Saving]:
    """Yield LoRA for a full fine-tuning, and a 4-bit base for both."""
    adapters = {"lora_rank": RANK, "lora_targets": ("all-linear",)}
    if training.method is Method.FULL:
        yield _saving(SavingKind.LORA, f"LoRA of rank {RANK}", "lora", method=Method.LORA, **adapters)
        changes = ("lora", "4-bit-base")
        yield _saving(SavingKind.QLORA, f"QLoRA of rank {RANK}", *changes, method=Method.QLORA, **adapters)
    elif training.method is Method.LORA:
        yield _saving(SavingKind.QLORA, "4-bit base (QLoRA)", "4-bit-base", method=Method.QLORA)


_MAX_TIMES_GPUS = 8
_COMBINED = (2, 3)
"""Numbers of changes that are combined, if fewer are not enough."""
_MAX_COMBINED = 3
_MAX_PRODUCTS = 2
UNREAD = "the line could not be sized then"
"""Refusal of changes whose settings our own reader refuses on the line."""
_MIN_SAVED = 0.01
"""Fraction of the need below which a change is not a remedy."""

_MEMORY_REASONS = frozenset(
    (
        *(DecisionReason.DOES_NOT_FIT, DecisionReason.VETO, DecisionReason.BAND, DecisionReason.PAGED),
        *(DecisionReason.HOST_MEMORY, DecisionReason.UNMEASURED),
    )
)
_KINDS = tuple(SavingKind)
_EXCLUSIVE = (
    {SavingKind.LORA, SavingKind.QLORA},
    {SavingKind.SHARDING, SavingKind.OFFLOAD},
    {SavingKind.ACCUMULATION, SavingKind.MORE_GPUS},
)
"""Kinds that are not combined."""

Reread = Callable[[Sequence[SettingEdit]], tuple[Training, bool] | None]
"""Reads the launch line with other settings: what it trains, and whether flags are then not understood.

None if the line can then not be sized.
"""


class Situation(Struct, frozen=True, kw_only=True):
    """The origin of a training. `framework`, `launch` and `reread` are None if there is no line.

    `offered` are the GPU products to choose from, `most_gpus` the largest number of GPUs to propose.
    """

    offered: tuple[Gpu, ...] = ()
    most_gpus: int = 64
    framework: Framework | None = None
    launch: Launch | None = None
    reread: Reread | None = None

    @property
    def known_changes(self) -> frozenset[str] | None:
        """Names of the changes that framework and launcher have; None if the framework is unknown."""
        framework = self.framework
        if framework is None or not framework.name:
            return None
        launcher = self.launch.launcher.changes if self.launch is not None else {}
        own = edits_for(next(iter(DEEPSPEED_CHANGES)), framework, self.launch)
        in_file = DEEPSPEED_CHANGES if own and own[0].owner is SettingOwner.DEEPSPEED else {}
        return frozenset((*framework.changes, *launcher, *in_file))

    def edits(self, savings: Iterable[Saving]) -> tuple[tuple[SettingEdit, ...], str]:
        """Return the settings that make the changes, and a refusal if the framework lacks one."""
        if self.framework is None or not self.framework.name:
            return (), ""
        edits: dict[tuple[SettingOwner, str], SettingEdit] = {}
        for saving in savings:
            values = {"rank": str(RANK), "degree": str(saving.degree)}
            for change in saving.changes:
                found = edits_for(change, self.framework, self.launch, values)
                if found is None:
                    return (), f"{self.framework.name} has no known setting for it"
                edits |= {(edit.owner, edit.name): edit for edit in found}
        return tuple(edits.values()), ""


class Remedy(Struct, frozen=True, kw_only=True):
    """Changes of a training that were evaluated together.

    `before` is the rejected candidate that they change, `after` the result, whose estimate is that of `training` and
    the candidate's layout. `cost` is the cost of a trained token relative to `before` if that ran (None: unknown).
    `edits` are the settings to change; `refusal` says that the framework has none, or that the line with them could not
    be sized.
    """

    savings: tuple[Saving, ...]
    training: Training
    before: Candidate
    after: Candidate
    cost: float | None = None
    edits: tuple[SettingEdit, ...] = ()
    refusal: str = ""

    @property
    def kinds(self) -> tuple[SavingKind, ...]:
        """The changed subjects."""
        return tuple(saving.kind for saving in self.savings)

    @property
    def text(self) -> str:
        """The changes in words."""
        return enumerated([saving.text for saving in self.savings])

    @property
    def keeps_training(self) -> bool:
        """True if the same weights are trained in the same way."""
        return all(kind.keeps_training for kind in self.kinds)

    @property
    def is_enough(self) -> bool:
        """True if the training fits with the changes, and they can be made."""
        return self.after.fits and not self.refusal


class Remedies(Struct, frozen=True, kw_only=True):
    """The remedies for `base`: those that are `enough`, cheapest first, those that alone are not, and the refused."""

    base: Candidate
    enough: tuple[Remedy, ...] = ()
    not_enough: tuple[Remedy, ...] = ()
    refused: tuple[Remedy, ...] = ()


def find_remedies(question: Question, rejected: Sequence[Candidate], situation: Situation) -> Remedies | None:
    """Return what would make a training fit on the GPUs of one of the `rejected` candidates, fewest first.

    Every change is evaluated with the memory model, and keeps the effective batch. If no change is enough that trains
    the same weights on the same GPUs at a similar speed, two are tried together, and then three. None if no candidate
    was rejected for its memory.
    """
    tried = tuple(one for one in rejected if one.reason in _MEMORY_REASONS and not one.fits)
    return _RemedySearch(question, tried, situation).run() if tried else None


class _RemedySearch:
    def __init__(self, question: Question, tried: Sequence[Candidate], situation: Situation) -> None:
        self._question, self._tried, self._situation = question, tried, situation
        self._base = tried[-1]

    def run(self) -> Remedies:
        situation, training = self._situation, self._question.training
        savings = list(savings_of(training, self._base.layout.gpus, situation.known_changes))
        if self._base.layout.gpus < situation.most_gpus:
            savings.append(Saving(kind=SavingKind.MORE_GPUS, text="more GPUs"))
        singles = list(self._remedies((saving,) for saving in savings))
        others = sorted((one for gpu in situation.offered if (one := self._on_other(gpu)) is not None), key=_rank)
        combined: list[Remedy] = []
        helpful = [one.savings[0] for one in singles if not one.refusal and not one.is_enough]
        helpful += self._silent(savings, singles)
        for size in _COMBINED:
            if not any(_is_sufficient(one) for one in (*singles, *combined)):
                combined += [one for one in self._remedies(_combinations(helpful, size)) if one.is_enough]
        combined = sorted(combined, key=_rank)[:_MAX_COMBINED]
        enough = [one for one in singles if one.is_enough]
        return Remedies(
            base=self._base,
            enough=tuple(sorted([*enough, *others[:_MAX_PRODUCTS], *combined], key=_rank)),
            not_enough=tuple(sorted((one for one in singles if not one.after.fits and not one.refusal), key=_need)),
            refused=tuple(sorted((one for one in singles if one.refusal), key=_rank)),
        )

    def _silent(self, savings: Sequence[Saving], singles: Sequence[Remedy]) -> list[Saving]:
        """Return the changes that save nothing before another one does.

        Without sharding, states may need so much more than activations that a smaller batch changes nothing.
        """
        heard = {one.kinds[0] for one in singles}
        return [one for one in savings if one.kind not in heard and not self._situation.edits((one,))[1]]

    def _remedies(self, combined: Iterable[tuple[Saving, ...]]) -> Iterator[Remedy]:
        """Yield what saves memory, of each kind that offers several (stages, degrees) the first that is enough."""
        found: dict[tuple[SavingKind, ...], Remedy] = {}
        for savings in combined:
            kinds = tuple(saving.kind for saving in savings)
            if kinds in found and found[kinds].is_enough:
                continue
            remedy = self._evaluate(savings)
            if remedy is not None and (kinds not in found or _need(remedy) < _need(found[kinds])):
                found[kinds] = remedy
        yield from found.values()

    def _evaluate(self, savings: tuple[Saving, ...]) -> Remedy | None:
        """Evaluate changes on the fewest GPUs that fit, else on the most; None if they save nothing."""
        edits, refusal = self._situation.edits(savings)
        changed = self._applied(savings)
        reread = self._situation.reread
        if reread is not None and edits:
            read = reread_question(self._question, edits, reread)
            changed, edits, refusal = (changed, (), UNREAD) if read is None else (read, edits, refusal)
        training, evaluator = changed.training, Evaluator(changed)
        best: tuple[Candidate, Candidate] | None = None
        for before, layout in self._layouts(savings, training):
            best = before, evaluator.evaluate(layout)
            if best[1].fits:
                break
        if best is None:
            return None
        before, after = best
        if not after.fits and not _saves(before, after):
            return None
        if not refusal:
            edits += self._batch_edits(before.layout, after.layout)
        return Remedy(
            savings=tuple(
                replace(saving, text=f"{after.layout.gpus} GPUs") if saving.kind is SavingKind.MORE_GPUS else saving
                for saving in savings
            ),
            training=training,
            before=before,
            after=after,
            cost=_relative_cost(self._question.training, before, training, after),
            edits=edits,
            refusal=refusal,
        )

    def _on_other(self, gpu: Gpu) -> Remedy | None:
        """Evaluate the training on another GPU product, on the fewest GPUs that fit."""
        question = self._question
        per_worker = min(question.gpus_per_worker, gpu.per_node or question.gpus_per_worker)
        evaluator = Evaluator(replace(question, gpu=gpu, gpus_per_worker=per_worker))
        if gpu.product == question.gpu.product or gpu.vendor is not question.gpu.vendor or not gpu.bf16:
            return None
        for before in self._tried:
            if before.layout.gpus_per_worker > per_worker:
                continue
            after = evaluator.evaluate(before.layout)
            if after.fits:
                training = question.training
                saving = Saving(kind=SavingKind.OTHER_GPU, text=f"{after.layout.gpus} x {gpu.product}")
                cost = _relative_cost(training, before, training, after)
                return Remedy(savings=(saving,), training=training, before=before, after=after, cost=cost)
        return None

    def _applied(self, savings: Sequence[Saving]) -> Question:
        """Return the question with the changes, whatever a line says."""
        training = self._question.training
        for saving in savings:
            training = saving.apply(training)
        return replace(self._question, training=training)

    def _layouts(self, savings: Sequence[Saving], training: Training) -> Iterator[tuple[Candidate, Layout]]:
        """Yield the layouts to try, each with the rejected candidate that it replaces."""
        kinds = {saving.kind for saving in savings}
        if SavingKind.MORE_GPUS in kinds:
            for layout in self._larger():
                yield self._base, _shared(layout, self._question.training, training)
            return
        for before in self._tried:
            layout = _shared(before.layout, self._question.training, training)
            if SavingKind.ACCUMULATION in kinds:
                yield from ((before, smaller) for smaller in _smaller_batches(layout))
            else:
                yield before, layout

    def _larger(self) -> Iterator[Layout]:
        """Yield layouts on more GPUs that keep the effective batch: twice, four times … as many."""
        most = min(self._situation.most_gpus, _MAX_TIMES_GPUS * self._base.layout.gpus)
        gpus = 2 * self._base.layout.gpus
        while gpus <= most:
            question = replace(self._question, goal=Goal.AVOID_OOM, requested_gpus=gpus, max_gpus=gpus)
            yield from layout_options(question, gpus).layouts
            gpus *= 2

    def _batch_edits(self, before: Layout, after: Layout) -> tuple[SettingEdit, ...]:
        framework = self._situation.framework
        if framework is None:
            return ()
        numbers = [
            ("batch", before.batch, after.batch),
            ("accumulation", before.accumulation, after.accumulation),
        ]
        named = ((framework.settings.get(fact, ()), new) for fact, old, new in numbers if old != new)
        return tuple(
            SettingEdit(owner=SettingOwner.FRAMEWORK, name=spelled_name(names, self._situation.launch), value=str(new))
            for names, new in named
            if names
        )


def reread_question(question: Question, edits: Sequence[SettingEdit], reread: Reread) -> Question | None:
    """Return the question of the line with other settings; None if it could then not be sized."""
    found = reread(edits)
    return None if found is None else replace(question, training=found[0], is_uncertain=found[1])


def _shared(layout: Layout, before: Training, after: Training) -> Layout:
    """Return a layout with as many more steps as more GPUs for each sample leave fewer samples to a step."""
    times = max(1, after.group // before.group)
    return replace(layout, accumulation=layout.accumulation * times)


def _smaller_batches(layout: Layout) -> Iterator[Layout]:
    """Yield layouts with smaller batches and more steps that keep the effective batch, largest first."""
    in_all = layout.batch * layout.accumulation
    for batch in range(layout.batch - 1, 0, -1):
        if in_all % batch == 0:
            yield replace(layout, batch=batch, accumulation=in_all // batch)


def _is_sufficient(remedy: Remedy) -> bool:
    """Return whether a remedy is enough on the same GPUs, without training something else or running much slower."""
    is_mild = not {SavingKind.MORE_GPUS, SavingKind.OFFLOAD} & set(remedy.kinds)
    return remedy.is_enough and remedy.keeps_training and is_mild


def _combinations(savings: Sequence[Saving], size: int) -> Iterator[tuple[Saving, ...]]:
    for combined in combinations(sorted(savings, key=lambda one: _KINDS.index(one.kind)), size):
        kinds = {saving.kind for saving in combined}
        if len(kinds) == size and not any(len(kinds & group) > 1 for group in _EXCLUSIVE):
            yield combined


def _saves(before: Candidate, after: Candidate) -> bool:
    if before.estimate is None or after.estimate is None:
        return False
    return after.estimate.need_gib < before.estimate.need_gib * (1 - _MIN_SAVED)


def _relative_cost(training: Training, before: Candidate, changed: Training, after: Candidate) -> float | None:
    """Return the cost of a trained token after a change, relative to before; None if a speed is unknown.

    Prices of the repository count if it has those of both GPU products.
    """
    relative = before.gpu.currency != after.gpu.currency
    costs = [
        layout_cost(one.gpu, one.layout.gpus, throughput(trained, one.layout, one.gpu), relative=relative)
        for trained, one in ((training, before), (changed, after))
    ]
    old, new = (cost.per_million_tokens for cost in costs)
    return new / old if old and new else None


def _rank(remedy: Remedy) -> tuple[bool, bool, float, int, list[int]]:
    """Order remedies: those that keep what is trained, those of known cost, the cheapest, the fewest changes."""
    is_unknown = remedy.cost is None
    cost = 0.0 if remedy.cost is None else round(remedy.cost, 2)
    order = [_KINDS.index(kind) for kind in remedy.kinds]
    return (not remedy.keeps_training, is_unknown, cost, len(order), order)


def _need(remedy: Remedy) -> float:
    """Return the memory that is needed after the changes, less what fits: the closest comes first."""
    estimate = remedy.after.estimate
    return 0.0 if estimate is None or remedy.after.fits else estimate.need_gib / remedy.after.gpu.memory_gib


MAX_BATCH = 65_536
"""Samples per GPU up to which the search goes."""

SEQUENCE_STEP = 128
"""Tokens: lengths are multiples of it, as those of samples usually are."""

MAX_SEQUENCE = SEQUENCE_STEP << 16
"""Tokens up to which the search goes (8,388,608)."""


class Reach(Struct, frozen=True, kw_only=True):
    """The largest values that fit, one at a time; 0 if not even the smallest does.

    `batch` is in samples per GPU, `sequence` in tokens, a multiple of `SEQUENCE_STEP`. `safe_*`: even the upper end of
    the estimate's range fits.
    """

    layout: Layout
    batch: int
    safe_batch: int
    sequence: int
    safe_sequence: int


def find_reach(question: Question, layout: Layout) -> Reach:
    """Search the largest batch per GPU and the longest samples on the GPUs of `layout`, all else unchanged.

    The next larger value never fits: the search keeps a value that fits and a larger one that does not. More samples
    or tokens never need less memory.
    """

    def by_batch(batch: int) -> tuple[Question, Layout]:
        return question, replace(layout, batch=batch)

    def by_length(steps: int) -> tuple[Question, Layout]:
        training = replace(question.training, sequence=steps * SEQUENCE_STEP)
        return replace(question, training=training), layout

    def largest(make: Callable[[int], tuple[Question, Layout]], most: int, *, safe: bool) -> int:
        return _largest(lambda value: _fits(*make(value), safe=safe), most)

    most_steps = MAX_SEQUENCE // SEQUENCE_STEP
    return Reach(
        layout=layout,
        batch=largest(by_batch, MAX_BATCH, safe=False),
        safe_batch=largest(by_batch, MAX_BATCH, safe=True),
        sequence=SEQUENCE_STEP * largest(by_length, most_steps, safe=False),
        safe_sequence=SEQUENCE_STEP * largest(by_length, most_steps, safe=True),
    )


def _fits(question: Question, layout: Layout, *, safe: bool) -> bool:
    """Return whether a layout is accepted; `safe`: also if it needs as much as the range of the estimate allows."""
    candidate = Evaluator(question, speed=None).evaluate(layout)
    estimate = candidate.estimate
    if not candidate.fits or estimate is None:
        return False
    return not safe or estimate.need_gib * estimate.high_gib / estimate.peak_gib <= question.gpu.memory_gib


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Return a number that fits whose successor does not, 0 if 1 does not fit, or `most` if all do."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low

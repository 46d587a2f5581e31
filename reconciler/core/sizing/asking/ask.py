"""The question of one job, and every value that went into it."""

from collections.abc import Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.config import SizingSettings
from reconciler.core.launch import Diagnostic, Fact, FileReader, Launch, Span
from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.asking.cards import pick_cards
from reconciler.core.sizing.asking.model import find_model
from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.memory import optimizer_known
from reconciler.core.sizing.models import adapter_parameters, default_targets
from reconciler.core.sizing.models.adapters import UnknownTargetError
from reconciler.core.sizing.question import Question
from reconciler.core.sizing.training import Attention, Method, Offload, Precision, Strategy, Training

_NO_TARGETS: tuple[str, ...] = ()
_LATER = "launch.decided-later"


@cache
def _taken(value: str, why: str) -> Fact:
    """Return a value that nobody wrote; there are few of them."""
    return Fact(value=value, snippet="", origin=why)


class Asking(Struct, frozen=True, kw_only=True):
    """What a job asks: one question for each card it may get, or the troubles that keep it from being asked.

    `facts` are all values that were used, by name and in order; those without a `snippet` were taken where the
    line says nothing, and their `origin` tells from where.
    """

    questions: tuple[Question, ...] = ()
    facts: tuple[tuple[str, Fact], ...] = ()
    troubles: tuple[Diagnostic, ...] = ()

    @property
    def taken(self) -> tuple[tuple[str, Fact], ...]:
        """The values that the line does not say."""
        return tuple((name, fact) for name, fact in self.facts if not fact.snippet)


def no_files(_: str) -> bytes | None:
    """Return no file: a job on its own has no repository."""
    return None


def ask(
    launch: Launch,
    settings: SizingSettings,
    *,
    requested_gpus: int | None = None,
    selected_gpu: str = "",
    offered: Sequence[Gpu] = (),
    files: FileReader = no_files,
    folder: str = "",
    starts_processes: bool = False,
) -> Asking:
    """Put what a line says into questions, without a guess: a value that is written but not known is a trouble.

    `requested_gpus` are those of all pods today; `selected_gpu` is the product that node selector or affinity names;
    `offered` are the cluster's cards; `files` and `folder` are where the model's configuration may lie;
    `starts_processes`: the job's kind starts a process for each GPU, whatever the line says (TorchrunJob).
    """
    return _Asker(launch, requested_gpus, starts_processes=starts_processes).ask(
        settings, selected_gpu, offered, files, folder
    )


def _on(gpu: Gpu, question: Question) -> Question:
    """Ask for a card; no pod can have more of them than the largest node that was measured."""
    each = min(question.gpus_per_worker, gpu.per_node or question.gpus_per_worker)
    return replace(question, gpu=gpu, gpus_per_worker=each)


class _Asker:
    """Takes values out of a line, and remembers each."""

    def __init__(self, launch: Launch, requested: int | None, *, starts_processes: bool) -> None:
        self.launch = launch
        self.requested = requested
        self.starts_processes = starts_processes
        self.used: dict[str, Fact] = {}
        self.troubles: list[Diagnostic] = []

    def ask(
        self, settings: SizingSettings, selected: str, offered: Sequence[Gpu], files: FileReader, folder: str
    ) -> Asking:
        model = find_model(self.value("model", ""), files, folder)
        cards = pick_cards(
            variable=self.known("gpu_model"),
            selected=selected,
            default=settings.default_gpu_model,
            offered=offered,
            prices=settings.prices,
        )
        if isinstance(model, Diagnostic):
            self.troubles.append(replace(model, span=self._spot("model")))
        if isinstance(cards, Diagnostic):
            self.troubles.append(replace(cards, span=self._spot("gpu_model")))
        self.troubles += self._unsure() or self._missing()
        training = None if isinstance(model, Diagnostic) or self.troubles else self._training(model[0])
        batch, processes = self._batch()
        if self.troubles or training is None or isinstance(cards, Diagnostic):
            return Asking(facts=tuple(self.used.items()), troubles=tuple(dict.fromkeys(self.troubles)))
        question = Question(
            training=training,
            gpu=cards.gpus[0],
            batch=batch,
            processes=processes,
            accumulation=int(self.value("accumulation", "1")),
            requested_gpus=self.requested,
            goal=settings.goal,
            gpus_per_worker=settings.gpus_per_worker,
            max_gpus=settings.max_gpus,
            safety=settings.safety,
            allow_paged=settings.allow_paged,
            allow_disagreement=settings.allow_disagreement,
            model_version=settings.model_version,
        )
        self.used["gpu"] = Fact(value=", ".join(gpu.product for gpu in cards.gpus), snippet="", origin=cards.origin)
        questions = tuple(_on(gpu, question) for gpu in cards.gpus)
        return Asking(questions=questions, facts=tuple(self.used.items()))

    def known(self, name: str) -> str:
        """Return what the line says, or else its framework; empty where neither does."""
        fact = self.launch.fact(name)
        if fact is None:
            return ""
        self.used[name] = fact
        return fact.value

    def value(self, name: str, otherwise: str, why: str = "nothing says otherwise") -> str:
        """Return what is known of a value, else `otherwise`, which is remembered as taken."""
        found = self.known(name)
        if found or not otherwise:
            return found
        self.used[name] = _taken(otherwise, why)
        return otherwise

    def _missing(self) -> list[Diagnostic]:
        hint = "give it on the line, or by an AUTOCONF_* variable of the container"
        return [
            Diagnostic(rule="launch.missing", message=f"the launch line does not say the {name}", hint=hint)
            for name in ("model", "sequence")
            if not self.known(name)
        ]

    def _training(self, architecture: Architecture) -> Training | None:
        method = self._method()
        optimizer = self.value("optimizer", "adamw_torch", "PyTorch's usual")
        if not optimizer_known(optimizer):
            message = f"how much memory the optimizer {optimizer!r} takes is not known"
            hint = "use one of transformers' names, as adamw_torch, or leave the job out of sizing"
            self.troubles.append(self._trouble("sizing.optimizer", "optimizer", message, hint))
        rank, targets = 8, _NO_TARGETS
        if method is not None and method.has_adapters:
            rank = int(self.value("lora_rank", "8", "default of PEFT"))
            targets = self._targets(architecture, rank)
        if method is None:
            return None
        return Training(
            model=self.value("model", ""),
            architecture=architecture,
            method=method,
            sequence=int(self.value("sequence", "")),
            precision=Precision(self.value("precision", "fp32", "default of PyTorch")),
            optimizer=optimizer,
            checkpointing=self._flag("checkpointing"),
            attention=Attention(self.value("attention", "sdpa", "default of transformers")),
            strategy=Strategy(self.value("strategy", "ddp", "no sharding on the line")),
            offload=Offload(self.value("offload", "none")),
            tensor=int(self.value("tensor", "1")),
            pipeline=int(self.value("pipeline", "1")),
            lora_rank=rank,
            lora_targets=targets,
            fused_loss=self._flag("fused_loss"),
            framework=self.launch.framework.name,
        )

    def _flag(self, name: str) -> bool:
        return self.value(name, "false") == "true"

    def _method(self) -> Method | None:
        """Return the method; a base in 8 bits, or one in 4 bits that is trained as a whole, cannot be sized."""
        method = Method(self.value("method", "full"))
        bits = self.known("quantisation")
        if bits == "8bit":
            message, hint = (
                "a base in 8 bits is not modelled",
                "load it in 4 or 16 bits, or leave the job out of sizing",
            )
        elif bits and method is Method.FULL:
            message, hint = "a quantised base cannot be trained as a whole", "train adapters on it (LoRA)"
        else:
            return method
        self.troubles.append(self._trouble("sizing.quantisation", "quantisation", message, hint))
        return None

    def _targets(self, architecture: Architecture, rank: int) -> tuple[str, ...]:
        """Return the adapters' targets; a default that the model has no layer for gives way to PEFT's own table."""
        written = self.known("lora_targets")
        targets = tuple(part for part in written.split(",") if part)
        try:
            adapter_parameters(architecture, rank, targets)
        except UnknownTargetError as error:
            if self.used["lora_targets"].snippet:
                message = f"LoRA target of {architecture.name}: {error}"
                self.troubles.append(self._trouble("sizing.lora-target", "lora_targets", message, "correct the name"))
            targets = ()
        if not targets:
            targets = default_targets(architecture) or ("all-linear",)
            self.used["lora_targets"] = Fact(value=",".join(targets), snippet="", origin="PEFT's table of model types")
        return targets

    def _batch(self) -> tuple[int, int]:
        """Return samples a process and the number of processes; of a batch in all, the share of each."""
        processes = self._processes()
        share = self.known("batch")
        if share:
            return int(share), processes
        whole = int(self.known("global_batch") or 1)
        if whole % processes == 0:
            return whole // processes, processes
        message = f"a batch of {whole} does not divide among {processes} processes"
        hint = "correct AUTOCONF_BATCH_SIZE, or the number of processes"
        self.troubles.append(self._trouble("sizing.batch", "global_batch", message, hint))
        return whole, 1

    def _processes(self) -> int:
        """Return how many processes share the batch today.

        Where the line does not say, a launcher starts one a GPU; a job that asks for none is one that is to be sized,
        and the batch it names is taken for that of a single process.
        """
        said = self.launch.facts.get("processes")
        if said is None and self.requested and (self.starts_processes or not self.launch.fact("processes")):
            self.used["processes"] = Fact(
                value=str(self.requested), snippet="", origin="one a GPU that the job asks for"
            )
            return self.requested
        return int(self.value("processes", "1", "neither the line nor the resources say how many"))

    def _unsure(self) -> list[Diagnostic]:
        """Return the values that are written but not known; processes that start one a GPU are no trouble."""
        later = [one for one in self.launch.unresolved if one.rule == _LATER]
        expected = [name for name in ("processes", "machines") if self.launch.fact(name) is None]
        excused = later if len(set(later)) <= len(expected) else []
        return [one for one in self.launch.unresolved if one not in excused]

    def _trouble(self, rule: str, name: str, message: str, hint: str) -> Diagnostic:
        return Diagnostic(rule=rule, message=message, hint=hint, span=self._spot(name))

    def _spot(self, name: str) -> Span | None:
        fact = self.used.get(name)
        return None if fact is None else fact.span

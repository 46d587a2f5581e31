"""Build the questions of a training job from its launch line, its resources and the settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.launch import Diagnostic, Fact, FileReader, Launch, Span
from reconciler.launch.facts import default_fact
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import is_known_optimizer
from reconciler.sizing.models import ModelTable
from reconciler.sizing.models.lora import UnknownTargetError, adapter_parameters, default_targets, saved_parameters
from reconciler.sizing.question import Question
from reconciler.sizing.resolve import describe_model, resolve_gpus, resolve_model
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training import (
    Architecture,
    Attention,
    Companion,
    CompanionRole,
    Method,
    Objective,
    Offload,
    Precision,
    Strategy,
    Training,
    impossible_degrees,
)


def find_companions(
    stated: Callable[[str], str], training: Training, table: ModelTable, files: FileReader, folder: str
) -> list[tuple[str, Companion | Diagnostic]]:
    """Return the facts that name models, each with the model or why its sizes are unknown.

    `stated` returns facts of the line. `policy` is a copy of the policy; `base` is one, too, unless the policy has
    adapters. A `config.json` beside the job is that of the policy, and of no other model.
    """

    def named(path: str) -> bytes | None:
        return None if path in {"config.json", f"{folder.strip('/')}/config.json"} else files(path)

    found: list[tuple[str, Companion | Diagnostic]] = []
    for role in CompanionRole:
        fact = f"{role}_model"
        name = stated(fact)
        if not name or (name == "base" and training.method.has_adapters):
            continue
        copies = name in {"policy", "base"}
        model = (training.architecture, "") if copies else resolve_model(table, name, named, folder)
        if isinstance(model, Diagnostic):
            found.append((fact, model))
            continue
        companion = Companion(
            role=role,
            architecture=model[0],
            bits=int(stated(f"{role}_bits") or 16),
            has_vocabulary=stated("vocabulary_heads") == "true",
            joint=role is CompanionRole.VALUE and stated("joint_value_model") == "true",
        )
        found.append((fact, companion))
    return found


SAMPLES, TOKENS = "gpureconciler.io/dataset-samples", "gpureconciler.io/dataset-tokens"
"""Annotations of a job with the size of its dataset, for one epoch: samples at full length, or tokens."""

_MAX_DIGITS = 15


class Dataset(Struct, frozen=True, kw_only=True):
    """The size of a dataset as a job states it; None: not stated."""

    samples: int | None = None
    tokens: int | None = None


NO_DATASET = Dataset()
"""A job that does not say how large its dataset is."""


def parse_dataset(annotations: Mapping[str, str]) -> tuple[Dataset, tuple[str, ...]]:
    """Return the size that annotations state, and the keys of those that are not positive whole numbers."""
    numbers = dict(_numbers(annotations))
    invalid = tuple(key for key in (SAMPLES, TOKENS) if key in annotations and key not in numbers)
    return Dataset(samples=numbers.get(SAMPLES), tokens=numbers.get(TOKENS)), invalid


def _numbers(annotations: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for key in (SAMPLES, TOKENS):
        text = annotations.get(key, "")
        if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) > 0:
            yield key, int(text)


def total_tokens(launch: Launch, question: Question, dataset: Dataset) -> float | None:
    """Return the tokens of the whole run; None if neither steps nor epochs with the size of the dataset are known.

    Steps win over epochs, as in `transformers.TrainingArguments` (`max_steps`). A step is one update of the weights.
    """
    training = question.training
    per_sample = training.sequence * training.objective.answers
    steps, epochs = launch.length.get("steps"), launch.length.get("epochs")
    if steps is not None:
        return steps * question.effective_batch * per_sample
    if epochs is None or (dataset.tokens is None and dataset.samples is None):
        return None
    return epochs * (dataset.tokens if dataset.tokens is not None else (dataset.samples or 0) * per_sample)


_DECIDED_LATER = "launch.decided-later"
_DEGREES = ("tensor", "pipeline", "context", "expert", "chunks", "replicas")
_COUNTS = ("expert_tensor", "microbatch", "rollout_batch")
_FLAGS = (
    *("checkpointing", "keeps_products", "sequence_parallel", "offloads_activations"),
    *("fused_loss", "fast_loss", "compiled", "compiled_loss", "critic", "generates", "keeps_scores"),
    *("rollout_sleeps", "rollout_alone", "rollout_sheds"),
)
"""Facts whose names are those of the fields of a training."""


class JobQuestions(Struct, frozen=True, kw_only=True):
    """The questions of a job, one for each GPU product it may get, or the diagnostics that prevent them.

    `facts` are all values that were used, by name and in order. A fact without a `snippet` is a default; its `origin`
    says where it comes from.
    """

    questions: tuple[Question, ...] = ()
    facts: tuple[tuple[str, Fact], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def defaults(self) -> tuple[tuple[str, Fact], ...]:
        """The values that the launch line does not state."""
        return tuple((name, fact) for name, fact in self.facts if not fact.snippet)


def no_files(_: str) -> bytes | None:
    """Return no file, for jobs outside of a repository."""
    return None


def build_questions(
    launch: Launch,
    settings: SizingSettings,
    tables: SizingTables,
    *,
    requested_gpus: int | None = None,
    selected_gpu: str = "",
    offered: Sequence[Gpu] = (),
    files: FileReader = no_files,
    folder: str = "",
    starts_processes: bool = False,
    is_uncertain: bool = False,
    one_node: bool = False,
    dataset: Dataset = NO_DATASET,
) -> JobQuestions:
    """Build the questions of a job. A value that is written but cannot be resolved is an error, never a guess.

    `requested_gpus` is the number over all pods today; `selected_gpu` the product that node selector or affinity names;
    `offered` are the GPUs of the cluster; `files` and `folder` are where the model's configuration may be;
    `starts_processes`: the job's kind starts a process per GPU, whatever the line says; `is_uncertain`: the line has
    flags whose effect on memory is not known; `one_node`: pods of several nodes could not find each other; `dataset` is
    the size that the job states.
    """
    builder = _QuestionBuilder(
        launch, settings, requested_gpus, starts_processes=starts_processes, is_uncertain=is_uncertain
    )
    found = builder.build(tables, selected_gpu, offered, files, folder)
    questions = tuple(
        replace(
            question,
            is_uncertain=is_uncertain,
            one_node=one_node,
            total_tokens=total_tokens(launch, question, dataset),
        )
        for question in found.questions
    )
    return replace(found, questions=questions)


def _for_gpu(gpu: Gpu, question: Question) -> Question:
    """Ask for another GPU product. A pod cannot have more GPUs than the largest measured node."""
    per_worker = min(question.gpus_per_worker, gpu.per_node or question.gpus_per_worker)
    return replace(question, gpu=gpu, gpus_per_worker=per_worker)


class _QuestionBuilder:
    """Reads values from a launch line and records each one that it uses."""

    def __init__(
        self,
        launch: Launch,
        settings: SizingSettings,
        requested: int | None,
        *,
        starts_processes: bool,
        is_uncertain: bool,
    ) -> None:
        self._launch = launch
        self._settings = settings
        self._requested = requested
        self._starts_processes = starts_processes
        self._is_uncertain = is_uncertain
        self._facts: dict[str, Fact] = {}
        self._diagnostics: list[Diagnostic] = []

    def build(
        self, tables: SizingTables, selected: str, offered: Sequence[Gpu], files: FileReader, folder: str
    ) -> JobQuestions:
        settings = self._settings
        model = self._model(tables, files, folder)
        choice = resolve_gpus(
            tables.gpus,
            variable=self._stated("gpu_model"),
            selected=selected,
            default=settings.default_gpu_model,
            offered=offered,
            prices=settings.prices,
            hours=settings.hours,
        )
        if isinstance(model, Diagnostic):
            self._diagnostics.append(replace(model, span=self._span("model")))
        if isinstance(choice, Diagnostic):
            self._diagnostics.append(replace(choice, span=self._span("gpu_model")))
        self._diagnostics += self._unresolved() or self._missing()
        training = None if isinstance(model, Diagnostic) or self._diagnostics else self._training(model[0])
        if training is not None:
            training = replace(training, companions=self._companions(training, tables, files, folder))
        batch, processes = self._batch(1 if training is None else training.multiple)
        if self._diagnostics or training is None or isinstance(choice, Diagnostic):
            diagnostics = tuple(dict.fromkeys(self._diagnostics))
            return JobQuestions(facts=tuple(self._facts.items()), diagnostics=diagnostics)
        question = Question(
            training=training,
            gpu=choice.gpus[0],
            batch=batch,
            processes=processes,
            accumulation=self._accumulation(training, batch, processes),
            keeps_batch=bool(self._stated("update_batch")),
            exact_gpus=self._exact(training),
            requested_gpus=self._requested,
            goal=settings.goal,
            gpus_per_worker=settings.gpus_per_worker,
            max_gpus=settings.max_gpus,
            safety=settings.safety,
            allow_paged=settings.allow_paged,
            allow_disagreement=settings.allow_disagreement,
            model_version=settings.model_version,
        )
        if self._diagnostics:
            return JobQuestions(facts=tuple(self._facts.items()), diagnostics=tuple(dict.fromkeys(self._diagnostics)))
        products = ", ".join(gpu.product for gpu in choice.gpus)
        self._facts["gpu"] = Fact(value=products, snippet="", origin=choice.origin)
        questions = tuple(_for_gpu(gpu, question) for gpu in choice.gpus)
        return JobQuestions(questions=questions, facts=tuple(self._facts.items()))

    def _stated(self, name: str) -> str:
        """Return the value that the line or its framework states; empty if neither does."""
        fact = self._launch.fact(name)
        if fact is None:
            return ""
        self._facts[name] = fact
        return fact.value

    def _value(self, name: str, default: str, origin: str = "not set") -> str:
        """Return the value of the line or its framework, else `default`, which is recorded with its origin."""
        stated = self._stated(name)
        if stated or not default:
            return stated
        self._facts[name] = default_fact(default, origin)
        return default

    def _flag(self, name: str) -> bool:
        return self._value(name, "false") == "true"

    def _missing(self) -> list[Diagnostic]:
        hint = "add it to the line, or set it in an AUTOCONF_* variable of the container"
        return [
            Diagnostic(rule="launch.missing", message=f"the launch line does not set the {name}", hint=hint)
            for name in ("model", "sequence")
            if not self._stated(name)
        ]

    def _model(self, tables: SizingTables, files: FileReader, folder: str) -> tuple[Architecture, str] | Diagnostic:
        """Return the model that the line names, or that it describes by its sizes."""
        name = self._value("model", "")
        if self._launch.model_config:
            return describe_model(tables.models, self._launch.model_config, name)
        return resolve_model(tables.models, name, files, folder)

    def _companions(
        self, training: Training, tables: SizingTables, files: FileReader, folder: str
    ) -> tuple[Companion, ...]:
        found = find_companions(self._stated, training, tables.models, files, folder)
        diagnostics = [replace(one, span=self._span(fact)) for fact, one in found if isinstance(one, Diagnostic)]
        self._diagnostics += diagnostics
        return tuple(one for _, one in found if isinstance(one, Companion))

    def _training(self, architecture: Architecture) -> Training | None:
        method = self._method()
        optimizer = self._value("optimizer", "adamw_torch", "the default of PyTorch")
        if not is_known_optimizer(optimizer):
            message = f"the memory of optimizer {optimizer!r} is unknown"
            hint = "use a name of transformers such as adamw_torch, or exclude the job from sizing"
            self._report("sizing.optimizer", "optimizer", message, hint)
        if method is None:
            return None
        upcast = self._stated("upcast")
        training = Training(
            model=self._value("model", ""),
            architecture=architecture,
            method=method,
            sequence=int(self._value("sequence", "")),
            objective=Objective(self._value("objective", "sft")),
            precision=Precision(self._value("precision", "fp32", "the default of PyTorch")),
            optimizer=optimizer,
            optimizer_rank=int(self._stated("optimizer_rank") or 128),
            attention=Attention(self._value("attention", "sdpa", "the default of transformers")),
            strategy=Strategy(self._value("strategy", "ddp", "no sharding on the line")),
            offload=Offload(self._value("offload", "none")),
            recomputed=float(self._stated("recomputed") or 1.0),
            together=int(self._stated("together") or 1),
            has_reference=self._value("reference", "true") == "true",
            scored=self._scored(),
            rollout=float(self._stated("rollout") or 0.0),
            upcast=None if not upcast else upcast == "true",
            framework=self._launch.framework.name,
            checkpoints_shards=self._launch.framework.checkpoints_shards,
        )
        degrees = {name: int(self._value(name, "1")) for name in _DEGREES}
        counts = {name: int(self._stated(name) or 0) for name in _COUNTS}
        flags = {name: self._flag(name) for name in _FLAGS}
        training = replace(training, **degrees, **counts, **flags)
        evenly = self._launch.framework.divides_evenly and not self._is_uncertain  # other flags may make stages uneven
        for name, message in impossible_degrees(training, evenly=evenly):
            self._report("sizing.parallelism", name, message, "correct the degree of parallelism")
        return self._with_adapters(training) if method.has_adapters else training

    def _with_adapters(self, training: Training) -> Training:
        rank = int(self._value("lora_rank", "8", "the default of PEFT"))
        return replace(
            training,
            lora_rank=rank,
            lora_targets=self._targets(training.architecture, rank),
            saved_modules=self._saved_modules(training.architecture),
            dora=self._flag("dora"),
            wide_base=self._flag("wide_base"),
        )

    def _method(self) -> Method | None:
        """Return the method; None for a base in another format, and for a quantized one without adapters."""
        method = Method(self._value("method", "full"))
        bits = self._stated("quantisation")
        if bits == "other":
            message, hint = "the format of its weights is not modelled", "load it in 4, 8 or 16 bits"
        elif bits and method is Method.FULL:
            message, hint = "a quantized base cannot be fully fine-tuned", "train adapters on it (LoRA)"
        else:
            return method
        self._report("sizing.quantisation", "quantisation", message, hint)
        return None

    def _targets(self, architecture: Architecture, rank: int) -> tuple[str, ...]:
        """Return the adapters' targets. A default that the model has no layer for is replaced by PEFT's own default."""
        targets = tuple(part for part in self._stated("lora_targets").split(",") if part)
        try:
            adapter_parameters(architecture, rank, targets)
        except UnknownTargetError as error:
            if self._facts["lora_targets"].snippet:
                message = f"LoRA target of {architecture.name}: {error}"
                self._report("sizing.lora-target", "lora_targets", message, "correct the name")
            targets = ()
        if not targets:
            targets = default_targets(architecture) or ("all-linear",)
            origin = "PEFT's default for the model type"
            self._facts["lora_targets"] = Fact(value=",".join(targets), snippet="", origin=origin)
        return targets

    def _scored(self) -> float:
        """Return the fraction of a sample's tokens in the loss: all but those of a prompt."""
        prompt, sequence = int(self._stated("prompt") or 0), int(self._value("sequence", "") or 1)
        answer = int(self._stated("answer") or sequence) if self._stated("objective") == Objective.PPO else sequence
        return min(max(0, sequence - prompt), answer) / sequence

    def _saved_modules(self, architecture: Architecture) -> tuple[str, ...]:
        """Return the modules that are trained whole beside the adapters."""
        modules = tuple(part for part in self._stated("saved_modules").split(",") if part)
        try:
            saved_parameters(architecture, modules)
        except UnknownTargetError as error:
            message = f"fully trained module of {architecture.name}: {error}"
            self._report("sizing.lora-target", "saved_modules", message, "correct the name")
        return modules

    def _exact(self, training: Training) -> int | None:
        """Return the number of GPUs that the degrees on the line multiply to, if they leave none open."""
        shards = self._stated("shards")
        return training.group * training.replicas * int(shards) if shards else None

    def _accumulation(self, training: Training, batch: int, processes: int) -> int:
        """Return the steps of an update: stated, or what is left of all its samples for each replica."""
        samples = self._stated("update_batch")
        if not samples:
            return int(self._value("accumulation", "1"))
        replicas = max(1, processes // training.group)
        steps, rest = divmod(int(samples), batch * replicas)
        if rest or not steps:
            message = f"a batch of {samples} does not divide among {replicas} replicas with {batch} samples each"
            self._report("sizing.batch", "update_batch", message, "correct the batch, or the number of processes")
        return max(1, steps)

    def _batch(self, multiple: int) -> tuple[int, int]:
        """Return the samples per process and the number of processes, which is a multiple of those that share work."""
        processes = self._processes()
        if processes % multiple:
            if self._facts["processes"].snippet:
                message = f"{processes} processes are not a multiple of the {multiple} that share samples or experts"
                self._report("sizing.batch", "processes", message, "correct the number of processes")
                return 1, 1
            processes = multiple * -(-processes // multiple)
        per_process = self._stated("batch")
        if per_process:
            return int(per_process), processes
        batch = int(self._stated("global_batch") or 1)
        if batch % processes == 0:
            return batch // processes, processes
        message = f"a batch of {batch} does not divide among {processes} processes"
        hint = "correct AUTOCONF_BATCH_SIZE or the number of processes"
        self._report("sizing.batch", "global_batch", message, hint)
        return batch, 1

    def _processes(self) -> int:
        """Return the number of processes that share the batch today.

        By default a launcher starts one process per requested GPU. If the job requests none, its batch is taken as that
        of a single process.
        """
        stated = self._launch.facts.get("processes")
        if stated is None and self._requested and (self._starts_processes or not self._launch.fact("processes")):
            self._facts["processes"] = default_fact(str(self._requested), "one per requested GPU")
            return self._requested
        return int(self._value("processes", "1", "neither the line nor the resources set it"))

    def _unresolved(self) -> list[Diagnostic]:
        """Return the values that are written but unknown. Counts of processes and machines may be decided later."""
        later = [diagnostic for diagnostic in self._launch.unresolved if diagnostic.rule == _DECIDED_LATER]
        expected = [name for name in ("processes", "machines") if self._launch.fact(name) is None]
        excused = later if len(set(later)) <= len(expected) else []
        return [diagnostic for diagnostic in self._launch.unresolved if diagnostic not in excused]

    def _report(self, rule: str, name: str, message: str, hint: str) -> None:
        self._diagnostics.append(Diagnostic(rule=rule, message=message, hint=hint, span=self._span(name)))

    def _span(self, name: str) -> Span | None:
        fact = self._facts.get(name)
        return None if fact is None else fact.span

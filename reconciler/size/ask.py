"""Answer a sizing question without a file: a training that flags describe, on 1, 2, 4 … GPUs until it fits."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.kube.values import NOT_JSON
from reconciler.launch import FRAMEWORKS, Framework
from reconciler.size.files import completed
from reconciler.size.pages.answer import SizeAnswer
from reconciler.sizing.decide import decide, format_gpus
from reconciler.sizing.decision import Decision
from reconciler.sizing.memory.states import OPTIMIZERS
from reconciler.sizing.misspelled import misspelled
from reconciler.sizing.models import parse_model_config
from reconciler.sizing.models.lora import UnknownTargetError, adapter_parameters, targets_or_default
from reconciler.sizing.question import Goal, Question
from reconciler.sizing.remedies import Situation
from reconciler.sizing.summary import describe_question, summarize
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training import (
    Architecture,
    Attention,
    Method,
    Objective,
    Offload,
    Precision,
    Strategy,
    Training,
    impossible_degrees,
)

_Value = TypeVar("_Value")
_HINT = "see `reconciler size ask --help`"
_MORE = 2  # larger numbers of GPUs to evaluate after the first that fits, to show how much memory they leave free
_MAX_SHOWN = 60


class Asked(Struct, frozen=True, kw_only=True):
    """A training, by the flags of `reconciler size ask`. What is empty or None is the default of the framework."""

    model: str
    gpu: str
    framework: str = ""
    method: str = ""
    objective: str = ""
    sequence: int | None = None
    batch: int | None = None
    accumulation: int = 1
    precision: str = ""
    optimizer: str = ""
    checkpointing: bool | None = None
    attention: str = ""
    lora_rank: int | None = None
    lora_targets: str = ""
    fused_loss: bool | None = None
    parallelism: str = ""
    offload: str = "none"


class Bounds(Struct, frozen=True, kw_only=True):
    """Limits of the search, as in `Question`."""

    gpus_per_worker: int = 8
    max_gpus: int = 64
    safety: float = 0.08
    allow_paged: bool = False


def framework_names() -> tuple[str, ...]:
    """Return the names of the frameworks whose trainings can be sized."""
    return tuple(dict.fromkeys(row.name for row in FRAMEWORKS if row.name and not row.unsupported))


def find_framework(name: str) -> Framework | None:
    """Return the framework of a name, None for an empty one; `ConfigError` for any other."""
    if not name:
        return None
    found = next((row for row in reversed(FRAMEWORKS) if row.name == name.lower() and not row.unsupported), None)
    if found is None:
        near = misspelled(name.lower(), framework_names())
        hint = f"did you mean {near[0]}?" if near else f"known frameworks: {', '.join(framework_names())}"
        raise ConfigError(f"--framework: unknown framework {name!r}", hint=hint)
    return found


def answer_question(
    asked: Asked,
    bounds: Bounds,
    tables: SizingTables,
    *,
    gpus: int | None = None,
    architecture: Architecture | None = None,
) -> SizeAnswer:
    """Find the smallest number of GPUs that fits a training, each with the same batch per GPU.

    gpus: a number of GPUs to check as well.
    architecture: shape of a model that is not in the model table.

    Raises `ConfigError` that names the flag with an invalid value.
    """
    framework = find_framework(asked.framework)
    defaults = {} if framework is None else {**framework.defaults, **_RECIPES.get(framework.name, {})}
    known = architecture or (tables.models.find(asked.model) if asked.model else None)
    if known is None:
        raise _unknown("model", asked.model, tables.models.closest(asked.model), "name a folder with its config.json")
    gpu = tables.gpus.find(asked.gpu) if asked.gpu else None
    if gpu is None:
        hint = "use the value of the node label nvidia.com/gpu.product"
        raise _unknown("gpu", asked.gpu, tables.gpus.closest(asked.gpu), hint)
    training = _training(asked, known, defaults)
    for _, message in impossible_degrees(training, evenly=framework is not None and framework.divides_evenly):
        raise ConfigError(f"--parallelism: {message}", hint="correct the degree of parallelism")
    base = Question(
        training=training,
        gpu=gpu,
        batch=_batch(asked, defaults),
        processes=1,
        accumulation=asked.accumulation,
        goal=Goal.AVOID_OOM,
        gpus_per_worker=bounds.gpus_per_worker,
        safety=bounds.safety,
        allow_paged=bounds.allow_paged,
    )
    answer = _merge(_sweep(base, bounds, gpus), gpus)
    situation = Situation(offered=tuple(tables.gpus), most_gpus=bounds.max_gpus, framework=framework)
    requested = None if answer.requested is None or gpus is None else _with_gpus(base, gpus)
    return completed(answer, situation, requested)


def _with_gpus(question: Question, count: int) -> Question:
    return replace(question, processes=count, requested_gpus=count, max_gpus=count)


def _sweep(base: Question, bounds: Bounds, gpus: int | None) -> Iterator[tuple[Question, Decision]]:
    """Decide for powers of two and `gpus`, up to a few numbers above the first that fits."""
    powers = {1 << exponent for exponent in range(bounds.max_gpus.bit_length())}
    fitting = 0
    for count in sorted(powers | ({gpus} if gpus else set())):
        question = _with_gpus(base, count)
        decision = decide(question)
        yield question, decision
        fitting += decision.chosen is not None
        if fitting > _MORE and (gpus is None or count >= gpus):
            return


def _merge(decided: Iterator[tuple[Question, Decision]], gpus: int | None) -> SizeAnswer:
    """Return the first decision that fits, with the candidates of all."""
    decisions = list(decided)
    candidates = tuple(decision.candidates[0] for _, decision in decisions if decision.candidates)
    question, best = next((pair for pair in decisions if pair[1].chosen is not None), decisions[-1])
    chosen = None
    if best.chosen is not None:
        layout = best.chosen.layout
        chosen = next(candidate for candidate in candidates if candidate.layout == layout)
    text = f"{format_gpus(chosen.layout)}: {chosen.text}" if chosen is not None else best.text
    decision = replace(best, goal=Goal.MIN_GPU, chosen=chosen, text=text, candidates=candidates, total_tokens=None)
    return SizeAnswer(
        question=question,
        decision=decision,
        note=summarize(decision, read=describe_question(question, ())),
        requested=next((candidate for candidate in candidates if candidate.layout.gpus == gpus), None),
    )


# --- flags ----------------------------------------------------------------------------------------------------------

_RECIPES: Mapping[str, Mapping[str, str]] = {
    "torchtune": {"optimizer": "adamw_torch_fused", "lora_targets": "all-linear"},
    "torchtitan": {"recomputed": "0.5"},  # job_config.py: selective checkpointing of every second layer
    "llama-recipes": {"checkpointing": "false"},
    "megatron-lm": {"lora_targets": "all-linear"},
}
"""What published recipes set beside the defaults of launch lines."""


def _plain(text: str) -> str:
    """Return a text in lower case, with one space for each run of characters that are not letters or digits."""
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


_METHODS = {_plain(one): one for one in Method}
_OBJECTIVES = {_plain(one): one for one in Objective if one is not Objective.PPO}
_OBJECTIVES |= {"simpo": Objective.ORPO, "cpo": Objective.ORPO}
_PRECISIONS = {_plain(one): one for one in Precision}
_ATTENTIONS = {_plain(one): one for one in Attention}
_OPTIMIZERS = {_plain(name): name for name in OPTIMIZERS}
_STRATEGIES = {_plain(one): one for one in Strategy} | {"none": Strategy.DDP, "fsdp": Strategy.FSDP_FULL}
_DEGREES = {
    "tp": "tensor",
    "pp": "pipeline",
    "cp": "context",
    "ep": "expert",
    "etp": "expert_tensor",
    "vp": "chunks",
    "hsdp": "replicas",
    "microbatches": "microbatches",
}
_DEGREE = re.compile(r"([a-z]+) ?([1-9]\d{0,3})")


def _training(asked: Asked, architecture: Architecture, defaults: Mapping[str, str]) -> Training:
    def stated(name: str, fallback: str) -> str:
        return str(getattr(asked, name) or defaults.get(name, fallback))

    def flag(name: str, *, fallback: bool) -> bool:
        own = getattr(asked, name)
        return own if own is not None else defaults.get(name, str(fallback).lower()) == "true"

    degrees = _parallelism(asked.parallelism, defaults.get("strategy", "fsdp"))
    parts = degrees.pop("microbatches", 0) or (degrees.get("pipeline", 1) if asked.accumulation == 1 else 0)
    targets = tuple(stated("lora_targets", "q_proj,v_proj").replace(",", " ").split())
    training = Training(
        model=asked.model,
        architecture=architecture,
        method=_known("method", stated("method", "full"), _METHODS),
        sequence=int(stated("sequence", "2048")),
        objective=_known("objective", asked.objective or "sft", _OBJECTIVES),
        precision=_known("precision", stated("precision", "bf16"), _PRECISIONS),
        optimizer=_known("optimizer", stated("optimizer", "adamw_torch"), _OPTIMIZERS),
        checkpointing=flag("checkpointing", fallback=True),
        attention=_known("attention", stated("attention", "flash-attn-2"), _ATTENTIONS),
        offload=Offload(asked.offload),
        microbatch=-(-_batch(asked, defaults) // parts) if parts else 0,
        recomputed=float(defaults.get("recomputed", "1")) if asked.checkpointing is None else 1.0,
        lora_rank=int(stated("lora_rank", "8")),
        lora_targets=targets if asked.lora_targets else targets_or_default(architecture, targets),
        fused_loss=flag("fused_loss", fallback=False),
        framework=asked.framework.lower(),
    )
    has_sequences = defaults.get("sequence_parallel") == "true"
    _check_adapters(asked, training)
    return replace(training, **{"sequence_parallel": has_sequences, **degrees})


def _batch(asked: Asked, defaults: Mapping[str, str]) -> int:
    return asked.batch or int(defaults.get("batch", "1"))


def _parallelism(text: str, strategy: str) -> dict[str, Any]:
    """Return the fields of a training that a parallelism such as `FSDP + TP 2 + SP` sets, and `microbatches`.

    EP and ETP divide experts, VP are the chunks of a stage, HSDP replicas of shards; SP is sequence parallelism, which
    divides the inputs of layers among the GPUs of tensor parallelism.
    """
    found: dict[str, Any] = {"strategy": _STRATEGIES[_plain(strategy)]}
    for part in re.split(r"[+,]", text) if text else ():
        key = _plain(part)
        match = _DEGREE.fullmatch(key)
        if key in _STRATEGIES:
            found["strategy"] = _STRATEGIES[key]
        elif match is not None and match[1] in _DEGREES:
            found[_DEGREES[match[1]]] = int(match[2])
        elif key == "sp":
            found["sequence_parallel"] = True
        else:
            hint = "use values such as none, FSDP, ZeRO-3, TP 2, FSDP + CP 2"
            raise ConfigError(f"--parallelism: unknown value {_shown(text)}", hint=hint)
    return found


def _known(flag: str, text: str, known: Mapping[str, _Value]) -> _Value:
    found = known.get(_plain(text))
    if found is None:
        names = ", ".join(sorted(known)[:_MAX_SHOWN])
        raise ConfigError(f"--{flag}: unknown value {_shown(text)}; allowed values: {names}", hint=_HINT)
    return found


def _unknown(flag: str, text: str, near: Sequence[str], hint: str) -> ConfigError:
    """Return the error of a name that no table has."""
    if not text:
        return ConfigError(f"--{flag}: is required", hint=hint)
    return ConfigError(
        f"--{flag}: unknown value {_shown(text)}", hint=f"did you mean {', '.join(near)}?" if near else hint
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…")


def _check_adapters(asked: Asked, training: Training) -> None:
    if not training.method.has_adapters:
        for flag, value in (("lora-rank", asked.lora_rank), ("lora-targets", asked.lora_targets)):
            if value:
                message = f"--{flag}: the method {training.method} trains no LoRA adapters"
                raise ConfigError(message, hint="add --method lora, or remove the flag")
        return
    try:
        adapter_parameters(training.architecture, training.lora_rank, training.lora_targets)
    except UnknownTargetError as error:
        raise ConfigError(f"--lora-targets: {error}", hint="use all-linear, or names of the model's layers") from error


def parse_architecture(raw: bytes, path: str, name: str) -> Architecture:
    """Parse a model's `config.json`, whose path is only shown; `ConfigError` if it does not describe a known shape."""
    hint = "pass the folder or the config.json of a Hugging Face model"
    try:
        config = msgspec.json.decode(raw)
    except NOT_JSON as error:
        raise ConfigError(f"{path}: invalid JSON: {error}", hint=hint) from error
    parsed = parse_model_config(config, name) if isinstance(config, dict) else "it is not a JSON object"
    if isinstance(parsed, str):
        raise ConfigError(f"{path}: cannot read the shape of the model: {parsed}", hint=hint)
    return parsed

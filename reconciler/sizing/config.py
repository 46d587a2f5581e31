"""`spec.sizing` of `reconciler.yaml`: which jobs are sized, by which engine, for which goal, and how they are marked.

The default label and annotation keys are those of the autoconf controller, so that tools that read them keep working.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import is_label_value, is_qualified_name
from reconciler.sizing.engine_registry import ANALYTIC, ENGINES, Engine
from reconciler.sizing.prices import NO_PRICES, Prices


class Goal(StrEnum):
    """The goal among the layouts that fit."""

    MIN_GPU = "min-gpu"  # the fewest GPUs that keep the effective batch
    AVOID_OOM = "avoid-oom"  # the requested number if it fits, else the next power of two
    THROUGHPUT = "throughput"  # the most tokens per second


class Write(StrEnum):
    """The place of the numbers: `rendered/`, or the source file by `reconciler size write`."""

    RENDERED = "rendered"
    SOURCE = "source"


class Unanswered(StrEnum):
    """The treatment of a job without a recommendation: it is held back, or rendered as written."""

    BLOCK = "block"
    PASS_THROUGH = "pass-through"  # noqa: S105 - not a password


class SizedJobs(Struct, frozen=True, kw_only=True):
    """The jobs that are sized: those with the watch label, or `every` job; limited to `namespaces` if any are named."""

    label_key: str = "autoconf-plugin-name"
    label_value: str = "resource-requirements-appwrapper"
    namespaces: tuple[str, ...] = ()
    every: bool = False


class Labels(Struct, frozen=True, kw_only=True):
    """Keys that report the result on a job. The watch label is in `SizedJobs`."""

    done_key: str = "autoconf-plugin-done"
    done_value: str = "yes"
    waiting_key: str = "waiting-for-ado-request-id"
    annotation_key: str = "ado-autoconf.ibm.com/recommendation"


class SizingSettings(Struct, frozen=True, kw_only=True):
    """The settings for sizing a cluster's jobs. By default: each with the watch label, by the built-in memory model.

    `engine_section` holds the engine's own section as key-value pairs, because settings are hashed and stored. `safety`
    is the memory to keep free, as a fraction of the estimate. `prices` are relative costs of one hour that override the
    shipped ones; `hours` are those in money.
    """

    select: SizedJobs = SizedJobs()
    kinds: tuple[str, ...] = ()  # lower-case names; empty: every kind that can be sized
    engine_name: str = ANALYTIC.name
    engine_section: tuple[tuple[str, str | int], ...] = ()
    goal: Goal = Goal.MIN_GPU
    gpus_per_worker: int = 8
    max_gpus: int = 64
    safety: float = 0.08
    allow_paged: bool = False
    allow_disagreement: bool = False
    default_gpu_model: str = ""
    model_version: str = "3.1.0"
    patch_cpu_request: bool = True
    unsuspend: bool = False
    prices: tuple[tuple[str, float], ...] = ()  # (product, price)
    hours: Prices = NO_PRICES  # `prices` of the repository or the cluster
    write: Write = Write.RENDERED
    labels: Labels = Labels()
    when_pending: Unanswered = Unanswered.BLOCK
    when_refused: Unanswered = Unanswered.PASS_THROUGH

    @property
    def engine(self) -> Engine:
        """The engine's row in the registry."""
        return ENGINES[self.engine_name]

    @property
    def engine_settings(self) -> Struct | None:
        """The engine's own section, as the type that its row names."""
        settings = self.engine.settings
        return None if settings is None else msgspec.convert(dict(self.engine_section), settings)

    def selects(self, kind: str, namespace: str, labels: Mapping[str, Any]) -> bool:
        """Return whether a job of this kind and namespace, with these labels, is to be sized."""
        select = self.select
        if (self.kinds and kind not in self.kinds) or (select.namespaces and namespace not in select.namespaces):
            return False
        return select.every or labels.get(select.label_key) == select.label_value


_WITH_SETTINGS = tuple(engine for engine in ENGINES.values() if engine.settings is not None)

_ENGINE_KEYS = frozenset({"engine", *(engine.name for engine in _WITH_SETTINGS)})


def merge_sizing(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the `sizing` of a cluster over that of the repository, key by key.

    A cluster that names an engine or an engine's section replaces the repository's choice of engine as a whole.
    """
    replaces_engine = not _ENGINE_KEYS.isdisjoint(override)
    merged = {key: value for key, value in base.items() if key not in _ENGINE_KEYS or not replaces_engine}
    for key, value in override.items():
        below = merged.get(key)
        nested = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[key] = merge_sizing(below, value) if nested and isinstance(below, Mapping) else value
    return merged


_PLAIN_SETTINGS = (
    ("gpusPerWorker", "gpus_per_worker"),
    ("maxGpus", "max_gpus"),
    ("safety", "safety"),
    ("allowPaged", "allow_paged"),
    ("allowDisagreement", "allow_disagreement"),
    ("defaultGpuModel", "default_gpu_model"),
    ("modelVersion", "model_version"),
    ("patchCpuRequest", "patch_cpu_request"),
    ("unsuspend", "unsuspend"),
)
"""Key in YAML and field of `SizingSettings`, for values that are taken as they are."""


def sizing_settings(spec: Mapping[str, Any]) -> SizingSettings:
    """Parse `sizing` after its JSON Schema and `sizing_errors` have accepted it."""
    defaults, engine = SizingSettings(), _engine(spec)
    return SizingSettings(
        **{field: spec[key] for key, field in _PLAIN_SETTINGS if key in spec},
        select=_select(spec.get("select", {})),
        kinds=tuple(spec.get("kinds", defaults.kinds)),
        engine_name=engine.name,
        engine_section=tuple(sorted(spec[engine.name].items())) if engine.settings else (),
        goal=Goal(spec.get("goal", defaults.goal)),
        prices=tuple((product, float(price)) for product, price in sorted(spec.get("prices", {}).items())),
        write=Write(spec.get("write", defaults.write)),
        labels=_labels(spec.get("labels", {})),
        when_pending=Unanswered(spec.get("whenPending", defaults.when_pending)),
        when_refused=Unanswered(spec.get("whenRefused", defaults.when_refused)),
    )


def _select(spec: Mapping[str, Any]) -> SizedJobs:
    defaults, label = SizedJobs(), spec.get("label", {})
    return SizedJobs(
        label_key=label.get("key", defaults.label_key),
        label_value=label.get("value", defaults.label_value),
        namespaces=tuple(spec.get("namespaces", ())),
        every=spec.get("all", False),
    )


def _labels(spec: Mapping[str, Any]) -> Labels:
    defaults, done = Labels(), spec.get("done", {})
    return Labels(
        done_key=done.get("key", defaults.done_key),
        done_value=done.get("value", defaults.done_value),
        waiting_key=spec.get("waiting", defaults.waiting_key),
        annotation_key=spec.get("annotation", defaults.annotation_key),
    )


def _engine(spec: Mapping[str, Any]) -> Engine:
    """Return the engine that `engine` names; else the one whose section is present; else the built-in model."""
    if "engine" in spec:
        return ENGINES[spec["engine"]]
    return next((engine for engine in _WITH_SETTINGS if engine.name in spec), ANALYTIC)


FieldError = tuple[FieldPath, str, str]
"""Field, message, hint."""


def sizing_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors in `sizing`, of the repository and of each cluster, that a JSON Schema cannot express.

    `spec` is the `spec` of `reconciler.yaml`.
    """
    base = spec.get("sizing", {})
    yield from _errors(base, base, ("spec", "sizing"))
    for index, cluster in enumerate(spec["clusters"]):
        if "sizing" in cluster:
            own = cluster["sizing"]
            yield from _errors(merge_sizing(base, own), own, ("spec", "clusters", index, "sizing"))


def _errors(merged: Mapping[str, Any], own: Mapping[str, Any], at: FieldPath) -> Iterator[FieldError]:
    """Yield errors in `merged` that keys of `own` cause."""
    if not _ENGINE_KEYS.isdisjoint(own):
        yield from _engine_errors(own, at)
    if own.keys() & {"labels", "select"}:
        yield from _label_errors(merged, own, at)


def _engine_errors(spec: Mapping[str, Any], at: FieldPath) -> Iterator[FieldError]:
    engine, sections = _engine(spec), [one for one in _WITH_SETTINGS if one.name in spec]
    names = [f"{one.name}.{one.required}" for one in sections]
    if len(sections) > 1:
        hint = "keep the section of the engine to use and remove the others"
        yield (*at, sections[-1].name), f"{' and '.join(names)} are both set", hint
    elif engine.settings is not None and engine not in sections:
        required = f"{engine.name}.{engine.required}"
        yield (*at, "engine"), f"engine is {engine.name}, but {required} is not set", f"set {required}"
    for other in sections:
        if "engine" in spec and engine != other:
            hint = f"remove it, or set engine to {other.name}"
            yield (*at, other.name), f"is not used: engine is {engine.name}", hint


def _label_errors(merged: Mapping[str, Any], own: Mapping[str, Any], at: FieldPath) -> Iterator[FieldError]:
    """Apply the grammar of Kubernetes (apimachinery pkg/util/validation) to label keys and values."""
    keys = (("select", "label", "key"), ("labels", "done", "key"), ("labels", "waiting"), ("labels", "annotation"))
    for path in keys:
        key = _value(own, path)
        if key is not None and not is_qualified_name(key):
            hint = "use at most 63 letters, digits, `-`, `_` or `.`, with an optional DNS prefix and `/`"
            yield (*at, *path), f"{key!r} is not a valid label key" if key else "is empty", hint
    for path in (("select", "label", "value"), ("labels", "done", "value")):
        value = _value(own, path)
        if value and not is_label_value(value):
            hint = "use at most 63 letters, digits, `-`, `_` or `.`"
            yield (*at, *path), f"{value!r} is not a valid label value", hint
    labels = _labels(merged.get("labels", {}))
    if labels.done_key == labels.waiting_key:
        hint = "use a different key for each"
        yield (*at, "labels"), f"{labels.done_key!r} is both the key for done and the key for waiting", hint


def _value(spec: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = spec
    for part in path:
        value = value.get(part) if value else None
    return value

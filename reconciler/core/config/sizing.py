"""`spec.sizing` of `reconciler.yaml`: which jobs are sized, by whom, towards what, and how the result is marked.

Names and defaults of labels are those of the autoconf controller, so that what reads them goes on reading them.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.core.objects import FieldPath


class Goal(StrEnum):
    """What is sought among the layouts that fit."""

    MIN_GPU = "min-gpu"  # the fewest GPUs; the effective batch stays
    AVOID_OOM = "avoid-oom"  # the requested number if it fits, else the next power of two
    THROUGHPUT = "throughput"  # the most tokens a second


class Engine(StrEnum):
    """Who is heard besides physics, which always is."""

    ANALYTIC = "analytic"  # nobody
    AUTOCONF = "autoconf"  # the installed ado-autoconf
    AUTOCONF_TABLE = "autoconf-table"  # its model, compiled to a table
    WRAPPER = "wrapper"  # a script of the user
    REST = "rest"  # ado's REST API

    @property
    def is_external(self) -> bool:
        """Its answers come from outside, as evidence."""
        return self is not Engine.ANALYTIC

    @property
    def recommends(self) -> bool:
        """It gives a whole recommendation; the others that are external give a chance for each candidate."""
        return self in (Engine.WRAPPER, Engine.REST)


class SizedKind(StrEnum):
    """A kind of job that can be sized."""

    PYTORCHJOB = "pytorchjob"
    APPWRAPPER = "appwrapper"
    JOB = "job"
    JOBSET = "jobset"
    TRAINJOB = "trainjob"
    RAYJOB = "rayjob"
    TORCHRUNJOB = "torchrunjob"


class Write(StrEnum):
    """Where the numbers go: into `rendered/`, or into the user's own file by `reconciler size --write`."""

    RENDERED = "rendered"
    SOURCE = "source"


class Unanswered(StrEnum):
    """What happens to a job without a recommendation: it is held back, or passes as it is written."""

    BLOCK = "block"
    PASS_THROUGH = "pass-through"  # noqa: S105 - a way past the gate, no password


class SizedJobs(Struct, frozen=True, kw_only=True):
    """Which jobs are sized: those with the watch label, or `every` one; only in `namespaces` where any are named."""

    label_key: str = "autoconf-plugin-name"
    label_value: str = "resource-requirements-appwrapper"
    namespaces: tuple[str, ...] = ()
    every: bool = False


class Wrapper(Struct, frozen=True, kw_only=True):
    """A script of the user that is asked: its path, and seconds until it is given up."""

    script: str
    timeout_s: int = 120


class Rest(Struct, frozen=True, kw_only=True):
    """A service with ado's REST API: its URL, seconds until one call is given up, seconds until an answer is."""

    url: str
    timeout_s: int = 30
    deadline_s: int = 600


class Labels(Struct, frozen=True, kw_only=True):
    """Keys by which others learn what became of a job; the watch label is in `SizedJobs`."""

    done_key: str = "autoconf-plugin-done"
    done_value: str = "yes"
    waiting_key: str = "waiting-for-ado-request-id"
    annotation_key: str = "ado-autoconf.ibm.com/recommendation"


class SizingSettings(Struct, frozen=True, kw_only=True):
    """How a cluster's jobs are sized. The defaults size every job that carries the watch label, by physics alone.

    `safety` is the share of an estimate that must stay free; `prices` compare cards (an hour's relative cost) and win
    over the shipped ones. `wrapper` and `rest` are set where `engine` is called so, and there only.
    """

    select: SizedJobs = SizedJobs()
    kinds: tuple[SizedKind, ...] = tuple(SizedKind)
    engine: Engine = Engine.ANALYTIC
    wrapper: Wrapper | None = None
    rest: Rest | None = None
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
    prices: tuple[tuple[str, float], ...] = ()  # product, price: pairs, because settings are hashed
    write: Write = Write.RENDERED
    labels: Labels = Labels()
    when_pending: Unanswered = Unanswered.BLOCK
    when_refused: Unanswered = Unanswered.PASS_THROUGH

    def selects(self, kind: SizedKind, namespace: str, labels: Mapping[str, Any]) -> bool:
        """Whether a job of this kind, namespace and labels is to be sized."""
        chosen = self.select
        if kind not in self.kinds or (chosen.namespaces and namespace not in chosen.namespaces):
            return False
        return chosen.every or labels.get(chosen.label_key) == chosen.label_value


_SOURCES = ("engine", "wrapper", "rest")


def laid_over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a cluster's `sizing` over that of the repository, key by key.

    A cluster that names an engine, a script or a service chooses anew: nothing of the repository's choice stays.
    """
    below = {key: value for key, value in base.items() if key not in _SOURCES or not own.keys() & set(_SOURCES)}
    merged = dict(below)
    for key, value in own.items():
        under = below.get(key)
        nested = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[key] = laid_over(under, value) if nested and isinstance(under, Mapping) else value
    return merged


def sizing_settings(spec: Mapping[str, Any]) -> SizingSettings:
    """Read `sizing` as its JSON Schema and `wrong_sizing` have accepted it."""
    simple = {
        name: spec[key]
        for key, name in (
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
        if key in spec
    }
    shipped = SizingSettings()
    return SizingSettings(
        **simple,
        select=_select(spec.get("select", {})),
        kinds=tuple(SizedKind(kind) for kind in spec.get("kinds", shipped.kinds)),
        engine=_engine(spec),
        wrapper=_wrapper(spec["wrapper"]) if "wrapper" in spec else None,
        rest=_rest(spec["rest"]) if "rest" in spec else None,
        goal=Goal(spec.get("goal", shipped.goal)),
        prices=tuple((product, float(price)) for product, price in sorted(spec.get("prices", {}).items())),
        write=Write(spec.get("write", shipped.write)),
        labels=_labels(spec.get("labels", {})),
        when_pending=Unanswered(spec.get("whenPending", shipped.when_pending)),
        when_refused=Unanswered(spec.get("whenRefused", shipped.when_refused)),
    )


def _select(spec: Mapping[str, Any]) -> SizedJobs:
    shipped, label = SizedJobs(), spec.get("label", {})
    return SizedJobs(
        label_key=label.get("key", shipped.label_key),
        label_value=label.get("value", shipped.label_value),
        namespaces=tuple(spec.get("namespaces", ())),
        every=spec.get("all", False),
    )


def _wrapper(spec: Mapping[str, Any]) -> Wrapper:
    return Wrapper(script=spec["script"], timeout_s=spec.get("timeoutSeconds", Wrapper(script="").timeout_s))


def _rest(spec: Mapping[str, Any]) -> Rest:
    shipped = Rest(url="")
    return Rest(
        url=spec["url"].rstrip("/"),
        timeout_s=spec.get("timeoutSeconds", shipped.timeout_s),
        deadline_s=spec.get("deadlineSeconds", shipped.deadline_s),
    )


def _labels(spec: Mapping[str, Any]) -> Labels:
    shipped, done = Labels(), spec.get("done", {})
    return Labels(
        done_key=done.get("key", shipped.done_key),
        done_value=done.get("value", shipped.done_value),
        waiting_key=spec.get("waiting", shipped.waiting_key),
        annotation_key=spec.get("annotation", shipped.annotation_key),
    )


def _engine(spec: Mapping[str, Any]) -> Engine:
    """Tell the engine as named; else the one that has been given what it needs; else physics alone."""
    named = [engine for engine in (Engine.WRAPPER, Engine.REST) if engine.value in spec]
    return Engine(spec["engine"]) if "engine" in spec else named[0] if named else Engine.ANALYTIC


Wrong = tuple[FieldPath, str, str]
"""Where, what is wrong, what to do."""


def wrong_sizing(spec: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield what a schema cannot say of `spec.sizing` and of each cluster's own; `spec` is that of the whole file."""
    base = spec.get("sizing", {})
    yield from _wrong(base, base, ("spec", "sizing"))
    for index, cluster in enumerate(spec["clusters"]):
        if "sizing" in cluster:
            own = cluster["sizing"]
            yield from _wrong(laid_over(base, own), own, ("spec", "clusters", index, "sizing"))


def _wrong(merged: Mapping[str, Any], own: Mapping[str, Any], at: FieldPath) -> Iterator[Wrong]:
    """Judge `merged` where `own` decides it."""
    if own.keys() & set(_SOURCES):
        yield from _wrong_engine(own, at)
    if own.keys() & {"labels", "select"}:
        yield from _wrong_labels(merged, own, at)


def _wrong_engine(spec: Mapping[str, Any], at: FieldPath) -> Iterator[Wrong]:
    engine = _engine(spec)
    if "wrapper" in spec and "rest" in spec:
        hint = "exactly one of wrapper.script and rest.url says who is asked: remove the other"
        yield (*at, "rest"), "wrapper.script and rest.url are both set", hint
    elif engine.recommends and engine.value not in spec:
        needed = "wrapper.script" if engine is Engine.WRAPPER else "rest.url"
        yield (*at, "engine"), f"engine is {engine.value}, but {needed} is not set", f"set {needed}"
    for other in (Engine.WRAPPER, Engine.REST):
        if other.value in spec and "engine" in spec and engine is not other:
            hint = f"remove it, or make engine {other.value}"
            yield (*at, other.value), f"engine is {engine.value}, so nobody asks it", hint


_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
_KEY = re.compile(rf"(?P<prefix>{_PREFIX}/)?{_NAME}")
_VALUE = re.compile(rf"({_NAME})?")
_LONGEST_PREFIX = 253


def _wrong_labels(merged: Mapping[str, Any], own: Mapping[str, Any], at: FieldPath) -> Iterator[Wrong]:
    """Kubernetes' grammar (apimachinery pkg/util/validation): an empty key would match nothing, or mark everything."""
    keys = (("select", "label", "key"), ("labels", "done", "key"), ("labels", "waiting"), ("labels", "annotation"))
    for path in keys:
        key = _value(own, path)
        if key is not None and not _is_key(key):
            hint = "give a name of at most 63 letters, digits, `-`, `_` or `.`, with a DNS prefix and `/` if you like"
            yield (*at, *path), f"{key!r} is no key of a label" if key else "is empty", hint
    for path in (("select", "label", "value"), ("labels", "done", "value")):
        value = _value(own, path)
        if value is not None and not _VALUE.fullmatch(value):
            hint = "give at most 63 letters, digits, `-`, `_` or `.`"
            yield (*at, *path), f"{value!r} is no value of a label", hint
    labels = _labels(merged.get("labels", {}))
    if labels.done_key == labels.waiting_key:
        hint = "give each a key of its own: a job that waits is not done"
        yield (*at, "labels"), f"{labels.done_key!r} says both that a job waits and that it is done", hint


def _value(spec: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = spec
    for part in path:
        found = found.get(part) if found else None
    return found


def _is_key(text: str) -> bool:
    match = _KEY.fullmatch(text)
    return match is not None and len(match["prefix"] or "") <= _LONGEST_PREFIX + 1

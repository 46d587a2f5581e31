"""Preemption of idle workloads (`gpureconciler.io`): policies, which `reconciler preempt` evaluates, not rendered."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.aspects import Lookup, Source
from reconciler.kinds.kind import Kind
from reconciler.kinds.rendered import Rendered
from reconciler.kube.cel.library.times import parse_duration
from reconciler.kube.cel.values import CelError
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Parsed, Violation
from reconciler.kube.schemas.messages import bad_value, format_value
from reconciler.kube.values import mapping, metadata_map, sequence
from reconciler.kube.yaml import Document
from reconciler.repo.config.config import GROUP

POLICY = (GROUP, "PreemptionPolicy")
PREFIX = "kaiwo.silogen.ai/gpu-preemption."
"""The start of Kaiwo's annotations of workloads and namespaces."""
CONFIG = ("config.kaiwo.silogen.ai", "KaiwoConfig")
"""The kind whose `spec.gpuPreemption` has Kaiwo's defaults."""

_ENDING = frozenset({("kaiwo.silogen.ai", "KaiwoJob"), ("kaiwo.silogen.ai", "KaiwoService")})
"""The kinds with `spec.duration`: how long a workload runs undisturbed."""
_NANOSECONDS = 10**9
_PERCENT = 100.0


class Pressure(StrEnum):
    """The occasion on which an idle workload is preempted."""

    ON_PRESSURE = "OnPressure"
    ALWAYS = "Always"


class Aggregation(StrEnum):
    """The utilisation of a workload, from that of its pods."""

    MIN = "Min"
    MAX = "Max"
    AVG = "Avg"


class PreemptionMode(StrEnum):
    """The consequence of a decision."""

    REPORT = "report"
    PROPOSE = "propose"
    ENFORCE = "enforce"


class IdleRules(Struct, frozen=True, kw_only=True):
    """Rules for workloads to count as idle, and for that to be a reason. is_enabled: None if nothing says so.

    pending_seconds: how long others have to wait. duration_seconds: how long it runs undisturbed; None: no limit.
    """

    threshold: float = 5.0
    grace_seconds: int = 600
    pressure: Pressure = Pressure.ON_PRESSURE
    aggregation: Aggregation = Aggregation.MAX
    pending_seconds: int = 300
    duration_seconds: int | None = None
    is_enabled: bool | None = None


class PreemptionBudgets(Struct, frozen=True, kw_only=True):
    """Limits of one policy; None: no limit."""

    gpus_per_day: int | None = None
    share_of_running: float = 0.25
    protected_priority: int | None = None
    min_age_seconds: int = 1800


class PreemptionPolicy(Struct, frozen=True, kw_only=True):
    """A policy. is_selecting: it has a selector, so that workloads need no annotation."""

    name: str
    document: Document
    is_selecting: bool = False
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    mode: PreemptionMode = PreemptionMode.REPORT
    max_age_seconds: int = 900
    budgets: PreemptionBudgets = PreemptionBudgets()


def seconds_of(duration: str) -> int:
    """Return a duration such as `1h30m` in whole seconds. Raises ValueError."""
    try:
        found = parse_duration(duration).nanoseconds // _NANOSECONDS
    except CelError as error:
        raise ValueError(duration) from error
    if found < 0:
        raise ValueError(duration)
    return found


def read_preemption_policy(document: Document) -> PreemptionPolicy:
    """Read a policy that its schema has accepted."""
    spec = mapping(document.data.get("spec"))
    selector, budgets = spec.get("selector"), mapping(spec.get("budgets"))
    limits = PreemptionBudgets()
    return PreemptionPolicy(
        name=document.key.name,
        document=document,
        is_selecting=selector is not None,
        namespaces=tuple(sequence(mapping(selector).get("namespaces"))),
        kinds=tuple(sequence(mapping(selector).get("kinds"))),
        mode=PreemptionMode(spec.get("mode", PreemptionMode.REPORT)),
        max_age_seconds=seconds_of(spec.get("maxEvidenceAge", "15m")),
        budgets=PreemptionBudgets(
            gpus_per_day=budgets.get("gpusPerDay"),
            share_of_running=budgets.get("shareOfRunning", limits.share_of_running),
            protected_priority=budgets.get("protectedPriority"),
            min_age_seconds=seconds_of(budgets.get("minAge", "30m")),
        ),
    )


_POLICY_FIELDS = ("threshold", "gracePeriod", "policy", "aggregation", "pendingFor")
_CONFIG_FIELDS: Mapping[str, tuple[str, str]] = {
    "threshold": ("gpuPreemption", "defaultThreshold"),
    "gracePeriod": ("gpuPreemption", "defaultGracePeriod"),
    "policy": ("gpuPreemption", "defaultPolicy"),
    "aggregation": ("gpuPreemption", "defaultAggregation"),
    "pendingFor": ("scheduling", "pendingThresholdForPreemption"),
}
_ANNOTATIONS = {
    "threshold": "threshold",
    "gracePeriod": "grace-period",
    "policy": "policy",
    "aggregation": "aggregation",
    "enabled": "enabled",
}


def with_policy(rules: IdleRules, policy: Document) -> tuple[IdleRules, list[Violation]]:
    """Return rules with what a PreemptionPolicy says."""
    spec = mapping(policy.data.get("spec"))
    return _with(rules, {name: (("spec", name), spec[name]) for name in _POLICY_FIELDS if name in spec})


def with_config(rules: IdleRules, config: Document) -> tuple[IdleRules, list[Violation]]:
    """Return rules with the defaults of a KaiwoConfig."""
    spec = mapping(config.data.get("spec"))
    values = {
        name: (("spec", section, field), value)
        for name, (section, field) in _CONFIG_FIELDS.items()
        if (value := mapping(spec.get(section)).get(field)) is not None
    }
    return _with(rules, values)


def with_annotations(rules: IdleRules, document: Document) -> tuple[IdleRules, list[Violation]]:
    """Return rules with what the annotations of a workload or namespace say: any of them enables, as in Kaiwo.

    `enabled: "false"` disables, whatever the others say. An unknown name and a wrong value are errors.
    """
    written = metadata_map(document.data, "annotations")
    names = {f"{PREFIX}{suffix}": name for name, suffix in _ANNOTATIONS.items()}
    own = {key: value for key, value in written.items() if key.startswith(PREFIX)}
    if not own:
        return rules, []
    values = {name: (("metadata", "annotations", key), own[key]) for key, name in names.items() if key in own}
    made, problems = _with(replace(rules, is_enabled=True), values)
    for key in own.keys() - names.keys() - {f"{PREFIX}ttl"}:  # the record that Kaiwo keeps, which we do not need
        known = ", ".join(sorted(names))
        problems.append(bad_value(("metadata", "annotations", key), "is not an annotation of preemption", known))
    return made, problems


def with_duration(rules: IdleRules, document: Document) -> tuple[IdleRules, list[Violation]]:
    """Return rules with the time that a KaiwoJob or KaiwoService runs undisturbed."""
    written = mapping(document.data.get("spec")).get("duration")
    if (document.group, document.kind) not in _ENDING or written is None:
        return rules, []
    return _with(rules, {"duration": (("spec", "duration"), written)})


def _with(rules: IdleRules, values: Mapping[str, tuple[FieldPath, Any]]) -> tuple[IdleRules, list[Violation]]:
    problems: list[Violation] = []
    made: dict[str, Any] = {}
    for name, (path, written) in values.items():
        try:
            field, value = _value(name, written)
        except (ValueError, TypeError):
            problems.append(bad_value(path, f"{format_value(written)} is not valid", _HINTS[name]))
        else:
            made[field] = value
    return replace(rules, **made), problems


_DURATIONS = {"gracePeriod": "grace_seconds", "pendingFor": "pending_seconds", "duration": "duration_seconds"}
_HINTS = {
    "threshold": "write a number from 0 to 100",
    "gracePeriod": "write a duration such as 10m",
    "policy": "allowed values: OnPressure, Always",
    "aggregation": "allowed values: Min, Max, Avg",
    "pendingFor": "write a duration such as 5m",
    "duration": "write a duration such as 2h30m",
    "enabled": 'write "true" or "false"',
}


def _value(name: str, written: Any) -> tuple[str, Any]:
    match name:
        case "threshold":
            number = float(written)
            if not 0 <= number <= _PERCENT:
                raise ValueError(written)
            return "threshold", number
        case "gracePeriod" | "pendingFor" | "duration":
            return _DURATIONS[name], seconds_of(written)
        case "policy":
            return "pressure", Pressure(written)
        case "aggregation":
            return "aggregation", Aggregation(written)
        case _:
            if written not in {"true", "false"}:
                raise ValueError(written)
            return "is_enabled", written == "true"


def _parse(document: Document) -> Parsed[PreemptionPolicy]:
    return Parsed(intent=read_preemption_policy(document))


def _render(_: PreemptionPolicy, __: Lookup) -> Rendered:
    return Rendered()


KINDS = (Kind(group=POLICY[0], kind=POLICY[1], is_cluster_scoped=True, source=Source(parse=_parse, render=_render)),)

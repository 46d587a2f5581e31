"""Rules between the fields of workloads: Jobs, CronJobs and the controllers of pods.

Sources: pkg/apis/{batch,apps}/validation/validation.go of Kubernetes 1.36.
"""

import re
from collections.abc import Iterator
from typing import Any

from reconciler.kube.objects import FieldPath, matches_selector
from reconciler.kube.patterns import LABEL_LENGTH, later
from reconciler.kube.problems import Violation
from reconciler.kube.schemas.builtin.pods import template_violations
from reconciler.kube.schemas.builtin.storage import volume_claim_violations
from reconciler.kube.schemas.messages import bad_value, format_choices, missing
from reconciler.kube.schemas.metadata import volume_name_violations

Data = dict[str, Any]

_MANAGER = later(
    r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
)
_INDEX = later(r"\+?[0-9]{1,9}")
_ALWAYS, _NOT_ALWAYS = ("Always",), ("", "Never", "OnFailure")
_SHARE = later(r"0*(100|[0-9]{1,2})%")
_MAX_INDEXED_PODS = 100_000  # the status of the Job lists the indexes that are completed
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 6))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {3: {name: number for number, name in enumerate(_MONTHS, 1)}, 4: {name: n for n, name in enumerate(_DAYS)}}
_MACROS = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_DURATION = later(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+", re.ASCII)  # as time.ParseDuration of Go
_DEFAULT_DEADLINE = 600  # seconds in which a Deployment makes progress


def name_of(data: Data) -> str:
    """Return the name of an object or a template; empty without one."""
    return (data.get("metadata") or {}).get("name") or ""


def job_violations(data: Data) -> Iterator[Violation]:
    """Validate a Job."""
    by_default = 1 if data["spec"].get("parallelism") is None else None
    yield from _job_spec(data["spec"], ("spec",), by_default)
    if data["spec"].get("manualSelector") is not True:
        if any((data["spec"].get("selector") or {}).values()):
            yield bad_value(("spec", "selector"), "is set by the server", "remove it")
    elif data["spec"].get("selector") is None:
        yield missing(("spec", "selector"))
    else:
        yield from _selector(data["spec"], may_be_empty=True)
    if data["spec"].get("completionMode") == "Indexed":
        # Pods of an Indexed Job have the host name <job>-<index>, a DNS label.
        name = name_of(data)
        last = f"{name}-{max((data['spec'].get('completions') or 1) - 1, 0)}"
        if "." in name or len(last) > LABEL_LENGTH:
            yield Violation(
                rule="schema.bad-name",
                path=("metadata", "name"),
                message=f"pods of an Indexed Job use their name, such as {last}, as host name",
                hint=f"do not use '.', and use at most {LABEL_LENGTH} characters including the index",
            )


def cron_job_violations(data: Data) -> Iterator[Violation]:
    """Validate a CronJob: its schedule, and its Jobs."""
    problem = _schedule_problem(data["spec"]["schedule"])
    if problem:
        yield bad_value(("spec", "schedule"), problem, "correct it, or use a macro such as @daily")
    if (data["spec"].get("timeZone") or "").lower() == "local":
        yield bad_value(("spec", "timeZone"), "is not the name of a time zone", "write Etc/UTC or Europe/Berlin")
    path: FieldPath = ("spec", "jobTemplate", "spec")
    spec = data["spec"]["jobTemplate"].get("spec")
    if spec:
        yield from _job_spec(spec, path)
        if spec.get("selector") is not None:
            yield bad_value((*path, "selector"), "is set by the server", "remove it")
        if spec.get("manualSelector") is True:
            yield bad_value((*path, "manualSelector"), "must not be true in a CronJob", "remove it")
    else:
        yield missing(path)


def _schedule_problem(schedule: str) -> str:
    """Return what is wrong with a schedule as robfig/cron v3 parses it (`cron.ParseStandard`); empty if nothing is."""
    written = schedule.removeprefix("@every ")
    if written != schedule:
        return "" if _DURATION.fullmatch(written) else f"{written!r} is not a duration"
    fields = schedule.split()
    if schedule.startswith("@"):
        return "" if schedule in _MACROS else f"{schedule} is not a macro"
    if len(fields) != len(_FIELDS):
        return ""  # the schema knows how many there are
    for index, field in enumerate(fields):
        for part in filter(None, field.split(",")):
            problem = _range_problem(part, index)
            if problem:
                return problem
    return ""


def _range_problem(part: str, index: int) -> str:
    """Return what is wrong with one part of a field: `*`, `5`, `mon-fri`, `0-30/5`."""
    name, low, high = _FIELDS[index]
    span, _, step = part.partition("/")
    if "/" in part and (not step.isdecimal() or int(step) == 0):
        return f"the step of {part} is not a positive number"
    if span in ("*", "?"):
        return ""
    first, dash, last = span.partition("-")
    numbers = [_number(text, index) for text in ((first, last) if dash else (first,))]
    if None in numbers:
        return f"{part!r} is not a {name}"
    values = [number for number in numbers if number is not None]
    if values[0] < low or values[-1] > high:
        return f"{part} is not a {name}: {low} to {high}"
    return f"the range {part} is backwards" if values[0] > values[-1] else ""


def _number(text: str, index: int) -> int | None:
    named = _NAMES.get(index, {}).get(text.lower())
    return named if named is not None else int(text) if text.isascii() and text.isdecimal() else None


def _job_spec(spec: Data, path: FieldPath, default_completions: int | None = None) -> Iterator[Violation]:
    template, indexed = spec["template"], spec.get("completionMode") == "Indexed"
    yield from template_violations(template, (*path, "template"), _NOT_ALWAYS)
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(field) is not None and not indexed:
            yield bad_value((*path, field), "requires an Indexed Job", "set completionMode: Indexed")
    if indexed and spec.get("completions") is None and default_completions is None:
        yield missing((*path, "completions"))
    yield from _indexes(spec, path)
    manager = spec.get("managedBy")
    if manager is not None and not _MANAGER.fullmatch(manager):
        yield bad_value((*path, "managedBy"), "is not a name with a domain", "write it as example.com/controller")
    if indexed and (spec.get("parallelism") or 0) > _MAX_INDEXED_PODS:
        message = f"must be at most {_MAX_INDEXED_PODS} for an Indexed Job"
        yield bad_value((*path, "parallelism"), message, "lower it")
    if spec.get("podFailurePolicy") is not None:
        yield from _failure_policy(spec, path)
    if spec.get("successPolicy") is not None:
        yield from _success_policy(spec, path)


def _failure_policy(spec: Data, path: FieldPath) -> Iterator[Violation]:
    pod = spec["template"]["spec"]
    if pod.get("restartPolicy") == "OnFailure":
        place = (*path, "template", "spec", "restartPolicy")
        yield bad_value(place, "must be Never when podFailurePolicy is set", "use Never")
    if spec.get("podReplacementPolicy") not in (None, "", "Failed"):
        yield bad_value((*path, "podReplacementPolicy"), "must be Failed when podFailurePolicy is set", "remove it")
    names = [container["name"] for field in ("initContainers", "containers") for container in pod.get(field) or ()]
    for index, rule in enumerate([rule or {} for rule in spec["podFailurePolicy"].get("rules") or ()]):
        place = (*path, "podFailurePolicy", "rules", index)
        yield from _failure_rule(rule, place, names)
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield bad_value((*place, "action"), "FailIndex requires backoffLimitPerIndex", "set backoffLimitPerIndex")


def _success_policy(spec: Data, path: FieldPath) -> Iterator[Violation]:
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield bad_value((*path, "successPolicy"), "requires an Indexed Job", "set completionMode: Indexed")
        return
    for index, rule in enumerate([rule or {} for rule in spec["successPolicy"].get("rules") or ()]):
        place, written = (*path, "successPolicy", "rules", index), rule.get("succeededIndexes")
        most, count = completions, rule.get("succeededCount")
        if written is None and count is None:
            yield bad_value(place, "must have succeededIndexes or succeededCount", "set one of the two")
        if written is not None:
            indexes = _parse_indexes(written)
            if indexes is None or (completions is not None and indexes[1] >= completions):
                message = f"{written[:80]!r} does not list indexes of the Job"
                yield bad_value((*place, "succeededIndexes"), message, "write ascending ranges, as in 0-2,5")
                continue
            most = indexes[0]
        if count is not None and most is not None and count > most:
            yield bad_value((*place, "succeededCount"), f"must be at most {most}", "lower it")


def _parse_indexes(text: str) -> tuple[int, int] | None:
    """Return how many indexes a text such as `0-2,5` lists, and the largest; None if it is not such a list."""
    count, last = 0, -1
    for part in text.split(",") if text else ():
        first, dash, end = part.partition("-")
        if not _INDEX.fullmatch(first) or (dash and not _INDEX.fullmatch(end)):
            return None
        low, high = int(first), int(end) if dash else int(first)
        if low <= last or high < low or (dash and low == high):
            return None
        count, last = count + high - low + 1, high
    return count, last


def _indexes(spec: Data, path: FieldPath) -> Iterator[Violation]:
    most, completions = spec.get("maxFailedIndexes"), spec.get("completions")
    if most is None:
        return
    if spec.get("backoffLimitPerIndex") is None:
        yield missing((*path, "backoffLimitPerIndex"))
    if completions is not None and most > completions:
        yield bad_value((*path, "maxFailedIndexes"), f"must be at most completions ({completions})", "lower it")


def _failure_rule(rule: Data, path: FieldPath, containers: list[str]) -> Iterator[Violation]:
    codes = rule.get("onExitCodes")
    if bool(codes) == bool(rule.get("onPodConditions")):
        hint = "set either onExitCodes or onPodConditions"
        yield bad_value(path, "must match either exit codes or pod conditions", hint)
    if not codes:
        return
    name = codes.get("containerName")
    if name is not None and name not in containers:
        hint = f"allowed values: {format_choices(containers)}"
        yield bad_value((*path, "onExitCodes", "containerName"), f"container {name} not found in the pod", hint)
    if codes["operator"] == "In" and 0 in codes["values"]:
        index = codes["values"].index(0)
        yield bad_value((*path, "onExitCodes", "values", index), "exit code 0 is not a failure", "remove it")
    if codes["values"] != sorted(codes["values"]):
        yield bad_value((*path, "onExitCodes", "values"), "must be in ascending order", "sort them")


def controller_violations(data: Data) -> Iterator[Violation]:
    """Validate a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec = data["spec"]
    claims: set[str] = set()
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        path: FieldPath = ("spec", "volumeClaimTemplates", index, "metadata", "name")
        name = name_of(claim)
        if name:
            yield from volume_name_violations(name, path)
            claims.add(name)
        else:
            yield missing(path)
        yield from volume_claim_violations(claim, ("spec", "volumeClaimTemplates", index))
    yield from template_violations(spec["template"], ("spec", "template"), _ALWAYS, frozenset(claims))
    yield from _selector(spec)
    yield from _rollout(spec, data["kind"])
    if (spec["template"].get("spec") or {}).get("activeDeadlineSeconds") is not None:
        path = ("spec", "template", "spec", "activeDeadlineSeconds")
        yield bad_value(path, f"is not allowed for the pods of a {data['kind']}", "remove it")
    ready, deadline = spec.get("minReadySeconds") or 0, spec.get("progressDeadlineSeconds")
    deadline = _DEFAULT_DEADLINE if deadline is None else deadline
    if deadline <= ready and data["kind"] == "Deployment":
        message = f"must be greater than minReadySeconds ({ready})"
        yield bad_value(("spec", "progressDeadlineSeconds"), message, "raise it")


def _rollout(spec: Data, kind: str) -> Iterator[Violation]:
    """Check how pods are replaced. The parameters of a DaemonSet that is not rolled are ignored."""
    field = "strategy" if kind == "Deployment" else "updateStrategy"
    strategy = spec.get(field) or {}
    rolling, path = strategy.get("rollingUpdate"), ("spec", field, "rollingUpdate")
    if rolling is None or (kind == "DaemonSet" and strategy.get("type") == "OnDelete"):
        return
    if strategy.get("type") in ("OnDelete", "Recreate"):
        yield bad_value(path, f"is not allowed with the type {strategy['type']}", "remove it")
    lost = rolling.get("maxUnavailable", 1)
    if kind == "StatefulSet":
        if lost in (0, "0%"):
            yield bad_value((*path, "maxUnavailable"), "must not be 0: no pod could be replaced", "raise it")
        yield from share_violations(lost, (*path, "maxUnavailable"))
    if kind not in ("Deployment", "DaemonSet"):
        return
    extra = rolling.get("maxSurge", "25%" if kind == "Deployment" else 0)
    if lost in (0, "0%") and extra in (0, "0%"):
        message = "must not be 0 when maxSurge is 0: no pod could be replaced"
        yield bad_value((*path, "maxUnavailable"), message, "raise one of the two")
    if kind == "DaemonSet" and lost not in (0, "0%") and extra not in (None, 0, "0%"):
        message = "must be 0 unless maxUnavailable is 0 (1 by default)"
        yield bad_value((*path, "maxSurge"), message, "set maxUnavailable: 0")
    for name in ("maxUnavailable",) if kind == "Deployment" else ("maxUnavailable", "maxSurge"):
        yield from share_violations(rolling.get(name), (*path, name))


def share_violations(value: Any, path: FieldPath) -> Iterator[Violation]:
    """Check that a share of pods, such as `25%`, is at most all of them."""
    if isinstance(value, str) and _SHARE.fullmatch(value) is None and value.endswith("%"):
        yield bad_value(path, "must not be greater than 100%", "lower it")


def _selector(spec: Data, *, may_be_empty: bool = False) -> Iterator[Violation]:
    """Check that a selector selects the pods of the template. A server takes an empty one of Jobs alone."""
    selector = spec["selector"]
    required, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    if not required and not expressions and may_be_empty:
        return
    if not required and not expressions:
        yield Violation(
            rule="schema.missing-field",
            path=("spec", "selector"),
            message="an empty selector matches every pod",
            hint="set matchLabels to the labels in template.metadata.labels",
        )
        return
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    labels = {key: value or "" for key, value in labels.items()}
    required = {key: value or "" for key, value in required.items()}
    if not matches_selector({"matchLabels": required, "matchExpressions": expressions}, labels):
        yield Violation(
            rule="schema.selector-mismatch",
            path=("spec", "template", "metadata", "labels"),
            message="spec.selector does not match the labels of the template",
            hint="add the labels in spec.selector.matchLabels here",
        )

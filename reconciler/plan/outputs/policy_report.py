"""The PolicyReport output (`wgpolicyk8s.io/v1alpha2`): verdicts for tools that show reports of policies."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.console.printable import clip, printable
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.yaml import write
from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import Plan
from reconciler.policy.exceptions import PLAN
from reconciler.policy.verdict import Result, Verdict

API_VERSION = "wgpolicyk8s.io/v1alpha2"
SOURCE = "gpu-reconciler"
_RESULTS = {
    Result.DENY: ("fail", "high"),
    Result.ERROR: ("error", "high"),
    Result.WARN: ("warn", "medium"),
    Result.AUDIT: ("warn", "info"),
    Result.EXCEPTED: ("skip", "info"),
}
_OF_PROBLEMS = {Severity.ERROR: ("fail", "high"), Severity.WARNING: ("warn", "medium"), Severity.NOTE: ("warn", "info")}
_OUTCOMES = ("pass", "fail", "warn", "error", "skip")
_MAX_TEXT = 2_000  # characters of one message


def render_policy_report(plan: Plan, _: RenderOptions = DEFAULTS) -> str:
    """Render one report for each cluster and namespace, as YAML documents that `kubectl apply` takes.

    What is about no namespace is in ClusterPolicyReports: cluster-scoped objects by cluster, and the problems of files
    in the report `gpu-reconciler`, which is there even if nothing was found. API versions of objects are not named.
    """
    reports: dict[tuple[str, str], list[dict[str, Any]]] = {("", ""): [_of_problem(one) for one in plan.problems]}
    for verdict in plan.verdicts:
        where = ("", "") if verdict.key == PLAN else (verdict.cluster, verdict.key.namespace)
        reports.setdefault(where, []).append(_of_verdict(verdict))
    documents = [_report(cluster, namespace, found) for (cluster, namespace), found in sorted(reports.items())]
    return "---\n".join(write(document).decode() for document in documents)


def _report(cluster: str, namespace: str, results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    found = list(results)
    counts = Counter(one["result"] for one in found)
    metadata: dict[str, Any] = {"name": f"{SOURCE}-{cluster}" if cluster else SOURCE}
    metadata |= {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "PolicyReport" if namespace else "ClusterPolicyReport",
        "metadata": {**metadata, "labels": {"app.kubernetes.io/managed-by": SOURCE}},
        "summary": {outcome: counts[outcome] for outcome in _OUTCOMES},
        "results": found,
    }


def _of_verdict(verdict: Verdict) -> dict[str, Any]:
    key = verdict.key
    resource = {"kind": key.kind, "name": key.name} | ({"namespace": key.namespace} if key.namespace else {})
    properties = _properties(
        verdict.place, group=key.group, cluster=verdict.cluster, field=verdict.field, hint=verdict.hint
    )
    outcome = _RESULTS[verdict.result]
    return _result(verdict.rule, outcome, verdict.message, properties) | {"resources": [resource]}


def _of_problem(problem: Problem) -> dict[str, Any]:
    properties = _properties(problem.place, field=problem.field, hint=problem.hint)
    return _result(problem.rule, _OF_PROBLEMS[problem.severity], problem.message, properties)


def _result(rule: str, outcome: tuple[str, str], message: str, properties: Mapping[str, str]) -> dict[str, Any]:
    result, severity = outcome
    return {
        "source": SOURCE,
        "policy": printable(rule),
        "result": result,
        "severity": severity,
        "scored": result == "fail",
        "message": clip(printable(message), _MAX_TEXT),
        "properties": dict(properties),
    }


def _properties(place: SourceRef, **others: str) -> dict[str, str]:
    """Return the strings that a report has no fields for."""
    return {name: printable(value) for name, value in {"place": str(place), **others}.items() if value}

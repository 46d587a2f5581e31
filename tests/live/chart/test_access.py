"""Least privilege of the controller's service account, on a real API server with RBAC.

Every permission of the chart is taken away in turn: the request that needs it is then refused, and only then.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.repo.config import Requester
from tests.cluster.server import ApiServer
from tests.live.chart.permissions import (
    Permission,
    account,
    acting_as,
    granted,
    is_refused,
    permissions,
    specimens,
    without,
)
from tests.live.chart.rendering import Chart
from tools.chart.access import MODES, managed_kinds, plural

_AT_ONCE = 8


def rules(bodies: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the rules of the only role of a kind that a chart renders."""
    (role,) = (body for body in bodies if body["kind"] == kind)
    found: list[dict[str, Any]] = role["rules"]
    return found


def test_resources_are_named_as_the_server_names_them(api_server: ApiServer) -> None:
    """F-132: the plural of every kind of the registry is that of discovery."""
    with acting_as(api_server, "") as cluster:
        offered = {(row.group, row.kind): row.plural for row in cluster.discover().resources}
    managed = [(row.group, row.kind) for row in managed_kinds(BUILT_IN)]
    assert {key: plural(key[1]) for key in managed if key in offered} == {
        key: offered[key] for key in managed if key in offered
    }
    installed = {group for group, _ in offered}
    missing = {f"{group}/{kind}" for group, kind in managed if group in installed and (group, kind) not in offered}
    assert missing == _NOT_INSTALLED


_NOT_INSTALLED = {"kubeflow.org/Experiment", "kubeflow.org/Notebook"}
"""Kinds whose definitions the tests do not install, of groups that they do install."""


def test_a_role_is_in_force_as_soon_as_it_is_granted(cluster: ApiServer, restricted: str) -> None:
    """The server follows new roles a moment later: a test's first request comes after that."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    for within in ("", restricted) * 10:
        role = f"new-{uuid4().hex[:8]}"
        with granted(cluster.client, {role: [rule]}, restricted, within):
            answer = cluster.client.request(
                "GET",
                f"/api/v1/namespaces/{restricted}/configmaps?limit=1",
                as_user=Requester(user=account(restricted, role)),
            )
            assert answer.ok, answer.body


@pytest.mark.parametrize("mode", MODES)
def test_every_permission_in_the_cluster_is_needed(
    cluster: ApiServer, restricted: str, chart: Chart, mode: str
) -> None:
    """F-132: with all of them no request is refused; without any one, its request is, and names it."""
    everything = rules(chart({"mode": mode, "rbac": {"exclude": []}}), "ClusterRole")
    assert unneeded(cluster, restricted, everything) == []


@pytest.mark.parametrize("mode", MODES)
def test_every_permission_in_the_namespace_is_needed(
    cluster: ApiServer, restricted: str, chart: Chart, mode: str
) -> None:
    """F-132: the same for what is granted in the namespace of the release alone."""
    everything = rules(chart({"mode": mode}), "Role")
    assert unneeded(cluster, restricted, everything, within=restricted) == []


def test_every_permission_of_node_health_is_needed(cluster: ApiServer, restricted: str, chart: Chart) -> None:
    """F-132: with `health.enabled`, and nothing of it without."""
    values = {"mode": "observe", "rbac": {"resources": [], "exclude": []}}
    added: list[tuple[str, str, str]] = []
    for kind, within in (("ClusterRole", ""), ("Role", restricted)):
        plain, everything = (
            rules(chart({**values, "health": {"enabled": enabled}}), kind) for enabled in (False, True)
        )
        assert unneeded(cluster, restricted, everything, within=within) == []
        added += sorted(set(permissions(everything)) - set(permissions(plain)))
    assert {str(one) for one in added} == {
        "get nodes",
        "list nodes",
        "patch nodes",
        "patch nodes/status",
        "list pods",
        "list nodehealthreports.gpureconciler.io",
        "patch nodehealthreports.gpureconciler.io",
        "watch nodehealthreports.gpureconciler.io",
        "list nodehealthchecks.remediation.medik8s.io",
        "create configmaps",
        "get configmaps",
        "update configmaps",
    }, "no deletion, no eviction, nothing that changes pods"


def test_deep_runs_may_create_jobs_and_nothing_else(cluster: ApiServer, restricted: str, chart: Chart) -> None:
    """F-132: with `health.deepRuns.enabled`, in the namespace of the release alone."""
    values = {"mode": "observe", "rbac": {"resources": [], "exclude": []}, "agent": {"enabled": True}}

    def is_its(body: dict[str, Any]) -> bool:
        return bool(body["metadata"]["name"] == "reconciler")

    plain, tested = (
        [one for one in chart({**values, "health": {"enabled": True, "deepRuns": {"enabled": enabled}}}) if is_its(one)]
        for enabled in (False, True)
    )
    assert rules(tested, "ClusterRole") == rules(plain, "ClusterRole")
    added = set(permissions(rules(tested, "Role"))) - set(permissions(rules(plain, "Role")))
    assert {str(one) for one in added} == {"create jobs.batch"}
    rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}
    assert unneeded(cluster, restricted, [rule], within=restricted) == []


def unneeded(cluster: ApiServer, namespace: str, everything: list[dict[str, Any]], within: str = "") -> list[str]:
    """Return what is wrong: refused although everything is granted, or not refused without its permission."""
    with acting_as(cluster, "") as admin:
        offered = {(row.group, row.plural): row for row in admin.discover().resources}
    wanted = [one for one in permissions(everything) if (one.group, one.resource.partition("/")[0]) in offered]
    applied = {(one.group, one.resource) for one in wanted if one.verb == "patch"}
    bodies = specimens()
    cluster.client.ensure_namespaces(body["metadata"].get("namespace", "") for body in bodies.values())

    def refused(name: str, needed: list[Permission]) -> list[Permission]:
        with acting_as(cluster, account(namespace, name)) as live:
            return [one for one in needed if is_refused(live, one, body(one), applies=applies(one), within=within)]

    def body(one: Permission) -> dict[str, Any]:
        found = bodies[one.group, offered[one.group, one.resource.partition("/")[0]].kind]
        return {**found, "metadata": {**found["metadata"], "namespace": within}} if within else found

    def applies(one: Permission) -> bool:
        return (one.group, one.resource) in applied

    run = uuid4().hex[:8]  # another process may test at the same time, and roles have no namespace
    names = {f"{run}-without-{number}": one for number, one in enumerate(wanted)}
    roles = {f"{run}-with-all": everything} | {name: without(everything, one) for name, one in names.items()}
    with granted(cluster.client, roles, namespace, within), ThreadPoolExecutor(_AT_ONCE) as pool:
        problems = [f"{one} is refused" for one in refused(f"{run}-with-all", wanted)]
        answers = pool.map(lambda pair: refused(pair[0], [pair[1]]), names.items())
        return problems + [f"{one} is not needed" for one, gone in zip(wanted, answers, strict=True) if not gone]

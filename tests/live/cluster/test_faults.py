"""Faults of a real API server: each is an error that says what is known, and what a plan shows of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.client.port import Body, ClusterError, ClusterUnavailable
from tests.cluster.server import ApiServer, wait_until
from tests.live.cluster import webhook
from tests.live.cluster.conftest import LiveFleet
from tests.live.cluster.fixtures import config_map, config_map_key, key_of
from tests.live.cluster.fragile import FragileServer

QUEUE: Body = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "probe"},
    "spec": {"resources": {"gpu": {"quota": 8, "limit": -1, "overQuotaWeight": 1}}},
}


@contextmanager
def installed(cluster: KubernetesCluster, *bodies: Body) -> Iterator[None]:
    """Keep objects on the server while the block runs."""
    made = [cluster.apply(body, manager="test").body for body in bodies]
    try:
        yield
    finally:
        for body in reversed(made):
            cluster.delete(key_of(body), uid=body["metadata"]["uid"], propagation="Background")


def refusal_of(cluster: KubernetesCluster, body: Body = QUEUE) -> ClusterError | None:
    """Return what a dry run of an object raises."""
    try:
        cluster.apply(body, dry_run=True, force=True)
    except ClusterError as error:
        return error
    return None


def test_a_conflict_names_the_other_manager(live: KubernetesCluster, namespace: str) -> None:
    """409 without force; with force the field is ours."""
    live.apply(config_map(namespace, "a"), manager="other")
    changed = config_map(namespace, "a", a="2")
    with pytest.raises(ClusterError) as error:
        live.apply(changed)
    (cause,) = error.value.causes
    assert (error.value.status, cause.reason, cause.field) == (409, "FieldManagerConflict", ".data.a")
    assert 'conflict with "other"' in cause.message
    assert live.apply(changed, force=True).body["data"] == {"a": "2"}


def test_versions_are_preconditions(live: KubernetesCluster, namespace: str) -> None:
    """An apply that names an old version (409) or another UID (422) is refused, as is a deletion (409)."""
    old = live.apply(config_map(namespace, "a")).body["metadata"]
    live.apply(config_map(namespace, "a", b="2"), manager="other")
    other = {"uid": "00000000-0000-0000-0000-000000000000"}
    for precondition, status in (({"resourceVersion": old["resourceVersion"]}, 409), (other, 422)):
        body: Body = dict(config_map(namespace, "a", c="3"))
        with pytest.raises(ClusterError) as error:
            live.apply({**body, "metadata": {**body["metadata"], **precondition}}, force=True)
        assert error.value.status == status
    with pytest.raises(ClusterError) as error:
        live.delete(config_map_key(namespace, "a"), uid=old["uid"], resource_version=old["resourceVersion"])
    assert error.value.reason == "Conflict"


def test_an_immutable_field(live: KubernetesCluster, namespace: str) -> None:
    live.apply({**config_map(namespace, "a"), "immutable": True})
    with pytest.raises(ClusterError, match="field is immutable when `immutable` is set") as error:
        live.apply({**config_map(namespace, "a", a="2"), "immutable": True})
    assert (error.value.status, error.value.reason, error.value.retryable) == (422, "Invalid", False)
    assert error.value.causes[0].field == "data"


def test_a_webhook_that_times_out_leaves_it_open(live_fleet: LiveFleet) -> None:
    """A dry run that fails is Unknown: the plan is shown and refused with exit code 6, and nothing is in sync."""
    cluster = live_fleet.cluster
    live_fleet.apply_rendered()
    live_fleet.fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    with webhook.silent() as url:
        body = webhook.configuration("ValidatingWebhookConfiguration", "silent", url)
        with installed(cluster, body):
            wait_until(lambda: refusal_of(cluster), "the webhook")
            error = refusal_of(cluster)
            assert isinstance(error, ClusterUnavailable)
            assert not error.outcome_unknown  # a dry run
            ran, plan = live_fleet.plan_json()
    assert ran.code == 6
    assert "1 answer of the cluster missing" in ran.err
    (problem,) = [problem for problem in plan["problems"] if problem["severity"] == "error"]
    assert (problem["rule"], problem["place"]["path"]) == ("live.unknown", "queues/h100.yaml")
    assert "silent.example.com" in problem["message"]
    assert [change["key"]["name"] for change in plan["changes"]] == ["h100"]


def test_what_a_webhook_changes_is_no_difference(live_fleet: LiveFleet, private_server: ApiServer) -> None:
    """What the server makes of our object is what an apply stores: the plan is empty then."""
    patch = [{"op": "replace", "path": "/spec/resources/gpu/overQuotaWeight", "value": 7}]
    (folder,) = private_server.logs.glob("certificates-*")
    certificate = (folder / "apiserver.crt").read_bytes()
    with webhook.changing(private_server, patch) as url:
        body = webhook.configuration("MutatingWebhookConfiguration", "changing", url, certificate=certificate)
        with installed(live_fleet.cluster, body):
            wait_until(lambda: weight(live_fleet.cluster) == 7, "the webhook")
            live_fleet.apply_rendered()
            ran, plan = live_fleet.plan_json("--exit-code")
    assert (ran.code, plan["changes"], plan["drift"]) == (0, [], [])


def weight(cluster: KubernetesCluster) -> int:
    written = cluster.apply(QUEUE, dry_run=True).body
    return int(written["spec"]["resources"]["gpu"]["overQuotaWeight"])


def test_a_policy_on_the_cluster_refuses(live_fleet: LiveFleet) -> None:
    """Admission's own words are an error at the source of the object."""
    cluster = live_fleet.cluster
    live_fleet.apply_rendered()
    live_fleet.fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    rule = {
        "apiGroups": ["scheduling.run.ai"],
        "apiVersions": ["*"],
        "operations": ["UPDATE", "CREATE"],
        "resources": ["queues"],
    }
    expression = {"expression": "object.spec.resources.gpu.quota != 40", "message": "forty is not allowed"}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-forty"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [expression]},
    }
    binding = {
        **policy,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "no-forty", "validationActions": ["Deny"]},
    }
    forty = {**QUEUE, "spec": {"resources": {"gpu": {"quota": 40, "limit": -1, "overQuotaWeight": 1}}}}
    with installed(cluster, policy, binding):
        wait_until(lambda: refusal_of(cluster, forty), "the policy")
        ran, plan = live_fleet.plan_json()
    assert ran.code == 3
    (problem,) = [problem for problem in plan["problems"] if problem["severity"] == "error"]
    assert (problem["rule"], problem["place"]["path"]) == ("live.refused", "queues/h100.yaml")
    assert "forty is not allowed" in problem["message"]


def test_what_a_policy_repeats_of_a_secret_is_masked(live_fleet: LiveFleet) -> None:
    """A message of the cluster that holds a secret of the object shows it in no output."""
    canary = "canary-5f2d91c07ab3"
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {password: %s}\n"
    live_fleet.fleet.write("jobs/settings.yaml", text % canary)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    check = {"expression": "!('password' in object.data)", "messageExpression": "'refused ' + object.data.password"}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "telling"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [check]},
    }
    binding = {
        **policy,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "telling", "validationActions": ["Deny"]},
    }
    body: Body = dict(config_map("default", "probe", password="other"))
    with installed(live_fleet.cluster, policy, binding):
        wait_until(lambda: refusal_of(live_fleet.cluster, body), "the policy")
        for output in ("text", "json", "markdown", "sarif", "junit", "github"):
            ran = live_fleet.plan("-o", output)
            assert ran.code in (3, 4)
            assert "refused" in ran.out
            assert canary not in ran.out + ran.err


def test_a_kind_that_may_not_be_read_is_unknown(live_fleet: LiveFleet) -> None:
    """Forbidden for one kind: its objects are unknown, never in sync and never created; the others are compared."""
    live_fleet.apply_rendered()
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "no-queues"},
        "rules": [{"apiGroups": ["", "batch", "kubeflow.org"], "resources": ["*"], "verbs": ["*"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "no-queues"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "no-queues"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}],
    }
    with installed(live_fleet.cluster, role, binding):
        ran, plan = live_fleet.plan_json("--as", "limited")
    assert ran.code == 6
    unknown = {problem["message"] for problem in plan["problems"] if problem["rule"] == "live.unknown"}
    assert any("Queue.scheduling.run.ai" in message and "403 Forbidden" in message for message in unknown)
    assert "Queue/h100" in plan["clusters"][0]["unknown"]
    assert not plan["changes"]
    assert plan["unchanged"] == len(live_fleet.rendered()) - len(plan["clusters"][0]["unknown"])


def test_discovery_that_fails_for_one_group(empty_cluster: KubernetesCluster) -> None:
    """An API service without a server: its kinds are unknown, not absent; all others work."""
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.absent.example.com"},
        "spec": {
            "group": "absent.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "absent", "namespace": "default"},
        },
    }
    with installed(empty_cluster, service):
        wait_until(lambda: empty_cluster.discover(again=True).failed, "a group that fails")
        with pytest.raises(ClusterUnavailable, match=r"not known whether Thing of absent\.example\.com exists"):
            empty_cluster.resource("absent.example.com", "Thing")
        assert empty_cluster.resource("batch", "Job").plural == "jobs"
    wait_until(lambda: not empty_cluster.discover(again=True).failed, "no group that fails")


def test_an_api_server_that_restarts(fragile: FragileServer) -> None:
    """Reads and applies wait for it; a watch ends with an error that tells to try again."""
    with KubernetesCluster(load_access({}, kubeconfig=str(fragile.kubeconfig))) as cluster:
        resource = cluster.resource("", "ConfigMap")
        body = config_map("default", "a")
        watch = cluster.watch(resource, cluster.list(resource).resource_version, seconds=60)
        with fragile.without_api_server():
            assert not fragile.is_ready()
        assert cluster.apply(body).is_new
        assert not cluster.apply(body).is_new
        assert [one["metadata"]["name"] for one in cluster.list(resource, namespace="default").objects if "data" in one]
        with watch, pytest.raises(ClusterUnavailable):
            list(watch)

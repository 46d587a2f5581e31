"""Applies that admission, flow control or a kind that is never served gets in the way of, on the real API server."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.client.port import Body, ClusterError
from tests.cluster.server import wait_until
from tests.live.apply.conftest import Site
from tests.live.apply.test_kills import edit, on_cluster
from tests.live.cluster import webhook
from tests.live.cluster.test_faults import installed


def for_real_writes(site: Site, configuration: Body) -> Body:
    """Let a webhook judge the ConfigMaps of the test's namespace, and no dry run."""
    (hook,) = configuration["webhooks"]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    hook["rules"] = [rule]
    hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": site.name}}
    conditions = [{"name": "real", "expression": "request.?dryRun.orValue(false) == false"}]
    hook["matchConditions"] = [*conditions, {"name": "one", "expression": "request.name == 'slow'"}]
    return configuration


def write(site: Site, name: str) -> str:
    """Write a ConfigMap for real, and return what the server says; empty if it is accepted."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": site.name}}
    answer = site.server.client.request("POST", f"/api/v1/namespaces/{site.name}/configmaps", body)
    if answer.ok:
        site.server.client.request("DELETE", f"/api/v1/namespaces/{site.name}/configmaps/{name}")
    return "" if answer.ok else str(answer.body.get("message"))


def test_a_webhook_that_times_out_only_for_real_writes(site: Site) -> None:
    """What the dry run could not show is told as unknown; all else is applied; the next run ends the work."""
    assert site.reconcile().code == 0, "the namespace"
    wanted = {"fast": "1", "slow": "1", "other": "1"}
    edit(site, wanted)
    assert site.plan().code == 0
    with webhook.silent() as url:
        body = for_real_writes(site, webhook.configuration("ValidatingWebhookConfiguration", "late", url))
        with installed(site.cluster, body):
            wait_until(lambda: "late.example.com" in write(site, "slow"), "the webhook")
            ran, (applied,) = site.apply_json()
    assert ran.code == 6
    endings = {one["key"]["name"]: one["ending"] for one in applied["results"]}
    assert endings == {"fast": "done", "other": "done", "slow": "unknown"}
    (message,) = [one["message"] for one in applied["results"] if one["ending"] == "unknown"]
    assert "late.example.com" in message
    assert on_cluster(site).keys() == {"fast", "other"}
    again = site.apply()
    assert again.code == 0, again.out + again.err
    assert on_cluster(site) == wanted


def test_what_a_mutating_webhook_adds_is_applied_once(site: Site) -> None:
    """An object that a webhook changes while it is applied is in sync afterwards, and stays so without it."""
    assert site.reconcile().code == 0, "the namespace"
    site.config_map("slow")
    patch = [{"op": "add", "path": "/data/injected", "value": "yes"}]
    (folder,) = site.server.logs.glob("certificates-*")
    certificate = (folder / "apiserver.crt").read_bytes()
    with webhook.changing(site.server, patch) as url:
        made = webhook.configuration("MutatingWebhookConfiguration", "inject", url, certificate=certificate)
        body = for_real_writes(site, made)
        body["webhooks"][0]["matchConditions"].pop(0)  # dry runs as well
        body["webhooks"][0]["sideEffects"] = "None"
        with installed(site.cluster, body):
            wait_until(lambda: injected(site), "the webhook")
            ran = site.reconcile()
            assert ran.code == 0, ran.out + ran.err
            assert site.live("ConfigMap", "slow")["data"] == {"a": "1", "injected": "yes"}
            assert site.plan().code == 0
            assert site.changes() == []
    assert site.plan().code == 0
    assert site.changes() == []


def injected(site: Site) -> bool:
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata("slow"), "data": {"a": "1"}}
    return "injected" in site.cluster.apply(body, dry_run=True).body["data"]


@contextmanager
def throttled(site: Site, user: str) -> Iterator[None]:
    """Let API Priority and Fairness answer 429 to all applies of a user but one, which a webhook keeps from ending."""
    head = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "metadata": {"name": site.name}}
    limited: Body = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited["limitResponse"] = {"type": "Reject"}
    level = {**head, "kind": "PriorityLevelConfiguration", "spec": {"type": "Limited", "limited": limited}}
    subject = {"kind": "User", "user": {"name": user}}
    resources = {"apiGroups": [""], "resources": ["configmaps"], "namespaces": [site.name], "verbs": ["patch"]}
    rules = [{"subjects": [subject], "resourceRules": [resources]}]
    spec = {"priorityLevelConfiguration": {"name": site.name}, "matchingPrecedence": 2, "rules": rules}
    stop = threading.Event()

    def hold() -> None:
        while not stop.wait(0.05):
            apply_as(site, user, "slow", dry_run=False)

    with installed(site.cluster, level, {**head, "kind": "FlowSchema", "spec": spec}):
        holder = threading.Thread(target=hold, daemon=True)
        with webhook.silent() as url:
            hook = for_real_writes(site, webhook.configuration("ValidatingWebhookConfiguration", site.name, url))
            hook["webhooks"][0]["timeoutSeconds"] = 30
            with installed(site.cluster, hook):
                holder.start()
                wait_until(lambda: getattr(apply_as(site, user, "probe"), "status", 0) == 429, "flow control")
                yield
                stop.set()
        holder.join(30)


def apply_as(site: Site, user: str, name: str, *, dry_run: bool = True) -> ClusterError | None:
    """Apply a ConfigMap as a user, without patience; return what the server says."""
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata(name), "data": {"a": "1"}}
    access = load_access({}, kubeconfig=str(site.server.kubeconfig), user=user)
    with KubernetesCluster(access, patience_seconds=0) as cluster:
        try:
            cluster.apply(body, dry_run=dry_run, manager="jane")
        except ClusterError as error:
            return error
    return None


def rejected(site: Site) -> int:
    """Count the requests that flow control turned away, from the metrics of the server."""
    text = site.server.client.request("GET", "/metrics").body["message"]
    found = re.findall(rf'flowcontrol_rejected_requests_total{{[^}}]*"{site.name}"[^}}]*}} (\d+)', text)
    return sum(map(int, found))


def test_a_server_that_is_too_busy(site: Site) -> None:
    """Real 429 with Retry-After: the apply waits as long as the server asks, and then goes on."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"{site.name}-jane"}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]
    with installed(site.cluster, {**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects}):
        assert site.reconcile().code == 0, "the namespace"
        site.config_map("one")
        assert site.plan("--as", "jane").code == 0
        with throttled(site, "jane"):
            refused = apply_as(site, "jane", "probe")
            assert refused is not None
            assert (refused.status, refused.retry_after) == (429, 1.0)
            before = rejected(site)
            process = site.start("--as", "jane")
            wait_until(lambda: rejected(site) > before + 1, "two tries")
            assert process.poll() is None
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert on_cluster(site)["one"] == "1"


def test_a_kind_that_is_never_served(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CRD whose names are taken never becomes Established: its objects are left out, all else is applied."""
    monkeypatch.setattr("reconciler.live.apply.RELIABLE_SECONDS", 1.0)
    group = f"{site.name}.example.com"
    versions: list[Body] = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    ]
    crd: Body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    first: Body = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    second = {**first, "names": {**names, "plural": "widgets", "singular": "gadget", "kind": "Widget"}}
    site.write("queues/gadgets.yaml", {**crd, "metadata": {"name": f"gadgets.{group}"}, "spec": first})
    assert site.reconcile().code == 0
    site.write("queues/widgets.yaml", {**crd, "metadata": {"name": f"widgets.{group}"}, "spec": second})
    site.write("jobs/w.yaml", {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": site.metadata("w")})
    site.config_map("one")
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    ran, (applied,) = site.apply_json()
    assert ran.code == 6
    endings = {one["key"]["kind"]: (one["ending"], one["message"]) for one in applied["results"]}
    assert endings["ConfigMap"][0] == "done"
    assert endings["CustomResourceDefinition"] == (
        "failed",
        "its kind is not served yet (condition Established)",
    )
    assert endings["Widget"][0] == "skipped"
    assert site.exists("ConfigMap", "one")

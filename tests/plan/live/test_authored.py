"""The source of a live object: import(clean source + defaults + status) is the clean source again."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.plan import opening
from reconciler.plan.live.authored import LeftOut, authored, why_left_out
from tests.sizes import examples

KINDS, CATALOGUE = opening.kinds(), opening.catalogue()
TIME = "2026-01-31T12:00:00Z"

names = st.sampled_from(["a", "web", "train-1"])
labels = st.dictionaries(st.sampled_from(["app", "team", "example.com/x"]), names, min_size=1, max_size=2)
ports = st.fixed_dictionaries(
    {"containerPort": st.integers(1, 9)}, optional={"name": names, "protocol": st.sampled_from(["TCP", "UDP"])}
)
probes = st.fixed_dictionaries(
    {
        "httpGet": st.fixed_dictionaries(
            {"port": st.integers(1, 9)}, optional={"path": st.sampled_from(["/", "/ready"])}
        )
    },
    optional={"periodSeconds": st.integers(9, 11), "failureThreshold": st.integers(2, 4)},
)
containers = st.fixed_dictionaries(
    {"name": st.just("main"), "image": st.sampled_from(["a", "a:latest", "a:1", "r.example.com:5000/a@sha256:0"])},
    optional={
        "imagePullPolicy": st.sampled_from(["Always", "IfNotPresent"]),
        "args": st.lists(names, max_size=2),
        "env": st.lists(st.fixed_dictionaries({"name": names, "value": st.sampled_from(["", "1"])}), max_size=1),
        "ports": st.lists(ports, max_size=1),
        "readinessProbe": probes,
        "resources": st.fixed_dictionaries({"limits": st.just({"cpu": "500m", "nvidia.com/gpu": "1"})}),
        "terminationMessagePath": st.sampled_from(["/dev/termination-log", "/tmp/log"]),
    },
)
volumes = st.one_of(
    st.just({"name": "scratch", "emptyDir": {}}),
    st.builds(
        lambda mode: {"name": "code", "configMap": {"name": "code", **mode}},
        st.sampled_from([{}, {"defaultMode": 420}, {"defaultMode": 256}]),
    ),
)


def templates(policy: str) -> st.SearchStrategy[dict[str, Any]]:
    spec = st.fixed_dictionaries(
        {"containers": st.lists(containers, min_size=1, max_size=1), "restartPolicy": st.just(policy)},
        optional={
            "volumes": st.lists(volumes, max_size=1),
            "nodeSelector": labels,
            "dnsPolicy": st.sampled_from(["ClusterFirst", "Default"]),
            "terminationGracePeriodSeconds": st.integers(29, 31),
        },
    )
    return st.builds(lambda own, spec: {"metadata": {"labels": own}, "spec": spec}, labels, spec)


@st.composite
def deployments(draw: st.DrawFn) -> dict[str, Any]:
    template = draw(templates("Always"))
    optional = {"replicas": st.integers(0, 2), "revisionHistoryLimit": st.integers(9, 11)}
    optional |= {"strategy": st.sampled_from([{"type": "Recreate"}, {"type": "RollingUpdate"}])}
    spec: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=optional))
    spec |= {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    optional = {"backoffLimit": st.integers(5, 7), "parallelism": st.integers(0, 2), "suspend": st.booleans()}
    spec = draw(st.fixed_dictionaries({"template": templates("Never")}, optional=optional))
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}


@st.composite
def services(draw: st.DrawFn) -> dict[str, Any]:
    port = st.fixed_dictionaries({"port": st.integers(1, 9)}, optional={"targetPort": st.integers(1, 9)})
    optional = {
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer"]),
        "sessionAffinity": st.sampled_from(["None", "ClientIP"]),
        "externalTrafficPolicy": st.just("Local"),
    }
    spec = draw(
        st.fixed_dictionaries({"selector": labels, "ports": st.lists(port, min_size=1, max_size=1)}, optional=optional)
    )
    return {"apiVersion": "v1", "kind": "Service", "spec": spec}


cluster_queues = st.builds(
    lambda quota, optional: {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": quota}]}],
                }
            ],
            **optional,
        },
    },
    st.sampled_from(["8", "16"]),
    st.fixed_dictionaries(
        {},
        optional={
            "queueingStrategy": st.sampled_from(["BestEffortFIFO", "StrictFIFO"]),
            "preemption": st.fixed_dictionaries({}, optional={"withinClusterQueue": st.sampled_from(["Never", "Any"])}),
            "namespaceSelector": st.just({}),
        },
    ),
)
maps = st.builds(
    lambda data: {"apiVersion": "v1", "kind": "ConfigMap", "data": data}, st.dictionaries(names, names, min_size=1)
)


@st.composite
def sources(draw: st.DrawFn) -> dict[str, Any]:
    """Objects as people write them: without what a server would add."""
    body = draw(st.one_of(deployments(), jobs(), services(), cluster_queues, maps))
    metadata = draw(st.fixed_dictionaries({"name": names}, optional={"labels": labels, "annotations": labels}))
    if body["kind"] == "Job":  # one without labels gets those of its pods
        metadata["labels"] = {"app": "of-the-job"}
    if body["kind"] != "ClusterQueue":
        metadata["namespace"] = "team-a"
    return CATALOGUE.without_defaults({**body, "metadata": metadata})


def served(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server has of a source that `kubectl apply` sent: defaults, and what it makes up."""
    live: dict[str, Any] = copy.deepcopy(dict(CATALOGUE.stored(source)))
    metadata = live["metadata"]
    metadata |= {"uid": "u-1", "resourceVersion": "7", "generation": 2, "creationTimestamp": TIME}
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps(source),
        "deployment.kubernetes.io/revision": "1",
    }
    metadata["finalizers"] = ["example.com/in-use"]
    metadata["managedFields"] = [
        {
            "manager": "kubectl-client-side-apply",
            "operation": "Update",
            "time": TIME,
            "fieldsV1": {"f:spec": {}, "f:data": {}},
        },
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "subresource": "status",
            "time": TIME,
            "fieldsV1": {"f:status": {}},
        },
    ]
    live["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    if live["kind"] == "Service":
        live["spec"] |= {
            "clusterIP": "10.0.0.7",
            "clusterIPs": ["10.0.0.7"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        }
    if live["kind"] == "Job":
        live["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
        live["spec"]["template"]["metadata"]["labels"] |= {"controller-uid": "u-1", "batch.kubernetes.io/job-name": "a"}
        live["spec"]["template"]["metadata"]["creationTimestamp"] = None
    return live


@settings(max_examples=examples(600))
@given(sources())
def test_the_source_of_a_live_object_is_what_a_person_wrote(source: dict[str, Any]) -> None:
    live = served(source)
    assert why_left_out(KINDS, live) is None
    assert authored(KINDS, CATALOGUE, live) == source


@settings(max_examples=examples(300))
@given(sources())
def test_nothing_is_lost(source: dict[str, Any]) -> None:
    """A server makes the same object of the source as of one with all defaults; a second import is the same."""
    live = served(source)
    short, long = (authored(KINDS, CATALOGUE, live, has_defaults=choice) for choice in (False, True))
    assert CATALOGUE.stored(short) == CATALOGUE.stored(long)
    assert authored(KINDS, CATALOGUE, served(short)) == short


def deployment(**metadata: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    spec = {"replicas": 4, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", **metadata}, "spec": spec}


def entry(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "subresource": subresource, "time": TIME, "fieldsV1": fields}


def test_fields_of_controllers_are_left_out() -> None:
    """An autoscaler's replicas, and what a controller alone owns; what a person owns as well stays."""
    fields = [
        entry(
            "kubectl-create",
            {"f:metadata": {"f:labels": {".": {}, "f:own": {}, "f:both": {}}}, "f:spec": {"f:template": {}}},
        ),
        entry("kube-controller-manager", {"f:spec": {"f:replicas": {}}}, "scale"),
        entry(
            "example-operator",
            {"f:metadata": {"f:labels": {"f:theirs": {}, "f:both": {}}, "f:annotations": {".": {}, "f:x": {}}}},
        ),
    ]
    live = deployment(labels={"own": "1", "both": "2", "theirs": "3"}, annotations={"x": "y"}, managedFields=fields)
    source = authored(KINDS, CATALOGUE, live)
    assert source["metadata"] == {"name": "a", "labels": {"own": "1", "both": "2"}}
    assert "replicas" not in source["spec"]
    assert source["spec"]["template"] == live["spec"]["template"]


def test_notes_of_tools_are_left_out() -> None:
    live = deployment(
        labels={"app.kubernetes.io/managed-by": "Helm", "app": "web"},
        annotations={"meta.helm.sh/release-name": "web", "kubectl.kubernetes.io/default-container": "a"},
    )
    live["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm"  # selectors may need it
    live["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": TIME}
    source = authored(KINDS, CATALOGUE, live)
    assert source["metadata"]["labels"] == {"app": "web"}
    assert source["metadata"]["annotations"] == {"kubectl.kubernetes.io/default-container": "a"}
    assert source["spec"]["template"]["metadata"] == {"labels": {"a": "b", "app.kubernetes.io/managed-by": "Helm"}}


def test_a_started_job_is_as_it_was_queued() -> None:
    """Kueue added a selector of nodes and a toleration; its Workload has the pods as they were written."""
    own, theirs = {"key": "own", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}
    pod = {"containers": [{"name": "a", "image": "a:1"}], "restartPolicy": "Never"}
    spec = {
        "suspend": False,
        "template": {"spec": {**pod, "nodeSelector": {"pool": "h100"}, "tolerations": [own, theirs]}},
    }
    metadata = {"name": "a", "namespace": "b", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    live = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    workload = {"spec": {"podSets": [{"name": "main", "template": {"spec": {**pod, "tolerations": [own]}}}]}}
    source = authored(KINDS, CATALOGUE, live, workload)
    assert source == {**live, "spec": {"template": {"spec": {**pod, "tolerations": [own]}}}}
    other = {"spec": {"podSets": [{"name": "main", "template": {"spec": {**pod, "tolerations": [{"key": "else"}]}}}]}}
    kept = authored(KINDS, CATALOGUE, live, other)["spec"]["template"]["spec"]
    assert kept["tolerations"] == [own, theirs], "a Workload that says something else is not believed"


@pytest.mark.parametrize(
    ("reason", "body"),
    [
        (LeftOut.MANAGED, deployment(labels={"app.kubernetes.io/managed-by": "gpu-reconciler"})),
        (LeftOut.MANAGED, deployment(managedFields=[entry("reconciler", {"f:spec": {}})])),
        (LeftOut.OWNED, deployment(ownerReferences=[{"kind": "Application", "name": "x"}])),
        (LeftOut.CONTROLLED, deployment(managedFields=[entry("kube-controller-manager", {"f:spec": {}})])),
        (LeftOut.CONTROLLED, {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}}),
        (LeftOut.SYSTEM, deployment(namespace="kube-system")),
        (LeftOut.SYSTEM, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}),
        (LeftOut.SYSTEM, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}),
        (LeftOut.SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
        (LeftOut.TERMINATING, deployment(deletionTimestamp=TIME)),
        (
            LeftOut.ENDED,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "a"},
                "status": {"conditions": [{"type": "Complete", "status": "True"}]},
            },
        ),
    ],
)
def test_what_is_left_out(reason: LeftOut, body: dict[str, Any]) -> None:
    assert why_left_out(KINDS, body) is reason

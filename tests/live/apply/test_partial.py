"""What a server refuses stops only itself and what depends on it, on the real API server."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.fleet import Ran
from tests.cluster.server import wait_until
from tests.live.apply.conftest import Site
from tests.live.cluster.test_faults import installed, refusal_of


def words(ran: Ran) -> str:
    return " ".join((ran.out + ran.err).split())


def _start(site: Site) -> None:
    site.config_map("one", a="1")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata("frozen"), "data": {"a": "1"}}
    site.write("jobs/frozen.yaml", body | {"immutable": True})
    assert site.reconcile().code == 0


def _reader(site: Site, name: str, config: str) -> None:
    """Write a Deployment whose pods read a ConfigMap."""
    labels = {"app": name}
    container = {"name": "web", "image": "example.com/web:1", "envFrom": [{"configMapRef": {"name": config}}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": site.metadata(name), "spec": spec}
    site.write(f"jobs/{name}.yaml", body)


def _service(site: Site, wave: str = "") -> None:
    annotations = {"annotations": {"argocd.argoproj.io/sync-wave": wave}} if wave else {}
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}
    metadata = site.metadata("web") | annotations
    site.write("jobs/web.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


@pytest.fixture
def refusing(site: Site) -> Iterator[None]:
    """Let a policy of the cluster refuse Services with the name `web`."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["services"]}
    check = {"expression": "object.metadata.name != 'web'", "message": "no port is free"}
    name = f"no-services-{site.name}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [check]},
    }
    spec = {"policyName": name, "validationActions": ["Deny"]}
    binding = {**policy, "kind": "ValidatingAdmissionPolicyBinding", "spec": spec}
    metadata = {"name": "web", "namespace": "default"}  # that of the site does not exist yet
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 1}]}}
    with installed(site.cluster, policy, binding):
        wait_until(lambda: refusal_of(site.cluster, service), "the policy")
        yield


@pytest.mark.usefixtures("refusing")
def test_refused_objects_stop_only_what_depends_on_them(site: Site) -> None:
    """F-142: a port of a Service and an immutable ConfigMap; the exit code says that it is a part."""
    _start(site)
    site.config_map("one", a="2")
    site.config_map("two")
    _service(site)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata("frozen"), "data": {"a": "2"}}
    site.write("jobs/frozen.yaml", body | {"immutable": True})
    _reader(site, "reader", "frozen")
    _reader(site, "other", "two")
    planned = site.plan()
    assert planned.code != 0
    assert "no port is free" in words(planned)

    ran, (told,) = site.apply_json()
    assert ran.code == 7, ran.out + ran.err
    endings = {one["key"]["kind"] + "/" + one["key"]["name"]: one["ending"] for one in told["results"]}
    assert endings == {
        "ConfigMap/frozen": "denied",
        "ConfigMap/one": "done",
        "ConfigMap/two": "done",
        "Deployment/other": "done",
        "Deployment/reader": "skipped",
        "Service/web": "denied",
    }
    assert "applied in part" in ran.err
    assert site.live("ConfigMap", "one")["data"] == {"a": "2"}
    assert not site.exists("Service", "web")
    assert not site.exists("Deployment", "reader", "apps")
    assert {member.key.name for member in site.inventory().members} >= {"two", "other"}
    assert "reader" not in {member.key.name for member in site.inventory().members}

    before = len(site.records())
    assert site.plan().code != 0
    again = site.apply()
    assert again.code == 7
    assert len(site.records()) == before, "nothing could be done, so there is nothing to record"


def test_a_kind_that_the_server_lacks_stops_no_other(site: Site) -> None:
    """F-142: its definition is gone from the cluster."""
    _start(site)
    site.config_map("two")
    gone = {"apiVersion": "gone.example.com/v1", "kind": "Gone", "metadata": site.metadata("gone"), "spec": {}}
    site.write("jobs/gone.yaml", gone)
    planned = site.plan()
    assert planned.code == 3, planned.out + planned.err
    assert site.apply().code == 7
    assert site.exists("ConfigMap", "two")


@pytest.mark.usefixtures("refusing")
def test_a_later_wave_waits_for_a_refused_one(site: Site) -> None:
    """F-142: a wave is the word of a person about the order."""
    _start(site)
    _service(site, wave="1")
    for name, wave in (("early", "0"), ("late", "2")):
        annotations = {"argocd.argoproj.io/sync-wave": wave}
        metadata = site.metadata(name) | {"annotations": annotations}
        site.write(
            f"jobs/{name}.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
        )
    site.plan()
    ran, (told,) = site.apply_json()
    assert ran.code == 7
    assert {one["key"]["name"]: one["ending"] for one in told["results"]} == {
        "early": "done", "late": "skipped", "web": "denied"
    }  # fmt: skip
    assert json.dumps(told).count("wave") >= 1

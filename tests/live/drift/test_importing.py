"""What runs becomes source: import, plan, adopt all, apply; no object is made again, and no field of one changes."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.kinds.manifests.ownership import LABEL_PATH
from reconciler.kube.objects import ObjectKey, format_path, split_api_version
from reconciler.kube.values import pruned
from reconciler.plan import opening
from reconciler.plan.live.projection import plain
from tests.cli.fleet import Ran
from tests.cluster.parts import ControlPlane
from tests.live.apply.conftest import Site
from tests.live.drift.conftest import AnotherSite
from tests.live.drift.test_ownership import words

CATALOGUE = opening.catalogue()
SPECIMENS = Path(__file__).parents[2] / "cluster" / "specimens"
_OF_THE_SERVER = {
    "APIService",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "CustomResourceDefinition",
}
"""Kinds that would change what the server says to the other tests."""
_RECORDS = {"Endpoints", "EndpointSlice", "Lease", "Node", "PodGroup"}
"""Kinds that no person writes."""

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(site: Site, control_plane_programs: ControlPlane) -> Kubectl:
    """Return what runs the real kubectl in the namespace of the site, with objects on standard input."""

    def call(*arguments: str, bodies: list[dict[str, Any]] | None = None) -> str:
        command = [str(control_plane_programs.kubectl), f"--kubeconfig={site.server.kubeconfig}", *arguments]
        text = yaml.safe_dump_all(bodies or [])
        ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return call


def key_of(body: dict[str, Any]) -> ObjectKey:
    metadata = body["metadata"]
    group = split_api_version(body["apiVersion"])[0]
    return ObjectKey(group=group, kind=body["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])


def specimens(namespace: str) -> list[dict[str, Any]]:
    """Return an object of each kind, in a namespace; what is in none gets its name in front."""
    files = sorted(SPECIMENS.glob("*.yaml"))
    bodies = [body for file in files for body in yaml.safe_load_all(file.read_text())]
    kept = [
        body for body in bodies if body["kind"] not in _OF_THE_SERVER and not body["kind"].endswith("PolicyBinding")
    ]
    for body in kept:
        if "namespace" in body["metadata"]:
            body["metadata"]["namespace"] = namespace
    return kept


@pytest.fixture
def running(site: Site, kubectl: Kubectl) -> Iterator[list[dict[str, Any]]]:
    """Create an object of each kind in the three ways of people and tools; return them as the server has them."""
    kubectl("create", "namespace", site.name)
    bodies = specimens(site.name)
    kubectl("create", "-f", "-", bodies=bodies[::3])
    kubectl("apply", "-f", "-", bodies=bodies[1::3])
    kubectl("apply", "--server-side", "--field-manager=helm", "-f", "-", bodies=bodies[2::3])
    site.remove("queues/namespace.yaml")
    yield [live(site, body) for body in bodies]
    for body in bodies:
        kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", bodies=[body])


def live(site: Site, body: dict[str, Any]) -> dict[str, Any]:
    found = site.cluster.get(key_of(body), version=split_api_version(body["apiVersion"])[1])
    assert found is not None, key_of(body)
    return found


def imports(site: Site, *arguments: str) -> Ran:
    return site.fleet.run("import", *site.flags, *arguments)


def content(body: dict[str, Any]) -> tuple[str, Any]:
    """Return what must not change: everything but our label."""
    return body["metadata"]["uid"], pruned(plain(body), LABEL_PATH)


def configure(site: Site, **spec: Any) -> None:
    """Change settings of the repository. The specimens refer to objects that are nowhere, and break rules."""
    config = yaml.safe_load((site.fleet.root / "reconciler.yaml").read_text())
    rules = ("no-host-network", "no-host-path", "quota.not-covered", "quota.product")
    config["spec"]["rules"] = {rule: {"enabled": False} for rule in rules}
    config["spec"]["clusters"][0]["external"] = ["Queue/default", f"PersistentVolumeClaim/{site.name}/block"]
    config["spec"] |= spec
    site.write("reconciler.yaml", config)


def test_what_runs_is_imported_and_adopted(site: Site, running: list[dict[str, Any]]) -> None:
    """An object of each of 55 kinds: its source is what was written, and its adoption changes nothing but our label."""
    configure(site)
    folder = site.fleet.root / "jobs" / "imported"
    ran = imports(site, "-o", str(folder), "--output", "json")
    assert ran.code == 0, ran.out + ran.err
    (found,) = json.loads(ran.out)
    assert [one for one in found["imported"] if one["warning"]] == []
    sources = {key_of(body): body for body in map(read, folder.rglob("*.yaml"))}
    wanted = [clean(body) for body in specimens(site.name) if body["kind"] not in _RECORDS | {"Secret"}]
    assert len(wanted) >= 55
    assert [sources[key_of(body)] for body in wanted] == wanted

    planned = site.plan("--adopt", "all")
    assert planned.code == 0, planned.out + planned.err
    plan = json.loads(site.plan_file.read_bytes())
    assert plan["drift"] == []
    assert {field["path"] for change in plan["changes"] for field in change["fields"]} == {format_path(LABEL_PATH)}
    assert {change["operation"] for change in plan["changes"]} == {"update"}
    assert site.apply("--no-wait").code == 0
    assert [content(live(site, body)) for body in running] == [content(body) for body in running]
    again = site.plan("--exit-code")
    assert again.code == 0, again.out
    (found,) = json.loads(imports(site, "-o", str(folder), "--output", "json").out)
    ours = {one["object"] for one in found["leftOut"] if one["reason"] == "managed by gpu-reconciler already"}
    assert {str(key_of(body)) for body in wanted} <= ours


def clean(body: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be written of an object: without defaults, and with quantities as servers write them."""
    found = CATALOGUE.without_defaults(dict(CATALOGUE.stored(body)))
    # Kueue converts this former field; a server without Kueue drops it.
    return pruned(found, ("spec", "cohort")) if body["apiVersion"] == "kueue.x-k8s.io/v1beta1" else found


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.fixture
def two_maps(site: Site, kubectl: Kubectl) -> None:
    """Create two ConfigMaps of somebody else, one of which is not as its source."""
    kubectl("create", "namespace", site.name)
    kubectl("create", "-n", site.name, "configmap", "same", "--from-literal=a=1")
    kubectl("create", "-n", site.name, "configmap", "other", "--from-literal=a=theirs", "--from-literal=b=2")
    site.config_map("same", a="1")
    site.config_map("other", a="ours", b="2")
    site.remove("queues/namespace.yaml")


@pytest.mark.usefixtures("two_maps")
def test_a_pattern_adopts_only_what_does_not_change(site: Site) -> None:
    before = content(site.live("ConfigMap", "same"))
    for pattern in ("all", f"ConfigMap/{site.name}/*", "ConfigMap/*"):
        planned = site.plan("--adopt", pattern)
        assert planned.code == 3
        assert site.changes() == ["update ConfigMap/same"]
        assert "adopting it would change data.a" in words(planned)
        assert f"--adopt ConfigMap/{site.name}/other" in words(planned), "only by its name"
    named = site.plan("--adopt", "all", "--adopt", f"ConfigMap/{site.name}/other")
    assert named.code == 0, named.out
    assert site.apply().code == 0
    assert content(site.live("ConfigMap", "same")) == before
    assert site.live("ConfigMap", "other")["data"] == {"a": "ours", "b": "2"}
    assert site.plan("--adopt", "all", "--exit-code").code == 0, "a pattern may find nothing more to adopt"


@pytest.mark.usefixtures("two_maps")
def test_a_pattern_adopts_nothing_else(site: Site) -> None:
    planned = site.plan("--adopt", "Job/*", "--adopt", "ConfigMap/elsewhere/*")
    assert planned.code == 3
    assert site.changes() == []
    assert "adopting it would change none of its fields" in words(planned)
    assert site.plan("--adopt", f"ConfigMap/{site.name}/sane", "--adopt", "Job/x").err.count("sane or Job/x") == 1


def test_a_pattern_takes_nothing_from_another_repository(site: Site, another_site: AnotherSite) -> None:
    site.config_map("shared", a="same")
    assert site.reconcile().code == 0
    other = another_site("other")
    other.config_map("shared", a="same")
    planned = other.plan("--adopt", "all")
    assert planned.code == 3
    assert "live.claimed" in words(planned)


@pytest.mark.usefixtures("two_maps")
def test_a_label_that_never_was_there_is_not_drift(site: Site) -> None:
    """The base has the label in rendered/, and the object on the cluster never had it: nobody removed it."""
    site.fleet.commit("sources")
    assert site.fleet.run("commit").code == 0
    planned = site.plan("--base", "HEAD", "--adopt", "all", "--adopt", f"ConfigMap/{site.name}/other")
    assert planned.code == 0, planned.out
    drift = json.loads(site.plan_file.read_bytes())["drift"]
    assert [(one["key"]["name"], one["field"]) for one in drift] == [("other", "data.a")]
    assert "kubectl-create" in drift[0]["managers"][0]
    assert "removed it" not in planned.out


@pytest.mark.usefixtures("two_maps")
def test_objects_are_imported_as_a_stream(site: Site, kubectl: Kubectl) -> None:
    kubectl("create", "-n", site.name, "secret", "generic", "token", "--from-literal=key=hunter2")
    ran = imports(site, "configmaps", "Secret", "--namespace", site.name)
    assert ran.code == 0, ran.err
    assert ran.out == "", "the sources define both"
    assert "left out (defined in the repository already): 2" in ran.err
    assert "left out (Secret): 1" in ran.err
    for name in ("same", "other"):
        site.remove(f"jobs/{name}.yaml")
    ran = imports(site, "configmaps", "--namespace", site.name)
    assert [*yaml.safe_load_all(ran.out)] == [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata(name), "data": data}
        for name, data in (("other", {"a": "theirs", "b": "2"}), ("same", {"a": "1"}))
    ]
    assert "hunter2" not in ran.out + ran.err


@pytest.mark.usefixtures("two_maps")
def test_files_are_replaced_only_by_flag_and_all_together(site: Site) -> None:
    for name in ("same", "other"):
        site.remove(f"jobs/{name}.yaml")
    folder = site.fleet.root / "jobs" / "theirs"
    edited = folder / site.name / "configmap-other.yaml"
    edited.parent.mkdir(parents=True)
    edited.write_text("# by hand\n")
    arguments = ("ConfigMap", "--namespace", site.name, "-o", str(folder))
    refused = imports(site, *arguments)
    assert refused.code == 2
    assert f"{edited} exists with another content" in refused.err
    assert [*folder.rglob("*.yaml")] == [edited], "nothing was written"
    assert imports(site, *arguments, "--overwrite").code == 0
    assert sorted(path.name for path in folder.rglob("*")) == sorted(
        [site.name, "configmap-other.yaml", "configmap-same.yaml"]
    )
    assert "wrote 0 of 2 files" in imports(site, *arguments).err, "the same files are not written again"
    assert site.plan("--adopt", "all").code == 0


def test_wrong_kinds_and_folders_are_refused_all_at_once(site: Site) -> None:
    unknown = imports(site, "configmap", "deploymnts", "Jbo", "Zzzzzz")
    assert unknown.code == 2
    assert "unknown kind: deploymnts, Jbo, Zzzzzz" in unknown.err
    assert "did you mean Deployment and Job?" in unknown.err
    configure(site, clusters=[{"name": "main", "select": {"folders": ["queues"]}}, {"name": "other"}])
    folder = site.fleet.root / "elsewhere"
    placed = imports(site, "--cluster", "main", "-o", str(folder))
    assert placed.code == 2
    assert "elsewhere is in no source folder; add it to spec.sources" in placed.err
    assert "elsewhere would be rendered for other; set select.folders of the cluster main" in placed.err
    assert not folder.exists()
    assert imports(site, "--output", "json").code == 2


def test_a_namespace_that_does_not_exist_is_refused(site: Site) -> None:
    wrong = imports(site, "--namespace", "defualt", "--namespace", "default", "--namespace", "nowhere")
    assert wrong.code == 2
    assert "--namespace: defualt and nowhere do not exist; did you mean default?" in wrong.err


@pytest.mark.usefixtures("two_maps")
def test_kinds_that_cannot_be_read_are_reported(site: Site) -> None:
    ran = imports(site, "ConfigMap", "Job", "--namespace", site.name, "--as", "nobody")
    assert ran.code == 6
    assert "ConfigMap could not be read" in ran.err
    assert "Job.batch could not be read" in ran.err

"""The chart as helm renders it: expected files for typical values, and values that it refuses."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from reconciler.cli.main import reconciler
from tests.plan.outputs.goldens import agrees_with
from tools.chart.build import CHART, MANIFESTS, manifests, template

CASES = sorted(path.parent for path in Path(__file__).parent.glob("cases/*/values.yaml"))
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def values(case: Path) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((case / "values.yaml").read_text(encoding="utf-8"))
    return body


@every_case
def test_typical_values_render_as_expected(helm: Path, case: Path) -> None:
    """F-132: golden files; `GOLDEN=1` writes them again."""
    agrees_with(case / "expected.yaml", template(helm, values(case)))


def test_plain_manifests_are_up_to_date(helm: Path) -> None:
    """F-132: run `make chart` if this fails."""
    assert manifests(helm) == {path.name: path.read_text(encoding="utf-8") for path in MANIFESTS.glob("*.yaml")}


def test_helm_lints_the_chart(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@every_case
def test_every_object_carries_the_recommended_labels(helm: Path, case: Path) -> None:
    for body in yaml.safe_load_all(template(helm, values(case))):
        if body["kind"] == "CustomResourceDefinition":
            continue
        labels = body["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "gpu-reconciler"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"


@every_case
def test_the_arguments_are_those_of_the_command(helm: Path, case: Path) -> None:
    pods = [
        body["spec"]["template"]["spec"]
        for body in yaml.safe_load_all(template(helm, values(case)))
        if body and body["kind"] in {"Deployment", "DaemonSet"}
    ]
    for container in (container for pod in pods for container in pod["containers"]):
        name, *arguments = container["args"]
        with reconciler.make_context("reconciler", [name]) as group:
            command = reconciler.get_command(group, name)
        assert command is not None
        with command.make_context(name, [*arguments], parent=group) as context:
            wanted = "json" if container["name"] == "kmsg" else values(case).get("log", {}).get("format", "json")
            assert context.params["log_format"] == wanted


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"mode": "aply"}, "/mode"),
        ({"replicas": 0}, "/replicas"),
        ({"replica": 2}, "replica"),
        ({"image": {"repository": "registry.example.com/reconciler:1.2"}}, "/image/repository"),
        ({"image": {"digest": "0123"}}, "/image/digest"),
        ({"rbac": {"resources": ["Jobs.batch"]}}, "/rbac/resources/0"),
        ({"rbac": {"credentials": [{"namespace": "team-a"}]}}, "/rbac/credentials/0"),
        ({"rbac": {"impersonate": [{"name": "deployer"}]}}, "/rbac/impersonate/0"),
        ({"log": {"level": "warn"}}, "/log/level"),
        ({"tracing": {"endpoint": "collector:4317"}}, "/tracing/endpoint"),
        ({"webhook": {"service": {"port": 70000}}}, "/webhook/service/port"),
        ({"metrics": {"serviceMonitor": {"interval": "30"}}}, "/metrics/serviceMonitor/interval"),
        ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "/podDisruptionBudget/maxUnavailable"),
        ({"state": {"sizeLimit": "2 Gi"}}, "/state/sizeLimit"),
        ({"env": [{"name": "A-B"}]}, "/env/0/name"),
        ({"podLabels": {"team": 1}}, "/podLabels/team"),
        ({"agent": {"interval": 1}}, "/agent/interval"),
        ({"agent": {"checks": ["Remap"]}}, "/agent/checks/0"),
        ({"agent": {"invasive": -1}}, "/agent/invasive"),
        ({"agent": {"api": {"port": 80}}}, "/agent/api/port"),
        ({"agent": {"maxUnavailable": "all"}}, "/agent/maxUnavailable"),
        ({"agent": {"interval": 60, "kmsg": {"enable": True}}}, "enable"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_with_their_place(helm: Path, wrong: dict[str, Any], place: str) -> None:
    with pytest.raises(ValueError, match=place):
        template(helm, wrong)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("jobs", 'rbac.resources: "jobs" is no kind that gpu-reconciler knows; did you mean jobs.batch'),
        ("widgets.example.com", "widgets.example.com.* use rbac.extraRules"),
    ],
)
@pytest.mark.parametrize("mode", ["observe", "apply"])
def test_a_kind_that_would_grant_nothing_is_refused(helm: Path, mode: str, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        template(helm, {"mode": mode, "rbac": {"resources": ["configmaps", name]}})


def test_the_schema_knows_every_default_and_nothing_else() -> None:
    """A value that has no default cannot be found by reading values.yaml, and one without a schema is not checked."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(defaults, schema)
    assert set(_paths(schema)) - {"global"} == _keys(defaults)


def _paths(schema: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, inner in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        found += _paths(inner, f"{path}.") if inner.get("properties") and path not in _FREE else [path]
    return found


_FREE = {"resources", "agent.resources", "agent.kmsg.resources"}
"""Values that are copied into a pod as they are: their schema is for typing errors only."""


def _keys(values: dict[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, inner in values.items():
        path = f"{prefix}{name}"
        nested = (
            isinstance(inner, dict)
            and inner
            and path not in _FREE
            and name not in {"labels", "annotations", "nodeSelector"}
        )
        found |= _keys(inner, f"{path}.") if nested else {path}
    return found


@pytest.mark.parametrize(("namespace", "expected"), [("", "release"), ("team-a", "team-a")])
def test_the_notes_name_a_source_that_can_read_its_secret(helm: Path, namespace: str, expected: str) -> None:
    """F-132: the source, its Secret and the permission to read it are in one namespace, which the controller watches."""
    command = [str(helm), "install", "fleet", str(CHART), "--namespace", "release", "--dry-run=client", "--skip-crds"]
    command += ["--set", f"sources.namespace={namespace}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.split("NOTES:\n", 1)[1]
    (written,) = re.findall(r"<<EOF\n(.*?)\n +EOF\n", notes, re.DOTALL)
    source = yaml.safe_load(written)
    (secret,) = re.findall(r"create secret generic (\S+) --namespace (\S+)", notes)
    assert secret == (source["spec"]["secretRef"]["name"], source["metadata"]["namespace"])
    assert source["metadata"]["namespace"] == expected
    assert f"rbac.credentials[0].name={secret[0]},rbac.credentials[0].namespace={expected}" in notes
    schema = json.loads((CHART.parents[1] / "schemas/gpureconciler.io/v1alpha1/configsource.json").read_text())
    jsonschema.validate(source, schema)

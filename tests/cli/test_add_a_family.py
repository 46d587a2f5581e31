"""An installed package with a family: lint, plan, explain, schema, size and the reference know its kinds."""

import json
import shutil
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from reconciler.plan import opening
from tests.cli.fleet import Fleet, run_verb
from tests.kinds.test_add_a_family import SOURCE
from tools.reference import pages

ROOT = Path(__file__).resolve().parents[2]
FAMILY = ROOT / "tests/kinds/acme"
TRAINING = """\
apiVersion: acme.example.com/v1
kind: Run
metadata: {name: tuned, namespace: ml, labels: {autoconf-plugin-name: resource-requirements-appwrapper}}
spec:
  image: acme/train:1
  command: [torchrun, -m, tuning.sft_trainer]
  args: [--model_name_or_path, ibm-granite/granite-3.1-8b-instruct, --per_device_train_batch_size, "4",
         --max_seq_length, "2048", --peft_method, lora]
  resources: {limits: {nvidia.com/gpu: 8}}
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch, FAMILY)


def install(site: Path, monkeypatch: pytest.MonkeyPatch, family: Path) -> None:
    """Install a family as pip would: its folder, and the metadata with the entry point."""
    sys.modules.pop("acme_family", None)
    shutil.copytree(family, site / "acme_family")
    metadata = site / "acme_family-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-family\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[gpu_reconciler.kinds]\nacme = acme_family:KINDS\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    invalidate_caches()


@pytest.mark.usefixtures("acme")
def test_the_verbs_know_an_installed_family(fleet: Fleet) -> None:
    fleet.write("jobs/run.yaml", SOURCE)
    assert fleet.run("lint").code == 0
    plan = json.loads(fleet.run("plan", "-o", "json").out)
    (change,) = [change for change in plan["changes"] if change["key"]["kind"] == "Gang"]
    assert change["path"].endswith("/ml/gang-llama.yaml")
    assert change["gpusAfter"] == 16
    explained = fleet.run("explain", "gang/llama", "spec.size")
    assert (explained.code, "jobs/run.yaml:6" in explained.out) == (0, True)
    fleet.write("jobs/run.yaml", SOURCE.replace("nodes: 2", "nodes: two"))
    refused = fleet.run("lint")
    assert (refused.code, "spec.nodes" in refused.out + refused.err) == (3, True)


@pytest.mark.usefixtures("acme")
def test_an_installed_family_is_sized(fleet: Fleet) -> None:
    path = fleet.write("jobs/run.yaml", TRAINING)
    sized = fleet.run("size", str(path), "-o", "json")
    assert sized.code == 0, sized.err
    assert json.loads(sized.out)


@pytest.mark.usefixtures("acme")
def test_an_installed_family_has_schemas_and_a_reference(fleet: Fleet) -> None:
    schema = json.loads(run_verb(fleet.capture, ["schema", "Run"]).out)
    assert "image" in schema["properties"]["spec"]["properties"]
    page = pages(opening.kinds())["kinds.md"]
    assert "## Run" in page
    assert "| `acme.example.com` | Gang, Run |" in page
    assert "acme-family 1.0" in " ".join(run_verb(fleet.capture, ["version"]).out.split())

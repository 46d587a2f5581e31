"""Kind families of installed packages, from the entry point group `gpu_reconciler.kinds`."""

import json
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from reconciler import wiring
from reconciler.adapters.plugins import with_installed_families
from reconciler.core.kinds.registry import BUILT_IN
from reconciler.errors import OutsideError
from tests.cli.fleet import Fleet, run_verb

FAMILY = 'from reconciler.core.kinds.kind import Kind\nKINDS = (Kind(group="acme.example.com", kind="Train"),)\n'


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str = "acme_kinds") -> None:
    """Install a package with a family into a folder of the import path."""
    (folder / f"{name}.py").write_text(source)
    metadata = folder / f"{name}-2.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 2.0\n")
    (metadata / "entry_points.txt").write_text(f"[gpu_reconciler.kinds]\n{name} = {name}:KINDS\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    invalidate_caches()


def test_without_packages_the_registry_is_the_built_in_one() -> None:
    assert with_installed_families(BUILT_IN) is BUILT_IN


def test_a_package_adds_its_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, FAMILY, name="acme_more")
    kinds = with_installed_families(BUILT_IN)
    assert ("acme.example.com", "Train") in kinds
    assert len(kinds) == len(BUILT_IN) + 1
    assert kinds.versions == (("acme-more", "2.0"),)


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        ("acme_raises", "raise RuntimeError('no GPU')\n", "no GPU"),
        ("acme_empty", "", "KINDS"),
        ("acme_typed", "KINDS = ['Train']\n", "not a tuple of Kind"),
        ("acme_twice", FAMILY.replace("acme.example.com", "batch").replace("Train", "Job"), "registered twice"),
    ],
)
def test_a_package_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str, reason: str
) -> None:
    install(tmp_path, monkeypatch, source, name=name)
    with pytest.raises(OutsideError, match=reason) as caught:
        with_installed_families(BUILT_IN)
    assert f"package {name.replace('_', '-')} 2.0" in caught.value.message


def test_versions_of_packages_are_part_of_the_engine(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan names the engine that made it, so that a plan of another set of packages is another plan."""
    environ = {"RECONCILER_CACHE": "off"}
    before = wiring.open_run(str(fleet.root), {}, environ).workspace.runtime.engine
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, monkeypatch, FAMILY, name="acme_engine")
    after = wiring.open_run(str(fleet.root), {}, environ).workspace.runtime.engine
    assert before != after
    assert "acme-engine " in run_verb(fleet.capture, ["version"]).out
    assert fleet.run("plan", "--exit-code").code == 0


GANG = """\
from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.kind import Kind


def _pods(body, prefix):
    yield PodSet(body["spec"]["gangSize"], {"spec": body["spec"]["pod"]}, f"{prefix}spec.")


KINDS = (Kind(group="acme.example.com", kind="Gang", pods=_pods),)
"""
OBJECT = """\
apiVersion: acme.example.com/v1
kind: Gang
metadata: {name: gang, labels: {team: x}}
spec:
  gangSize: 3
  pod:
    containers: [{name: main, image: "a:1", resources: {limits: {nvidia.com/gpu: 8}}}]
"""


def test_gpus_of_a_packages_kind_are_counted(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of the kind is enough: no other module knows of it."""
    fleet.write("jobs/gang.yaml", OBJECT)
    unknown = json.loads(fleet.run("plan", "-o", "json").out)
    assert [change["gpusAfter"] for change in unknown["changes"]] == [0]
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, monkeypatch, GANG, name="acme_gang")
    plan = json.loads(fleet.run("plan", "-o", "json").out)
    assert [change["gpusAfter"] for change in plan["changes"]] == [24]

"""Many updates at once are compared by workers: the same plan as by one process, and the right one."""

from pathlib import Path

import msgspec
import pytest

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.reasons import Why
from reconciler.plan import FieldChange
from reconciler.plan.comparison import Comparison
from reconciler.plan.updates import Update, encode_updates
from tests.cli.fleet import IDENTITY, Fleet
from tests.ready import new_cache

MANY = 450  # enough that forking pays
CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: many}
spec:
  clusters: [{name: main, backend: none}]
  sources: [jobs]
  budgets: {deletes: {count: null, share: null}}
"""
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: claim-NUMBER
  namespace: default
  labels: {team: one}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: SIZE}}}
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fleet:
    """Make a repository whose every claim has just shrunk, and one of them grown."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "fleet"
    (root / "jobs").mkdir(parents=True)
    (root / "reconciler.yaml").write_text(CONFIG)
    write(root, "10Gi")
    fleet = Fleet(root, capsys)
    fleet.git("init", "--quiet", "--initial-branch", "main")
    fleet.commit()
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    assert fleet.run("commit").code == 0
    write(root, "5Gi")
    (root / "jobs/0.yaml").write_text(CLAIM.replace("NUMBER", "0").replace("SIZE", "20Gi"))
    return fleet


def write(root: Path, size: str) -> None:
    for number in range(MANY):
        text = CLAIM.replace("NUMBER", str(number)).replace("SIZE", size)
        (root / f"jobs/{number}.yaml").write_text(text)


def test_workers_compare_as_one_process_does(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-140: each update has its fields with their reasons, and the risks that its bodies tell."""
    found = []
    for processes, at_once in (("1", MANY), ("3", MANY - 40)):  # the last 40 are too few for workers
        monkeypatch.setenv("RECONCILER_PROCESSES", processes)
        monkeypatch.setattr("reconciler.plan.updates._MAX_AT_ONCE", at_once)
        monkeypatch.setenv("RECONCILER_CACHE", "off")
        found.append(fleet.run("plan", "-o", "json").out)
    assert found[0] == found[1]
    plan = msgspec.json.decode(found[0])
    assert {change["operation"] for change in plan["changes"]} == {"update"}
    assert len(plan["changes"]) == MANY
    for change in plan["changes"]:
        (field,) = change["fields"]
        assert field["path"] == "spec.resources.requests.storage"
        assert (field["before"], field["after"]) == ("10Gi", "20Gi" if change["key"]["name"] == "claim-0" else "5Gi")
        number = change["key"]["name"].removeprefix("claim-")
        assert field["why"]["places"][0]["path"] == f"jobs/{number}.yaml"
    shrunk = [problem for problem in plan["problems"] if problem["rule"] == "immutable.claim"]
    assert len(shrunk) == MANY - 1


def test_what_cannot_travel_is_left_to_the_parent() -> None:
    comparison = Comparison(
        cluster="main",
        key=ObjectKey(group="", kind="ConfigMap", namespace="default", name="big"),
        source=SourceRef(path="a.yaml"),
        sizing=None,
        fields=(FieldChange(path="data", before=0, after=2**70),),
        why=Why(rule="source"),
        replaces=True,
    )
    assert encode_updates({"path": Update(comparison, ())}) == b""

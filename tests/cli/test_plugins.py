"""Kind families of installed packages, from the entry point group `gpu_reconciler.kinds`."""

import json
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.errors import OutsideError
from reconciler.kinds.facts import Relations
from reconciler.kinds.kind import Kinds
from reconciler.kinds.registry import BUILT_IN
from reconciler.plan import opening
from reconciler.policy.plugins import with_installed_families
from tests.cli.fleet import Fleet, run_verb

FAMILY = """\
from reconciler.kinds.aspects import Naming
from reconciler.kinds.kind import Kind

KINDS = (Kind(group="acme.example.com", kind="Train", naming=Naming()),)
"""


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
        ("acme_wrong", FAMILY.replace("Naming()", 'Naming(rule="reference.x")'), "reference.x is not a rule"),
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
    before = opening.open_run(str(fleet.root), {}, environ).workspace.runtime.engine.version
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, monkeypatch, FAMILY, name="acme_engine")
    after = opening.open_run(str(fleet.root), {}, environ).workspace.runtime.engine.version
    assert before != after
    assert "acme-engine " in run_verb(fleet.capture, ["version"]).out
    assert fleet.run("plan", "--exit-code").code == 0


GANG = """\
from reconciler.kinds.aspects import Pods
from reconciler.kinds.facts import PodSet
from reconciler.kinds.kind import Kind


def _pods(body, prefix):
    yield PodSet(body["spec"]["gangSize"], {"spec": body["spec"]["pod"]}, f"{prefix}spec.")


KINDS = (Kind(group="acme.example.com", kind="Gang", pods=Pods(_pods)),)
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


FAULTY = """\
from reconciler.kinds.aspects import Queueing, Source
from reconciler.kinds.facts import QueueRole, Relations
from reconciler.kinds.kind import Kind
from reconciler.kinds.rendered import Rendered
from reconciler.kube.problems import Parsed, Problem


def _parse(document):
    spec = document.data["spec"]
    if spec["gangSize"] > 8:
        problem = Problem(rule="acme.size", place=document.source, message="is too large")
        return Parsed(intent=None, problems=(problem,))
    return Parsed(intent=None if spec["gangSize"] == 0 else document)


def _render(document, lookup):
    lookup.defined(("acme.example.com", "Pool"), "ml", "x")
    return Rendered()


KINDS = (
    Kind(
        group="acme.example.com",
        kind="Queue",
        relations=lambda body: Relations(),
        queueing=Queueing(role=QueueRole.TREE),
    ),
    Kind(group="acme.example.com", kind="Gang", source=Source(parse=_parse)),
    Kind(group="acme.example.com", kind="Pool", source=Source(render=_render)),
)
"""


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, monkeypatch, FAULTY, name="acme_faulty")


@pytest.mark.usefixtures("faulty")
def test_a_bug_of_a_package_is_not_called_ours(fleet: Fleet) -> None:
    fleet.write("jobs/gang.yaml", OBJECT.replace("gangSize", "size"))
    ran = fleet.run("lint")
    assert (ran.code, "bug: KeyError: 'gangSize'" in ran.err) == (70, True)
    assert "This is a bug in the package acme-faulty 2.0 (acme_faulty, line 10)." in ran.err


@pytest.mark.usefixtures("faulty")
def test_a_bug_of_a_package_in_a_worker_process_is_not_called_ours(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the text of a traceback comes back from a worker."""
    monkeypatch.setattr("reconciler.index.workers._WORTH_FORKING", 1)
    monkeypatch.setattr("reconciler.index.workers._CHUNK", 1)
    fleet.write("queues/zzz.yaml", OBJECT.replace("gangSize", "size"))
    ran = fleet.run("lint", "--processes", "2")
    assert "This is a bug in the package acme-faulty 2.0 (acme_faulty, line 10)." in ran.err
    fleet.write("queues/zzz.yaml", OBJECT.replace("gangSize: 3", "gangSize: 0"))
    ran = fleet.run("lint", "--processes", "2")
    assert "This is a bug in the package acme-faulty 2.0 (acme_faulty:KINDS)." in ran.err


@pytest.mark.usefixtures("faulty")
def test_problems_of_a_parser_without_a_renderer_are_reported(fleet: Fleet) -> None:
    fleet.write("jobs/gang.yaml", OBJECT)
    assert fleet.run("lint").code == 0
    fleet.write("jobs/gang.yaml", OBJECT.replace("gangSize: 3", "gangSize: 9"))
    ran = fleet.run("lint")
    assert (ran.code, "acme.size" in ran.out) == (3, True)


@pytest.mark.usefixtures("faulty")
def test_a_parser_that_returns_nothing_is_a_bug(fleet: Fleet) -> None:
    """An object must not vanish from a plan without a word."""
    fleet.write("jobs/gang.yaml", OBJECT.replace("gangSize: 3", "gangSize: 0"))
    ran = fleet.run("lint")
    assert (ran.code, "parse of Gang (acme.example.com) returned neither an intent nor an error" in ran.err) == (
        70,
        True,
    )
    assert "This is a bug in the package acme-faulty 2.0 (acme_faulty:KINDS)." in ran.err


@pytest.mark.usefixtures("faulty")
def test_only_definitions_are_looked_up(fleet: Fleet) -> None:
    fleet.write("jobs/pool.yaml", OBJECT.replace("kind: Gang", "kind: Pool"))
    ran = fleet.run("lint")
    assert ran.code == 70
    assert "Pool (acme.example.com) is looked up, but its row has no `dependents=Dependents.NAMED`" in ran.err
    assert "This is a bug in the package acme-faulty 2.0 (acme_faulty, line 1" in ran.err


@pytest.mark.usefixtures("faulty")
def test_a_queue_without_a_quota_is_a_bug_of_its_package(fleet: Fleet) -> None:
    fleet.write("jobs/queue.yaml", OBJECT.replace("kind: Gang", "kind: Queue"))
    ran = fleet.run("lint")
    assert (ran.code, "the relations of Queue (acme.example.com) need one quota" in ran.err) == (70, True)
    assert "This is a bug in the package acme-faulty 2.0 (acme_faulty:KINDS)." in ran.err


def test_a_row_of_ours_is_our_bug(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = (row for row in BUILT_IN.values() if row.id == ("scheduling.run.ai", "Queue"))
    kinds = Kinds([one for one in BUILT_IN.values() if one is not row], [replace(row, relations=lambda _: Relations())])
    monkeypatch.setattr(opening, "kinds", lambda: kinds)
    fleet.write("queues/more.yaml", "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: more}\nspec: {}\n")
    ran = fleet.run("lint")
    assert (ran.code, "This is a bug in gpu-reconciler." in ran.err) == (70, True)

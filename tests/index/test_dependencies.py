"""A change of each kind of dependency compiles the files that used it again, and no others."""

import json

import pytest

from reconciler.index.dependencies import (
    AnswerDependency,
    DefinitionDependency,
    Dependency,
    FileDependency,
    InventoryDependency,
    NamesDependency,
    PathsDependency,
    decode_dependencies,
    encode_dependencies,
)
from reconciler.kinds.registry import BUILT_IN
from reconciler.size.files import SizingScope, size_selected
from reconciler.size.record import record
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.engine_registry import Outcome
from tests.cli.test_sized_plan import JOB, OWN_MODEL
from tests.index.fleets import CRD, NAMESPACE, START, MemoryFleet, config, config_map, evidence, job, queue
from tests.plan.use_cases.test_size_servers import SERVER
from tests.plan.use_cases.test_size_use_cases import FakeEngine
from tests.sizing.tables import TABLES

QUEUE = ("torchrun.ai", "TorchrunQueue")
FOREIGN_QUEUE = """\
apiVersion: example.com/v1
kind: TorchrunQueue
metadata: {name: q1, namespace: default}
spec: {image: registry.example.com/other:1}
"""
KUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: lq, namespace: vision}
spec: {clusterQueue: cq}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: cq}
spec:
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: large, resources: [{name: nvidia.com/gpu, nominalQuota: 64}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: large}
spec: {nodeLabels: {nvidia.com/gpu.product: PRODUCT}}
"""


def fleet_of(**files: str) -> MemoryFleet:
    """Return a fleet that was planned once; keys name files with `__` for `/`."""
    fleet = MemoryFleet(START | {f"{path.replace('__', '/')}.yaml": text for path, text in files.items()})
    fleet.warm()
    assert fleet.recompiled() == set()
    return fleet


def dependencies_of(fleet: MemoryFleet, path: str) -> set[Dependency]:
    """Return the recorded dependencies of a file."""
    return set(decode_dependencies(fleet.plan().index.records[path].dependencies))


def test_encoding_is_canonical() -> None:
    one = DefinitionDependency(*QUEUE, "a", "default", "q1")
    other = AnswerDependency("a", "rest", "abc")
    names = NamesDependency(*QUEUE, "a", "default")
    rest: set[Dependency] = {InventoryDependency("a"), FileDependency("x"), PathsDependency(), names}
    assert encode_dependencies({one, other, *rest}) == encode_dependencies({*rest, other, one})
    assert set(decode_dependencies(encode_dependencies({one, other, *rest}))) == {one, other, *rest}
    assert encode_dependencies(set()) == b""


def test_job_depends_on_its_queue() -> None:
    fleet = fleet_of(jobs__a__same=job("same", of="q2"))
    assert DefinitionDependency(*QUEUE, "a", "default", "q1") in dependencies_of(fleet, "jobs/a/one.yaml")
    fleet.write("queues/q1.yaml", queue("q1", node=4))
    assert fleet.recompiled() == {"queues/q1.yaml", "jobs/a/one.yaml"}
    assert fleet.warm() == fleet.cold()


def test_queues_of_one_file_are_told_apart() -> None:
    fleet = fleet_of(queues__both=queue("q4") + "---\n" + queue("q5"), jobs__a__four=job("four", of="q4"))
    fleet.write("queues/both.yaml", queue("q4") + "---\n" + queue("q5", node=4))
    assert fleet.recompiled() == {"queues/both.yaml"}
    fleet.write("queues/both.yaml", queue("q4", node=4) + "---\n" + queue("q5", node=4))
    assert fleet.recompiled() == {"queues/both.yaml", "jobs/a/four.yaml"}


def test_missing_queue_is_a_dependency() -> None:
    fleet = fleet_of(jobs__a__late=job("late", of="q9"))
    assert NamesDependency(*QUEUE, "a", "default") in dependencies_of(fleet, "jobs/a/late.yaml")
    fleet.write("queues/q8.yaml", queue("q8"))  # a name to suggest
    assert fleet.recompiled() == {"queues/q8.yaml", "jobs/a/late.yaml"}
    fleet.write("queues/q9.yaml", queue("q9"))
    assert fleet.recompiled() == {"queues/q9.yaml", "jobs/a/late.yaml"}
    assert fleet.warm() == fleet.cold()
    del fleet.files["queues/q9.yaml"]
    assert fleet.recompiled() == {"jobs/a/late.yaml"}


def test_foreign_kind_of_the_same_name_is_not_a_queue() -> None:
    """A kind is its group and its name: `example.com` may have a TorchrunQueue of its own."""
    crd = CRD.replace("SCOPE", "Namespaced").replace("Widget", "TorchrunQueue").replace("widget", "torchrunqueue")
    fleet = fleet_of(manifests__crd=crd)
    before = fleet.plan().renderer.object("a/default/job-one.yaml").content
    fleet.write("manifests/aaa.yaml", FOREIGN_QUEUE)
    fleet.write("jobs/a/0.yaml", FOREIGN_QUEUE)  # read before the real one
    assert fleet.recompiled() == {"manifests/aaa.yaml", "jobs/a/0.yaml"}
    assert fleet.plan().renderer.object("a/default/job-one.yaml").content == before
    assert fleet.warm() == fleet.cold()


def test_only_servers_whose_lines_can_be_read_depend_on_the_inventory() -> None:
    selected = "  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n"
    known = SERVER.replace("LENGTH", "32768").replace("  template:\n", selected)
    unknown = known.replace("Qwen/Qwen2.5-72B-Instruct", "/models/ours")
    fleet = fleet_of(manifests__known=known, manifests__unknown=unknown.replace("name: qwen", "name: ours"))
    assert InventoryDependency("a") in dependencies_of(fleet, "manifests/known.yaml")
    assert InventoryDependency("a") not in dependencies_of(fleet, "manifests/unknown.yaml")


def test_only_torchrun_files_depend_on_the_inventory() -> None:
    fleet = fleet_of()
    assert InventoryDependency("a") in dependencies_of(fleet, "jobs/a/one.yaml")
    fleet.write("evidence/a/nodes.yaml", evidence(count=4))
    assert fleet.recompiled() == {"jobs/a/one.yaml", "jobs/b/two.yaml", "queues/q1.yaml", "queues/q2.yaml"}
    assert fleet.warm() == fleet.cold()


def test_time_of_the_evidence_is_not_a_dependency() -> None:
    fleet = fleet_of()
    fleet.write("evidence/a/nodes.yaml", evidence(taken="2026-12-24T00:00:00Z"))
    assert fleet.recompiled() == set()
    assert fleet.warm() == fleet.cold()


def test_place_of_the_evidence_is_a_dependency() -> None:
    """Reasons and problems name the line of a node."""
    fleet = fleet_of()
    fleet.write("evidence/a/nodes.yaml", "# comment\n" + evidence())
    assert "jobs/a/one.yaml" in fleet.recompiled()
    assert fleet.warm() == fleet.cold()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("manifests/ns.yaml", NAMESPACE.replace("VALUE", "other")),
        ("manifests/crd.yaml", CRD.replace("SCOPE", "Cluster")),
        ("reconciler.yaml", config(backend="kueue")),
    ],
)
def test_every_file_depends_on_the_context(path: str, text: str) -> None:
    fleet = fleet_of(manifests__ns=NAMESPACE.replace("VALUE", "one"))
    fleet.write(path, text)
    sources = {path for path in fleet.files if path.startswith(("jobs/", "queues/", "manifests/"))}
    assert fleet.recompiled() == sources
    assert fleet.warm() == fleet.cold()


def test_plain_object_depends_on_nothing() -> None:
    fleet = fleet_of(manifests__more=config_map("more"))
    assert dependencies_of(fleet, "manifests/more.yaml") == set()


# Sized jobs.


def sized_config(engine: str = "analytic") -> str:
    """Return `reconciler.yaml` with sizing of labelled jobs."""
    return config() + f"  sizing: {{engine: {engine}}}\n"


def test_sized_job_depends_on_configurations_that_exist_and_that_it_names() -> None:
    line = JOB.replace("ibm-granite/granite-3.1-8b-instruct", "/models/our-own-7b")
    fleet = fleet_of(jobs__own__sized=line, jobs__a__plain=job("plain"))
    fleet.write("reconciler.yaml", sized_config())
    fleet.warm()
    assert dependencies_of(fleet, "jobs/own/sized.yaml") >= {PathsDependency()}
    fleet.write("jobs/own/config.json", json.dumps(OWN_MODEL))
    assert fleet.recompiled() == {"jobs/own/config.json", "jobs/own/sized.yaml"}
    assert FileDependency("jobs/own/config.json") in dependencies_of(fleet, "jobs/own/sized.yaml")
    fleet.write("jobs/own/config.json", json.dumps(OWN_MODEL | {"num_hidden_layers": 16}))
    assert fleet.recompiled() == {"jobs/own/config.json", "jobs/own/sized.yaml"}
    assert fleet.warm() == fleet.cold()


def test_sized_job_depends_on_the_config_map_that_it_mounts() -> None:
    mounts = "          volumes: [{name: run, configMap: {name: run}}]\n          containers:\n"
    line = JOB.replace("          containers:\n", mounts).replace("--num_processes 8", "--config_file /run/fsdp.yaml")
    line = line.replace("pytorch\n", "pytorch\n              volumeMounts: [{name: run, mountPath: /run}]\n")
    held = config_map("run").replace("default", "vision").replace("{key: x}", "{fsdp.yaml: 'CONFIG'}")
    fleet = fleet_of(jobs__a__plain=job("plain"))
    fleet.write("reconciler.yaml", sized_config())
    fleet.write("manifests/run.yaml", held.replace("CONFIG", "{distributed_type: FSDP, num_processes: 8}"))
    kind = ("a", ("", "ConfigMap"), "vision")
    assert kind not in fleet.plan().index.context.definitions  # which no file looks up
    fleet.write("jobs/own/sized.yaml", line)
    assert [*fleet.plan().index.context.definitions[kind]] == ["run"]
    needed = DefinitionDependency("", "ConfigMap", "a", "vision", "run")
    assert needed in dependencies_of(fleet, "jobs/own/sized.yaml")
    before = fleet.warm()
    fleet.write("manifests/run.yaml", held.replace("CONFIG", "{distributed_type: FSDP, num_processes: 4}"))
    assert fleet.recompiled() == {"manifests/run.yaml", "jobs/own/sized.yaml"}
    assert fleet.warm() == fleet.cold() != before
    fleet.write("jobs/own/sized.yaml", JOB)
    assert kind in fleet.plan().index.context.definitions  # as the base, which is compared, looked it up
    assert kind not in fleet.plan().index.context.definitions
    assert fleet.warm() == fleet.cold()


def test_sized_job_depends_on_the_flavors_of_its_queue() -> None:
    labelled = JOB.replace("    team: vision\n", "    team: vision\n    kueue.x-k8s.io/queue-name: lq\n")
    labelled = labelled.replace(
        "          nodeSelector:\n            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3\n", ""
    )
    fleet = fleet_of(jobs__a__sized=labelled, queues__kueue=KUEUE.replace("PRODUCT", "NVIDIA-H100-80GB-HBM3"))
    fleet.write("reconciler.yaml", sized_config())
    fleet.warm()
    dependencies = dependencies_of(fleet, "jobs/a/sized.yaml")
    kinds = {one.kind for one in dependencies if isinstance(one, DefinitionDependency)}
    assert kinds == {"TorchrunQueue", "LocalQueue", "ClusterQueue", "ResourceFlavor"}
    fleet.write("queues/kueue.yaml", KUEUE.replace("PRODUCT", "NVIDIA-L40S"))
    assert fleet.recompiled() == {"queues/kueue.yaml", "jobs/a/sized.yaml"}
    assert fleet.warm() == fleet.cold()


def test_sized_job_depends_on_the_answer_to_its_own_question() -> None:
    other = JOB.replace("llama-lora", "other").replace("4096", "8192")
    fleet = fleet_of(jobs__a__sized=JOB, jobs__a__other=other)
    fleet.write("reconciler.yaml", sized_config("wrapper, wrapper: {script: tools/wrapper.py}"))
    workspace = fleet.workspace(fleet.cache)
    index, repository = workspace.compile_whole(), workspace.repository
    scope = SizingScope(
        kinds=BUILT_IN,
        catalogue=index.context.catalogue,
        tables=TABLES,
        settings=SizingSettings(),
        index=index,
        repository=repository,
    )
    written: dict[str, bytes] = {}
    record(index, size_selected(scope), ask=FakeEngine(Outcome.ERROR), write=written.__setitem__)
    both = written["evidence/a/sizing.yaml"].decode()
    fleet.write("evidence/a/sizing.yaml", both)
    assert fleet.recompiled() == {"jobs/a/sized.yaml", "jobs/a/other.yaml"}
    (asked,) = [
        dependency
        for dependency in dependencies_of(fleet, "jobs/a/sized.yaml")
        if isinstance(dependency, AnswerDependency) and dependency.question
    ]
    entries = both.split("  - answeredAt: ")
    entry = next(entry for entry in entries if asked.question in entry)
    fleet.write("evidence/a/sizing.yaml", both.replace(entry, entry.replace("no such model", "no such method")))
    assert fleet.recompiled() == {"jobs/a/sized.yaml"}
    assert fleet.warm() == fleet.cold()

"""Files are validated by what the clusters serve that they are for, and again when exactly that changes."""

import copy
from typing import Any

from reconciler.kube.problems import Problem
from reconciler.repo.evidence.definitions import ClusterDefinitions, ServedKind, served_kind, write_definitions
from tests.index.fleets import CRD, START, MemoryFleet, config, config_map
from tests.repo.test_definitions import WIDGETS, hostile, packed

WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: NAME, namespace: default}\nspec: SPEC\n"
QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec: {preemption: {withinClusterQueue: Never}, inventedLater: 1}
"""


def newer(group: str, kind: str, versions: tuple[str, ...], *fields: str) -> dict[str, Any]:
    """Return a cluster-scoped definition whose spec has free fields of these names."""
    free = {"x-kubernetes-preserve-unknown-fields": True}
    spec = {"type": "object", "properties": dict.fromkeys(fields, free)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    made = copy.deepcopy(WIDGETS)
    made["spec"] |= {"group": group, "scope": "Cluster", "names": {"kind": kind, "plural": f"{kind.lower()}s"}}
    made["spec"]["versions"] = [
        {"name": name, "served": True, "storage": not index, "schema": schema} for index, name in enumerate(versions)
    ]
    return made


def evidence(cluster: str, *definitions: dict[str, Any] | ServedKind, taken: str = "2026-11-01T00:00:00Z") -> str:
    kinds = [one if isinstance(one, ServedKind) else served_kind(one) for one in definitions]
    found = {(one.group, one.kind): one for one in kinds if one is not None}
    return write_definitions(ClusterDefinitions(cluster=cluster, taken_at=taken, kinds=found)).decode()


def fleet_of(**files: str) -> MemoryFleet:
    """Return a fleet of two clusters; `b` selects only jobs/b and queues."""
    fleet = MemoryFleet(START | {f"{path.replace('__', '/')}.yaml": text for path, text in files.items()})
    fleet.warm()
    return fleet


def problems(fleet: MemoryFleet, path: str = "") -> list[Problem]:
    return [one for one in fleet.plan().plan.problems if one.place.path.startswith(path) and one.rule != "layout.kind"]


def widget(spec: str, name: str = "w") -> str:
    return WIDGET.replace("NAME", name).replace("SPEC", spec)


def test_a_kind_of_the_user_is_validated_by_the_evidence() -> None:
    """F-153: the message says whose definition it is about."""
    fleet = fleet_of(manifests__w=widget("{sise: 1}"), evidence__a__definitions=evidence("a", WIDGETS))
    (problem,) = problems(fleet, "manifests/w")
    assert str(problem) == (
        "manifests/w.yaml:4:8: spec.sise: unknown field (cluster a serves example.com/v1); did you mean size? "
        "[schema.unknown-field]"
    )
    fleet.write("manifests/w.yaml", widget("{size: 1}"))
    assert problems(fleet, "manifests/w") == []
    fleet.write("evidence/a/definitions.yaml", evidence("a"))
    assert [one.rule for one in problems(fleet, "manifests/w")] == ["schema.unknown-group"]


def test_the_definition_of_the_cluster_decides_instead_of_the_shipped_one() -> None:
    """What is unknown here is a warning without evidence; with it, what the cluster serves is right, and nothing else."""
    fleet = fleet_of(manifests__cq=QUEUE)
    (problem,) = problems(fleet, "manifests/cq")
    assert (problem.rule, problem.severity.value) == ("schema.unknown-field", "warning")
    (rendered,) = (text for path, text in fleet.plan().contents().items() if path.endswith("/clusterqueue-cq.yaml"))
    assert rendered is not None
    assert b"\n  inventedLater: 1\n" in rendered, "it stays as it is written"
    newer_kueue = newer("kueue.x-k8s.io", "ClusterQueue", ("v1beta2", "v1beta1"), "preemption", "inventedLater")
    fleet.write("evidence/a/definitions.yaml", evidence("a", newer_kueue))
    assert problems(fleet, "manifests/cq") == []
    older = newer("kueue.x-k8s.io", "ClusterQueue", ("v1beta1",), "preemption")
    fleet.write("evidence/a/definitions.yaml", evidence("a", older))
    (problem,) = problems(fleet, "manifests/cq")
    assert problem.severity.value == "error"
    assert problem.message == (
        "ClusterQueue is not available in kueue.x-k8s.io/v1beta2 (cluster a serves kueue.x-k8s.io/v1beta1)"
    )


def test_a_file_for_two_clusters_is_validated_by_both() -> None:
    """Equal definitions are one message; of different ones each speaks for its cluster."""
    both = {"evidence__a__definitions": evidence("a", WIDGETS), "evidence__b__definitions": evidence("b", WIDGETS)}
    fleet = fleet_of(queues__w=widget("{sise: 1}"), manifests__w=widget("{sise: 1}", "other"), **both)
    (problem,) = problems(fleet, "queues/w")
    assert problem.message == "unknown field (clusters a and b serve example.com/v1)"
    (problem,) = problems(fleet, "manifests/w")
    assert problem.message == "unknown field (cluster a serves example.com/v1)", "b does not select this file"
    other = copy.deepcopy(WIDGETS)
    other["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["sise"] = {
        "type": "integer"
    }
    fleet.write("evidence/b/definitions.yaml", evidence("b", other))
    (problem,) = problems(fleet, "queues/w")
    assert problem.message == "unknown field (cluster a serves example.com/v1)"


def test_the_definition_in_the_repository_decides_before_the_evidence() -> None:
    """A pull request may bring a new definition together with objects that use it."""
    fleet = fleet_of(
        manifests__w=widget("{sise: 1}"),
        manifests__crd=CRD.replace("SCOPE", "Namespaced"),
        evidence__a__definitions=evidence("a", WIDGETS),
    )
    assert problems(fleet, "manifests/w") == []


def test_a_kind_that_the_cluster_lacks_is_a_warning() -> None:
    fleet = fleet_of(
        manifests__w=widget("{size: 1}").replace("Widget", "Gadget"),
        evidence__a__definitions=evidence("a", WIDGETS),
    )
    found = {one.rule: one for one in problems(fleet, "manifests/w")}
    assert found["schema.not-served"].message == "cluster a serves other kinds of example.com, and no Gadget"


def test_a_change_of_evidence_validates_exactly_the_files_of_that_group_again() -> None:
    queue = newer("kueue.x-k8s.io", "ClusterQueue", ("v1beta2",), "preemption", "inventedLater")
    start = evidence("a", WIDGETS, queue)
    fleet = fleet_of(
        manifests__w=widget("{size: 1}"),
        manifests__cq=QUEUE,
        manifests__c9=config_map("c9"),
        evidence__a__definitions=start,
    )
    assert fleet.recompiled() == set()
    fleet.write("evidence/a/definitions.yaml", start.replace("2026-11-01T", "2026-11-02T"))
    assert fleet.recompiled() == set(), "the date alone decides nothing"
    other = copy.deepcopy(WIDGETS)
    other["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["maxProperties"] = 5
    fleet.write("evidence/a/definitions.yaml", evidence("a", other, queue))
    assert fleet.recompiled() == {"manifests/w.yaml"}
    del fleet.files["evidence/a/definitions.yaml"]
    assert fleet.recompiled() == {"manifests/w.yaml", "manifests/cq.yaml"}
    assert fleet.warm() == fleet.cold()


def test_broken_evidence_is_an_error_at_its_place() -> None:
    """Once, however many files need it; files of other groups do not."""
    broken = hostile(packed(b"\0" * (16 << 20)), 100)
    fleet = fleet_of(
        manifests__w=widget("{size: 1}") + "---\n" + widget("{size: 1}", "v"),
        evidence__a__definitions=evidence("a", broken),
    )
    (problem,) = problems(fleet, "evidence")
    assert (problem.rule, problem.severity.value) == ("evidence.schema", "error")
    assert problem.field == "spec.definitions[0].schema"
    lines = fleet.files["evidence/a/definitions.yaml"].decode().splitlines()
    assert lines[problem.place.line - 1].lstrip().startswith("schema: ")
    assert problem.message == "the schema does not have the 100 bytes that the file says"
    strange = hostile(packed(b'{"versions":7}'), 14)
    fleet.write("evidence/a/definitions.yaml", evidence("a", strange))
    (problem,) = problems(fleet, "evidence")
    assert problem.message == "the schema is not that of a CustomResourceDefinition"
    del fleet.files["manifests/w.yaml"]
    assert problems(fleet, "evidence") == []


def test_versions_come_from_reconciler_yaml_then_evidence() -> None:
    observed = ClusterDefinitions(cluster="a", taken_at="2026-11-01T00:00:00Z", versions={"kueue": "0.19.1"})
    fleet = fleet_of(evidence__a__definitions=write_definitions(observed).decode())
    context = fleet.plan().index.context
    assert (context.version("a", "kueue").version, context.version("a", "kueue").source.value) == ("0.19.1", "evidence")
    assert context.version("b", "kueue").source.value == "shipped"
    fleet.write(
        "reconciler.yaml", config().replace("backend: none\n", 'backend: none\n      versions: {kueue: "0.18"}\n')
    )
    context = fleet.plan().index.context
    assert (context.version("b", "kueue").version, context.version("b", "kueue").source.value) == (
        "0.18",
        "reconciler.yaml",
    )

"""KaiwoQueueConfig: the objects of Kueue, nothing lost on the way, and what Kueue would refuse or drop."""

import pytest

from tests.cluster.judges import Judge
from tests.kinds.kaiwo.kaiwo_cases import invalid, queues, rendered

TWO_QUEUES = """
clusterQueues:
- name: blue
  spec: &spec
    flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}
    namespaceSelector: {}
    preemption: {borrowWithinCohort: {policy: Never}, reclaimWithinCohort: Never, withinClusterQueue: Never}
    queueingStrategy: BestEffortFIFO
    stopPolicy: None
    resourceGroups:
    - coveredResources: [cpu, memory, amd.com/gpu]
      flavors:
      - name: large
        resources:
        - {name: cpu, nominalQuota: "14"}
        - {name: memory, nominalQuota: "13529146982"}
        - {name: amd.com/gpu, nominalQuota: "8"}
- name: green
  spec: *spec
resourceFlavors:
- {name: large, nodeLabels: {kaiwo/nodepool: large}}
- {name: small, nodeLabels: {kaiwo/nodepool: small}}
"""


def test_queues_as_they_are_written(judged: Judge) -> None:
    """KA-15, F-043, F-047: both ClusterQueues as written, with the names of Kueue's v1beta2; flavors of workers."""
    result = rendered(queues(TWO_QUEUES))
    assert result.kinds() == ["ClusterQueue/blue", "ClusterQueue/green", "ResourceFlavor/large", "ResourceFlavor/small"]
    spec = result.one("ClusterQueue", "blue")["spec"]
    assert spec["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
    assert (spec["namespaceSelector"], spec["stopPolicy"], spec["queueingStrategy"]) == ({}, "None", "BestEffortFIFO")
    (group,) = spec["resourceGroups"]
    assert group["flavors"][0]["resources"][2] == {"name": "amd.com/gpu", "nominalQuota": "8"}
    labels = result.one("ResourceFlavor", "large")["spec"]["nodeLabels"]
    assert labels == {"kaiwo/worker": "true", "kaiwo/nodepool": "large"}
    judged(result.manifests)


def test_taints_and_tolerations_are_kept(judged: Judge) -> None:
    """D-15, F-043: and a flavor of a topology gets no label of its own."""
    text = """
topologies:
- metadata: {name: racks, labels: {team: infra}}
  spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
resourceFlavors:
- name: tainted
  taints: [{key: gpu, value: "true", effect: NoSchedule}]
  tolerations: [{key: gpu, operator: Exists}]
- {name: placed, topologyName: racks, nodeLabels: {pool: a}}
"""
    result = rendered(queues(text))
    tainted = result.one("ResourceFlavor", "tainted")["spec"]
    assert tainted["nodeTaints"] == [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    assert tainted["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert result.one("ResourceFlavor", "placed")["spec"] == {"topologyName": "racks", "nodeLabels": {"pool": "a"}}
    topology = result.one("Topology")
    assert (topology["metadata"]["labels"], len(topology["spec"]["levels"])) == ({"team": "infra"}, 2)
    judged(result.manifests)


def test_a_quota_of_a_resource_that_is_not_covered() -> None:
    """D-16: an error at the quota, which Kaiwo drops."""
    result = rendered(queues(TWO_QUEUES.replace("[cpu, memory, amd.com/gpu]", "[cpu, memory]")))
    assert set(result.errors) == {"kaiwo.uncovered"}
    assert "resources[2].name: amd.com/gpu is not in coveredResources" in result.lines()[0]
    assert result.manifests == ()


def test_names_of_flavors_are_those_that_are_written() -> None:
    """D-31: nothing measured is part of a name, so that a change of memory renames nothing."""
    flavors = [name for name in rendered(queues(TWO_QUEUES)).kinds() if name.startswith("ResourceFlavor")]
    assert flavors == ["ResourceFlavor/large", "ResourceFlavor/small"]


def test_a_local_queue_in_each_namespace() -> None:
    """F-044: named as the ClusterQueue; a namespace that is removed has none any more."""
    text = "clusterQueues: [{name: team, namespaces: [a, b], spec: {cohort: all, admissionChecks: [x]}}]"
    result = rendered(queues(text))
    local = [one for one in result.manifests if one.key.kind == "LocalQueue"]
    assert [(one.key.namespace, one.key.name, one.body["spec"]["clusterQueue"]) for one in local] == [
        ("a", "team", "team"),
        ("b", "team", "team"),
    ]
    spec = result.one("ClusterQueue")["spec"]
    assert spec == {"cohortName": "all", "admissionChecksStrategy": {"admissionChecks": [{"name": "x"}]}}
    fewer = rendered(queues(text.replace("[a, b]", "[a]")))
    assert [one.key.namespace for one in fewer.manifests if one.key.kind == "LocalQueue"] == ["a"]


def test_priorities_are_whole_objects() -> None:
    """F-043: name, value and description of a WorkloadPriorityClass."""
    text = "workloadPriorityClasses: [{metadata: {name: high}, value: 7, description: urgent}]"
    body = rendered(queues(text)).one("WorkloadPriorityClass")
    assert (body["metadata"]["name"], body["value"], body["description"]) == ("high", 7, "urgent")


GROUP = "{coveredResources: [cpu], flavors: [{name: a, resources: [{name: cpu, nominalQuota: 1}]}]}"
CHECKS = "{admissionChecks: [x], admissionChecksStrategy: {admissionChecks: [{name: x}]}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topologies: [{name: a, levels: [rack]}]", "levels: unknown field; move it to spec.topologies[].spec"),
        ("topologies: [{name: a, levels: [rack]}]", "spec.topologies[0].metadata: is required"),
        ("workloadPriorityClasses: [{name: high, value: 1}]", "spec.workloadPriorityClasses[0].metadata: is required"),
        (f"clusterQueues: [{{name: a, spec: {{resourceGroups: [{', '.join([GROUP] * 17)}]}}}}]", "16"),
        (f"resourceFlavors: [{', '.join(f'{{name: f{index}}}' for index in range(21))}]", "20"),
        ("clusterQueues: [{name: a, spec: {stopPolicy: Never}}]", "stopPolicy"),
        ("resourceFlavors: [{name: a, taints: [{key: b}]}]", "taints[0].effect: is required"),
    ],
)
def test_what_the_schema_refuses(text: str, words: str) -> None:
    """F-047: limits and shapes, each with what to write instead."""
    assert any(words in line for line in invalid(queues(text))), invalid(queues(text))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("topologies: [{metadata: {name: a}, spec: {levels: [{nodeLabel: a}, {nodeLabel: a}]}}]", "kaiwo.topology"),
        (
            "topologies: [{metadata: {name: a}, spec: {levels: [{nodeLabel: kubernetes.io/hostname}, {nodeLabel: a}]}}]",
            "kaiwo.topology",
        ),
        ("resourceFlavors: [{name: a}, {name: a}]", "kaiwo.repeated"),
        (f"clusterQueues: [{{name: a, spec: {CHECKS}}}]", "kaiwo.contradiction"),
    ],
)
def test_what_contradicts_itself(text: str, rule: str) -> None:
    """F-037, F-047: refused with its place."""
    assert rendered(queues(text)).errors == [rule]


def test_there_is_one_in_a_cluster() -> None:
    (line,) = invalid(queues("{}").replace("name: kaiwo}", "name: other}"))
    assert "metadata.name" in line


def test_without_kueue_nothing_is_rendered() -> None:
    result = rendered(queues(TWO_QUEUES), backend="kai")
    assert (result.manifests, result.rules) == ((), ["kaiwo.no-queueing"])

"""What a config repository holds where: nothing that people write is passed over in silence."""

import pytest

from tests.cli.fleet import Fleet

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
CLUSTER_POLICY = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: a}\n"
INVENTORY = (
    "apiVersion: gpureconciler.io/v1alpha1\nkind: NodeInventory\nspec: {takenAt: '2026-11-01T00:00:00Z', nodes: []}\n"
)


FOREIGN_INVENTORY = INVENTORY.replace("gpureconciler.io/v1alpha1", "example.com/v1")


@pytest.mark.parametrize("verb", ["lint", "plan"])
def test_a_foreign_kind_of_a_known_name_is_not_evidence(fleet: Fleet, verb: str) -> None:
    """`NodeInventory` of another group is an unknown kind: a problem in evidence/, and never an internal error."""
    fleet.write("evidence/main/other.yaml", FOREIGN_INVENTORY.replace("\nspec", "\nmetadata: {name: a}\nspec"))
    ran = fleet.run(verb, "--width", "200")
    assert ran.code == 3, ran.out + ran.err
    assert "evidence/main/other.yaml" in ran.out
    assert "NodeInventory (example.com/v1) is not a kind of evidence" in ran.out


@pytest.mark.parametrize("verb", ["lint", "plan"])
@pytest.mark.parametrize("name", ["", "metadata: {name: a}\n"])
def test_a_foreign_kind_of_a_known_name_among_the_sources(fleet: Fleet, verb: str, name: str) -> None:
    """Among the sources it is an object like any other of an unknown kind; without a name, a problem."""
    fleet.write("jobs/other.yaml", FOREIGN_INVENTORY.replace("spec:", f"{name}spec:"))
    ran = fleet.run(verb, "--width", "200")
    assert ran.code == (0 if name else 3), ran.out + ran.err
    assert "is not a kind of evidence" not in ran.out
    assert name or "jobs/other.yaml" in ran.out


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("jobs/a.yml", CONFIG_MAP),
        ("jobs/a.json", '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}'),
        ("jobs/.hidden/.a.yaml", CONFIG_MAP),
        ("jobs/a.yaml", CONFIG_MAP.replace("\n", "\r\n")),
        ("jobs/a.yaml", f"# yaml-language-server: $schema=x.json\n---\n# nothing\n---\n{CONFIG_MAP}---\n"),
        (
            "jobs/a.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
        ),
        ("jobs/a.yaml", "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {metadata: {name: a}}\n"),
    ],
)
def test_every_way_to_write_an_object(fleet: Fleet, path: str, text: str) -> None:
    (fleet.root / path).parent.mkdir(parents=True, exist_ok=True)
    (fleet.root / path).write_bytes(text.encode())
    planned = fleet.run("plan", "-o", "name")
    assert planned.code == 0, planned.out
    assert planned.out.split() == ["create", "main", "ConfigMap/default/a"], planned.out


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("evidence/nodes.yaml", INVENTORY, "not in a cluster's folder"),
        ("evidence/mian/nodes.yaml", INVENTORY, "cluster 'mian' does not exist"),
        ("evidence/main/more.yaml", CONFIG_MAP, "ConfigMap (v1) is not a kind of evidence"),
        ("policies/more.yaml", CLUSTER_POLICY, "no policy has parameters of kind ClusterPolicy"),
        ("policies/more.yaml", INVENTORY, "no policy has parameters of kind NodeInventory"),
        ("jobs/nodes.yaml", INVENTORY, "is not allowed in a source folder"),
        ("jobs/A.YAML", CONFIG_MAP, "the suffix is not in lower case"),
        ("jobs/job.yaml", "metadata: {name: a}\n", "kind: is required"),
        (
            "jobs/kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [vision/vit.yaml]\n",
            "the folder is a Kustomize overlay",
        ),
    ],
)
def test_what_nothing_reads_is_an_error(fleet: Fleet, path: str, text: str, words: str) -> None:
    fleet.write(path, text)
    linted = fleet.run("lint", "--width", "200")
    assert linted.code == 3
    assert path in linted.out
    assert words in linted.out


def test_a_source_folder_without_anything_is_told(fleet: Fleet) -> None:
    fleet.edit("reconciler.yaml", "sources: [queues, jobs]", "sources: [queues, jobs, jbos]")
    ran = fleet.run("lint")
    assert ran.code == 0
    assert "the source folder jbos is empty or does not exist" in ran.out
    fleet.write("jbos/README.md", "soon\n")
    assert "jbos" not in fleet.run("lint").out


def test_an_unknown_rule_is_named_where_it_is_switched(fleet: Fleet) -> None:
    """F-124: neither a rule nor a parameter that does not exist passes in silence."""
    fleet.edit("reconciler.yaml", "spec:\n", "spec:\n  rules:\n    pinned-image: {enabled: false}\n")
    ran = fleet.run("lint", "--width", "200")
    assert ran.code == 3
    assert "reconciler.yaml:8:5" in ran.out
    assert "did you mean pinned-images?" in ran.out
    fleet.edit("reconciler.yaml", "pinned-image:", "max-gpus-per-job:")
    fleet.edit("reconciler.yaml", "{enabled: false}", "{parameters: {maxGpus: 3}}")
    ran = fleet.run("lint", "--width", "200")
    assert "reconciler.yaml:8:5" in ran.out
    assert "has no parameter 'maxGpus'" in ran.out


def test_a_namespace_where_none_belongs_is_dropped(fleet: Fleet) -> None:
    fleet.write("jobs/space.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, namespace: other}\n")
    planned = fleet.run("plan", "-o", "name")
    assert planned.out.split() == ["create", "main", "Namespace/team"]
    assert "namespace: other" not in fleet.run("render").out

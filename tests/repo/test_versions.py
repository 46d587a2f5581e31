"""The version of a component: declared in `reconciler.yaml`, else observed, else the one whose definitions ship."""

import json

import pytest

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.kube.schemas.components import COMPONENTS, component_of
from reconciler.kube.yaml import read
from reconciler.repo.config import Cluster, parse_config
from reconciler.repo.versions import ComponentVersion, VersionSource, component_version

SHIPPED = {"kubernetes": "1.36.3", "kueue": "0.16.1"}


def test_what_is_declared_decides_before_what_is_observed_and_what_ships() -> None:
    plain, declared = Cluster(name="a"), Cluster(name="a", versions=(("kueue", "v0.19"),))
    observed = {"kueue": "v0.18.2"}
    assert component_version("kueue", declared, observed=observed, shipped=SHIPPED) == ComponentVersion(
        version="0.19", source=VersionSource.DECLARED
    )
    assert component_version("kueue", plain, observed=observed, shipped=SHIPPED) == ComponentVersion(
        version="0.18.2", source=VersionSource.OBSERVED
    )
    assert component_version("kubernetes", plain, observed=observed, shipped=SHIPPED) == ComponentVersion(
        version="1.36.3", source=VersionSource.SHIPPED
    )


def declare(versions: str) -> tuple[Cluster | None, list[str]]:
    head = "apiVersion: gpureconciler.io/v1alpha1\nkind: ReconcilerConfig\nspec:\n"
    text = f"{head}  clusters:\n    - name: a\n      versions: {versions}\n"
    (document,) = read("reconciler.yaml", text.encode()).documents
    problems = list(map(str, Catalogue(resources).validate(document)))
    config, _ = (None, ()) if problems else parse_config(document)
    return (config.clusters[0] if config else None), problems


def test_a_cluster_declares_its_versions() -> None:
    cluster, problems = declare('{kueue: "0.19", kubernetes: v1.37.2-gke.100}')
    assert not problems
    assert cluster is not None
    assert cluster.versions == (("kubernetes", "v1.37.2-gke.100"), ("kueue", "0.19"))


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        (
            "{kueue: 0.19}",
            'versions.kueue: must be a string, not a number (0.19); quote it: "0.19" [schema.wrong-type]',
        ),
        ('{kueu: "0.19"}', "versions.kueu: unknown field; did you mean kueue? [schema.unknown-field]"),
        ("{kueue: latest}", 'versions.kueue: "latest" is not valid'),
    ],
)
def test_what_is_no_version_is_refused(versions: str, message: str) -> None:
    _, problems = declare(versions)
    assert message in " ".join(problems)


def test_every_shipped_module_is_a_component_that_a_cluster_can_declare() -> None:
    shipped = json.loads(resources.read("schemas/kubernetes/versions.json"))
    assert {component.module for component in COMPONENTS} == set(shipped)
    catalogue = Catalogue(resources)
    schema = catalogue.json_schema("ReconcilerConfig")
    assert schema is not None
    declared = schema["properties"]["spec"]["properties"]["clusters"]["items"]["properties"]["versions"]
    assert list(declared["properties"]) == [component.name for component in COMPONENTS]
    assert catalogue.archive.versions["kueue"] == shipped["sigs.k8s.io/kueue"].removeprefix("v")


def test_every_kind_whose_definition_ships_is_of_a_component() -> None:
    catalogue = Catalogue(resources)
    kinds = [name for name in catalogue.kinds() if (one := catalogue.served(name.group, name.kind)) and one.is_custom]
    assert kinds
    assert [name for name in kinds if component_of(name.group, name.kind) is None] == []
    found = {kind: component_of("kubeflow.org", kind) for kind in ("MPIJob", "TFJob")}
    assert {kind: one and one.name for kind, one in found.items()} == {
        "MPIJob": "mpiOperator",
        "TFJob": "trainingOperator",
    }

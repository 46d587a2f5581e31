"""init, schema and version without the command line."""

import json

import pytest

from reconciler import resources
from reconciler.errors import ConfigError
from reconciler.kinds.kind import Kinds
from reconciler.plan import opening
from reconciler.plan.use_cases import list_kinds, schema_of
from reconciler.submit.init import repository_files
from reconciler.version import __version__


def test_a_new_repository_is_the_template_with_schemas_for_editors() -> None:
    files = repository_files({"reconciler.yaml": b"x"}, opening.kinds(), opening.catalogue(), "r==1\n")
    assert files["reconciler.yaml"] == b"x"
    assert files["requirements.txt"] == b"r==1\n"
    schemas = files.keys() - {"reconciler.yaml", "requirements.txt"}
    assert {".schemas/torchrunjob.json", ".schemas/reconcilerconfig.json"} <= schemas
    assert all(isinstance(json.loads(files[path]), dict) for path in schemas)


def test_kinds_and_their_schemas() -> None:
    catalogue = opening.catalogue()
    kinds = list_kinds(catalogue)
    assert ("TorchrunJob", "torchrun.ai/v1alpha1") in kinds
    assert ("ConfigMap", "v1") in kinds
    assert "properties" in schema_of(catalogue, "TorchrunJob")
    with pytest.raises(ConfigError, match="did you mean TorchrunJob"):
        schema_of(catalogue, "TorchrunJb")
    with pytest.raises(ConfigError, match="reconciler schema"):
        schema_of(catalogue, "Zzz")


def test_versions_name_packages_that_add_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "kinds", lambda: Kinds(versions=(("acme-kinds", "2.0"),)))
    found = opening.versions()
    assert (found["reconciler"], found["acme-kinds"]) == (__version__, "2.0")
    assert found.items() >= json.loads(resources.read("schemas/kubernetes/versions.json")).items()

"""The registry of sizing engines agrees with the schemas, and a new engine is one row."""

from types import MappingProxyType

import msgspec
import pytest
from msgspec import Struct

from reconciler import resources
from reconciler.sizing import config
from reconciler.sizing.engine_registry import ANALYTIC, ENGINES, Engine


def schema(kind: str) -> dict[str, dict[str, object]]:
    properties: dict[str, dict[str, object]] = {}
    pending = [msgspec.json.decode(resources.read(f"schemas/gpureconciler.io/v1alpha1/{kind}.json"))]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            properties.update(node.get("properties", {}) if "engine" in node.get("properties", {}) else {})
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    return properties


def test_the_schemas_list_every_engine() -> None:
    assert schema("reconcilerconfig")["engine"]["enum"] == list(ENGINES)
    assert schema("sizinganswers")["engine"]["enum"] == [one.name for one in ENGINES.values() if one.is_external]


@pytest.mark.parametrize("engine", [one for one in ENGINES.values() if one.settings])
def test_the_section_of_an_engine_has_the_fields_of_its_settings(engine: Engine) -> None:
    assert engine.settings is not None
    section = schema("reconcilerconfig")[engine.name]
    properties = section["properties"]
    fields = msgspec.structs.fields(engine.settings)
    assert isinstance(properties, dict)
    assert set(properties) == {field.encode_name for field in fields}
    assert section["required"] == [engine.required]
    for field in fields:
        default = None if field.default is msgspec.NODEFAULT else field.default
        assert properties[field.encode_name].get("default") == default


class _OracleSettings(Struct, frozen=True, kw_only=True):
    url: str


def test_a_new_engine_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = Engine(name="oracle", recommends=True, settings=_OracleSettings, required="url")
    monkeypatch.setattr(config, "ENGINES", MappingProxyType({**ENGINES, oracle.name: oracle}))
    monkeypatch.setattr(config, "_WITH_SETTINGS", (*config._WITH_SETTINGS, oracle))
    settings = config.sizing_settings({"oracle": {"url": "http://x"}})
    assert (settings.engine, settings.engine_settings) == (oracle, _OracleSettings(url="http://x"))
    errors = list(config.sizing_errors({"sizing": {"engine": "oracle"}, "clusters": []}))
    assert [message for _, message, _ in errors] == ["engine is oracle, but oracle.url is not set"]
    assert config.sizing_settings({}).engine == ANALYTIC

"""`ClusterDefinitions`: what a cluster serves, as a small file, and what a hostile one can do: nothing."""

import base64
import copy
import json
import lzma
from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.repo.evidence.definitions import (
    MAX_SIZE,
    MAX_TOTAL,
    BrokenSchemaError,
    ClusterDefinitions,
    ServedKind,
    parse_definitions,
    served_kind,
    write_definitions,
)

WIDGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com", "resourceVersion": "7"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "conversion": {"strategy": "None"},
        "versions": [
            {"name": "v1alpha1", "served": False, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata"}],
                "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A widget. " * 50,
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "description": "How many.", "title": "Size"},
                                    "description": {"type": "string", "description": "A field of this name."},
                                },
                            }
                        },
                    }
                },
            },
        ],
    },
}


def kind_of(definition: dict[str, Any], known: ServedKind | None = None) -> ServedKind:
    found = served_kind(definition, known)
    assert found is not None
    return found


def file_of(*kinds: ServedKind, versions: dict[str, str] | None = None) -> bytes:
    return write_definitions(
        ClusterDefinitions(
            cluster="main",
            taken_at="2026-11-28T00:00:00Z",
            versions=versions or {},
            kinds={(one.group, one.kind): one for one in kinds},
        )
    )


def parsed(raw: bytes) -> tuple[ClusterDefinitions | None, list[str]]:
    (document,) = read("evidence/main/definitions.yaml", raw).documents
    problems = [str(one) for one in Catalogue(resources).validate(document)]
    if problems:
        return None, problems
    found, wrong = parse_definitions(document, "main")
    return found, list(map(str, wrong))


def test_a_definition_is_written_and_read_without_what_decides_nothing() -> None:
    kind = kind_of(WIDGETS)
    found, problems = parsed(file_of(kind, versions={"kubernetes": "1.37.2", "kueue": "0.19.1"}))
    assert problems == []
    assert found is not None
    assert found.kinds == {("example.com", "Widget"): kind}
    assert found.versions == {"kubernetes": "1.37.2", "kueue": "0.19.1"}
    assert (kind.versions, kind.storage, kind.plural, kind.scope) == (("v1",), "v1", "widgets", "Namespaced")
    spec = kind.definition()["spec"]
    assert [one["name"] for one in spec["versions"]] == ["v1"]
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"] == {
        "size": {"type": "integer"},
        "description": {"type": "string"},
    }
    assert "A widget" not in json.dumps(spec)


def test_objects_are_validated_as_by_the_definition_itself() -> None:
    whole = Catalogue(resources).with_definitions([WIDGETS])
    kept = Catalogue(resources).with_definitions([kind_of(WIDGETS).definition()])
    for spec in ({"size": 1}, {"size": -1}, {"size": "1"}, {"sise": 1}, {"description": "x"}):
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}
        assert [*kept.violations(body)] == [*whole.violations(body)]


def test_the_same_definitions_give_the_same_bytes() -> None:
    other = copy.deepcopy(WIDGETS)
    other["metadata"]["resourceVersion"] = "8"
    other["status"] = {"conditions": []}
    other["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["description"] = "Another text."
    assert file_of(kind_of(WIDGETS)) == file_of(kind_of(other))
    changed = copy.deepcopy(WIDGETS)
    changed["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"][
        "maximum"
    ] = 8
    assert file_of(kind_of(WIDGETS)) != file_of(kind_of(changed))


def test_other_bytes_of_the_same_schema_stay() -> None:
    """Another build of xz may compress otherwise: an unchanged cluster gives no change."""
    kind = kind_of(WIDGETS)
    raw = lzma.decompress(base64.b64decode(kind.schema))
    known = ServedKind(
        **{name: getattr(kind, name) for name in kind.__struct_fields__ if name != "schema"},
        schema=base64.b64encode(lzma.compress(raw, preset=0)).decode(),
    )
    assert known.schema != kind.schema
    assert kind_of(WIDGETS, known) is known
    broken = ServedKind(
        **{name: getattr(known, name) for name in known.__struct_fields__ if name != "schema"}, schema="AAAA"
    )
    assert kind_of(WIDGETS, broken) == kind


def test_a_definition_without_a_served_version_is_none() -> None:
    off = copy.deepcopy(WIDGETS)
    off["spec"]["versions"][1]["served"] = False
    assert served_kind(off) is None


def packed(raw: bytes) -> str:
    return base64.b64encode(lzma.compress(raw)).decode()


def hostile(schema: str, size: int) -> ServedKind:
    kind = kind_of(WIDGETS)
    kept = {name: getattr(kind, name) for name in kind.__struct_fields__ if name not in ("schema", "size")}
    return ServedKind(**kept, schema=schema, size=size)


@pytest.mark.parametrize(
    ("schema", "size", "message"),
    [
        ("not base64!", 10, "is not base64"),
        ("ä", 10, "is not base64"),
        (base64.b64encode(b"plain text, no archive").decode(), 22, "is not compressed by xz, or damaged"),
        (packed(b"{}")[:-8], 2, "does not have the 2 bytes"),
        (packed(b"{" + b" " * 100 + b"}"), 2, "does not have the 2 bytes"),
        (packed(b"{}"), 3, "does not have the 3 bytes"),
        (packed(b"\0" * (64 << 20)), 1000, "does not have the 1000 bytes"),
        (packed(b"{}"), MAX_SIZE + 1, f"at most {MAX_SIZE} are read"),
        (packed(b"[1]"), 3, "is not a mapping"),
        (packed(b"{]"), 2, "is not JSON"),
        (packed(b"\xff\xfe{}"), 4, "is not JSON"),
        (packed(b"[" * 100_000), 100_000, "is not JSON"),
        (packed(b'{"a":' * 300 + b"1" + b"}" * 300), 1801, "is nested deeper than 200 levels"),
    ],
)
def test_a_hostile_schema_is_refused(schema: str, size: int, message: str) -> None:
    """A bomb, a recursion, damage: found out by what the file itself says, within the memory of one schema."""
    with pytest.raises(BrokenSchemaError, match=message):
        hostile(schema, size).definition()


def test_all_schemas_together_are_limited() -> None:
    many = [
        {**yaml.safe_load(file_of(hostile("AAAA", MAX_SIZE)))["spec"]["definitions"][0], "kind": f"K{i}"}
        for i in range(17)
    ]
    body = yaml.safe_load(file_of())
    body["spec"]["definitions"] = many
    found, problems = parsed(yaml.safe_dump(body).encode())
    assert found is None
    (problem,) = problems
    size = f"the schemas are {17 * MAX_SIZE} bytes in all; at most {MAX_TOTAL} are read"
    assert f"spec.definitions: {size}; run `reconciler observe` to record it again [evidence.schema]" in problem


def test_a_kind_that_is_listed_twice_is_refused() -> None:
    body = yaml.safe_load(file_of(kind_of(WIDGETS)))
    body["spec"]["definitions"] *= 2
    found, problems = parsed(yaml.safe_dump(body).encode())
    assert found is None
    assert "has the same key (group=example.com, kind=Widget)" in problems[0]


@pytest.mark.parametrize(
    ("field", "value"), [("size", "big"), ("scope", "Galaxy"), ("versions", []), ("schema", 7), ("group", "")]
)
def test_a_wrong_entry_is_refused_at_its_place(field: str, value: Any) -> None:
    body = yaml.safe_load(file_of(kind_of(WIDGETS)))
    body["spec"]["definitions"][0][field] = value
    found, problems = parsed(yaml.safe_dump(body).encode())
    assert found is None
    assert f"spec.definitions[0].{field}" in problems[0]

"""A real API server and our catalogue say the same of thousands of good and broken objects."""

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Violation
from reconciler.kube.schemas import Catalogue
from reconciler.kube.schemas.schema import at
from tests import sizes
from tests.cluster.client import Cause, Result
from tests.cluster.judges import SCHEMA_ONLY, refusals
from tests.cluster.mutations import Mutation, mutations
from tests.cluster.parts import NAMED_MODULES
from tests.cluster.server import ApiServer
from tools.refresh_schemas import definitions_of, names_in_urls, refresh, specimens
from tools.schemas.defaults import learn

SPECIMENS = [
    pytest.param(
        body, path.stem != "rare" and body["kind"] not in SCHEMA_ONLY, id=f"{body['apiVersion']}/{body['kind']}"
    )
    for path in sorted((Path(__file__).parent / "specimens").glob("*.yaml"))
    for body in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
]
CATALOGUE = Catalogue(resources)
_VOLCANO = {f"{name}.volcano.sh" for name in ("batch", "bus", "nodeinfo", "scheduling")}
_GATEWAY = {"gateway.networking.k8s.io", "inference.networking.k8s.io", "inference.networking.x-k8s.io"}
SERVING = {"argoproj.io", "serving.kserve.io", "sparkoperator.k8s.io", *_VOLCANO, *_GATEWAY}
"""Groups whose definitions ship, and are not on this server."""
OWN = {"agentaflow.io", "gpureconciler.io", "torchrun.ai", "kaiwo.silogen.ai", "config.kaiwo.silogen.ai"}
"""Groups whose definitions no server of the tests needs: what is rendered has none of them."""
OF_OTHER_TESTS = {"gpureconciler.io", "monitoring.coreos.com", "wgpolicyk8s.io"}
"""Groups whose definitions other tests install on the same server."""
RESOURCES = "schemas/kubernetes/resources.json"


def test_the_shipped_schemas_are_those_of_this_server(api_server: ApiServer) -> None:
    """Every kind of the server that can be applied is in the catalogue, at the same versions and scopes."""
    ours = {
        (kind.group, version, kind.kind)
        for kind in CATALOGUE.kinds()
        for version in _versions(kind.group, kind.kind)
        if kind.group not in OWN | SERVING
    }
    theirs = {key: scope for key, scope in _served(api_server) if key[0] not in OF_OTHER_TESTS}
    assert ours == set(theirs)
    assert {key: CATALOGUE.is_namespaced(key[0], key[2]) for key in ours} == theirs


def test_the_shipped_schemas_are_what_this_server_gives(api_server: ApiServer, tmp_path: Path) -> None:
    """`make schemas` would change nothing: same kinds, same schemas."""
    documents = {path: body for path, body in api_server.openapi().items() if path.split("/")[1] not in OF_OTHER_TESTS}
    refresh(documents.values(), definitions_of(), tmp_path)
    with zipfile.ZipFile(tmp_path / "kinds.zip") as fresh:
        shipped = zipfile.ZipFile(io.BytesIO(resources.read("schemas/kubernetes/kinds.zip")))
        assert {name: json.loads(fresh.read(name)) for name in fresh.namelist()} == {
            name: json.loads(shipped.read(name)) for name in shipped.namelist()
        }
    assert (tmp_path / "versions.json").read_bytes() == resources.read("schemas/kubernetes/versions.json")
    names, known = json.loads((tmp_path / "resources.json").read_text()), json.loads(resources.read(RESOURCES))
    assert {group: {kind: known[group][kind] for kind in kinds} for group, kinds in names.items()} == names
    more = {group: {kind: name for kind, name in kinds.items() if kind not in names.get(group, {})}
            for group, kinds in known.items()}  # fmt: skip
    named = names_in_urls(definitions_of(NAMED_MODULES))  # kinds of which only the names are known
    assert {group for group, kinds in more.items() if kinds} <= named.keys()


def test_the_shipped_defaults_are_those_of_this_server(api_server: ApiServer) -> None:
    """`make schemas` would change nothing in what a server does to objects of built-in kinds."""
    shipped = json.loads(resources.read("schemas/kubernetes/defaults.json"))
    assert learn(api_server.client, specimens()) == shipped


@pytest.mark.parametrize(("good", "both_ways"), SPECIMENS)
def test_same_verdict_as_the_server(api_server: ApiServer, good: dict[str, Any], both_ways: bool) -> None:
    """Break a good object in every sixth place: what we refuse the server refuses, and the other way round.

    Exceptions are few and each is proved: see `_server_keeps_another_value` and `_beyond_us`. Of rare kinds and of
    `SCHEMA_ONLY` we only promise that nothing good is refused. `make differential` breaks it in every place.
    """
    first, *broken = mutations(good)
    cases = [first, *(broken if sizes.LARGE else broken[len(broken) % 6 :: 6])]  # other changes for other kinds
    results = api_server.apply_dry_run([case.body for case in cases])
    assert results[0].ok, results[0].message
    false_alarms, missed = [], []
    for case, result in zip(cases, results, strict=True):
        ours = refusals(CATALOGUE, case.body)
        if result.ok and ours and not all(_server_keeps_another_value(one, case, result) for one in ours):
            false_alarms.append(f"{case.name}: {ours[0]}")
        if both_ways and not result.ok and not ours and not _beyond_us(result, good):
            missed.append(f"{case.name}: {result.message}")
    assert not false_alarms
    assert not missed


def _versions(group: str, kind: str) -> tuple[str, ...]:
    served = CATALOGUE.served(group, kind)
    assert served is not None
    return served.versions


def _served(api_server: ApiServer) -> Iterator[tuple[tuple[str, str, str], bool]]:
    groups = [
        (entry["name"], version["version"])
        for entry in api_server.client.get("/apis")["groups"]
        for version in entry["versions"]
    ]
    for group, version in [("", "v1"), *groups]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        for entry in api_server.client.get(path)["resources"]:
            if "/" not in entry["name"] and "patch" in entry["verbs"]:
                yield (group, version, entry["kind"]), entry["namespaced"]


def _server_keeps_another_value(violation: Violation, case: Mutation, result: Result) -> bool:
    """Numbers beyond 32 bits: server-side apply cuts them to what is left of them and takes that. We refuse them."""
    return violation.rule == "schema.out-of-range" and _get(result.body, violation.path) != _get(
        case.body, violation.path
    )


def _get(body: Any, path: FieldPath) -> Any:
    for part in path:
        try:
            body = body[part]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def _beyond_us(result: Result, good: Mapping[str, Any]) -> bool:
    """Tell what a schema cannot know: objects that live in the cluster, time zones, and expressions in CEL.

    The rules of custom kinds (`x-kubernetes-validations`) are not evaluated; the expressions of admission policies
    are compiled by the policy engine.
    """
    if "no PriorityClass with name" in result.message or "unknown time zone" in result.message:
        return True
    if good["kind"] == "ValidatingAdmissionPolicy":
        return all(re.search(r"compilation failed|must evaluate to bool", cause.message) for cause in result.causes)
    return bool(result.causes) and all(_is_cel_rule(cause, good) for cause in result.causes)


def _is_cel_rule(cause: Cause, good: Mapping[str, Any]) -> bool:
    schema = CATALOGUE.json_schema(f"{good['kind']}.{good['apiVersion'].partition('/')[0]}")
    assert schema is not None
    field = cause.field.removeprefix("<nil>")  # the rule is that of the whole object
    parts = re.findall(r"\[(\d+)\]|([^.\[\]]+)", field)
    found = at(schema, tuple(int(index) if index else name for index, name in parts))
    return found is not None and "x-kubernetes-validations" in found

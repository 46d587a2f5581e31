"""The catalogue and a real API server say the same of a corpus: `make differential` takes all of it."""

import json
import os
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Violation
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.policy.admission import written_problems
from tests.cluster.client import Result
from tests.cluster.corpus import Case, cases, crossings, mutated, specimens
from tests.cluster.fixtures import Parts
from tests.cluster.grafts import grafts
from tests.cluster.judges import SCHEMA_ONLY, is_refusal, refusals
from tests.cluster.mutations import Mutation
from tests.cluster.parts import SERVING_MODULES, ControlPlane
from tests.cluster.server import ApiServer, api_server

CATALOGUE = Catalogue(resources)
COUNT = int(os.environ.get("RECONCILER_TEST_DIFFERENTIAL", "800"))
SEED = int(os.environ.get("RECONCILER_TEST_SEED", "20261126"))
DROPPED = {"clusterTrustBundle", "configSource", "dataSource", "dataSourceRef", "lifecycle", "podCertificate"}
GRAFTS, MAX_GRAFTS = 300, 5000
LARGE = 100_000
HERE = Path(__file__).parent
MIN_CASES = 240
MAX_DISAGREEMENT = 0.01


def errors(body: dict[str, Any]) -> list[Violation]:
    found = refusals(CATALOGUE, body)
    if found or body.get("kind") != "ValidatingAdmissionPolicy":
        return found
    (document,) = read("policy.yaml", json.dumps(body).encode()).documents
    return [Violation(rule=one.rule, path=(one.field,), message=one.message) for one in written_problems(document)]


def is_refused(body: dict[str, Any]) -> bool:
    return any(map(is_refusal, CATALOGUE.violations(body)))


def at(body: Any, path: FieldPath) -> Any:
    for part in path:
        try:
            body = body[part]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def is_stricter(found: Violation, body: dict[str, Any], result: Result) -> bool:
    """Tell the values that the server takes and changes: numbers beyond 32 bits are cut, disabled fields dropped.

    The controller of StatefulSets overwrites the names of its pods' hosts.
    """
    if body["kind"] == "StatefulSet" and found.path[-1] in {"hostname", "subdomain"}:
        return True
    for length, field in enumerate(found.path, 1):
        if field in DROPPED and at(result.body, found.path[:length]) is None:
            return True
    return found.rule in {"schema.out-of-range", "schema.not-allowed"} and at(result.body, found.path) != at(
        body, found.path
    )


def test_every_case_has_the_verdict_of_the_server(api_server: ApiServer) -> None:
    known = cases()
    assert len(known) >= MIN_CASES
    results = api_server.apply_dry_run([case.body for case in known])
    verdicts = zip(known, results, strict=True)
    assert [*disagreements((case.name, case.body, result) for case, result in verdicts if not case.beyond)] == []


def test_fields_that_contradict_each_other_have_the_verdict_of_the_server(api_server: ApiServer) -> None:
    known = [case for case in crossings() if not case.beyond]
    results = api_server.apply_dry_run([case.body for case in known])
    verdicts = zip(known, results, strict=True)
    assert [*disagreements((case.name, case.body, result) for case, result in verdicts)] == []


def test_mutated_objects_have_the_verdict_of_the_server(api_server: ApiServer) -> None:
    """No good object is refused; of the bad ones fewer than one in a hundred pass, which need a cluster or CEL."""
    known = [*cases(), *specimens()]
    results = api_server.apply_dry_run([case.body for case in known])
    changed = mutated([case for case, result in zip(known, results, strict=True) if result.ok], COUNT)
    answers = api_server.apply_dry_run([one.body for one in changed])
    assert_agreement(changed, answers, "changed objects")


def test_grafted_objects_have_the_verdict_of_the_server(api_server: ApiServer) -> None:
    """Fields that the corpus does not set, with values of other objects and random ones."""
    known = [*cases(), *specimens()]
    results = api_server.apply_dry_run([case.body for case in known])
    good = [case for case, result in zip(known, results, strict=True) if result.ok]
    changed = grafts(good, api_server, MAX_GRAFTS if COUNT >= LARGE else GRAFTS, SEED)
    answers = api_server.apply_dry_run([one.body for one in changed])
    assert_agreement(changed, answers, "grafted objects")


FIELDS = (
    *("properties", "allOf", "required", "enum", "x-kubernetes-list-map-keys", "x-kubernetes-validations", "type"),
    *("format", "title", "pattern", "x-kubernetes-map-type", "nullable", "exclusiveMinimum", "uniqueItems"),
    *("x-kubernetes-preserve-unknown-fields", "maxLength", "minProperties", "maximum", "multipleOf", "not"),
)
RULE_FIELDS = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")


def test_no_schema_below_items_is_refused_that_the_server_decodes(api_server: ApiServer) -> None:
    """The server's own schema of definitions does not describe them; every field in turn has every type of value."""
    named: dict[str, dict[str, Any]] = {}
    values: tuple[Any, ...] = (None, 5, 1.5, "x", True, [], [{}], ["x"], [None], {}, {"a": 5}, {"a": {}})
    wrong: tuple[Any, ...] = ("x", 5, None, True, [])
    values += tuple([{"rule": "true", name: one}] for name in RULE_FIELDS for one in wrong)
    for field in FIELDS:
        for value in values:
            items = {"type": "object", "properties": {"n": {"type": "string"}}, field: value}
            schema = {"type": "object", "properties": {"a": {"type": "array", "items": items}}}
            version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            names = {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"}
            spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]}
            head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
            named[f"{field}: {value}"] = {**head, "metadata": {"name": "as.x.io"}, "spec": spec}
    answers = api_server.apply_dry_run([*named.values()])
    refused = [(name, answer) for (name, body), answer in zip(named.items(), answers, strict=True) if is_refused(body)]
    assert [name for name, answer in refused if answer.ok] == []
    assert len(refused) > len(named) / 2


@pytest.mark.skipif(COUNT < LARGE, reason="a server needs a minute for these definitions: make differential")
def test_mutated_objects_of_serving_and_workflows_have_the_verdict_of_the_server(
    control_plane_programs: ControlPlane, parts: Parts, tmp_path: Path
) -> None:
    bodies = yaml.load_all((HERE / "serving.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    good = [Case(name=body["kind"], body=body) for body in bodies]
    with api_server(tmp_path / "api-server", control_plane_programs, parts.crds(SERVING_MODULES)) as server:
        changed = mutated(good, COUNT)
        answers = server.apply_dry_run([one.body for one in changed])
    assert_agreement(changed, answers, "objects of serving and workflows")


def assert_agreement(changed: Sequence[Mutation], answers: Sequence[Result], what: str) -> None:
    """Fail if we alone refuse an object, or if more than one in a hundred is refused by the server alone."""
    triples = ((one.name, one.body, answer) for one, answer in zip(changed, answers, strict=True))
    found = [*disagreements(triples)]
    print(f"{what}: {len(changed)} cases, {len(found)} disagreements")  # noqa: T201 -- a figure of docs/correctness.md
    refused = [line for line in found if line.startswith("refused")]
    assert not refused, "\n".join(refused)
    most = MAX_DISAGREEMENT * len(changed)
    most += 0 if COUNT >= LARGE else 3 * sqrt(most)  # a sample: three standard deviations
    assert len(found) <= most, "\n".join(found[:40])


def disagreements(verdicts: Iterator[tuple[str, dict[str, Any], Result]]) -> Iterator[str]:
    """Yield the objects that only one of the two refuses."""
    for name, body, result in verdicts:
        ours = errors(body)
        if result.ok and ours and not all(is_stricter(one, body, result) for one in ours):
            yield f"refused: {name}: {ours[0]}"
        if not result.ok and body["kind"] not in SCHEMA_ONLY and not ours and not is_refused(body):
            yield f"missed: {name}: {result.message}"

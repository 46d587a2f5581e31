"""A real API server and we give the same answers to the same expressions, and refuse the same ones."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.client import Client, Result
from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer
from tests.kube.cel.cel_cases import NESTED, OBJECT, REFUSED, TRUE

PIECES = 4  # an API server refuses a message of more cost than its budget: a few policies share the expressions
NAMESPACE = OBJECT["metadata"]["namespace"]  # type: ignore[index]


def _policy(name: str, validation: dict[str, str]) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]},
    }


def _binding(name: str) -> dict[str, Any]:
    only = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    only["objectSelector"] = {"matchLabels": {"ask": name}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": only},
    }


def _asked(client: Client, name: str) -> Result:
    metadata: Any = OBJECT["metadata"]
    body = {**OBJECT, "metadata": {**metadata, "labels": {**metadata["labels"], "ask": name}}}
    (result,) = client.apply_dry_run([body])
    return result


@pytest.fixture(scope="module")
def answers(api_server: ApiServer) -> Iterator[dict[str, str]]:
    """T or F of the server for every expression: told in the message of a denial."""
    client = api_server.client
    found: dict[str, str] = {}
    made = []
    for piece in range(PIECES):
        name = f"cel-cases-{piece}"
        mine = TRUE[piece::PIECES]
        listed = ", ".join(f"({expression}\n)" for expression in mine)
        message = f"'answers ' + [{listed}].map(answer, answer ? 'T' : 'F').join('')"
        validation = {"expression": "false", "messageExpression": message, "message": "no message"}
        made += [_policy(name, validation), _binding(name)]
        assert_all_accepted(client.apply(made[-2:]))
        deadline = time.monotonic() + 100
        while (result := _asked(client, name)).ok:
            assert time.monotonic() < deadline, f"{name} is not in force"
            time.sleep(0.2)
        told = result.message.partition("denied request: ")[2]
        assert told.startswith("answers "), f"one of {mine} fails on the server: {result.message}"
        found |= dict(zip(mine, told.removeprefix("answers "), strict=True))
    yield found
    for body in reversed(made):
        path = client.path(body)
        assert path
        client.request("DELETE", path)


@pytest.mark.parametrize("expression", TRUE)
def test_the_server_says_true_as_well(answers: dict[str, str], expression: str) -> None:
    assert answers[expression] == "T"


@pytest.mark.parametrize("expression", REFUSED)
def test_the_server_refuses_as_well(api_server: ApiServer, expression: str) -> None:
    (result,) = api_server.client.apply_dry_run([_policy("refused", {"expression": expression})])
    assert not result.ok
    assert "spec.validations[0].expression" in result.message


@pytest.mark.parametrize(("opener", "closer", "most"), NESTED)
def test_the_server_nests_as_deeply(api_server: ApiServer, opener: str, closer: str, most: int) -> None:
    texts = [f"dyn({opener * count}1{closer * count}) != 0" for count in (most, most + 1)]
    policies = [_policy(f"nested-{place}", {"expression": text}) for place, text in enumerate(texts)]
    results = api_server.client.apply_dry_run(policies)
    assert [result.ok for result in results] == [True, False]
    assert "recursion" in results[1].message

"""Judges that we did not write: a real API server says whether it would take an object."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reconciler import resources
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.problems import Severity, Violation
from reconciler.kube.schemas import Catalogue
from reconciler.kube.schemas.builtin.appwrapper import app_wrapper_violations
from reconciler.kube.schemas.messages import UNKNOWN_FIELD
from tests.cluster.client import Result
from tests.cluster.server import ApiServer

Body = Mapping[str, Any]
Judged = Body | Manifest
_SHIPPED = Catalogue(resources)
SCHEMA_ONLY = frozenset((
    "APIService", "CSIDriver", "CustomResourceDefinition", "EndpointSlice", "Endpoints", "IngressClass", "Lease",
    "MutatingWebhookConfiguration", "Node", "RuntimeClass", "ValidatingWebhookConfiguration",
))  # fmt: skip
"""Kinds that are judged by their JSON schema (and definitions by their rules in CEL): a server refuses more of them."""


class Judge:
    """Asserts that objects are accepted; each distinct object is judged once in a test process."""

    def __init__(self, judge: Callable[[list[Body]], None]) -> None:
        self._judge = judge
        self._accepted: set[str] = set()

    def __call__(self, objects: Iterable[Judged]) -> None:
        """Fail with the judge's words for every object of `objects` that it refuses; nothing is stored."""
        bodies = [one.body if isinstance(one, Manifest) else one for one in objects]
        texts = [json.dumps(body, sort_keys=True) for body in bodies]
        news = {text: body for text, body in zip(texts, bodies, strict=True) if text not in self._accepted}
        if not news:
            return
        self._judge([*news.values()])
        self._accepted.update(news)


def judge_by_server(server: ApiServer, bodies: list[Body]) -> None:
    """Fail for the objects that a real API server refuses."""
    assert_all_accepted(server.client.apply_dry_run(bodies))


def judge_by_schemas(bodies: list[Body]) -> None:
    """Fail for the objects that our shipped schemas refuse."""
    found = [f"{body.get('kind')}: {problem}" for body in bodies for problem in refusals(_SHIPPED, dict(body))]
    assert not found, "\n".join(found)


def assert_all_accepted(results: Iterable[Result]) -> None:
    """Fail if a result is a refusal, listing every refused object with the server's words."""
    refused = [result for result in results if not result.ok]
    assert not refused, f"the API server refuses {len(refused)} objects:\n{explained(refused)}"


def explained(refused: Iterable[Result]) -> str:
    """Write refusals for a person: the object, the message, and each field with its cause."""
    lines = []
    for result in refused:
        lines.append(f"- {result.name}: {result.message}")
        lines.extend(f"    {cause.field}: {cause.message}" for cause in result.causes)
    return "\n".join(lines)


def is_refusal(found: Violation) -> bool:
    """Return whether a server of the shipped versions refuses it: unknown fields of other versions are warnings."""
    return found.severity is Severity.ERROR or found.rule == UNKNOWN_FIELD


def refusals(catalogue: Catalogue, body: dict[str, Any]) -> list[Violation]:
    """Return the errors of an object that an API server without webhooks should find, too.

    Those of a webhook are compared with its own code (`tests/differential/test_wrapping.py`).
    """
    errors = [one for one in catalogue.violations(body) if is_refusal(one)]
    if body.get("kind") != "AppWrapper" or any(one.rule != "schema.bad-value" for one in errors):
        return errors
    of_webhook = [*app_wrapper_violations(body)] if errors else []
    return [one for one in errors if one not in of_webhook]

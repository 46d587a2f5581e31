"""Tests of policies: examples of objects, and what a rule is expected to say about them."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import ObjectKey, SourceRef, split_api_version
from reconciler.kube.values import mapping
from reconciler.kube.yaml import Document
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import Requester, RuleSetting, parse_requester

KIND = "PolicyTest"
PASS, SKIP = "pass", "skip"
_WORST = (Result.ERROR, Result.DENY, Result.WARN, Result.AUDIT)

_INTEGER, _STRING = {"type": "integer"}, {"type": "string"}
_COUNTS = {"type": "object", "additionalProperties": _INTEGER}


def _fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _rows(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": _fields(**properties)}


PLAN_DEFINITION: Mapping[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "plans.gpureconciler.io"},
    "spec": {
        "group": "gpureconciler.io",
        "names": {"kind": "Plan", "plural": "plans"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": _fields(
                        gpus=_fields(before=_INTEGER, after=_INTEGER, delta=_INTEGER, unknown=_INTEGER),
                        queues=_rows(
                            cluster=_STRING, queue=_STRING, product=_STRING,
                            before=_INTEGER, after=_INTEGER, limit=_INTEGER, requested=_INTEGER,
                            isTotal={"type": "boolean"},
                        ),
                        capacity=_rows(
                            cluster=_STRING, product=_STRING,
                            before=_INTEGER, after=_INTEGER, guaranteed=_INTEGER, requested=_INTEGER,
                        ),
                        changes=_fields(
                            total=_INTEGER, create=_INTEGER, update=_INTEGER, delete=_INTEGER, move=_INTEGER,
                            replace=_INTEGER, byKind=_COUNTS, byCluster=_COUNTS,
                        ),
                        risks=_rows(rule=_STRING, harm=_STRING, cluster=_STRING, kind=_STRING),
                    )
                },
            }
        ],
    },
}  # fmt: skip
"""The figures of a plan as policies see them (`plan/whole.py`). A saved plan has other fields."""

Written = str | Mapping[str, Any]
"""A file or folder, or an object itself."""


class Example(Struct, frozen=True, kw_only=True):
    """One example as written. `place` is that of its expectation."""

    name: str
    rule: str
    expect: str
    message: str
    place: SourceRef
    new: Written | None
    old: Written | None
    namespace: Written | None
    params: tuple[Written, ...]
    requester: Requester | None


class PolicyTest(Struct, frozen=True, kw_only=True):
    """One document of kind PolicyTest, which its schema has accepted.

    cluster: the one that our own kinds are rendered for; empty: the first. sources: what these refer to; empty: the
    sources of the repository.
    """

    name: str
    document: Document
    policies: tuple[str, ...]
    definitions: tuple[str, ...]
    settings: Mapping[str, RuleSetting]
    cluster: str
    sources: tuple[str, ...]
    examples: tuple[Example, ...]


class TestedExample(Struct, frozen=True, kw_only=True, rename="camel"):
    """The verdict of a rule on one object of an example. `reason`: why it is not as expected; empty: it is."""

    test: str
    example: str
    rule: str
    subject: str
    expected: str
    actual: str
    messages: tuple[str, ...]
    place: str
    reason: str = ""


def read_test(document: Document) -> PolicyTest:
    """Read a document that the schema of its kind has accepted."""
    spec = mapping(document.data.get("spec"))
    everyone = parse_requester(spec.get("appliedBy"))
    return PolicyTest(
        name=document.key.name or document.source.path.rpartition("/")[2],
        document=document,
        policies=tuple(spec.get("policies", ())),
        definitions=tuple(spec.get("definitions", ())),
        settings={
            rule: RuleSetting(**setting, place=document.at(("spec", "settings", rule), key=True))
            for rule, setting in spec.get("settings", {}).items()
        },
        cluster=spec.get("cluster", ""),
        sources=tuple(spec.get("sources", ())),
        examples=tuple(
            Example(
                name=one.get("name", ""),
                rule=one.get("rule", spec.get("rule", "")),
                expect=one["expect"],
                message=one.get("message", ""),
                place=document.at(("spec", "examples", index, "expect")),
                new=one.get("object"),
                old=one.get("oldObject"),
                namespace=one.get("namespace"),
                params=tuple(one.get("params", ())),
                requester=parse_requester(one.get("appliedBy")) or everyone,
            )
            for index, one in enumerate(spec["examples"])
        ),
    )


def example_manifest(document: Document) -> Manifest:
    """Return the object of an example as a rendered object of a cluster without a name."""
    group, _ = split_api_version(document.api_version)
    metadata = document.metadata
    key = ObjectKey(
        group=group,
        kind=document.kind,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
    )
    return Manifest(cluster="", key=key, body=document.data, source=document.source)


def compare(
    test: PolicyTest, example: Example, document: Document, *, is_judged: bool, verdicts: Sequence[Verdict]
) -> TestedExample:
    """Compare what a rule says of an object with what is expected. `is_judged`: whether the rule matches it."""
    key, path = example_manifest(document).key, document.source.path
    is_inline = path == test.document.source.path
    found = {one.result for one in verdicts}
    worst = next((one.value for one in _WORST if one in found), PASS)
    actual = worst if worst != PASS or is_judged else SKIP
    messages = tuple(one.message for one in verdicts if one.result.value == worst)
    reason = ""
    if actual != example.expect:
        said = f": {'; '.join(messages)}" if messages else ""
        reason = f"expected {example.expect}, got {actual}{said}"
    elif example.message and not any(example.message in one for one in messages):
        reason = f"expected a message with {example.message!r}, got: {'; '.join(messages) or 'none'}"
    return TestedExample(
        test=test.name,
        example=example.name or (key.name if is_inline else path.rpartition("/")[2]),
        rule=example.rule,
        subject=str(key),
        expected=example.expect,
        actual=actual,
        messages=messages,
        place=str(example.place),
        reason=reason,
    )

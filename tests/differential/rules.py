"""Rules in CEL of a kind with a field of every type: what a real API server makes of them, and we."""

import copy
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from reconciler import resources
from reconciler.kube.objects import format_path
from reconciler.kube.problems import Severity, Violation
from reconciler.kube.schemas import Catalogue
from tests.cluster.client import Client
from tests.differential.compare import (
    ACCEPTED,
    FALSE_PASS,
    FALSE_REFUSAL,
    OTHER_REASON,
    REFUSED,
    Comparison,
    Difference,
)
from tests.differential.generator import Expressions

_TEXT = (Path(__file__).parent / "rules.yaml").read_text(encoding="utf-8")
CORPUS: dict[str, Any] = yaml.load(_TEXT, Loader=yaml.CSafeLoader)
GROUP = "rules.example.com"
_RULES = "x-kubernetes-validations"
_CATALOGUE = Catalogue(resources)
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PART = 100  # rules of one definition


class PlacedRule(NamedTuple):
    """A rule and where it stands in the schema."""

    place: str
    rule: Mapping[str, Any]

    def __str__(self) -> str:
        shown = {key: value for key, value in self.rule.items() if key != "message"} or self.rule
        return f"{self.place or 'root'}: {shown}"


def placed() -> list[PlacedRule]:
    """Return all rules of the corpus, each with a message of its own."""
    found = [
        (place, {"rule": text, **more})
        for part, more in (("rules", {}), ("transitions", {}), ("optional", {"optionalOldSelf": True}))
        for place, texts in CORPUS[part].items()
        for text in texts.splitlines()
    ]
    plain = [PlacedRule(place, {**rule, "message": f"V{index}V"}) for index, (place, rule) in enumerate(found)]
    worded = (yaml.safe_dump(rule).replace("M", f"V{1000 + index}V") for index, rule in enumerate(CORPUS["worded"]))
    return [*plain, *(PlacedRule("spec", yaml.safe_load(text)) for text in worded)]


def malformed() -> list[PlacedRule]:
    """Return rules that break what a server asks of a rule, or just keep it."""
    return [PlacedRule("spec", rule) for rule in CORPUS["malformed"]]


def generated(seed: int, count: int) -> list[PlacedRule]:
    """Return generated rules about the fields of the objects."""
    makers = [Expressions(seed + index, spec) for index, spec in enumerate(CORPUS["objects"])]
    texts = [makers[index % len(makers)].one().replace("object", "self") for index in range(count)]
    return [PlacedRule("spec", {"rule": text, "message": f"V{2000 + n}V"}) for n, text in enumerate(texts)]


def definition(plural: str, rules: Sequence[PlacedRule]) -> dict[str, Any]:
    """Return the definition of the kind with rules."""
    schema = copy.deepcopy(CORPUS["schema"])
    for place, rule in rules:
        node = schema
        for step in place.split(".") if place else ():
            node = node["items" if step == "items" else "additionalProperties"] if step in ("items", "values") else (
                node["properties"][step]
            )  # fmt: skip
        node.setdefault(_RULES, []).append(dict(rule))
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": plural.capitalize(), "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def compare_definitions(client: Client, rules: Sequence[PlacedRule]) -> tuple[Comparison, list[PlacedRule]]:
    """Ask whether each rule can be installed; also return those with a mark that both accept."""
    differences, usable = [], []
    cases = 0
    for rule in rules:
        body = definition("single", [rule])
        answer = client.request("POST", f"{PATH}?dryRun=All&fieldValidation=Strict", body)
        ours = [str(one.message) for one in _CATALOGUE.violations(body) if one.severity is Severity.ERROR]
        theirs = "" if answer.ok else str(answer.body.get("message"))
        cases += 1
        if bool(theirs) != bool(ours):
            kind = ACCEPTED if theirs else REFUSED
            differences.append(Difference(kind=kind, what=str(rule), theirs=theirs[:300], ours="; ".join(ours)[:300]))
        elif not ours and _marked(str(rule.rule)):
            usable.append(rule)
    return Comparison(cases=cases, differences=tuple(differences)), usable


def compare_objects(client: Client, rules: Sequence[PlacedRule]) -> Comparison:
    """Ask what each rule says about each object, and about each change of one."""
    client.ensure_namespaces(["differential"])
    cases = 0
    differences: list[Difference] = []
    for number in range(0, len(rules), _PART):
        part = rules[number : number + _PART]
        for about, theirs, ours in _answers(client, f"gadget{number // _PART}", part):
            cases += len(part)
            for rule in part:
                (mark,) = _marked(str(rule.rule))
                told = (theirs.get(mark, ""), ours.get(mark, ""))
                if bool(told[0]) != bool(told[1]) or not _is_same(*told):
                    kind = OTHER_REASON if all(told) else FALSE_PASS if told[0] else FALSE_REFUSAL
                    differences.append(Difference(kind=kind, what=f"{about} {rule}", theirs=told[0], ours=told[1]))
    return Comparison(cases=cases, differences=tuple(differences))


def compare_rules(client: Client, seed: int, count: int) -> dict[str, Comparison]:
    """Compare both, with as many generated rules, by their names."""
    definitions, usable = compare_definitions(client, [*placed(), *malformed(), *generated(seed, count)])
    return {"Rules of definitions": definitions, "Answers of rules": compare_objects(client, usable)}


_Told = Mapping[str, str]
"""What is said, by the message of the rule that it breaks."""


def _answers(client: Client, plural: str, rules: Sequence[PlacedRule]) -> Iterator[tuple[str, _Told, _Told]]:
    """Yield the server's and our answers about objects and changes."""
    body = definition(plural, rules)
    known = _CATALOGUE.with_definitions([body])
    path = f"/apis/{GROUP}/v1/namespaces/differential/{plural}"
    answer = client.request("POST", PATH, body)
    assert answer.ok, answer.body
    try:
        _wait(client, path)
        for index, spec in enumerate(CORPUS["objects"]):
            one = _object(plural, f"object-{index}", spec)
            theirs = client.request("POST", f"{path}?dryRun=All", one).body
            ours = [*known.violations(one), *known.initial(one)]
            yield f"object {index}", _marks(theirs), _ours(ours)
    finally:
        client.request("DELETE", f"{PATH}/{plural}.{GROUP}")
    yield from _changes(client, f"changing{plural}", rules)


def _changes(client: Client, plural: str, rules: Sequence[PlacedRule]) -> Iterator[tuple[str, _Told, _Told]]:
    """Yield the answers about changes: the objects were created before there were rules."""
    path = f"/apis/{GROUP}/v1/namespaces/differential/{plural}"
    answer = client.request("POST", PATH, definition(plural, []))
    assert answer.ok, answer.body
    try:
        _wait(client, path)
        for index, (before, _) in enumerate(CORPUS["changes"]):
            answer = client.request("POST", path, _object(plural, f"change-{index}", before))
            assert answer.ok, answer.body
        body = definition(plural, rules)
        patched = client.request("PATCH", f"{PATH}/{plural}.{GROUP}", {"spec": body["spec"]}, content_type=_MERGE)
        assert patched.ok, patched.body
        _wait_for_rules(client, path, plural, rules)
        known = _CATALOGUE.with_definitions([body])
        for index, (before, after) in enumerate(CORPUS["changes"]):
            old, new = (_object(plural, f"change-{index}", spec) for spec in (before, after))
            stored = client.get(f"{path}/change-{index}")
            metadata = {**new["metadata"], "resourceVersion": stored["metadata"]["resourceVersion"]}
            theirs = client.request("PUT", f"{path}/change-{index}?dryRun=All", {**new, "metadata": metadata}).body
            compared = {mark for rule in rules if "oldSelf" in rule.rule["rule"] for mark in _marked(str(rule.rule))}
            told = {mark: text for mark, text in _marks(theirs).items() if mark in compared}
            yield f"change {index}", told, _ours(known.transitions(old, new))
    finally:
        client.request("DELETE", f"{PATH}/{plural}.{GROUP}")


_MERGE = "application/merge-patch+json"


def _object(plural: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "differential"}
    return {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": metadata, "spec": spec}


def _wait(client: Client, path: str) -> None:
    deadline = time.monotonic() + 60
    while not client.request("GET", path).ok:
        assert time.monotonic() < deadline, "the kind is not served"
        time.sleep(0.1)


def _wait_for_rules(client: Client, path: str, plural: str, rules: Sequence[PlacedRule]) -> None:
    """Wait until the new rules are in force: a creation is refused that breaks one of them."""
    probes = [_object(plural, f"probe-{index}", spec) for index, spec in enumerate(CORPUS["objects"])]
    deadline = time.monotonic() + 60
    known = _CATALOGUE.with_definitions([definition(plural, rules)])
    if not any([*known.violations(probe), *known.initial(probe)] for probe in probes):
        return
    while all(client.request("POST", f"{path}?dryRun=All", probe).ok for probe in probes):
        assert time.monotonic() < deadline, "the rules are not in force"
        time.sleep(0.1)


def _marks(body: Mapping[str, Any]) -> dict[str, str]:
    causes = (body.get("details") or {}).get("causes") or ()
    return {
        mark: f"{one['field'].removeprefix('<nil>')}: {one['message']}"
        for one in causes
        for mark in _marked(one["message"])
    }


def _ours(found: Sequence[Violation]) -> dict[str, str]:
    return {mark: f"{format_path(one.path)}: {one.message}" for one in found for mark in _marked(one.message)}


_MARK = re.compile(r"V\d+V")
_SPELLING = re.compile(r"['\"\[\].]+")
_PREFIX = re.compile(r"^(is (required|forbidden|a duplicate)|failed rule): ")


def _marked(text: str) -> list[str]:
    return list(dict.fromkeys(_MARK.findall(text)))


def _is_same(theirs: str, ours: str) -> bool:
    """Whether two refusals name the same field, and ours has the words of the server; errors are worded otherwise."""
    (their_field, _, their_text), (our_field, _, our_text) = theirs.partition(": "), ours.partition(": ")
    is_told = " in the rule: " in our_text or _PREFIX.sub("", our_text) in their_text
    return is_told and _SPELLING.sub(".", their_field).strip(".") == _SPELLING.sub(".", our_field).strip(".")

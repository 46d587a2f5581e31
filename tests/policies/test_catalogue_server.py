"""The shipped rules in a real API server: it accepts them, and judges every example as we do, in the same words."""

import itertools
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from reconciler import resources
from reconciler.kube.problems import Severity
from reconciler.kube.schemas import Catalogue
from reconciler.policy.admission import ServerView, Subject, load
from reconciler.repo.config import RuleSetting
from tests.cluster.client import Client, describe
from tests.cluster.corpus import Case, mutated
from tests.cluster.fixtures import Parts
from tests.cluster.judges import assert_all_accepted
from tests.cluster.parts import SERVING_MODULES
from tests.cluster.server import ApiServer, install_crds, wait_until
from tests.differential.judging import rendered as rendered_body
from tests.kinds.kaiwo import kaiwo_cases
from tests.kinds.samples import samples
from tests.policies.catalogue import ABOUT_PLANS, OPTIONAL, POLICIES, Example, catalogue, rendered, shipped
from tests.policies.catalogue import EXAMPLES as ALL_EXAMPLES
from tests.policies.catalogue import RULES as ALL_RULES

CATALOGUE = Catalogue(resources)
POLICIES_AS_SHIPPED = load(
    [], {}, shipped=shipped(), server=ServerView(stored=CATALOGUE.stored, served=CATALOGUE.resource)
).policies
_SPECIMENS = sorted((Path(__file__).parents[1] / "cluster" / "specimens").glob("*.yaml"))
CORPUS: tuple[dict[str, Any], ...] = (
    *(body for sample in samples() for body in sample.objects),
    *(body for path in _SPECIMENS for body in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader)),
    *(example.document.data for example in ALL_EXAMPLES if example.rule not in ABOUT_PLANS),
)
CHANGED = int(os.environ.get("RECONCILER_TEST_DIFFERENTIAL", "250"))
"""Objects with a change."""
LARGE = 100_000
UNSERVED = {
    "resource.k8s.io/v1beta1/ResourceClaim judged-by-all/sample",
    "trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime elastic",
    "trainer.kubeflow.org/v1alpha1/TrainJob judged-by-all/sample",
}
"""Objects of the corpus that this server refuses: the version is no longer served, or a field is one of trainer 2.1."""
_TOGETHER = 200
_RULE = re.compile(r"ValidatingAdmissionPolicy '([\w-]+)' with binding '[\w-]+-for-all'")


def free_definition(group: str, kind: str, versions: Sequence[str]) -> dict[str, Any]:
    """Return a definition of a kind whose fields are free: the rules look at nothing else."""
    served = CATALOGUE.resource(group, kind)
    plural = served.plural if served else f"{kind.lower()}s"  # of a kind that no rule names
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced" if served is None or served.namespaced else "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": version, "served": True, "storage": index == 0, "schema": {"openAPIV3Schema": free}}
                for index, version in enumerate(versions)
            ],
        },
    }


def lacking(client: Client) -> list[dict[str, Any]]:
    """Return definitions of the custom kinds of the corpus that a server does not serve."""
    versions: dict[tuple[str, str], set[str]] = {}
    for body in CORPUS:
        group, _, version = body["apiVersion"].rpartition("/")
        served = CATALOGUE.served(group, body["kind"])
        if served is None or served.is_custom:
            versions.setdefault((group, body["kind"]), set()).add(version)
    return [
        free_definition(group, kind, sorted(names))
        for (group, kind), names in sorted(versions.items())
        if not all(client.resource(f"{group}/{name}".lstrip("/"), kind) for name in names)
    ]


def _labelled(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object that all rules judge, in a namespace of its own; what a wrapper holds names the namespace, too."""
    metadata = {**body["metadata"], "labels": {**(body["metadata"].get("labels") or {}), "judged": "by-all"}}
    group, _, _ = body["apiVersion"].rpartition("/")
    served = CATALOGUE.resource(group, body["kind"])
    if served is not None and served.namespaced and body["kind"] != "AppWrapper":
        metadata["namespace"] = "judged-by-all"
    return {**body, "metadata": metadata}


RULES = tuple(rule for rule in ALL_RULES if rule not in OPTIONAL)
EXAMPLES = tuple(example for example in ALL_EXAMPLES if example.rule not in OPTIONAL)
_NO_PARAMETERS = "no params found"  # the server has the binding, but not yet the ConfigMap that it names
DENYING = catalogue({rule: RuleSetting(action="deny") for rule in RULES})


def _namespace(rule: str) -> str:
    """One namespace a rule, so that each can be asked alone and no other test meets it."""
    return f"judged-by-{rule}"


def _objects(rule: str) -> list[dict[str, Any]]:
    """Read the rule as it ships, bound with Deny to its namespace only."""
    found = list(yaml.safe_load_all((POLICIES / rule / "rule.yaml").read_text()))
    for one in found:
        if one["kind"] == "ValidatingAdmissionPolicyBinding":
            only = {"matchLabels": {"kubernetes.io/metadata.name": _namespace(rule)}}
            scope = {
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "operations": ["*"],
                "resources": ["*"],
                "scope": "Namespaced",
            }
            match = {"namespaceSelector": only, "resourceRules": [scope]}
            one["spec"] |= {"validationActions": ["Deny"], "matchResources": match}
    # Parameters first: a binding whose parameters are missing denies everything.
    return sorted(found, key=lambda one: one["kind"] != "ConfigMap")


@pytest.fixture(scope="module")
def judging(private_server: ApiServer, parts: Parts) -> Client:
    """Return a server with all rules in force, each in its namespace.

    They stay: a server that has lost its last policy with parameters does not find those of the next one.
    """
    client = private_server.client
    if CHANGED >= LARGE:
        install_crds(client, parts.crds(SERVING_MODULES))
    assert_all_accepted(client.apply(lacking(client)))
    wait_until(lambda: not lacking(client), "the kinds of the corpus")
    assert_all_accepted(client.apply(body for body in CORPUS if body["kind"] == "RuntimeClass"))  # Pods name it
    for rule in RULES:
        assert_all_accepted(client.apply([*_objects(rule), _warning(rule)]))
    for rule in RULES:
        example = next(one for one in EXAMPLES if (one.rule, one.verdict) == (rule, "fail"))
        deadline = time.monotonic() + 150
        while not (denial := _said(client, rule, example)) or _NO_PARAMETERS in denial:
            assert time.monotonic() < deadline, f"{rule} is not in force"
            time.sleep(0.2)
    return client


def _warning(rule: str) -> dict[str, Any]:
    """Return a binding that warns about all objects that carry a label, so that all rules answer one request."""
    (found,) = [one for one in _objects(rule) if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    match = {"objectSelector": {"matchLabels": {"judged": "by-all"}}}
    spec = {**found["spec"], "validationActions": ["Warn"], "matchResources": match}
    return {**found, "metadata": {"name": f"{rule}-for-all"}, "spec": spec}


def _said(client: Client, rule: str, example: Example) -> str:
    """Return the server's denial by a rule, in the rule's words; empty where it lets the example through."""
    body = {**example.document.data}
    body["metadata"] = {**body["metadata"], "namespace": _namespace(rule)}
    (result,) = client.apply_dry_run([body])
    if result.ok:
        return ""
    marker = f"ValidatingAdmissionPolicy '{rule}' with binding '{rule}' denied request: "
    said = result.message.partition(marker)[2]
    assert said, f"refused for another reason: {result.message} {result.causes}"
    return said


def _say(rule: str, example: Example) -> str:
    found = DENYING.policies.evaluate(Subject(rendered(example.document), None, None))
    return next((one.message for one in found if one.rule == rule), "")


def test_the_server_accepts_the_catalogue_as_it_ships(api_server: ApiServer) -> None:
    bodies = [body for rule in ALL_RULES for body in yaml.safe_load_all((POLICIES / rule / "rule.yaml").read_text())]
    assert_all_accepted(api_server.client.apply_dry_run(bodies))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_server_judges_as_we_do(judging: Client, example: Example) -> None:
    """Every rule on every example: the same denials in the same words."""
    ours = {rule: _say(rule, example) for rule in RULES}
    theirs = {rule: _said(judging, rule, example) for rule in RULES}
    assert {rule: said for rule, said in theirs.items() if said} == {rule: said for rule, said in ours.items() if said}


def test_the_server_enforces_kaiwo(private_server: ApiServer) -> None:
    """F-078: as the rule ships, but for its namespaces: each example, and a rendered Job with and without its labels."""
    rule, client, space = "kaiwo-managed", private_server.client, "judged-by-kaiwo"
    policy, binding, parameters = yaml.safe_load_all((POLICIES / rule / "rule.yaml").read_text())
    parameters["data"] = {"namespaces": f"kaiwo, {space}"}
    client.ensure_namespaces([space, "team-vision", "gpu-reconciler"])
    assert_all_accepted(client.apply([parameters, policy, binding]))
    ours = catalogue({rule: RuleSetting(parameters=parameters["data"])}).policies

    def placed(body: dict[str, Any]) -> dict[str, Any]:
        """Return the body in a namespace of this test, if it is in one of Kaiwo."""
        namespace = body["metadata"]["namespace"]
        return {**body, "metadata": {**body["metadata"], "namespace": space if namespace == "kaiwo" else namespace}}

    def denials(body: dict[str, Any]) -> tuple[str, str]:
        """Return what the server and what we say against it."""
        (result,) = client.apply_dry_run([body])
        found = ours.evaluate(Subject(rendered_body(body), None, None))
        said = result.message.partition(f"with binding '{rule}' denied request: ")[2]
        assert result.ok or said, result.message
        return said, next((one.message for one in found if one.rule == rule), "")

    examples = [one for one in ALL_EXAMPLES if one.rule == rule]
    denied = placed(next(one.document.data for one in examples if one.verdict == "fail"))
    wait_until(lambda: _NO_PARAMETERS not in denials(denied)[0] != "", f"{rule} in force")
    for example in examples:
        theirs, expected = denials(placed(example.document.data))
        assert theirs == expected, example
        assert bool(theirs) == (example.verdict == "fail"), example
    job = kaiwo_cases.rendered(kaiwo_cases.job("image: a:1\ngpus: 8", metadata=f"namespace: {space}"), "none").one(
        "Job"
    )
    assert denials(job) == ("", "")
    del job["metadata"]["labels"]["kaiwo.silogen.ai/run-id"]
    assert all(denials(job))
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "kaiwo"
    assert denials(job) == ("", "")


def test_the_server_fires_the_same_rules_for_the_corpus(judging: Client) -> None:
    """Every sample with accelerators, every specimen and every example: all rules at once, on the server and here."""
    found = _compared(judging, map(_labelled, CORPUS))
    print(f"rules that fire: {found.asked} objects, {found.fired} verdicts")  # noqa: T201 -- a figure of docs/correctness.md
    assert found.different == []
    assert {what for what, _ in found.unasked} == UNSERVED, found.unasked
    assert found.fired > 250


def test_the_server_fires_the_same_rules_for_changed_objects(judging: Client) -> None:
    """Objects of the corpus with a value changed, removed or added: all of them in `make differential`."""
    bodies = [_labelled(body) for body in (CORPUS if CHANGED >= LARGE else CORPUS[::25])]
    accepted = zip(bodies, judging.apply_dry_run(bodies), strict=True)
    good = [Case(name=describe(body), body=body) for body, result in accepted if result.ok]
    changed = [one.body for one in mutated(good, CHANGED) if _is_labelled(one.body)]
    found = _compared(judging, changed)
    said = f"{found.asked} changed objects, {found.fired} verdicts, {len(found.different)} disagreements"
    print(f"rules that fire: {said}")  # noqa: T201 -- a figure of docs/correctness.md
    assert found.different == [], "\n".join(map(str, found.different))
    assert found.asked > CHANGED / 4 or CHANGED >= LARGE
    assert found.fired > found.asked / 2


def _is_labelled(body: dict[str, Any]) -> bool:
    """Return whether all rules judge an object whose metadata may be wrong."""
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get("judged") == "by-all" and isinstance(body.get("apiVersion"), str)


class Compared(NamedTuple):
    """How many objects were asked, how many rules fired, where the server fires others, and what it refuses."""

    asked: int
    fired: int
    different: list[tuple[str, list[str], list[str]]]
    unasked: list[tuple[str, str]]


def _compared(client: Client, bodies: Iterable[dict[str, Any]]) -> Compared:
    """Ask the server and us. No rule judges an object that is refused: `tests/cluster/test_corpus.py` compares that."""
    asked = fired = 0
    different, unasked = [], []
    wanted = []
    for body in bodies:
        if _is_refused(body):
            unasked.append((describe(body), "refused here"))
        else:
            wanted.append(body)
    for start in range(0, len(wanted), _TOGETHER):
        part = wanted[start : start + _TOGETHER]
        for body, result in zip(part, client.apply_dry_run(part), strict=True):
            if not result.ok:
                unasked.append((describe(body), result.message))
                continue
            theirs = set(_RULE.findall(" ".join(result.warnings)))
            found = POLICIES_AS_SHIPPED.evaluate(Subject(rendered_body(body), None, None))
            ours = {one.rule for one in found}
            asked, fired = asked + 1, fired + len(theirs)
            if ours != theirs:
                different.append((describe(body), sorted(theirs), sorted(ours)))
    return Compared(asked, fired, different, unasked)


def _is_refused(body: dict[str, Any]) -> bool:
    return any(one.severity is Severity.ERROR for one in CATALOGUE.violations(body))


def test_all_pairs_were_asked() -> None:
    """The comparison above is over the product, not over each rule's own examples."""
    assert len(list(itertools.product(RULES, EXAMPLES))) > 800

"""What the API server and we say to a policy about an object: `Answer`."""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import RemoteDisconnected
from typing import Any, NamedTuple

import yaml

from reconciler import resources
from reconciler.kinds.manifests.manifest import Manifest, manifest
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Severity
from reconciler.kube.reasons import Reason
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.policy.admission import ServerView, Subject, load
from reconciler.policy.verdict import Result
from tests.cluster.client import Client

GROUP = "admissionregistration.k8s.io/v1"
NAMESPACE = "differential"
BUNDLE = resources
_CATALOGUE = Catalogue(resources)
_SERVER = ServerView(stored=_CATALOGUE.stored, served=_CATALOGUE.resource)
_PATH = f"/apis/{GROUP}/validatingadmissionpolicies"
_BINDINGS = f"/apis/{GROUP}/validatingadmissionpolicybindings"
_MARK = re.compile(r"V(\d+)V")
_OWN = f"d{os.getpid()}"  # several processes may ask one server at the same time
_LAST = f"{_OWN}-last"
_DENIES = "false"
_PART = 4
"""Expressions of one policy: an API server leaves out warnings beyond 4,096 characters, which errors fill soon."""
_FULL = 2_048
"""Characters of warnings from which the server may have left some out; it may shorten each to 256 characters."""


class Case(NamedTuple):
    """An expression about an object."""

    expression: str
    body: Mapping[str, Any]


def case_name(index: int) -> str:
    """Return the name of the policy about a case, which the object of the case carries as a label."""
    return f"{_OWN}-{index}"


def policy(name: str, expressions: Sequence[str], **spec: Any) -> dict[str, Any]:
    """Return a policy about every kind, whose messages tell the position of each expression."""
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}
    validations = [{"expression": text, "message": f"V{index}V"} for index, text in enumerate(expressions)]
    return {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, **spec},
    }


def binding(name: str) -> dict[str, Any]:
    """Return a binding about the objects that carry the name of the policy."""
    selected = {"objectSelector": {"matchLabels": {"case": name}}}
    return {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Warn"], "matchResources": selected},
    }


def labelled(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object that a policy selects."""
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), "case": name}
    return {**body, "metadata": {**metadata, "labels": labels}}


def _marked(expression: str, index: int) -> str:
    """Return an expression that names itself in errors, and is one line as a warning must be."""
    return f"('V{index}V' != '') && ({expression})"


def _answers(told: Sequence[str], count: int) -> list[str]:
    """Return `pass`, `deny` or `error` for each expression, from the messages about a policy; `whole` if it failed."""
    answers = ["pass"] * count
    for text in told:
        match = _MARK.search(text)
        if match is None and "Validation failed" in text:
            return ["whole"] * count
        if match is not None:
            failed = "not evaluated" in text or "resulted in error" in text or "expression '" in text
            answers[int(match[1])] = "error" if failed else "deny"
    return answers


class Server:
    """A real API server, asked."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def refuses(self, body: Mapping[str, Any]) -> str:
        """Return why the server does not install a policy, or the empty string. It is applied, as Flux applies it."""
        try:
            (result,) = self._client.apply_dry_run([body])
        except RemoteDisconnected:
            return "the server panics, and answers nothing"
        return "" if result.ok else result.message

    def applied(self, bodies: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return what the server makes of objects."""
        self._client.ensure_namespaces([NAMESPACE])
        results = self._client.apply_dry_run(bodies)
        assert all(result.ok for result in results), [result.message for result in results if not result.ok]
        return [result.body for result in results]

    def judge(self, cases: Sequence[tuple[Mapping[str, Any], Sequence[str]]]) -> list[list[str]]:
        """Return the answers to the expressions about each object. A policy that fails as a whole is asked in parts."""
        found = self._judge(cases)
        parted = [index for index, answers in enumerate(found) if "whole" in answers]
        alone = [(cases[index][0], [text]) for index in parted for text in cases[index][1]]
        again = iter(self._judge(alone) if alone else ())
        for index in parted:
            found[index] = [next(again)[0].replace("whole", "error") for _ in cases[index][1]]
        return found

    def _judge(self, cases: Sequence[tuple[Mapping[str, Any], Sequence[str]]]) -> list[list[str]]:
        self._client.ensure_namespaces([NAMESPACE])
        marked = [[_marked(text, index) for index, text in enumerate([*texts, _DENIES])] for _, texts in cases]
        names = [case_name(index) for index in range(len(cases))]
        with self.installed([policy(name, texts) for name, texts in zip(names, marked, strict=True)]):
            found = []
            for name, (body, texts) in zip(names, cases, strict=True):
                found.append(self._answered(labelled(body, name), len(texts)))
            return found

    def _answered(self, body: Mapping[str, Any], count: int) -> list[str]:
        """Return the answers to `count` expressions, once the policy is in force: the one after them denies."""
        deadline = time.monotonic() + 120
        while True:
            (result,) = self._client.apply_dry_run([body])
            told = [result.message] if not result.ok else list(result.warnings)
            *answers, last = _answers(told, count + 1)
            if last != "pass":
                return answers
            took_too_long = any("504 Timeout" in one for one in told)
            if sum(map(len, told)) > _FULL or (took_too_long and count > 1):
                return ["whole"] * count  # they are asked one by one
            if took_too_long and time.monotonic() > deadline - 60:
                return ["slow"]
            assert time.monotonic() < deadline, f"the policy is not in force: {told}"
            time.sleep(0.2)

    @contextmanager
    def installed(self, policies: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Bind policies to the objects that carry their names, as long as the context lasts."""
        made: list[str] = []
        try:
            for policy_body in policies:
                name = policy_body["metadata"]["name"]
                for path, body in ((_PATH, policy_body), (_BINDINGS, binding(name))):
                    answer = self._client.request("POST", path, body)
                    assert answer.ok, answer.body
                    made.append(f"{path}/{name}")
            for path, body in ((_PATH, policy(_LAST, ["false"])), (_BINDINGS, binding(_LAST))):
                made.append(f"{path}/{_LAST}")
                assert self._client.request("POST", path, body).ok
            self._wait()
            yield
        finally:
            for path in reversed(made):
                self._client.request("DELETE", path)

    def _wait(self) -> None:
        metadata = {"name": "probe", "namespace": NAMESPACE}
        probe = labelled({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, _LAST)
        deadline = time.monotonic() + 120
        while not self._client.apply_dry_run([probe])[0].warnings:
            assert time.monotonic() < deadline, "the policies are not in force"
            time.sleep(0.2)
        time.sleep(0.5)


def we_refuse(body: Mapping[str, Any]) -> str:
    """Return why we do not accept a policy, or the empty string."""
    errors = [one.message for one in _CATALOGUE.violations(dict(body)) if one.severity is Severity.ERROR]
    reading = read("policy.yaml", yaml.safe_dump(dict(body), sort_keys=False, allow_unicode=True).encode())
    problems = [*reading.problems, *load(reading.documents, {}).problems]
    errors += [one.message for one in problems if one.severity is Severity.ERROR]
    return "; ".join(errors)


def we_judge(body: Mapping[str, Any], expressions: Sequence[str]) -> list[str]:
    """Return our answers to expressions about an object."""
    marked = [_marked(text, index) for index, text in enumerate(expressions)]
    bodies = [policy("d", marked), binding("d")]
    reading = read("policy.yaml", yaml.safe_dump_all(bodies, sort_keys=False, allow_unicode=True).encode())
    policies = load(reading.documents, {}, server=_SERVER).policies
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    verdicts = policies.evaluate(Subject(rendered(labelled(body, "d")), None, namespace))
    told = [f"not evaluated {one.message}" if one.result is Result.ERROR else one.message for one in verdicts]
    return _answers(told, len(expressions))


def rendered(body: Mapping[str, Any]) -> Manifest:
    """Return an object as a manifest."""
    place = SourceRef(path="objects.yaml", line=1, column=1)
    return manifest(cluster="main", tree=body, source=place, reason=Reason(rule="source"))


def parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield as many expressions as fit one policy."""
    for start in range(0, len(texts), _PART):
        yield texts[start : start + _PART]

"""Requests to create, update and delete objects: which policies match them, and what these see."""

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.policy.admission import ServerView, Subject, load
from reconciler.repo.config import Requester
from tests.cluster.client import Client
from tests.differential.compare import FALSE_PASS, FALSE_REFUSAL, OTHER_REASON, Comparison, Difference
from tests.differential.judging import BUNDLE, NAMESPACE, Server, binding, case_name, policy, rendered

OPERATIONS = ("CREATE", "UPDATE", "DELETE")
USERS = (Requester(user="syncer", groups=("deployers",)), Requester(user="system:serviceaccount:gitops:syncer"))


def _definition(kind: str, plural: str, versions: Sequence[str], *, scope: str) -> dict[str, Any]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = [
        {"name": one, "served": True, "storage": one == versions[0], "schema": {"openAPIV3Schema": free}}
        for one in versions
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.differential.example"},
        "spec": {
            "group": "differential.example",
            "scope": scope,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": served,
        },
    }


DEFINITIONS = (
    _definition("Octopus", "octopodes", ("v1", "v1beta1"), scope="Namespaced"),
    _definition("Chassis", "chassis", ("v2",), scope="Cluster"),
)
"""Kinds whose plurals nobody can guess."""


class _Kind(NamedTuple):
    api_version: str
    kind: str
    plural: str
    namespaced: bool
    fields: Mapping[str, Any]


_SCALED = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3}
_KINDS = (
    _Kind("v1", "ConfigMap", "configmaps", True, {"data": {"a": "1"}}),
    _Kind("v1", "Namespace", "namespaces", False, {}),
    _Kind("v1", "Endpoints", "endpoints", True, {}),
    _Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False, {"value": 7}),
    _Kind("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, {"spec": _SCALED}),
    _Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, {"spec": _SCALED}),
    _Kind("differential.example/v1", "Octopus", "octopodes", True, {"spec": {"arms": 8}}),
    _Kind("differential.example/v1beta1", "Octopus", "octopodes", True, {"spec": {"arms": 8}}),
    _Kind("differential.example/v2", "Chassis", "chassis", False, {"spec": {"wheels": 4}}),
)
_EXPRESSIONS = (
    "false",
    "object == null",
    "oldObject == null",
    "object != null && oldObject != null",
    "has(object.metadata)",
    "has(oldObject.metadata)",
    "object.metadata.labels.team == 'b'",
    "oldObject.metadata.labels.team == 'a'",
    "object.metadata.name == oldObject.metadata.name",
    "(object == null ? oldObject : object).metadata.name == request.name",
    "request.operation == 'DELETE'",
    "request.operation != 'CREATE'",
    "request.resource.resource.startsWith('octo')",
    "request.resource.resource == request.requestResource.resource",
    "request.kind.version == 'v1'",
    "has(request.namespace)",
    "request.namespace == 'differential'",
    "namespaceObject == null",
    "namespaceObject.metadata.name == 'differential'",
    "request.userInfo.username == 'system:serviceaccount:gitops:syncer'",
    "request.userInfo.username.startsWith('admin')",
    "'deployers' in request.userInfo.groups",
    "'system:authenticated' in request.userInfo.groups",
    "'system:serviceaccounts:gitops' in request.userInfo.groups",
    "request.userInfo.groups.size() == 2",
    "request.userInfo.groups[0] == 'deployers'",
)


class Request(NamedTuple):
    """A request for an object under a policy. The object carries the name of the policy as a label."""

    spec: Mapping[str, Any]
    operation: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    user: Requester

    @property
    def words(self) -> str:
        """The request in one line."""
        rules = dict(self.spec["matchConstraints"])
        return f"{self.operation} {self.old['apiVersion']} {self.old['kind']}: {self.spec['expression']} {rules}"


def requests(seed: int, count: int) -> list[Request]:
    """Return generated requests; the same seed gives the same ones."""
    source = random.Random(seed)  # noqa: S311 - a corpus
    return [_request(source, index) for index in range(count)]


def _request(source: random.Random, index: int) -> Request:
    kind = source.choice(_KINDS)
    metadata: dict[str, Any] = {"name": f"r{index}", "labels": {"case": case_name(index), "team": "a"}}
    if kind.namespaced:
        metadata["namespace"] = NAMESPACE
    old = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **kind.fields}
    new = {**old, "metadata": {**metadata, "labels": {**metadata["labels"], "team": "b"}}}
    constraints: dict[str, Any] = {
        "resourceRules": [_rule(source, kind, index) for _ in range(source.choice((1, 1, 2)))]
    }
    if source.random() < 0.4:
        constraints["excludeResourceRules"] = [_rule(source, kind, index)]
    if source.random() < 0.3:
        constraints["objectSelector"] = {"matchLabels": {"team": source.choice("ab")}}
    constraints["matchPolicy"] = source.choice(("Exact", "Equivalent"))
    spec = {"matchConstraints": constraints, "expression": source.choice(_EXPRESSIONS)}
    return Request(spec, source.choice(OPERATIONS), old, new, source.choice(USERS))


def _rule(source: random.Random, kind: _Kind, index: int) -> dict[str, Any]:
    group, _, version = kind.api_version.rpartition("/")
    plural = kind.plural
    resources = [[plural], [plural], ["*"], ["*/*"], [f"{plural}/*"], [f"{plural}/status"], [f"{kind.kind.lower()}s"]]
    rule: dict[str, Any] = {
        "apiGroups": source.choice(([group], [group], ["*"], ["apps", group], ["apps"])),
        "apiVersions": source.choice(([version], [version], ["*"], ["v1"], ["v1beta1"], ["v2", "v9"], ["v9"])),
        "operations": source.choice((["*"], ["DELETE"], ["CREATE", "UPDATE"], [*OPERATIONS], ["CONNECT"])),
        "resources": source.choice(resources),
        "scope": source.choice(("*", "*", "Namespaced", "Cluster")),
    }
    if source.random() < 0.1:
        rule["resourceNames"] = source.choice(([f"r{index}"], ["other"]))
    return rule


def _policy(case: Request, name: str) -> dict[str, Any]:
    return policy(
        name, [f"('V0V' != '') && ({case.spec['expression']})"], matchConstraints=case.spec["matchConstraints"]
    )


# --- asked ------------------------------------------------------------------------------------------------------------


def we_say(case: Request, index: int) -> str:
    """Return our answer."""
    bodies = [_policy(case, case_name(index)), binding(case_name(index))]
    reading = read("policy.yaml", yaml.safe_dump_all(bodies, sort_keys=False).encode())
    catalogue = Catalogue(BUNDLE).with_definitions(DEFINITIONS)
    server = ServerView(stored=catalogue.stored, served=catalogue.resource, requesters={"main": case.user})
    policies, problems = load(reading.documents, {}, server=server)
    assert not problems, problems
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    known = namespace if case.old["metadata"].get("namespace") else None
    body = case.old if case.operation == "DELETE" else case.new
    old = case.old if case.operation == "UPDATE" else None
    found = policies.evaluate(Subject(rendered(body), old, known, deletes=case.operation == "DELETE"))
    if not found:
        return "pass"
    return "error" if any("not evaluated" in one.message for one in found) else "deny"


class Requests:
    """Asks a server about requests of a user. The objects exist as long as the context."""

    def __init__(self, server: Server, client: Client) -> None:
        self._server, self._client = server, client

    def answers(self, cases: Sequence[Request]) -> list[str]:
        """Return the answer to each request."""
        client = self._client
        client.ensure_namespaces([NAMESPACE])
        made = [*client.apply([*DEFINITIONS, _rights()])]
        assert all(one.ok for one in made), made
        self._wait()
        existing = [case.old for case in cases if case.operation != "CREATE"]
        try:
            made = client.apply(existing)
            assert all(one.ok for one in made), [one.message for one in made if not one.ok]
            with self._server.installed([_policy(case, case_name(index)) for index, case in enumerate(cases)]):
                return [self._ask(case) for case in cases]
        finally:
            for body in (*existing, *DEFINITIONS, _rights()):
                client.request("DELETE", str(client.path(body)))

    def _wait(self) -> None:
        bodies = [one.old for one in requests(1, 60) if one.old["apiVersion"].startswith("differential.")]
        deadline = time.monotonic() + 60
        while not all(one.ok for one in self._client.apply_dry_run(bodies)):
            assert time.monotonic() < deadline, "the definitions are not served"
            time.sleep(0.2)

    def _ask(self, case: Request) -> str:
        path = str(self._client.path(case.new))
        query = "dryRun=All&fieldManager=test&force=true"
        if case.operation == "DELETE":
            answer = self._client.request("DELETE", f"{path}?dryRun=All", as_user=case.user)
        else:
            answer = self._client.request(
                "PATCH", f"{path}?{query}", case.new, content_type="application/apply-patch+yaml", as_user=case.user
            )
        told = " ".join((*answer.warnings, "" if answer.ok else str(answer.body.get("message"))))
        if "resulted in error" in told or "expression '" in told:
            return "error"
        assert answer.ok, told
        return "deny" if "V0V" in told else "pass"


def _rights() -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "differential-syncer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": one.user} for one in USERS],
    }


def compare_requests(server: Server, client: Client, cases: Sequence[Request]) -> Comparison:
    """Ask both about each request."""
    found = []
    for index, (case, theirs) in enumerate(zip(cases, Requests(server, client).answers(cases), strict=True)):
        ours = we_say(case, index)
        if ours != theirs:
            kind = FALSE_PASS if ours == "pass" else FALSE_REFUSAL if theirs == "pass" else OTHER_REASON
            found.append(Difference(kind=kind, what=case.words, theirs=theirs, ours=ours))
    return Comparison(cases=len(cases), differences=tuple(found))

"""Permissions of roles one by one, service accounts that lack one of them, and the request that needs it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.client.port import ApiResource, ClusterError, Discovery
from reconciler.kube.objects import ObjectKey
from reconciler.repo.config import Requester
from tests.cluster.client import Client
from tests.cluster.server import ApiServer, wait_until

Rule = dict[str, Any]
_SPECIMENS = Path(__file__).parents[2] / "cluster" / "specimens"
_FORBIDDEN = 403
_RBAC = "rbac.authorization.k8s.io"


class Permission(NamedTuple):
    """One verb on one resource. `resource` may name a subresource: `configsources/status`."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}.{self.group}".rstrip(".")


def permissions(rules: Iterable[Rule]) -> list[Permission]:
    """Return every permission that rules grant."""
    return [
        Permission(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def without(rules: Iterable[Rule], gone: Permission) -> list[Rule]:
    """Return the rules with one permission taken away."""
    left = []
    for rule in rules:
        if gone not in permissions([rule]):
            left.append(rule)
            continue
        others = [name for name in rule["resources"] if name != gone.resource]
        verbs = [verb for verb in rule["verbs"] if verb != gone.verb]
        left += [{**rule, "resources": others}] if others else []
        left += [{**rule, "resources": [gone.resource], "verbs": verbs}] if verbs else []
    return left


def account(namespace: str, name: str) -> str:
    """Return the user name of a service account, which need not exist to be impersonated."""
    return f"system:serviceaccount:{namespace}:{name}"


def are_in_force(client: Client, user: str, rules: Iterable[Rule], namespace: str) -> bool:
    """Tell whether the server grants rules to a user in a namespace: it follows new roles a moment later."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = client.request("POST", path, review, as_user=Requester(user=user))
    assert answer.ok, answer.body
    return all(rule in answer.body["status"]["resourceRules"] for rule in rules)


@contextmanager
def granted(client: Client, roles: Mapping[str, list[Rule]], namespace: str, within: str = "") -> Iterator[None]:
    """Grant rules to service accounts of `namespace` by their names: everywhere, or `within` a namespace."""
    kind, place = ("Role", {"namespace": within}) if within else ("ClusterRole", {})
    bodies: list[dict[str, Any]] = []
    for name, rules in roles.items():
        metadata = {"name": name, **place}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        head = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
        bodies += [
            {**head, "kind": kind, "rules": rules},
            {
                **head,
                "kind": f"{kind}Binding",
                "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
                "subjects": [subject],
            },
        ]
    results = client.apply(bodies)
    assert all(result.ok for result in results), [result.message for result in results if not result.ok]
    for name, rules in roles.items():
        in_force = partial(are_in_force, client, account(namespace, name), rules, within or namespace)
        wait_until(in_force, f"the role {name}")
    try:
        yield
    finally:
        for body in bodies:
            client.request("DELETE", client.path(body) or "")


@contextmanager
def acting_as(api_server: ApiServer, user: str) -> Iterator[KubernetesCluster]:
    """Open the API server as a user."""
    with KubernetesCluster(load_access({}, kubeconfig=str(api_server.kubeconfig), user=user)) as cluster:
        yield cluster


def is_refused(
    cluster: KubernetesCluster, needed: Permission, body: Mapping[str, Any], *, applies: bool = True, within: str = ""
) -> bool:
    """Send the request that needs a permission; return whether the server refuses it for want of just that one.

    Nothing is changed: writes are dry runs, and what is read or deleted does not exist. `applies` says that objects
    are created by server-side apply, `within` names the namespace of a Role.
    """
    try:
        _send(cluster, needed, body, applies=applies, within=within)
    except ClusterError as error:
        if error.status != _FORBIDDEN:
            return False
        resource = needed.resource.partition("/")[0]
        return f'cannot {needed.verb} resource "{needed.resource}"' in error.message and resource in error.message
    return False


def _send(
    cluster: KubernetesCluster, needed: Permission, body: Mapping[str, Any], *, applies: bool, within: str
) -> None:
    found = resource_of(cluster.discover(), needed)
    subresource = needed.resource.partition("/")[2]
    metadata = body["metadata"]
    key = ObjectKey(group=needed.group, kind=found.kind, namespace=metadata.get("namespace", ""), name=metadata["name"])
    absent = ObjectKey(group=key.group, kind=key.kind, namespace=key.namespace, name="absent")
    match needed.verb:
        case "list":
            list(cluster.list(found, namespace=within).objects)
        case "watch":
            with cluster.watch(found, "0", seconds=1):
                pass
        case "get":
            cluster.get(absent, subresource=subresource)
        case "delete":
            cluster.delete(absent, uid="absent", dry_run=True)
        case "create" if not applies:
            cluster.create(body, dry_run=True)
        case "create" | "patch":
            cluster.apply(body, dry_run=True, force=True, subresource=subresource)
        case "update":
            cluster.replace(body, dry_run=True, subresource=subresource)
        case other:
            raise ValueError(f"no request needs the verb {other}")


def resource_of(discovery: Discovery, needed: Permission) -> ApiResource:
    """Return what the server offers under the name that a rule has."""
    name = needed.resource.partition("/")[0]
    return next(row for row in discovery.resources if (row.group, row.plural) == (needed.group, name))


def specimens() -> dict[tuple[str, str], dict[str, Any]]:
    """Return a valid object of every kind for which there is one, by group and kind."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in (*sorted(_SPECIMENS.glob("*.yaml")), Path(__file__).with_name("specimens.yaml")):
        for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            group, _, _ = body["apiVersion"].rpartition("/")
            if "roleRef" in body:  # of a role that exists, and whose permissions everybody has
                body["roleRef"] |= {"kind": "ClusterRole", "name": "system:basic-user"}
            if body["kind"] == "StorageClass":  # others use the name of the specimen, and its fields cannot change
                body["metadata"]["name"] = "permissions"
            found.setdefault((group, body["kind"]), body)
    return found

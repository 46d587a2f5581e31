"""The service account of the chart, installed for real: its token, its permissions, and what it asked for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import AUDIT_LOG, ApiServer, wait_until
from tests.live.chart.audited import Request, requests
from tests.live.chart.permissions import Permission, account, are_in_force, permissions

_KINDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_BY_DEFAULT = {"authorization.k8s.io", "authentication.k8s.io"}
"""API groups of reviews about oneself, which everybody may ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A release: `kubeconfig` acts as its service account."""

    server: ApiServer
    namespace: str
    name: str
    kubeconfig: Path
    bodies: list[dict[str, Any]]

    def granted(self, namespace: str = "") -> set[Permission]:
        """Return what its roles grant: in the whole cluster, or in one namespace."""
        kind = "Role" if namespace else "ClusterRole"
        roles = (body for body in self.bodies if body["kind"] == kind)
        return {
            one
            for role in roles
            if role["metadata"].get("namespace", "") == namespace
            for one in permissions(role["rules"])
        }

    def asked(self) -> list[Request]:
        """Return what it asked of the server until now."""
        found = requests(self.server.logs / AUDIT_LOG, account(self.namespace, self.name))
        return [one for one in found if one.needs[0].group not in _BY_DEFAULT]

    def used(self) -> set[Permission]:
        """Return the permissions that it used."""
        return {needed for one in self.asked() for needed in one.needs}


@contextmanager
def installed(server: ApiServer, bodies: list[dict[str, Any]], folder: Path) -> Iterator[Installed]:
    """Create the service account with its roles, wait until they are in force, and remove them again."""
    wanted = [body for body in bodies if body["kind"] in _KINDS]
    assert_all_accepted(server.client.apply(wanted))
    (metadata,) = (body["metadata"] for body in wanted if body["kind"] == "ServiceAccount")
    namespace, name = metadata["namespace"], metadata["name"]
    for body in wanted:
        if "rules" in body:
            place = body["metadata"].get("namespace", namespace)
            in_force = partial(are_in_force, server.client, account(namespace, name), body["rules"], place)
            wait_until(in_force, f"the role {body['metadata']['name']}")
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = server.client.request("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
    assert answer.ok, answer.body
    kubeconfig = folder / f"{name}.kubeconfig"
    config = yaml.safe_load(server.kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": "admin", "user": {"token": answer.body["status"]["token"]}}]
    kubeconfig.write_text(json.dumps(config), encoding="utf-8")
    try:
        yield Installed(server=server, namespace=namespace, name=name, kubeconfig=kubeconfig, bodies=wanted)
    finally:
        for body in wanted:
            server.client.request("DELETE", server.client.path(body) or "")

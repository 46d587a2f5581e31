"""Discovery: which kinds a server offers, and the groups about which it could not say.

One request for the core and one for all groups (aggregated discovery); older servers are asked group by group.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.kube.client.port import ApiResource, ClusterError, Discovery
from reconciler.kube.client.transport import ApiCall

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
Fetch = Callable[[ApiCall], Any]


def discover(fetch: Fetch) -> Discovery:
    """Ask the server what it offers."""
    resources: list[ApiResource] = []
    failed: dict[str, str] = {}
    for path in ("/api", "/apis"):
        call = ApiCall(purpose="discover kinds", method="GET", path=path, accept=_AGGREGATED, is_repeatable=True)
        body = fetch(call)
        if body.get("kind") == "APIGroupDiscoveryList":
            for group in body.get("items") or ():
                _aggregated(group, resources, failed)
        else:
            _one_by_one(fetch, path, body, resources, failed)
    return Discovery(resources=tuple(resources), failed=failed)


def _aggregated(group: Mapping[str, Any], resources: list[ApiResource], failed: dict[str, str]) -> None:
    name = (group.get("metadata") or {}).get("name") or ""
    for version in group.get("versions") or ():
        if version.get("freshness") == "Stale":
            failed[name] = "its API service does not answer"
        for row in version.get("resources") or ():
            kind = row.get("responseKind") or {}
            resources.append(
                ApiResource(
                    group=name,
                    version=version["version"],
                    kind=kind.get("kind") or "",
                    plural=row["resource"],
                    namespaced=row.get("scope") == "Namespaced",
                    verbs=frozenset(row.get("verbs") or ()),
                )
            )


def _one_by_one(
    fetch: Fetch, path: str, body: Mapping[str, Any], resources: list[ApiResource], failed: dict[str, str]
) -> None:
    for group, version in _versions(body):
        where = f"{path}/{group}/{version}" if group else f"{path}/{version}"
        try:
            found = fetch(ApiCall(purpose=f"discover {where}", method="GET", path=where))
        except ClusterError as error:
            failed[group] = error.message
            continue
        resources += [
            ApiResource(
                group=group,
                version=version,
                kind=row["kind"],
                plural=row["name"],
                namespaced=bool(row.get("namespaced")),
                verbs=frozenset(row.get("verbs") or ()),
            )
            for row in found.get("resources") or ()
            if "/" not in row["name"]  # a subresource
        ]


def _versions(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the groups and versions of an answer, the preferred version of a group first."""
    for version in body.get("versions") or ():  # of the core
        yield "", version
    for group in body.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions = [row["version"] for row in group.get("versions") or ()]
        yield from ((group["name"], version) for version in sorted(versions, key=lambda one: one != preferred))

"""`ServerView`: what is known offline of the API server that will judge the same objects."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.cel import LiveMap
from reconciler.kube.objects import split_api_version
from reconciler.kube.schemas.sources import Served
from reconciler.repo.config import Requester

_OWN_GROUP, _PLAN = "gpureconciler.io", "Plan"
_PLANS = Served(versions=("v1alpha1",), namespaced=False, plural="plans")
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATED = "system:authenticated"


def unchanged(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object as it is written."""
    return body


def _unknown(_: str, __: str) -> None:
    return None


class ServerView(Struct, frozen=True, kw_only=True, eq=False):
    """Kinds as a server serves them, by group and kind; its objects as admission sees them; who applies objects.

    stored: returns an object with defaults and canonical values. served: None for an unknown kind; without versions if
    they are unknown.
    requesters: by cluster; a cluster without one has an unknown user.
    """

    stored: Callable[[Mapping[str, Any]], Mapping[str, Any]] = unchanged
    served: Callable[[str, str], Served | None] = _unknown
    requesters: Mapping[str, Requester] = {}

    def resource(self, group: str, kind: str) -> Served | None:
        """Return the served form of a kind. Plans are known to policies alone."""
        return _PLANS if (group, kind) == (_OWN_GROUP, _PLAN) else self.served(group, kind)

    def converted(self, body: Mapping[str, Any], version: str) -> Mapping[str, Any]:
        """Return an object as it is stored, in a version of its kind. Of some kinds only metadata stays the same."""
        found = self.stored(body)
        (group, own), kind = split_api_version(body["apiVersion"]), body["kind"]
        served = self.resource(group, kind)
        if version == own:
            return found
        named = {**found, "apiVersion": f"{group}/{version}"}
        if served is not None and served.is_renamed:
            return named
        metadata = LiveMap(found["metadata"], {"annotations": "object.metadata.annotations"})
        unknown = {name: f"object.{name}" for name in (*found, "spec", "status", "data")}
        known = {"apiVersion": named["apiVersion"], "kind": kind, "metadata": metadata}
        return LiveMap(known, {name: full for name, full in unknown.items() if name not in known})

    def user_info(self, cluster: str) -> dict[str, Any] | None:
        """Return `request.userInfo` as far as it can be known, with the groups that every server adds."""
        requester = self.requesters.get(cluster)
        if requester is None:
            return None
        groups = [*requester.groups]
        if requester.user.startswith(_ACCOUNT):
            namespace = requester.user.removeprefix(_ACCOUNT).partition(":")[0]
            groups += ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return {"username": requester.user, "groups": list(dict.fromkeys([*groups, _AUTHENTICATED]))}

"""What `observe` reads of the definitions and versions of a cluster, from any answers of a server."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.kube.client.port import ApiResource, Body, ClusterError, Listing, UnknownKind
from reconciler.live.observe.definitions import ObservedDefinitions, observe_definitions
from reconciler.repo.evidence.definitions import ClusterDefinitions
from tests.repo.test_definitions import WIDGETS


class Server:
    """A server with these definitions and Deployments. It counts the definitions that were read whole."""

    server = "https://example.com"

    def __init__(self, *definitions: Body, images: tuple[str, ...] = (), forbidden: tuple[str, ...] = ()) -> None:
        self._bodies: dict[str, list[Body]] = {
            "CustomResourceDefinition": list(definitions),
            "Deployment": [{"spec": {"template": {"spec": {"containers": [{"image": image}]}}}} for image in images],
        }
        self._forbidden = forbidden
        self.whole = 0

    def version(self) -> str:
        return "v1.37.2-gke.100"

    def resource(self, group: str, kind: str, version: str = "") -> ApiResource:
        if not self._bodies[kind]:
            raise UnknownKind(f"no {kind}")
        return ApiResource(group=group, version=version or "v1", kind=kind, plural=kind, namespaced=False)

    def list(self, resource: ApiResource, *, fields: str = "", metadata_only: bool = False, **_: Any) -> Listing:
        if resource.kind in self._forbidden:
            raise ClusterError(f"cannot list {resource.kind}", status=403)
        return Listing(resource_version="1", objects=self._objects(resource.kind, fields, metadata_only))

    def _objects(self, kind: str, fields: str, metadata_only: bool) -> Iterator[Body]:
        for body in self._bodies[kind]:
            if fields in ("", f"metadata.name={body.get('metadata', {}).get('name')}"):
                self.whole += not metadata_only and kind != "Deployment"
                yield {"metadata": body["metadata"]} if metadata_only else body


def definition(group: str, kind: str, label: str = "") -> Body:
    made = copy.deepcopy(WIDGETS)
    made["metadata"] = {"name": f"{kind.lower()}s.{group}"}
    if label:
        made["metadata"]["labels"] = {"app.kubernetes.io/version": label}
    made["spec"] |= {"group": group, "names": {"kind": kind, "plural": f"{kind.lower()}s"}}
    return made


def observed(server: Server, *groups: str, known: ClusterDefinitions | None = None) -> ObservedDefinitions:
    return observe_definitions(server, groups, known)  # type: ignore[arg-type]  # no more of a cluster is used


def test_only_definitions_of_these_groups_are_read() -> None:
    server = Server(definition("ray.io", "RayJob"), definition("example.com", "Widget"), definition("a.b", "C"))
    found = observed(server, "ray.io", "example.com", "absent.example.com")
    assert [*found.kinds] == [("example.com", "Widget"), ("ray.io", "RayJob")]
    assert (server.whole, found.failure) == (2, "")
    again = ClusterDefinitions(cluster="a", taken_at="", kinds=found.kinds)
    assert observed(server, "ray.io", "example.com", known=again) == found


@pytest.mark.parametrize(
    ("images", "label", "expected"),
    [
        (("registry.k8s.io/kueue/kueue:v0.19.1",), "", {"kueue": "0.19.1"}),
        (("mirror.example.com:5000/kueue/kueue:v0.18.0@sha256:0f",), "", {"kueue": "0.18.0"}),
        (("registry.k8s.io/kueue/kueue:v0.19.1", "registry.k8s.io/kueue/kueue:v0.18.0"), "", {}),
        (("registry.k8s.io/kueue/kueue@sha256:0f", "registry.k8s.io/kueue/kueue:main", "kueue"), "", {}),
        (("quay.io/kuberay/operator:v1.6.2", "example.com/other/operator:v9.9.9"), "", {"kuberay": "1.6.2"}),
        ((), "v0.19.1", {"kueue": "0.19.1"}),
        ((), "devel", {}),
        (("registry.k8s.io/kueue/kueue:v0.19.2",), "v0.19.1", {"kueue": "0.19.2"}),
    ],
)
def test_versions_are_told_by_images_or_labels(images: tuple[str, ...], label: str, expected: dict[str, str]) -> None:
    found = observed(Server(definition("kueue.x-k8s.io", "Cohort", label), images=images), "kueue.x-k8s.io")
    assert found.versions == {"kubernetes": "1.37.2-gke.100", **expected}


def test_what_cannot_be_read_is_a_failure_and_deployments_are_optional() -> None:
    kueue = definition("kueue.x-k8s.io", "Cohort", "v0.19.1")
    closed = Server(kueue, images=("registry.k8s.io/kueue/kueue:v0.19.2",), forbidden=("Deployment",))
    assert observed(closed, "kueue.x-k8s.io").versions["kueue"] == "0.19.1"
    failed = observed(Server(kueue, forbidden=("CustomResourceDefinition",)), "kueue.x-k8s.io")
    assert (failed.failure, failed.kinds) == ("cannot list CustomResourceDefinition", {})
    assert observed(Server(), "kueue.x-k8s.io").kinds == {}

"""JobSets: what their webhook and the rules of their definition refuse to change."""

from typing import Any

import pytest

from reconciler import resources
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.schemas import Catalogue
from reconciler.plan.comparison import compare

CATALOGUE = Catalogue(resources)
KEY = ObjectKey(group="jobset.x-k8s.io", kind="JobSet", namespace="a", name="train")


def job_set(network: dict[str, Any] | None) -> dict[str, Any]:
    written = {} if network is None else {"network": network}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "a"},
        "spec": {**written, "replicatedJobs": []},
    }


@pytest.mark.parametrize(
    ("before", "after", "is_frozen"),
    [
        ({"subdomain": "a"}, {"subdomain": "a", "publishNotReadyAddresses": True}, False),
        ({"subdomain": "a"}, {"subdomain": "a", "enableDNSHostnames": True}, False),
        ({"subdomain": "a"}, {"subdomain": "a", "publishNotReadyAddresses": False}, True),
        ({"subdomain": "a", "enableDNSHostnames": True}, {"subdomain": "a"}, True),
        ({"subdomain": "a"}, {"subdomain": "b"}, True),
        ({"subdomain": "a"}, None, False),
        (None, {"enableDNSHostnames": True, "publishNotReadyAddresses": True}, False),
        (None, {"enableDNSHostnames": False}, True),
    ],
)
def test_the_network_is_compared_with_what_the_webhook_made_of_it(
    before: dict[str, Any] | None, after: dict[str, Any] | None, is_frozen: bool
) -> None:
    manifest = Manifest(cluster="main", key=KEY, body=job_set(after), source=SourceRef(path="a.yaml"))
    assert bool(compare(BUILT_IN, CATALOGUE, job_set(before), manifest).frozen) is is_frozen

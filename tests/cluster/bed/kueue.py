"""Objects of Kueue: quotas, and how jobs get to them."""

from tests.cluster.bed.bed import Body


def cluster_queue(name: str, gpus: int, *, flavor: str, cohort: str = "") -> Body:
    """Return a ClusterQueue of `gpus` GPUs of one flavor, open to every namespace; other resources do not count."""
    resource = {"name": "nvidia.com/gpu", "nominalQuota": str(gpus)}
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": flavor, "resources": [resource]}]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **({"cohort": cohort} if cohort else {})},
    }


def flavor(name: str, **labels: str) -> Body:
    """Return a ResourceFlavor of nodes with labels."""
    spec = {"nodeLabels": labels} if labels else {}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": spec,
    }


def local_queue(name: str, namespace: str, cluster_queue: str) -> Body:
    """Return the LocalQueue through which jobs of a namespace use a ClusterQueue."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": cluster_queue},
    }

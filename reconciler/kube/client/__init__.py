"""Live clusters: the API server of a kubeconfig context, or of the cluster that this process runs in."""

from reconciler.kube.client.access import Access, has_kubeconfig, load_access
from reconciler.kube.client.cluster import KubernetesCluster

__all__ = ["Access", "KubernetesCluster", "has_kubeconfig", "load_access"]

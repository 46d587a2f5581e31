"""Live clusters: the API server of a kubeconfig context, or of the cluster that this process runs in."""

from reconciler.adapters.kubernetes.access import Access, has_kubeconfig, load_access
from reconciler.adapters.kubernetes.cluster import KubernetesCluster

__all__ = ["Access", "KubernetesCluster", "has_kubeconfig", "load_access"]

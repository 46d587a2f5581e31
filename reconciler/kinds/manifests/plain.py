"""Plain Kubernetes objects among the sources: rendered as they are written, without what only servers write."""

from msgspec.structs import replace

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.yaml import Document
from reconciler.repo.config import Cluster

# Written by servers, never by people: in Git they would only clutter every diff.
_SERVER_FIELDS = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


def render_plain(document: Document, cluster: Cluster, *, namespaced: bool) -> Manifest:
    """Render `document` for `cluster`; a namespaced object without a namespace gets the cluster's default.

    A cluster-scoped object loses its namespace, as it would on the server.
    """
    metadata = {name: value for name, value in document.metadata.items() if name not in _SERVER_FIELDS}
    reasons: dict[FieldPath, Reason] = {(): Reason(rule="source", origins=(Origin(document=document),), copied=True)}
    if namespaced and not metadata.get("namespace"):
        metadata["namespace"] = cluster.namespace
        text = f"the document has no namespace; the default of {cluster.name} is {cluster.namespace}"
        reasons["metadata", "namespace"] = Reason(
            rule="namespace.default", text=text, origins=(Origin(document=document, field=("metadata",)),)
        )
    if not namespaced:
        metadata.pop("namespace", None)
    body = {name: value for name, value in document.data.items() if name != "status"} | {"metadata": metadata}
    key = replace(document.key, namespace=metadata.get("namespace", ""))
    return Manifest(cluster=cluster.name, key=key, body=body, source=document.source, reasons=reasons)

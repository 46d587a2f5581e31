"""Operators with webhooks that run outside the cluster: the API server reaches them through a Service that is localhost."""

import base64
from pathlib import Path

from tests.cluster import shared
from tests.cluster.bed.bed import Bed, Body
from tests.cluster.server import wait_until

SERVING = Path("k8s-webhook-server/serving-certs")
"""Where operators look for their certificate, below the folder for temporary files."""
_WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
_KEPT = {"CustomResourceDefinition", "Namespace", "Secret", *_WEBHOOKS}


def outside(objects: list[Body], port: int, *, without: frozenset[str] = frozenset()) -> list[Body]:
    """Return what is left of an installation whose operator runs on this machine and listens on `port`.

    `without` names webhooks to leave out, such as `mpod.kb.io`.
    """
    kept = [_adapted(body, port, without) for body in objects if body["kind"] in _KEPT]
    services = {
        (client["service"]["namespace"], client["service"]["name"]) for body in kept for client in _clients(body)
    }
    external = {"type": "ExternalName", "externalName": "localhost"}
    return [
        *sorted(kept, key=lambda body: body["kind"] != "Namespace"),
        *(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": namespace},
                "spec": external,
            }
            for namespace, name in sorted(services)
        ),
    ]


def hand_over(bed: Bed, namespace: str, secret: str, folder: Path, check: shared.Check) -> None:
    """Write the certificate that an operator made for itself where it looks for it, as a mounted Secret would."""
    path = f"/api/v1/namespaces/{namespace}/secrets/{secret}"
    wait_until(lambda: "tls.crt" in ((bed.find(path) or {}).get("data") or {}), f"certificate {secret}", check=check)
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in bed.get(path)["data"].items():
        (folder / name).write_bytes(base64.b64decode(value))


def _adapted(body: Body, port: int, without: frozenset[str]) -> Body:
    if body["kind"] in _WEBHOOKS:
        body = {**body, "webhooks": [webhook for webhook in body["webhooks"] if webhook["name"] not in without]}
    for client in _clients(body):
        client["service"]["port"] = port
    return body


def _clients(body: Body) -> list[Body]:
    """Return the `clientConfig`s of an object."""
    if body["kind"] in _WEBHOOKS:
        return [webhook["clientConfig"] for webhook in body["webhooks"]]
    conversion = body.get("spec", {}).get("conversion", {}) if body["kind"] == "CustomResourceDefinition" else {}
    return [conversion["webhook"]["clientConfig"]] if "webhook" in conversion else []

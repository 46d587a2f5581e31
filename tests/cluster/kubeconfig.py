"""Kubeconfig files: ours are written, the user's are read as far as a test cluster (kind, k3d) needs it."""

import base64
import json
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.client import Endpoint
from tests.cluster.store import PartsUnavailableError


def text(server: str, certificate: bytes, token: str) -> str:
    """Return a kubeconfig (as JSON, which is YAML) for one server and one token."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(certificate).decode()}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
    }
    return json.dumps(body, indent=2)


def with_contexts(path: Path, names: Sequence[str]) -> str:
    """Return a kubeconfig whose contexts `names` all are the current one of a file; the first is the current one."""
    body = yaml.safe_load(path.read_text(encoding="utf-8"))
    context = _named(body["contexts"], body["current-context"])["context"]
    contexts = [{"name": name, "context": context} for name in names]
    return json.dumps({**body, "current-context": names[0], "contexts": contexts}, indent=2)


def clusters(paths: Mapping[str, Path]) -> str:
    """Return a kubeconfig with one context for each name, the current one of its file; the first is the current one."""
    parts: dict[str, list[Any]] = {"contexts": [], "clusters": [], "users": []}
    for name, path in paths.items():
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _named(body["contexts"], body["current-context"])["context"]
        parts["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
        for key in ("cluster", "user"):
            parts[f"{key}s"].append({**_named(body[f"{key}s"], context[key]), "name": name})
    return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": next(iter(paths)), **parts}, indent=2)


def endpoint(path: Path) -> Endpoint:
    """Read the current context of a kubeconfig; tokens and client certificates are understood, plugins are not."""
    body = yaml.safe_load(path.read_text(encoding="utf-8"))
    context = _named(body["contexts"], body["current-context"])["context"]
    cluster = _named(body["clusters"], context["cluster"])["cluster"]
    user = _named(body["users"], context["user"])["user"]
    if not ({"token", "client-certificate", "client-certificate-data"} & user.keys()):
        raise PartsUnavailableError(f"{path}: only tokens and client certificates are understood for test clusters")
    authority = _bytes(cluster, "certificate-authority", path)
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _bytes(user, "client-certificate", path), _bytes(user, "client-key", path)
    if certificate and key:
        with tempfile.NamedTemporaryFile() as both:  # ssl reads certificates from files only
            both.write(certificate + b"\n" + key)
            both.flush()
            tls.load_cert_chain(both.name)
    return Endpoint(server=cluster["server"].rstrip("/"), context=tls, token=user.get("token", ""))


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _bytes(holder: dict[str, Any], key: str, path: Path) -> bytes:
    """Return what `KEY-data` holds, or the file that `KEY` names (relative to the kubeconfig)."""
    if f"{key}-data" in holder:
        return base64.b64decode(holder[f"{key}-data"])
    return (path.parent / holder[key]).read_bytes() if key in holder else b""

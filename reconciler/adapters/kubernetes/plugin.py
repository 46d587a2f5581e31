"""Exec plugins of kubeconfigs: programs that print credentials (client.authentication.k8s.io).

A plugin runs with the environment of the user, without a terminal, and for a minute at most. What it prints is never
shown, except for the last line of its messages, with secrets masked.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from reconciler.core.secrets import mask_text
from reconciler.core.values import NOT_JSON
from reconciler.errors import one_line
from reconciler.ports.cluster import ClusterUnavailable

_SECONDS = 60
_EXTENSION = "client.authentication.k8s.io/exec"


class Credential(Struct, frozen=True, rename="camel"):
    """What a plugin printed: a token, or a client certificate with its key."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _Printed(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: Credential = field(default_factory=Credential)


def run_plugin(exec_config: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path) -> Credential:
    """Run the plugin of a kubeconfig. A relative path is below the folder of the kubeconfig."""
    command = str(exec_config.get("command") or "")
    name = one_line(command)
    program = str(folder / command) if os.sep in command else command
    arguments = [str(argument) for argument in exec_config.get("args") or ()]
    environ = {**os.environ, "KUBERNETES_EXEC_INFO": _request(exec_config, cluster)}
    environ |= {str(row["name"]): str(row.get("value") or "") for row in exec_config.get("env") or ()}
    try:
        ran = subprocess.run(
            [program, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _failed(name, f"did not exit within {_SECONDS} s") from None
    except OSError as error:
        hint = one_line(exec_config.get("installHint") or "install it, or choose another context")
        raise _failed(name, f"cannot be started: {error.strerror}", hint) from None
    if ran.returncode:
        lines = ran.stderr.decode(errors="replace").strip().splitlines()
        reason = f": {one_line(mask_text(lines[-1]))}" if lines else ""
        raise _failed(name, f"failed with exit code {ran.returncode}{reason}")
    return _read(name, str(exec_config.get("apiVersion") or ""), ran.stdout)


def _request(exec_config: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    """Return what the plugin is told: the version of its answer, and the cluster if the kubeconfig says so."""
    spec: dict[str, Any] = {"interactive": False}
    if exec_config.get("provideClusterInfo"):
        shown = {key: value for key, value in cluster.items() if key != "extensions"}
        extensions = {row.get("name"): row.get("extension") for row in cluster.get("extensions") or ()}
        spec["cluster"] = {**shown, "config": extensions.get(_EXTENSION)}
    return json.dumps({"apiVersion": exec_config.get("apiVersion"), "kind": "ExecCredential", "spec": spec})


def _read(name: str, version: str, printed: bytes) -> Credential:
    try:
        answer = msgspec.json.decode(printed, type=_Printed)
    except NOT_JSON:
        raise _failed(name, "printed no ExecCredential") from None
    if answer.kind != "ExecCredential" or answer.api_version != version:
        shown = one_line(mask_text(f"{answer.kind} of {answer.api_version}"), 100)
        raise _failed(name, f"printed {shown} instead of ExecCredential of {version}")
    status = answer.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise _failed(name, "printed neither a token nor a certificate with its key")
    return status


def _failed(name: str, what: str, hint: str = "run it by hand to see why") -> ClusterUnavailable:
    return ClusterUnavailable(f"the credential plugin {name} {what}", hint=hint)

"""A real Kubernetes API server on loopback, with the CRDs that rendered objects use: etcd and kube-apiserver."""

import base64
import hashlib
import json
import os
import secrets
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.cluster import certificates, kubeconfig, shared
from tests.cluster.client import Client, Endpoint
from tests.cluster.parts import ControlPlane
from tests.cluster.store import Say, cache_folder, made_once

AUDIT_LOG = "requests.jsonl"
"""The requests of service accounts, one event a line, beside the logs of the API server."""

CERTIFIED_USER = "certified"
"""Whom `client.crt` and `client.key`, beside the logs of the API server, let in."""

_FEATURES = (
    "CompositePodGroup",
    "EmptyDirVolumeMode",
    "GenericWorkload",
    "PodGroupPreemptionPolicy",
    "TopologyAwareWorkloadScheduling",
)
_AUDIT_POLICY = Path(__file__).with_name("audit-policy.yaml")
_READY_SECONDS = 120.0
_FIRST_POLL_SECONDS, _POLL_SECONDS = 0.01, 0.1
_NAMES = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_BUSY = HTTPStatus.TOO_MANY_REQUESTS
# RFC 5915 without the optional public key, on the curve prime256v1: what stands before and after 32 random bytes.
_EC_KEY_HEAD, _EC_KEY_TAIL = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """A running API server: `client` talks to it, `kubeconfig` lets anything else in, `logs` holds its logs."""

    client: Client
    kubeconfig: Path
    logs: Path

    @property
    def apply_dry_run(self) -> Callable[..., Any]:
        """See `Client.apply_dry_run`."""
        return self.client.apply_dry_run

    def openapi(self) -> dict[str, dict[str, Any]]:
        """Return the OpenAPI v3 document of every group-version by its path, such as `apis/batch/v1`.

        The server publishes those of CRDs a little after it serves them: waits until all are there.
        """
        served = {
            f"apis/{group['name']}/{version['version']}"
            for group in self.client.get("/apis")["groups"]
            for version in group["versions"]
        }
        wait_until(lambda: served <= self.client.get("/openapi/v3")["paths"].keys(), "all OpenAPI documents")
        entries = self.client.get("/openapi/v3")["paths"]
        paths = [path for path in entries if path == "api/v1" or path.count("/") == 2]
        with ThreadPoolExecutor(4) as pool:
            return dict(zip(paths, pool.map(self.document, paths), strict=True))

    def document(self, path: str) -> dict[str, Any]:
        """Return one OpenAPI v3 document, such as `apis/batch/v1`.

        Not by the URL of the index: it holds a digest of the content, which may change until the document is asked for.
        """
        found: dict[str, Any] = self.client.get(f"/openapi/v3/{path}")
        return found


@contextmanager
def api_server(folder: Path, programs: ControlPlane, crds: Path, *, seed: Path | None = None) -> Iterator[ApiServer]:
    """Run (or join) the API server of `folder`, with all CRDs established; `seed` is a stored state to begin with."""
    launch = _Launch(folder, programs, crds, seed)
    path = folder / "kubeconfig"
    with shared.running(folder, launch.plan, launch.ready), Client(kubeconfig.endpoint(path)) as client:
        yield ApiServer(client=client, kubeconfig=path, logs=folder)


@contextmanager
def existing_cluster(path: Path, crds: Path, logs: Path) -> Iterator[ApiServer]:
    """Use the cluster of a kubeconfig that the user named for tests; CRDs that it lacks are installed there."""
    with Client(kubeconfig.endpoint(path)) as client:
        install_crds(client, crds)
        yield ApiServer(client=client, kubeconfig=path, logs=logs)


def stored_state(programs: ControlPlane, crds: Path, say: Say) -> Path:
    """Return a data folder of etcd with the CRDs in it: the API server starts on it in a third of the time."""
    program = programs.apiserver.resolve()
    identity = f"{program} {program.stat().st_size} {program.stat().st_mtime_ns} {crds.name}"
    name = f"state-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"

    def make(scratch: Path) -> None:
        say("storing the state of an API server that has all CRDs …")
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "api-server"
            with api_server(place, programs, crds) as running:
                running.openapi()
            shared.wait_stopped(place)
            (data,) = place.glob("etcd-*")
            shutil.copytree(data, scratch, dirs_exist_ok=True)

    return made_once(cache_folder() / name, make, say)


def install_crds(client: Client, folder: Path) -> None:
    """Create the CRDs that are not there and wait until the server serves all of them."""
    bodies = {body["metadata"]["name"]: body for body in map(_load, sorted(folder.glob("*.json")))}
    missing = [body for body in bodies.values() if not _is_discovered(client, body)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda body: client.request("POST", _CRD_PATH, body), missing))
    for body, answer in zip(missing, answers, strict=True):
        if not answer.ok and answer.status != HTTPStatus.CONFLICT:
            raise shared.StartError(f"CRD {body['metadata']['name']}: {answer.body.get('message')}")
    wait_until(lambda: all(_is_discovered(client, body) for body in missing), "CRDs in discovery")
    left = [path for body in bodies.values() for path in _collections(body)]

    def are_listed() -> bool:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda path: client.request("GET", f"{path}?limit=1"), left))
        left[:] = [path for path, answer in zip(left, answers, strict=True) if answer.status == _BUSY]
        return not left

    # The first list of a kind makes its cache and is told to come again after a second, which clients then wait.
    wait_until(are_listed, "lists of the CRDs")


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    check: Callable[[], None] = lambda: None,
    seconds: float = _READY_SECONDS,
    every: float = 0.0,
) -> None:
    """Poll until `condition` holds; raise `StartError` after `seconds`, or whatever `check` raises meanwhile.

    The pause grows to a tenth of a second, unless `every` says how long it is.
    """
    deadline = time.monotonic() + seconds
    pause = every or _FIRST_POLL_SECONDS
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise shared.StartError(f"not there after {seconds:.0f} s: {what}")
        time.sleep(pause)
        pause = every or min(pause * 1.5, _POLL_SECONDS)


def is_ready(client: Client) -> bool:
    """Whether an API server says that it is ready; while the machine is busy with others it may not answer at all."""
    try:
        return client.request("GET", "/readyz").status == HTTPStatus.OK
    except TimeoutError:
        return False


def free_port() -> int:
    """Return a TCP port of the loopback that nobody holds at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


_CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _is_discovered(client: Client, crd: Mapping[str, Any]) -> bool:
    """Whether discovery shows every served version of a CRD: it is established then."""
    spec = crd["spec"]
    versions = (version["name"] for version in spec["versions"] if version["served"])
    return all(client.resource(f"{spec['group']}/{name}", spec["names"]["kind"]) for name in versions)


def _collections(crd: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of all objects of a CRD, for every served version."""
    spec = crd["spec"]
    for version in spec["versions"]:
        if version["served"]:
            yield f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"


def _load(path: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(path.read_bytes())
    return body


class _Launch:
    """One start of etcd and kube-apiserver in a folder: which programs, and when they are ready."""

    def __init__(self, folder: Path, programs: ControlPlane, crds: Path, seed: Path | None) -> None:
        self._folder, self._programs, self._crds, self._seed = folder, programs, crds, seed
        self._port, self._token = 0, ""

    def plan(self) -> tuple[shared.Program, ...]:
        self._port, self._token = free_port(), secrets.token_hex(24)
        tokens, key = self._folder / "tokens.csv", self._folder / "service-account.key"
        _private(tokens, f'{self._token},admin,admin,"system:masters"\n')
        self._certificates.mkdir(exist_ok=True)
        certificates.self_signed(self._certificates / "apiserver", *_NAMES)
        signer = certificates.authority()
        (self._folder / "client-ca.crt").write_bytes(signer.pem)
        signer.client(self._folder, CERTIFIED_USER, "system:masters")
        encoded = base64.encodebytes(_EC_KEY_HEAD + secrets.token_bytes(32) + _EC_KEY_TAIL).decode()
        _private(key, f"-----BEGIN EC PRIVATE KEY-----\n{encoded}-----END EC PRIVATE KEY-----\n")
        client_url, peer_url = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        data = self._folder / f"etcd-{self._port}"
        if self._seed:
            shutil.copytree(self._seed, data)
            data.chmod(0o700)
        etcd = {
            "data-dir": str(data),
            "listen-client-urls": client_url,
            "advertise-client-urls": client_url,
            "listen-peer-urls": peer_url,
            "initial-advertise-peer-urls": peer_url,
            "initial-cluster": f"default={peer_url}",
            "force-new-cluster": "true" if self._seed else "false",  # the stored state knows other ports
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }
        apiserver = {
            "etcd-servers": client_url,
            "bind-address": "127.0.0.1",
            "secure-port": str(self._port),
            "cert-dir": str(self._certificates),
            "client-ca-file": str(self._folder / "client-ca.crt"),
            "token-auth-file": str(tokens),
            "authorization-mode": "RBAC",
            "service-account-key-file": str(key),
            "service-account-signing-key-file": str(key),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-cluster-ip-range": "10.0.0.0/24",
            "disable-admission-plugins": "ServiceAccount",
            "audit-policy-file": str(_AUDIT_POLICY),
            "audit-log-path": str(self._folder / AUDIT_LOG),
            "allow-privileged": "true",  # as kubeadm and kind set it: policies judge what the server would take
            # PodGroups and Workloads of Kubernetes itself are off unless asked for; they have no stable version yet.
            # A field whose feature is off is dropped, and what it says is not judged.
            "feature-gates": ",".join(f"{name}=true" for name in _FEATURES),
            "runtime-config": "scheduling.k8s.io/v1alpha3=true,scheduling.k8s.io/v1beta1=true",
        }
        return (
            shared.Program(name="etcd", argv=(str(self._programs.etcd), *_flags(etcd))),
            shared.Program(
                name="kube-apiserver", argv=(str(self._programs.apiserver), *_flags(apiserver)), is_killed=True
            ),
        )

    def ready(self, check: Callable[[], None]) -> None:
        certificate = self._certificates / "apiserver.crt"
        wait_until(lambda: listens(self._port), "the API server's port", check=check)
        server = f"https://127.0.0.1:{self._port}"
        _private(self._folder / "kubeconfig", kubeconfig.text(server, certificate.read_bytes(), self._token))
        context = ssl.create_default_context(cadata=certificate.read_text())
        with Client(Endpoint(server=server, context=context, token=self._token)) as client:
            wait_until(lambda: is_ready(client), "/readyz", check=check)
            install_crds(client, self._crds)

    @property
    def _certificates(self) -> Path:
        return self._folder / f"certificates-{self._port}"


def _flags(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"--{name}={value}" for name, value in values.items())


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _private(path: Path, text: str) -> None:
    """Write a file that only its owner reads: it holds a key or a token."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)

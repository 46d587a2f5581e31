"""F-133: client certificates, proxies and server names of a kubeconfig, on the real API server."""

import base64
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from reconciler.kube.client.port import ClusterError, ClusterUnavailable
from tests.cluster.certificates import authority
from tests.cluster.server import CERTIFIED_USER, ApiServer
from tests.live.cluster.proxy import tunnel
from tests.live.cluster.test_access import config, credential, plugin, token, whoami, written

__all__ = ["config", "token"]


@pytest.fixture
def certificate(api_server: ApiServer) -> tuple[Path, Path]:
    """Return the certificate that the server lets in, and its key."""
    path = api_server.logs / "client.crt"
    if not path.exists():
        pytest.skip("the cluster that the user named has its own authority")
    return path, path.with_suffix(".key")


def at(config: dict[str, Any], **cluster: str) -> dict[str, Any]:
    """Return a kubeconfig with other fields of the cluster."""
    known = config["clusters"][0]["cluster"]
    return {**config, "clusters": [{"name": "tests", "cluster": {**known, **cluster}}]}


@pytest.mark.parametrize("form", ["files", "data", "plugin"])
def test_client_certificate(config: dict[str, Any], certificate: tuple[Path, Path], tmp_path: Path, form: str) -> None:
    """From files beside the kubeconfig, from its data, and printed by a plugin."""
    (tmp_path / "me.crt").write_bytes(certificate[0].read_bytes())
    (tmp_path / "me.key").write_bytes(certificate[1].read_bytes())
    data = [base64.b64encode(path.read_bytes()).decode() for path in certificate]
    printed = credential(clientCertificateData=certificate[0].read_text(), clientKeyData=certificate[1].read_text())
    users: dict[str, dict[str, Any]] = {
        "files": {"client-certificate": "me.crt", "client-key": "me.key"},
        "data": dict(zip(("client-certificate-data", "client-key-data"), data, strict=True)),
        "plugin": {"exec": plugin(tmp_path, printed)},
    }
    seen = whoami({}, kubeconfig=written(tmp_path, config, **users[form]))
    assert (seen["username"], seen["groups"]) == (CERTIFIED_USER, ["system:masters", "system:authenticated"])


def test_a_certificate_of_another_authority_lets_nobody_in(config: dict[str, Any], tmp_path: Path) -> None:
    certificate, key = authority("other").client(tmp_path, CERTIFIED_USER, "system:masters")
    path = written(tmp_path, config, **{"client-certificate": certificate.name, "client-key": key.name})
    with pytest.raises(ClusterError, match=r"401 Unauthorized"):
        whoami({}, kubeconfig=path)


def test_requests_go_through_the_proxy(config: dict[str, Any], tmp_path: Path) -> None:
    """`proxy-url`: the proxy connects to the server, and sees nothing else of the requests."""
    server = config["clusters"][0]["cluster"]["server"].removeprefix("https://")
    with tunnel() as (url, targets):
        path = written(tmp_path, at(config, **{"proxy-url": url}))
        assert whoami({}, kubeconfig=path)["username"] == "admin"
    assert set(targets) == {f"CONNECT {server}"}


def test_a_proxy_that_speaks_tls(config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`proxy-url: https://...`: TLS to the proxy, whose certificate the system trusts, and inside it TLS to the server."""
    trusted = authority("proxies")
    (tmp_path / "trusted.pem").write_bytes(trusted.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*trusted.server(tmp_path, "127.0.0.1"))
    with tunnel(context) as (url, targets):
        path = written(tmp_path, at(config, **{"proxy-url": url}))
        assert whoami({}, kubeconfig=path)["username"] == "admin"
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(ClusterUnavailable, match="not trusted"):
            whoami({}, kubeconfig=path)
    assert len({*targets}) == 1


def test_a_proxy_that_is_not_there(config: dict[str, Any], tmp_path: Path) -> None:
    """No request goes around the proxy, and its password is not shown."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://user:canary-pr0xy@127.0.0.1:{nobody.getsockname()[1]}"
        path = written(tmp_path, at(config, **{"proxy-url": url}))
        with pytest.raises(ClusterUnavailable) as error:
            whoami({}, kubeconfig=path)
    assert "canary" not in f"{error.value}{error.value.hint}"
    assert not error.value.outcome_unknown


def test_server_name_of_the_certificate(config: dict[str, Any], tmp_path: Path) -> None:
    """`tls-server-name` is the name that the certificate has to hold, whatever the address."""
    right = written(tmp_path, at(config, **{"tls-server-name": "kubernetes.default.svc"}))
    assert whoami({}, kubeconfig=right)["username"] == "admin"
    wrong = written(tmp_path, at(config, **{"tls-server-name": "other.example.com"}))
    with pytest.raises(ClusterUnavailable, match=r"not trusted: .*other\.example\.com") as error:
        whoami({}, kubeconfig=wrong)
    assert "tls-server-name" in error.value.hint
    assert json.loads(Path(wrong).read_text())["clusters"][0]["cluster"]["server"] in str(error.value)

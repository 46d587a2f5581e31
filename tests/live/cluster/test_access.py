"""F-133: every way to find an API server and to be let in, on the real one."""

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import ConfigError, ReconcilerError
from reconciler.kube.client import KubernetesCluster, access, load_access
from reconciler.kube.client.port import ClusterError, ClusterUnavailable
from tests.cluster.server import ApiServer

CANARY = "canary-5f2d91c07ab3"


def whoami(environ: dict[str, str], **flags: Any) -> dict[str, Any]:
    """Return who the server sees."""
    with KubernetesCluster(load_access(environ, **flags), patience_seconds=1) as cluster:
        review = cluster.create({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    info: dict[str, Any] = review.body["status"]["userInfo"]
    return info


@pytest.fixture
def config(api_server: ApiServer) -> dict[str, Any]:
    """Return the kubeconfig of the test server."""
    content: dict[str, Any] = json.loads(api_server.kubeconfig.read_text())
    return content


@pytest.fixture
def token(config: dict[str, Any]) -> str:
    text: str = config["users"][0]["user"]["token"]
    return text


def written(folder: Path, config: dict[str, Any], **user: Any) -> str:
    """Write a kubeconfig whose user has these fields alone."""
    path = folder / f"kubeconfig-{len([*folder.iterdir()])}"
    users = [{"name": "admin", "user": user}] if user else config["users"]
    path.write_text(json.dumps({**config, "users": users}))
    return str(path)


def plugin(folder: Path, script: str) -> dict[str, Any]:
    """Write a plugin and return the `exec` of a user."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    path.chmod(stat.S_IRWXU)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "env": [{"name": "FROM", "value": "a"}],
    }


def credential(**status: str) -> str:
    body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(body)}\nEND"


def test_kubeconfig_and_context(config: dict[str, Any], tmp_path: Path) -> None:
    """The flag, the variable with several files of which the first wins, and a context of our choice."""
    other = {**config, "current-context": "none", "users": [{"name": "admin", "user": {"token": "wrong"}}]}
    first, second = written(tmp_path, config), written(tmp_path, other)
    assert whoami({}, kubeconfig=first)["username"] == "admin"
    assert whoami({"KUBECONFIG": os.pathsep.join([first, second, "/absent"])})["username"] == "admin"
    assert whoami({"KUBECONFIG": first}, context="tests")["groups"] == ["system:masters", "system:authenticated"]
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    (home / "config").write_text(Path(first).read_text())
    assert whoami({"HOME": str(home.parent)})["username"] == "admin"


def test_what_is_missing_is_named(config: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path, config)
    for flags, words in (
        ({"kubeconfig": "/absent"}, "--kubeconfig: /absent does not exist"),
        ({"kubeconfig": path, "context": "b"}, "has no context 'b'; contexts: tests"),
        ({"kubeconfig": path, "groups": ["a"]}, "--as-group: no user is named"),
        ({"kubeconfig": written(tmp_path, {**config, "clusters": []})}, "clusters"),
    ):
        with pytest.raises(ConfigError) as error:
            load_access({}, **flags)
        assert words in str(error.value)
    with pytest.raises(ConfigError, match=r"no cluster: .* and this is not a pod"):
        load_access({"HOME": str(tmp_path)})


def test_exec_plugin(config: dict[str, Any], token: str, tmp_path: Path) -> None:
    """A plugin beside the kubeconfig is run once; its environment names the format of its answer."""
    check = '[ "$FROM" = a ] || exit 3\ncase "$KUBERNETES_EXEC_INFO" in *ExecCredential*) ;; *) exit 4;; esac'
    path = written(tmp_path, config, exec=plugin(tmp_path, f"{check}\n{credential(token=token)}"))
    assert whoami({}, kubeconfig=path)["username"] == "admin"
    assert (tmp_path / "runs").read_text().split() == ["run"]


def test_an_expired_credential_is_renewed(config: dict[str, Any], token: str, tmp_path: Path) -> None:
    """The plugin runs again when its credential has expired."""
    path = written(
        tmp_path, config, exec=plugin(tmp_path, credential(token=token, expirationTimestamp="2020-01-01T00:00:00Z"))
    )
    assert whoami({}, kubeconfig=path)["username"] == "admin"
    assert len((tmp_path / "runs").read_text().split()) > 1


def test_a_refused_credential_is_renewed_once(config: dict[str, Any], token: str, tmp_path: Path) -> None:
    """401: the credential is loaded again, and the request is sent again; a second 401 is the answer."""
    flip = f"[ $(wc -l < {tmp_path}/runs) -gt 1 ] || {{ {credential(token='old')}\nexit; }}\n{credential(token=token)}"
    path = written(tmp_path, config, exec=plugin(tmp_path, flip))
    assert whoami({}, kubeconfig=path)["username"] == "admin"
    with pytest.raises(ClusterError, match="401 Unauthorized") as error:
        whoami({}, kubeconfig=written(tmp_path, config, token="wrong"))
    assert "check the credentials" in error.value.hint


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (f"echo 'login failed, token={CANARY}' >&2; exit 1", "failed with exit code 1: login failed"),
        (f"echo {CANARY}", "printed no ExecCredential"),
        ('echo \'{"apiVersion": "v1", "kind": "Pod"}\'', "printed Pod of v1 instead"),
        (credential(), "printed neither a token nor a certificate"),
    ],
)
def test_a_plugin_that_fails_is_an_error(config: dict[str, Any], tmp_path: Path, script: str, words: str) -> None:
    """Never a request without credentials, and never a secret in the message."""
    with pytest.raises(ClusterUnavailable) as error:
        load_access({}, kubeconfig=written(tmp_path, config, exec=plugin(tmp_path, script)))
    assert words in str(error.value)
    assert CANARY not in str(error.value)


def test_a_plugin_that_is_not_installed(config: dict[str, Any], tmp_path: Path) -> None:
    row = {"apiVersion": "client.authentication.k8s.io/v1", "command": "absent-plugin", "installHint": "pip install it"}
    with pytest.raises(ClusterUnavailable, match=r"absent-plugin cannot be started: No such file.*; pip install it"):
        load_access({}, kubeconfig=written(tmp_path, config, exec=row))


def test_a_certificate_of_a_plugin(config: dict[str, Any], tmp_path: Path) -> None:
    """A plugin may print a client certificate instead of a token; a broken one is an error of the connection."""
    script = credential(clientCertificateData=CANARY, clientKeyData=CANARY)
    with pytest.raises(ClusterUnavailable, match="PEM") as error:
        whoami({}, kubeconfig=written(tmp_path, config, exec=plugin(tmp_path, script)))
    assert CANARY not in str(error.value)


def test_an_authentication_provider(config: dict[str, Any], token: str, tmp_path: Path) -> None:
    """`auth-provider`: what the official client makes of it."""
    provider = {"name": "gcp", "config": {"access-token": token, "expiry": "2999-01-01T00:00:00Z"}}
    assert whoami({}, kubeconfig=written(tmp_path, config, **{"auth-provider": provider}))["username"] == "admin"


def test_token_file(config: dict[str, Any], token: str, tmp_path: Path) -> None:
    """A token file is read again when the server refuses its token: tokens of pods change every hour."""
    (tmp_path / "token").write_text("old")
    path = written(tmp_path, config, tokenFile="token")
    with KubernetesCluster(load_access({}, kubeconfig=path), patience_seconds=1) as cluster:
        (tmp_path / "token").write_text(token)
        assert cluster.version()
        assert cluster.list(cluster.resource("", "Namespace")).resource_version


def test_in_cluster(config: dict[str, Any], token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod without a kubeconfig uses its own account."""
    monkeypatch.setattr(access, "ACCOUNT", tmp_path)
    host, _, port = config["clusters"][0]["cluster"]["server"].removeprefix("https://").partition(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOME": "/absent"}
    with pytest.raises(ConfigError, match="the service account of this pod cannot be used: the token file"):
        load_access(environ)
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(ca(config))
    assert whoami(environ)["username"] == "admin"


def ca(config: dict[str, Any]) -> bytes:
    return base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])


def test_impersonation(config: dict[str, Any], token: str, tmp_path: Path) -> None:
    """`--as` and `--as-group`, or `as` and `as-groups` of the kubeconfig; the flags win."""
    path = written(tmp_path, config)
    seen = whoami({}, kubeconfig=path, user="jane", groups=["team-a", "team-b"])
    assert (seen["username"], seen["groups"]) == ("jane", ["team-a", "team-b", "system:authenticated"])
    path = written(tmp_path, config, token=token, **{"as": "robot", "as-groups": ["bots"]})
    seen = whoami({}, kubeconfig=path)
    assert (seen["username"], seen["groups"]) == ("robot", ["bots", "system:authenticated"])
    assert whoami({}, kubeconfig=path, user="jane")["username"] == "jane"


def test_a_server_that_cannot_be_trusted_or_reached(config: dict[str, Any], tmp_path: Path) -> None:
    cluster = config["clusters"][0]["cluster"]
    untrusted = {"server": cluster["server"]}
    with pytest.raises(ClusterUnavailable, match=r"the certificate of https://127.* is not trusted"):
        whoami({}, kubeconfig=written(tmp_path, {**config, "clusters": [{"name": "tests", "cluster": untrusted}]}))
    nobody = {**cluster, "server": f"https://user:{CANARY}@127.0.0.1:9"}
    with pytest.raises(ClusterUnavailable, match="cannot be reached") as error:
        whoami({}, kubeconfig=written(tmp_path, {**config, "clusters": [{"name": "tests", "cluster": nobody}]}))
    assert CANARY not in str(error.value)
    assert not error.value.outcome_unknown


@pytest.mark.parametrize(
    "text",
    [
        f"users:\n- name: a\n  user: {{token: {CANARY}\n",
        f"token: {CANARY}\n  b: c: d\n",
        f"- {CANARY}",
        f"users: {CANARY}",
        f"current-context: a\ncontexts: [{{name: a, context: {CANARY}}}]",
        (
            f"current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
            f"clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:9', certificate-authority-data: '{CANARY}='}}}}]\n"
            f"users: [{{name: a, user: {{client-certificate-data: '{CANARY}=', client-key-data: '{CANARY}='}}}}]"
        ),
    ],
)
def test_no_secret_of_a_broken_kubeconfig_is_shown(text: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ReconcilerError) as error:
        whoami({}, kubeconfig=str(tmp_path / "config"))
    assert CANARY not in str(error.value)
    assert str(tmp_path) in str(error.value)

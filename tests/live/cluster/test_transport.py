"""What a real server rarely does on demand: busy answers, pages that expire, answers that repeat credentials."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.client.port import ApiResource, ClusterError, ClusterUnavailable
from reconciler.kube.objects import ObjectKey

CANARY = "canary5f2d91c07ab3"
NAMESPACES = ApiResource(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
DISCOVERY = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": ""},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "namespaces",
                            "responseKind": {"kind": "Namespace"},
                            "scope": "Cluster",
                            "verbs": [],
                        }
                    ],
                }
            ],
        }
    ],
}
Answers = list[tuple[int, dict[str, str], Any]]


@contextmanager
def scripted(folder: Path, answers: Answers, **options: Any) -> Iterator[tuple[KubernetesCluster, list[str]]]:
    """Serve these answers one after the other; return a client and the requests that came."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path.startswith("/api") and self.path.count("/") == 1:
                following: tuple[int, dict[str, str], Any] = (200, {}, DISCOVERY)
            else:
                requests.append(f"{self.command} {self.path}")
                following = answers.pop(0)
            status, headers, body = following
            if isinstance(body, str):
                raw = body.replace("TOKEN", self.headers.get("Authorization", "")).encode()
            else:
                raw = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(raw))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - names of the library

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.block_on_close = False  # kept connections end with the client
        thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        config = {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{httpd.server_address[1]}"}}],
            "users": [{"name": "a", "user": {"token": CANARY}}],
        }
        (folder / "config").write_text(json.dumps(config))
        try:
            with KubernetesCluster(load_access({}, kubeconfig=str(folder / "config")), **options) as cluster:
                yield cluster, requests
        finally:
            httpd.shutdown()
            thread.join()


BUSY = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "too many requests"}

BODY = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
STORED = {**BODY, "metadata": {"name": "a", "uid": "1", "resourceVersion": "7"}}


def test_a_busy_server_is_asked_again_when_it_says(tmp_path: Path) -> None:
    """429: the request waits as long as Retry-After says, then it goes through, also if it is no repeatable write."""
    with scripted(tmp_path, [(429, {"Retry-After": "1"}, BUSY), (201, {}, BODY)]) as (cluster, requests):
        started = monotonic()
        assert cluster.create(BODY).is_new
    assert monotonic() - started >= 1
    assert len(requests) == 2


def test_a_server_that_stays_busy(tmp_path: Path) -> None:
    """Patience ends: the error tells how long to wait, and that nothing was done."""
    with (
        scripted(tmp_path, [(429, {"Retry-After": "9"}, BUSY)], patience_seconds=1) as (cluster, _),
        pytest.raises(ClusterUnavailable, match="429 TooManyRequests: too many requests") as error,
    ):
        cluster.apply(BODY)
    assert (error.value.retry_after, error.value.outcome_unknown, error.value.retryable) == (9.0, False, True)


def test_writes_that_may_have_happened_are_not_repeated(tmp_path: Path) -> None:
    """503: an apply and a read are sent again; a creation is not, and says that its outcome is not known."""
    with scripted(tmp_path, [(503, {}, "proxy"), (200, {}, STORED), (503, {}, "proxy")]) as (cluster, requests):
        assert not cluster.apply(BODY).is_new
        with pytest.raises(ClusterUnavailable) as error:
            cluster.create(BODY)
    assert error.value.outcome_unknown
    assert [request.partition(" ")[0] for request in requests] == ["PATCH", "PATCH", "POST"]


FORBIDDEN = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}


@pytest.mark.parametrize(("status", "headers", "body"), [(429, {"Retry-After": "9"}, BUSY), (403, {}, FORBIDDEN)])
def test_a_write_that_may_have_happened_stays_so(
    tmp_path: Path, status: int, headers: dict[str, str], body: dict[str, Any]
) -> None:
    """F-143: the first attempt has no answer; that a second one is refused does not say what became of the first."""
    answers: Answers = [(503, {}, "proxy"), (status, headers, body)]
    with scripted(tmp_path, answers, patience_seconds=1) as (cluster, requests), pytest.raises(ClusterError) as error:
        cluster.apply(BODY)
    assert error.value.outcome_unknown
    assert len(requests) == 2


def test_a_list_whose_pages_expire_goes_on(tmp_path: Path) -> None:
    """410 between pages: the list continues with objects as they are now; its version stays that of the first page."""
    names = [{"metadata": {"name": name}} for name in "ab"]
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "old", "metadata": {"continue": "new"}}
    answers: Answers = [
        (200, {}, {"metadata": {"resourceVersion": "7", "continue": "old"}, "items": names[:1]}),
        (410, {}, gone),
        (200, {}, {"metadata": {"resourceVersion": "9"}, "items": names[1:]}),
    ]
    with scripted(tmp_path, answers) as (cluster, requests):
        listing = cluster.list(NAMESPACES)
        assert [body["metadata"]["name"] for body in listing.objects] == ["a", "b"]
    assert listing.resource_version == "7"
    assert "continue=new" in requests[-1]


@pytest.mark.parametrize("status", [400, 403, 422, 500])
def test_credentials_that_a_server_repeats_are_masked(tmp_path: Path, status: int) -> None:
    """Neither the message nor the causes hold the token, whatever the server writes."""
    cause = '{"field": "TOKEN", "message": "TOKEN", "reason": "TOKEN"}'
    body = f'{{"kind": "Status", "message": "who is TOKEN", "details": {{"causes": [{cause}]}}}}'
    with scripted(tmp_path, [(status, {}, body), (status, {}, "<p>TOKEN</p>")]) as (cluster, _):
        for _ in range(2):
            with pytest.raises(ClusterError) as error:
                cluster.get(ObjectKey(group="", kind="Namespace", namespace="", name="a"))
            shown = f"{error.value} {error.value.causes} {error.value.reason}"
            assert CANARY not in shown
            assert "***" in shown


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("<html>", "is not JSON"),
        ("[]", "is not what Kubernetes answers"),
        ("null", "is not what Kubernetes answers"),
        ({}, "is not what Kubernetes answers"),
        ({"metadata": None}, "is not what Kubernetes answers"),
        ({"metadata": {"name": "a"}}, "is not what Kubernetes answers"),
        ({"metadata": {"resourceVersion": "1"}, "items": ["a"]}, "is not what Kubernetes answers"),
    ],
)
def test_an_answer_that_is_not_of_kubernetes(tmp_path: Path, answer: Any, said: str) -> None:
    """Each is exit 6 with the request, and none is taken for what the server says about the object."""
    key, body = ObjectKey(group="", kind="Namespace", namespace="", name="a"), {"apiVersion": "v1", "kind": "Namespace"}
    requests: dict[str, Callable[[KubernetesCluster], object]] = {
        "GET /api/v1/namespaces/a": lambda cluster: cluster.get(key),
        "GET /api/v1/namespaces": lambda cluster: cluster.list(NAMESPACES),
        "PATCH /api/v1/namespaces/a": lambda cluster: cluster.apply({**body, "metadata": {"name": "a"}}, dry_run=True),
    }
    for request, send in requests.items():
        with (
            scripted(tmp_path, [(200, {}, answer)]) as (cluster, _),
            pytest.raises(ClusterUnavailable, match=said) as error,
        ):
            send(cluster)
        assert request in error.value.message
        assert error.value.exit_code == 6

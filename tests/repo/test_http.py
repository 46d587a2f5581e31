"""The HTTP client: credentials stay with their host, answers are bounded, only safe requests are repeated."""

from threading import Thread
from time import monotonic

import pytest

from reconciler import http
from reconciler.http import Endpoint, HttpClient, HttpError, HttpUnavailable
from tests.sizing.predictors.server import answer, cut, hang, serving


def client(url: str, timeout: float = 30.0) -> HttpClient:
    return HttpClient(Endpoint.parse(url), timeout_seconds=timeout, pauses=(0.01,))


def test_a_redirect_never_takes_credentials_to_another_host() -> None:
    with serving(answer(200)) as other, serving(answer(302, b"", Location=other.url + "/x")) as first:
        response = client(first.url.replace("//", "//me:hunter2@")).send("GET", "/")
    assert response.status == 302
    assert first.said[0].headers["Authorization"].startswith("Basic ")
    assert other.said == []


def test_answers_are_bounded_and_not_decompressed() -> None:
    with serving(answer(200, b"x" * (4 << 20))) as server:
        assert len(client(server.url).send("GET", "/").body) == 4 << 20
        assert server.said[0].headers["Accept-Encoding"] == "identity"
    with serving(answer(200, b"x" * ((4 << 20) + 1))) as server, pytest.raises(HttpError, match="more than 4 MiB"):
        client(server.url).send("GET", "/")


def test_a_lost_answer_repeats_a_get_and_not_a_post() -> None:
    with serving(cut, cut, answer(200, b"done")) as server:
        assert client(server.url).send_until(monotonic() + 60, "GET", "/").body == b"done"
        assert len(server.said) == 3
    with serving(cut, answer(200)) as server:
        with pytest.raises(HttpUnavailable):
            client(server.url).send_until(monotonic() + 60, "POST", "/", b"{}")
        assert len(server.said) == 1


def test_a_busy_server_is_asked_four_times() -> None:
    with serving(answer(503)) as server:
        assert client(server.url).send_until(monotonic() + 60, "POST", "/", b"{}").status == 503
        assert len(server.said) == 4
    with serving(answer(503, b"", Retry_After="3600")) as server:
        assert client(server.url).send_until(monotonic() + 60, "POST", "/", b"{}").status == 503
        assert len(server.said) == 1


def test_the_deadline_is_for_the_whole_exchange() -> None:
    with serving(hang) as server:
        began = monotonic()
        with pytest.raises(HttpUnavailable, match=r"did not answer within 0.3 s$") as raised:
            client(server.url, 0.3).send("GET", "/")
        assert monotonic() - began < 10
    assert raised.value.retryable


def test_the_timeout_of_the_socket_reads_like_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both expire at almost the same time; which one comes first must not change the message."""
    monkeypatch.setattr(http._Exchange, "join", lambda exchange, _: Thread.join(exchange, 60))
    with serving(hang) as server, pytest.raises(HttpUnavailable, match=r"did not answer within 0.3 s$") as raised:
        client(server.url, 0.3).send("GET", "/")
    assert raised.value.retryable


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serving(answer(200)) as server:
        assert client(server.url).send("GET", "/").status == 200

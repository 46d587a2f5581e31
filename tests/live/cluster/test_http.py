"""The HTTP client: answers in every form, connections that end, headers that must not be sent."""

import gzip
import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import ConfigError
from reconciler.kube.client import transport
from reconciler.kube.client.access import NOBODY, Access, Identity, Login
from reconciler.kube.client.connection import Address
from reconciler.kube.client.port import ClusterUnavailable
from reconciler.kube.client.proxies import proxy_of, proxy_url
from reconciler.kube.client.transport import ApiCall, Transport
from tests.cluster.server import wait_until

READ = ApiCall(purpose="read it", method="GET", path="/it")
WRITE = ApiCall(purpose="create it", method="POST", path="/it", body=b"{}")
CONTENT = json.dumps({"text": "ä" * 50}).encode()
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(CONTENT), CONTENT)


@contextmanager
def scripted(*connections: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Serve connections: each request is answered with the next bytes, and then the connection is closed.

    Return the URL, and the requests that came, each with the number of its connection.
    """
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for number, answers in enumerate(connections):
            with suppress(OSError), listener.accept()[0] as connection:
                for answer in answers:
                    request = _request(connection)
                    requests.append(b"%d " % number + request)
                    connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.close()
        thread.join(5)


def _request(connection: socket.socket) -> bytes:
    """Read a request with its body: a connection that is closed with bytes left to read is reset."""
    request, length = b"", None
    while length is None or len(request) < length:
        received = connection.recv(1 << 16)
        if not received:
            raise ConnectionResetError
        request += received
        head, end, _ = request.partition(b"\r\n\r\n")
        if end:
            stated = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
            length = len(head + end) + (int(stated[1]) if stated else 0)
    return request


@contextmanager
def sender(url: str, *, proxy: str = "", identity: Identity = NOBODY) -> Iterator[Transport]:
    address = Address(url=urlsplit(url), proxy=proxy_url(proxy) if proxy else None)
    access = Access(lambda: Login(address=address, identity=identity))
    with closing(Transport(access, patience_seconds=0)) as client:
        yield client


def answered(*connections: Sequence[bytes], call: ApiCall = READ) -> Any:
    """Return what a request gets."""
    with scripted(*connections) as (url, _), sender(url) as client:
        return client.send(call).body


def chunked(*pieces: bytes) -> bytes:
    body = b"".join(b"%x;name=value\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\nTrailer: a\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN,
        chunked(CONTENT),
        b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
        b"HTTP/1.0 200 OK\n\n" + CONTENT,
        b"HTTP/1.1 200\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(CONTENT, mtime=0),
    ],
)
def test_forms_of_answers(answer: bytes) -> None:
    assert answered([answer]) == json.loads(CONTENT)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, len(CONTENT)), max_size=6))
def test_pieces_of_any_size_are_one_answer(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(CONTENT)]
    pieces = [CONTENT[start:end] for start, end in pairwise(places)]
    assert answered([chunked(*pieces)]) == json.loads(CONTENT)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "closed connection without response"),
        (b"SSH-2.0-OpenSSH\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-", "the response is incomplete"),
        (PLAIN[:-1], "the response is incomplete"),
        (chunked(CONTENT)[:-20], "the response is incomplete"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "the response is incomplete"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(CONTENT, mtime=0)[:-9],
            "the response is incomplete",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n{}", "not valid gzip"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"\r\n", "got more than 100 headers"),
    ],
)
def test_an_answer_that_is_none(answer: bytes, words: str) -> None:
    """Nobody knows whether a write was carried out; a read has no outcome."""
    for call, unknown in ((WRITE, True), (READ, False)):
        with pytest.raises(ClusterUnavailable, match=words) as error:
            answered([answer], call=call)
        assert error.value.outcome_unknown is unknown


def test_a_large_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is small on its way: what counts is the memory."""
    monkeypatch.setattr(transport, "_MAX_BYTES", 1 << 20)
    bomb = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b" " * (8 << 20))
    with pytest.raises(ClusterUnavailable, match="a response of more than 1 MiB"):
        answered([bomb])


def test_connections_are_used_again() -> None:
    """Until the server closes one, said or unsaid: then the next request, a creation too, goes over a new one."""
    closing = PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    with scripted([PLAIN, PLAIN], [closing, PLAIN], [PLAIN]) as (url, requests), sender(url) as client:
        for _ in range(2):
            client.send(WRITE)
        _until_closed(client)
        for _ in range(2):
            client.send(WRITE)
    assert [request[:1] for request in requests] == [b"0", b"0", b"1", b"2"]
    assert requests[0][2:].startswith(b"POST /it HTTP/1.1\r\n")
    assert b"\r\nHost: 127.0.0.1:" in requests[0]
    assert b"\r\nContent-Length: 2\r\n" in requests[0]


def _until_closed(client: Transport) -> None:
    pool = client.access.pool._pool
    assert pool is not None
    assert pool.pool is not None
    (connection,) = (one for one in pool.pool.queue if one is not None)
    wait_until(lambda: not connection.is_connected, "the end of the connection")


def test_nothing_is_sent_with_a_control_character() -> None:
    """A name cannot add a header."""
    jane = Identity(user="jane\r\nImpersonate-Group: system:masters")
    with scripted([PLAIN]) as (url, requests), sender(url, identity=jane) as client:
        with pytest.raises(ClusterUnavailable, match="control character") as error:
            client.send(WRITE)
        assert not error.value.outcome_unknown
    assert requests == []


def test_a_request_without_tls_through_a_proxy() -> None:
    """The proxy gets the whole URL and its own credentials."""
    with scripted([PLAIN]) as (proxy, requests):
        named = proxy.replace("//", "//me:p%40ss@")
        with sender("http://api.example:8001/base", proxy=named) as client:
            client.send(READ)
    assert requests[0].startswith(b"0 GET http://api.example:8001/base/it HTTP/1.1\r\nHost: api.example:8001\r\n")
    assert b"\r\nproxy-authorization: basic bwu6cebzcw==\r\n" in requests[0].lower()


def test_a_proxy_that_refuses() -> None:
    answer = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
    with (
        scripted([answer]) as (proxy, requests),
        sender("https://api.example", proxy=proxy) as client,
        pytest.raises(ClusterUnavailable, match="Tunnel connection failed: 407") as error,
    ):
        client.send(WRITE)
    assert not error.value.outcome_unknown
    assert requests[0].startswith(b"0 CONNECT api.example:443 HTTP/1.")


@pytest.mark.parametrize(
    ("server", "exceptions", "is_direct"),
    [
        ("https://api.example", "", False),
        ("https://api.example", "other.example, .example", True),
        ("https://api.example", "api.example:443", False),
        ("https://api.example:443", "api.example:443", True),
        ("https://api.example", "ample", False),
        ("https://api.example", "*", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8,x/y", False),
        ("https://127.0.0.1:6443", "", True),
        ("https://localhost:6443", "", True),
        ("http://api.example", "", True),
    ],
)
def test_proxies_of_the_environment(server: str, exceptions: str, is_direct: bool) -> None:
    """As kubectl: by the scheme of the server, never for this machine, and not for what NO_PROXY lists."""
    found = proxy_of(urlsplit(server), {"HTTPS_PROXY": "proxy.example:3128", "NO_PROXY": exceptions})
    assert (found is None) is is_direct
    assert found is None or found.geturl() == "http://proxy.example:3128"


def test_other_proxies_are_refused() -> None:
    with pytest.raises(ConfigError, match="not a URL of http or https") as error:
        proxy_url("socks5://user:canary@127.0.0.1:1080")
    assert "canary" not in str(error.value)

"""Streams of a pod: its logs over HTTP; commands and forwarded ports over websockets."""

import json
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import websocket
from kubernetes.stream.ws_client import PortForward

from reconciler.errors import one_line
from reconciler.kube.client.access import Access
from reconciler.kube.client.port import ClusterError
from reconciler.kube.client.transport import ApiCall, Transport
from reconciler.kube.secrets import mask_text

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
"""Channels of a command; each message begins with the number of its channel."""

_PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"]
_FOLLOW_SECONDS = 86_400.0
_CONNECT_SECONDS = 30.0
_POLL_SECONDS = 0.01


class PodStreams:
    """The streams of the pods of one API server."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._transport = Transport(access)

    def logs(self, namespace: str, pod: str, container: str, *, follow: bool, tail: int) -> Iterator[bytes]:
        """Yield what a container has printed, in pieces; `tail` last lines (-1: all of them)."""
        query = {"container": container} | ({"follow": "true"} if follow else {})
        query |= {"tailLines": str(tail)} if tail >= 0 else {}
        call = ApiCall(
            purpose=f"read the logs of {namespace}/{pod}",
            method="GET",
            path=f"{_path(namespace, pod)}/log",
            query=query,
        )
        answer = self._transport.open(call, _FOLLOW_SECONDS)
        try:
            yield from answer.pieces()
        except OSError as error:
            raise self._transport.unreachable(call, error) from None
        finally:
            answer.close()

    def command(
        self, namespace: str, pod: str, container: str, argv: Sequence[str], *, stdin: bool, tty: bool
    ) -> "RemoteCommand":
        """Start a command in a container."""
        flags = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
        query = [("container", container), *(("command", word) for word in argv)]
        query += [(name, "true") for name, value in flags.items() if value]
        return RemoteCommand(self._connect(f"{_path(namespace, pod)}/exec", query, _PROTOCOLS))

    @contextmanager
    def port(self, namespace: str, pod: str, port: int) -> Iterator[socket.socket]:
        """Connect to a port of a pod, until the block ends."""
        query = [("ports", str(port))]
        connection = self._connect(f"{_path(namespace, pod)}/portforward", query, ["v4.channel.k8s.io"])
        forwarded = PortForward(connection, [port])
        try:
            yield forwarded.socket(port)
        finally:
            forwarded.close()
            for _ in range(100):  # its thread closes the connection once it has sent the rest
                if not connection.connected:
                    break
                time.sleep(_POLL_SECONDS)
            connection.shutdown()

    def _connect(self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]) -> Any:
        address = self._access.pool.address
        secure = address.url.scheme == "https"
        url = (
            f"{'wss' if secure else 'ws'}://{address.authority}{address.url.path.rstrip('/')}{path}?{urlencode(query)}"
        )
        options: dict[str, Any] = {"context": address.tls.context()} if secure else {}
        if secure and address.tls.server_name:
            options["server_hostname"] = address.tls.server_name
        connection: Any = websocket.WebSocket(sslopt=options, skip_utf8_validation=True, enable_multithread=True)
        connection.settimeout(_CONNECT_SECONDS)
        proxy = address.proxy
        try:
            connection.connect(
                url,
                header=[f"{name}: {value}" for name, value in self._access.headers()],
                subprotocols=list(protocols),
                http_proxy_host=proxy.hostname if proxy is not None else None,
                http_proxy_port=proxy.port if proxy is not None else None,
                proxy_type="http" if proxy is not None else None,
                suppress_origin=True,
            )
        except (websocket.WebSocketException, OSError) as error:
            raise ClusterError(
                f"cannot connect to {path.rpartition('/')[2]} of {path.split('/')[-2]}: {_why(error)}"
            ) from None
        connection.settimeout(None)
        return connection

    def close(self) -> None:
        """Close idle connections."""
        self._transport.close()


def _path(namespace: str, pod: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}"


def _why(error: Exception) -> str:
    """Return why there is no connection: the message of the server, if it sent one."""
    body = getattr(error, "resp_body", None)
    if body:
        try:
            return one_line(mask_text(str(json.loads(body).get("message", ""))))
        except (ValueError, AttributeError):
            return one_line(mask_text(bytes(body).decode("utf-8", "replace")), 200)
    return one_line(mask_text(str(error)))


class RemoteCommand:
    """A command that runs in a container. One thread may read while another one sends."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.exit_code: int | None = None
        """What the command ended with; None while it runs, or if the connection ended before it."""

    def send(self, content: bytes) -> None:
        """Send input."""
        self._connection.send_binary(bytes([STDIN]) + content)

    def resize(self, columns: int, lines: int) -> None:
        """Tell the size of the terminal."""
        size = json.dumps({"Width": columns, "Height": lines}).encode()
        self._connection.send_binary(bytes([RESIZE]) + size)

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Yield what the command prints, each with its channel, until it ends.

        Raises `ClusterError` if it did not run.
        """
        while True:
            try:
                operation, message = self._connection.recv_data()
            except (websocket.WebSocketException, OSError):
                return
            if operation == websocket.ABNF.OPCODE_CLOSE:
                return
            if not message:
                continue
            channel, content = message[0], message[1:]
            if channel == STATUS:
                self.exit_code = _exit_code(content)
            elif content:
                yield channel, content

    def close(self) -> None:
        """Close the connection, whichever side has ended it."""
        self._connection.shutdown()


def _exit_code(status: bytes) -> int:
    answer = json.loads(status)
    if answer.get("status") == "Success":
        return 0
    causes = (answer.get("details") or {}).get("causes") or []
    code = next((cause["message"] for cause in causes if cause.get("reason") == "ExitCode"), "")
    if not code:
        raise ClusterError(f"the command did not run: {one_line(mask_text(str(answer.get('message', ''))))}")
    return int(code)

"""An HTTP proxy on loopback that tunnels (CONNECT), and remembers where to."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer


@contextmanager
def tunnel(context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """Run the proxy; return its URL, and the list of targets that it connected to. `context`: clients speak TLS to it."""
    targets: list[str] = []

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            verb, target, _ = self.rfile.readline().decode().split(" ", 2)
            while self.rfile.readline().strip():
                pass
            targets.append(f"{verb} {target}")
            host, _, port = target.rpartition(":")
            with socket.create_connection((host, int(port))) as other:
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_pump, args=(other, self.connection), daemon=True)
                back.start()
                _pump(self.connection, other)
                back.join()

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as proxy:
        proxy.daemon_threads = True
        if context is not None:
            proxy.socket = context.wrap_socket(proxy.socket, server_side=True)
        proxy.block_on_close = False
        thread = threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http{'s' if context else ''}://127.0.0.1:{proxy.server_address[1]}", targets
        proxy.shutdown()
        thread.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

"""A watch: events of one request, line by line, until its time is over or another thread closes it."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import msgspec
from urllib3.exceptions import HTTPError

from reconciler.adapters.kubernetes.refusals import watch_error
from reconciler.adapters.kubernetes.transport import ApiCall, Transport
from reconciler.ports.cluster import EventType, WatchEvent

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

_SLACK_SECONDS = 15.0  # the server ends a watch by itself


class KubernetesWatch:
    """Events of one watch request; see `Watch`."""

    def __init__(self, transport: Transport, call: ApiCall, seconds: int) -> None:
        self._transport, self._call = transport, call
        self._is_closed = False
        self._response: BaseHTTPResponse = transport.open(call, seconds + _SLACK_SECONDS)
        self._lines = self._read_lines()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> WatchEvent:
        line = next(self._lines)
        event = msgspec.json.decode(line)
        if event["type"] == "ERROR":
            self.close()
            raise watch_error(self._call.purpose, event["object"], self._transport.access.secrets())
        return WatchEvent(type=EventType(event["type"]), body=event["object"])

    def close(self) -> None:
        """End the watch; a thread that waits for an event stops waiting."""
        self._is_closed = True
        with suppress(HTTPError, OSError, ValueError, RuntimeError):
            self._response.shutdown()
        with suppress(HTTPError, OSError):
            self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_lines(self) -> Iterator[bytes]:
        rest = bytearray()
        try:
            for chunk in self._response.stream(decode_content=False):
                rest += chunk
                *lines, tail = rest.split(b"\n")
                rest = bytearray(tail)
                yield from (bytes(line) for line in lines if line)
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            if not self._is_closed:
                raise self._transport.unreachable(self._call, error) from None
        finally:
            self._response.release_conn()

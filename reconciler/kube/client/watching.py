"""A watch: events of one request, line by line, until its time is over or another thread closes it."""

from collections.abc import Iterator
from typing import Self

import msgspec

from reconciler.kube.client.port import EventType, WatchEvent
from reconciler.kube.client.refusals import watch_error
from reconciler.kube.client.transport import ApiCall, Transport

_SLACK_SECONDS = 15.0  # the server ends a watch by itself


class KubernetesWatch:
    """Events of one watch request; see `Watch`."""

    def __init__(self, transport: Transport, call: ApiCall, seconds: int) -> None:
        self._transport, self._call = transport, call
        self._is_closed = False
        self._answer = transport.open(call, seconds + _SLACK_SECONDS)
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
        self._answer.stop()
        self._answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_lines(self) -> Iterator[bytes]:
        rest = bytearray()
        try:
            for chunk in self._answer.pieces():
                rest += chunk
                *lines, tail = rest.split(b"\n")
                rest = bytearray(tail)
                yield from (bytes(line) for line in lines if line)
        except (OSError, ValueError) as error:
            if not self._is_closed:
                raise self._transport.unreachable(self._call, error) from None
        finally:
            self._answer.close()

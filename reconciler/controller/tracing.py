"""Spans: how long each stage of a pass takes."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from reconciler.errors import one_line
from reconciler.kube.secrets import mask_text


class TraceSpan(Struct, frozen=True, kw_only=True):
    """A stage with its start and end in nanoseconds of Unix time; `error` is empty if it succeeded."""

    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    error: str = ""
    attributes: dict[str, str] = {}

    @property
    def seconds(self) -> float:
        """The duration."""
        return (self.end - self.start) / 1e9


class Trace:
    """The spans of one pass. The first stage is the parent of all others."""

    def __init__(self, trace: str = "", parent: str = "") -> None:
        self.trace = trace or secrets.token_hex(16)
        self.spans: list[TraceSpan] = []
        self._parent = parent

    @contextmanager
    def stage(self, name: str, **attributes: str) -> Iterator[dict[str, str]]:
        """Measure a block. The yielded attributes may be added to until it ends."""
        parent, own, start = self._parent, secrets.token_hex(8), time.time_ns()
        self._parent, error = own, ""
        try:
            yield attributes
        except BaseException as failure:
            error = one_line(mask_text(str(failure) or type(failure).__name__))
            raise
        finally:
            self._parent = parent
            self.spans.append(
                TraceSpan(
                    name=name,
                    trace=self.trace,
                    id=own,
                    parent=parent,
                    start=start,
                    end=time.time_ns(),
                    error=error,
                    attributes=attributes,
                )
            )

"""The domain of IMEX that this node is part of: the output of `nvidia-imex-ctl -N -j`, where the service runs."""

import json
import os
from collections.abc import Mapping
from typing import Any

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.port import not_run
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings, Value
from reconciler.processes import ProcessError, run_program

_SECONDS = 8.0
_MAX_NODES = 1024


class ImexSource:
    """The control program of IMEX, which is part of the driver. It is asked only where the service runs."""

    name = "imex"

    def __init__(self, *, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    def read(self, profile: ProbeProfile, before: SourceReadings) -> SourceReadings:  # noqa: ARG002 - the port's
        """Ask once."""
        daemons = before.find(ReadingId.PROCFS_DAEMONS)
        if daemons is None or not isinstance(daemons.value, list) or "nvidia-imex" not in daemons.value:
            return SourceReadings()
        try:
            found = run_program(("nvidia-imex-ctl", "-N", "-j"), seconds=_SECONDS, environ=self._environ)
        except ProcessError as problem:
            return SourceReadings(readings=(not_run(ReadingId.IMEX_DOMAIN, problem),))
        try:
            reading = NodeReading(name=ReadingId.IMEX_DOMAIN, value=imex_domain(found.text))
        except ValueError as problem:
            detail = f"exit code {found.code}, {problem}{f': {found.message}' if found.message else ''}"
            reading = NodeReading(name=ReadingId.IMEX_DOMAIN, error=ReadError.FAILED, detail=detail[:300])
        return SourceReadings(readings=(reading,))

    def close(self) -> None:
        """Do nothing: every program has ended."""


def imex_domain(text: str) -> Value:
    """Return the status of the domain and of its nodes, with the hosts that each is not connected to.

    Raises `ValueError` for any other output, also for half of one.
    """
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("no JSON") from None
    nodes = _table(document, "nodes")
    if not 0 < len(nodes) <= _MAX_NODES:
        raise ValueError(f"{len(nodes)} nodes in the domain")
    return {"status": _word(document, "status"), "nodes": [_node(one) for one in nodes.values()]}


def _node(body: Any) -> dict[str, Value]:
    links = [(_word(link, "host"), _word(link, "status")) for link in _table(body, "connections").values()]
    return {
        "host": _word(body, "host"),
        "name": str(body.get("hostName", "")),
        "status": _word(body, "status"),
        "cut": sorted(host for host, status in links if status != "CONNECTED"),
        "links": len(links),
    }


def _table(body: Any, key: str) -> dict[str, Any]:
    found = body.get(key) if isinstance(body, dict) else None
    if not isinstance(found, dict):
        raise ValueError(f"no table {key}")  # noqa: TRY004 - one error for every output that is none
    return found


def _word(body: Any, key: str) -> str:
    found = body.get(key) if isinstance(body, dict) else None
    if not isinstance(found, str) or not 0 < len(found) <= 253:  # noqa: PLR2004 - of a host
        raise ValueError(f"no word {key}")
    return found

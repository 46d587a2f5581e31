"""`probe`: read a node once, and judge what was read. `probe record` and `--replay` keep readings in a file."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.clock import Clock
from reconciler.errors import ConfigError
from reconciler.kube.values import NOT_JSON, mapping, sequence
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.readers.port import ReadingSource
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings, Sweep, make_sweep

KIND = "NodeReadings"
API_VERSION = "gpureconciler.io/v1alpha1"


class ReplayFile(Struct, frozen=True, kw_only=True, rename="camel"):
    """Sweeps of one node, oldest first: all but the last are history."""

    api_version: str = API_VERSION
    kind: str = KIND
    sweeps: tuple[Sweep, ...]


def take_sweep(
    sources: Sequence[ReadingSource], node: str, clock: Clock, profile: ProbeProfile = ProbeProfile.LIGHT
) -> Sweep:
    """Read all sources once. One that fails is one reading with an error, and hides nothing of the others."""
    found = SourceReadings()
    for source in sources:
        try:
            found = found.plus(source.read(profile, found))
        except Exception as error:  # noqa: BLE001 - a source that breaks its promise must not hide the others
            detail = f"{source.name}: {type(error).__name__}: {error}"
            failed = NodeReading(name=ReadingId.SOURCE, error=ReadError.FAILED, detail=detail)
            found = found.plus(SourceReadings(readings=(failed,)))
    return make_sweep(node, round(clock.now().timestamp(), 3), found)


def write_replay(sweeps: Sequence[Sweep]) -> bytes:
    """Return the content of a replay file."""
    content = msgspec.json.encode(ReplayFile(sweeps=tuple(sweeps)))
    return msgspec.json.format(content, indent=1) + b"\n"


def read_replay(content: bytes, path: str) -> tuple[Sweep, ...]:
    """Return the sweeps of a replay file. Raises `ConfigError` if it is none."""
    try:
        found = msgspec.convert(_known(msgspec.json.decode(content)), ReplayFile)
    except NOT_JSON as error:
        raise ConfigError(
            f"{path}: not a replay file: {error}", hint="`reconciler probe record FILE` makes one"
        ) from None
    if found.kind != KIND or found.api_version != API_VERSION or not found.sweeps:
        raise ConfigError(f"{path}: not a replay file", hint="`reconciler probe record FILE` makes one")
    return found.sweeps


def _known(body: Any) -> Any:
    """Return a replay file without readings that no version of the checks looks at any more."""
    for sweep in sequence(mapping(body).get("sweeps")):
        if isinstance(sweep, dict) and isinstance(rows := sweep.get("readings"), list):
            sweep["readings"] = [row for row in rows if not _is_retired(mapping(row).get("name"))]
    return body


def _is_retired(name: object) -> bool:
    return isinstance(name, str) and name not in _NAMES


_NAMES = frozenset(ReadingId)

"""Readings that no driver would give: a check says UNKNOWN, and nothing breaks."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.health.probe import read_replay, write_replay
from reconciler.nodehealth.catalogue import BY_ID, CHECKS
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile, Threshold, ThresholdSource
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Sweep
from tests.nodehealth.readers.fakes.library import sound

_NAMES = sorted({name for check in CHECKS for name in check.reads})
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(("", "N/A", "0", "-1", "\x1b[31m"))
)
_KEYS = st.sampled_from(
    ("current", "pending", "failure", "uncorrected", "state", "status", "health_mask", "gpu", "pid", "memory", "text",
     "monotonic", "slot", "device", "port", "replay", "crc_flit", "correctable", "fatal", "free", "total")
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5), max_leaves=8
)
_SOUND = sound(2)


_ERRORS = st.none() | st.sampled_from(list(ReadError))
_SLOTS = st.sampled_from(("", *(gpu.slot for gpu in _SOUND.gpus)))
_CHANGES = st.lists(st.tuples(st.sampled_from(_NAMES), _SLOTS, _ERRORS, _VALUES), min_size=1, max_size=8)


def _sweep(changes: list[tuple[ReadingId, str, ReadError | None, Any]], seconds: int) -> Sweep:
    """Return a sound sweep in which some readings are anything."""
    readings = {(reading.name, reading.slot): reading for reading in _SOUND.readings}
    for name, slot, error, value in changes:
        readings[name, slot] = NodeReading(name=name, slot=slot, value=None if error else value, error=error)
    return msgspec.structs.replace(_SOUND, readings=tuple(readings.values()), taken_at=_SOUND.taken_at + seconds)


@settings(max_examples=60)
@given(st.lists(st.tuples(_CHANGES, st.integers(0, 1200)), min_size=1, max_size=4))
def test_a_check_never_breaks(taken: list[Any]) -> None:
    """One finding for each check and subject, whatever was read; the same findings after a replay file."""
    *history, sweep = (_sweep(*each) for each in taken)
    found = judge(sweep, history=history, profile=ProbeProfile.RMA)
    keys = [finding.key for finding in found]
    assert len(keys) == len(set(keys))
    for finding in found:
        assert finding.message
        msgspec.json.encode(finding)
        if finding.status is CheckStatus.PASS:
            _is_measured(sweep, finding)


def _is_measured(sweep: Sweep, finding: HealthFinding) -> None:
    """Look for a value that the check can have passed on; a check of a node may read each GPU."""
    names = BY_ID[finding.check].reads
    assert any(reading.error is None for name in names for reading in sweep.all(name)), finding


def test_a_replay_gives_the_same_findings() -> None:
    """Bytes in, the same findings out, also for values that JSON writes in its own way."""
    content = write_replay([_SOUND])
    (again,) = read_replay(content, "f.json")
    assert judge(again) == judge(_SOUND)
    assert write_replay([again]) == content


def test_a_threshold_that_is_no_number_is_unknown() -> None:
    """A policy that wrote nonsense does not fall back to a default."""
    wrong = {"rows": Threshold(value="many", source=ThresholdSource.POLICY)}
    (found, _) = judge(_SOUND, limits={"remap.count": wrong}, only=["remap.count"])
    assert found.status is CheckStatus.UNKNOWN
    assert "rows" in found.message


def test_a_policy_changes_a_threshold() -> None:
    """The finding carries the limit that it was compared with, and its source."""
    lower = {"warnPercent": Threshold(value=100.5, source=ThresholdSource.POLICY, citation="our own")}
    (found, _) = judge(_SOUND, limits={"power.limit": lower}, only=["power.limit"])
    assert found.status is CheckStatus.WARN
    assert found.threshold == lower["warnPercent"]

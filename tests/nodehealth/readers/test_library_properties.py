"""The calls of a sweep on a Python fake of the library, with any codes and values: thousands of broken drivers."""

from collections.abc import Iterator
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.nodehealth.catalogue import BY_ID
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readers import nvml_calls
from reconciler.nodehealth.readers.library import readings_of
from reconciler.nodehealth.readings import make_sweep

_CODES = (0, 0, 0, 2, 3, 4, 7, 10, 13, 14, 15, 16, 25, 27, 999, 4711)


class FakeLibrary:
    """Any function of NVML: returns a code, and writes a number where the caller wants one."""

    def __init__(self, codes: dict[str, int], number: int) -> None:
        self._codes, self._number = codes, number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        code = self._codes.get(name, 0)

        def call(*arguments: Any) -> int:
            if name.startswith(("nvmlInit", "nvmlShutdown")):
                return 0
            for argument in arguments:
                target = getattr(argument, "_obj", None)
                if code == 0 and target is not None and hasattr(target, "value"):
                    target.value = 2 if "GetCount" in name else self._number
            return code

        return call


@pytest.fixture
def no_library() -> Iterator[None]:
    """Forget the fake library after the test."""
    before = pynvml.nvmlLib
    yield
    pynvml.nvmlLib = before
    pynvml._nvmlGetFunctionPointer_cache.clear()


_FUNCTIONS = [
    *sorted(name for name in dir(pynvml) if name.startswith("nvmlDevice")),
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo_v3",
]


@settings(max_examples=150)
@given(
    codes=st.dictionaries(st.sampled_from(_FUNCTIONS), st.sampled_from(_CODES), max_size=40),
    number=st.sampled_from((0, 1, 2, 16, 77, 2**31 - 1)),
)
@pytest.mark.usefixtures("no_library")
def test_no_error_passes(codes: dict[str, int], number: int) -> None:
    """Never an exception; and a check whose readings are all errors never passes."""
    pynvml.nvmlLib = FakeLibrary(codes, number)
    pynvml._nvmlGetFunctionPointer_cache.clear()
    records = [record for record in nvml_calls.sweep({}) if "call" not in record]
    sweep = make_sweep("node-1", 1.0, readings_of("nvml", records))
    for finding in judge(sweep):
        reads = [sweep.find(name, finding.slot) or sweep.find(name) for name in BY_ID[finding.check].reads]
        if all(reading is None or reading.error is not None for reading in reads):
            assert finding.status is not CheckStatus.PASS, finding


def test_the_fake_can_pass(no_library: None) -> None:
    """The property above is not empty: with good codes, checks pass."""
    pynvml.nvmlLib = FakeLibrary({}, 1)
    pynvml._nvmlGetFunctionPointer_cache.clear()
    records = [record for record in nvml_calls.sweep({}) if "call" not in record]
    found = judge(make_sweep("node-1", 1.0, readings_of("nvml", records)))
    assert len({finding.check for finding in found if finding.status is CheckStatus.PASS}) > 8

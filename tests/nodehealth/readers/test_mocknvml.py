"""NVIDIA's own mock of NVML, where somebody has built it: `make NO_PADDING=1` in pkg/gpu/mocknvml of k8s-test-infra.

The module proxy does not offer that module. `RECONCILER_TEST_MOCKNVML` names the folder of its `libnvidia-ml.so.1`.
"""

import os
from pathlib import Path

import pytest

from reconciler.nodehealth.findings import CheckStatus, ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readers.library import LibrarySource
from reconciler.nodehealth.readings import SourceReadings, make_sweep

FOLDER = os.environ.get("RECONCILER_TEST_MOCKNVML", "")


@pytest.mark.skipif(not FOLDER, reason="left out: mocknvml of NVIDIA/k8s-test-infra (set RECONCILER_TEST_MOCKNVML)")
def test_the_mock_is_sound() -> None:
    """Every GPU answers with an identity, and no check fails on a mock that is healthy."""
    assert (Path(FOLDER) / "libnvidia-ml.so.1").exists()
    source = LibrarySource("nvml", environ={**os.environ, "LD_LIBRARY_PATH": FOLDER})
    try:
        sweep = make_sweep("node-1", 1.0, source.read(ProbeProfile.LIGHT, SourceReadings()))
    finally:
        source.close()
    assert sweep.gpus
    assert len({gpu.uuid for gpu in sweep.gpus}) == len(sweep.gpus)
    found = judge(sweep, only=["nvml.init", "gpu.reachable", "remap.failure", "ecc.dram.unc.volatile", "power.limit"])
    assert not [one for one in found if one.status in {CheckStatus.FAIL, CheckStatus.UNKNOWN}]
    assert [one for one in found if one.check == "gpu.reachable" and one.status is CheckStatus.PASS]

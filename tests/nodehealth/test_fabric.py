"""Tests of the network: outputs of nccl-tests and perftest as their documentation shows them, floors, and lies."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.nodehealth.active.fabric import (
    EndedTest,
    UnreadableOutput,
    declared_tests,
    fabric_finding,
    read_all_reduce,
    read_write_bandwidth,
    with_fabric,
)
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, ProbeProfile
from reconciler.nodehealth.policy import (
    CheckRule,
    FabricTest,
    Lane,
    NetworkTest,
    PolicyBook,
    PolicyDocument,
    read_policy,
)
from reconciler.nodehealth.report import NodeReport

NOW = 1_800_000_000.0
H200, H100, A100 = "NVIDIA-H200", "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"

NCCL = """\
# nThread 1 nGpus 8 minBytes 10737418240 maxBytes 10737418240 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   1728 on a4bae1424041 device  0 [0000:0f:00] NVIDIA A100-SXM4-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1    13867   77.43  135.50      0    13877   77.38  135.41      0
 10737418240    2684354560     float     sum      -1    79872  134.43  235.26      0    79890  134.40  235.20    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 185.343
#
"""
PERFTEST = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_1
 Link type       : IB
---------------------------------------------------------------------------------------
 local address: LID 0x01 QPN 0x0066 PSN 0xdcb546 RKey 0x1fffbd VAddr 0x007255bb410000
 remote address: LID 0x01 QPN 0x0067 PSN 0xfd3206 RKey 0x2000be VAddr 0x007e0751410000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 5008.116000 != 3295.212000. CPU Frequency is not max.
 65536      5000             392.51             392.36\t\t     0.748367
---------------------------------------------------------------------------------------
deallocating GPU buffer 00007255bb400000
"""
MIB = PERFTEST.replace("Gb/sec", "MiB/sec").replace("392.51", "46567.34").replace("392.36", "46557.03")


def test_documented_outputs_are_read() -> None:
    """The largest message counts; ranks in front of lines, N/A and warnings inside the table do no harm."""
    assert read_all_reduce(NCCL) == {"rate": pytest.approx(235.23), "unit": "GB/s", "wrong": 0}
    assert read_all_reduce("\n".join(f" 0: {line}" for line in NCCL.splitlines()))["rate"] == pytest.approx(235.23)
    assert read_write_bandwidth(PERFTEST) == {"rate": 392.36, "unit": "Gb/s"}
    assert read_write_bandwidth(MIB)["rate"] == pytest.approx(390.55, abs=0.01)
    failed = "Couldn't connect to 10.0.0.1:18515\n"
    assert read_write_bandwidth(failed + PERFTEST.replace("392.36", "12.00") + PERFTEST)["rate"] == 392.36


def test_wrong_results_are_counted() -> None:
    assert read_all_reduce(NCCL.replace("235.26      0", "235.26     17"))["wrong"] == 17
    assert read_all_reduce(NCCL.replace(": 0 OK", ": 3 FAILED"))["wrong"] == 3
    assert read_all_reduce(NCCL.replace(": 0 OK", ": 0 FAILED"))["wrong"] == 1


LIES = [
    "",
    "\x00" * 5000,
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 900\n",
    NCCL.replace("# Out of bounds values : 0 OK", ""),
    NCCL + NCCL,
    NCCL.replace("235.26", "nan"),
    NCCL.replace("235.26", "inf"),
    NCCL.replace("235.26", "1e308"),
    NCCL.replace("235.26", "-235.26").replace("235.20", "-1"),
    NCCL.replace("235.26", "0.00").replace("235.20", "0.00"),
    NCCL.replace("235.26", "٢٣٥"),
    PERFTEST,
]
WRITE_LIES = [
    "",
    NCCL,
    PERFTEST.replace("392.36", "9999999999"),
    PERFTEST.replace("392.36", "0.00"),
    PERFTEST.replace("392.36", "1.2.3"),
    PERFTEST.replace("Gb/sec", "MB/sec"),
    PERFTEST.partition(" 65536")[0],
]


@pytest.mark.parametrize(("kind", "text"), [
    *((FabricTest.ALL_REDUCE, text) for text in LIES), *((FabricTest.IB_WRITE, text) for text in WRITE_LIES)
])  # fmt: skip
def test_what_cannot_be_read_is_unknown(kind: FabricTest, text: str) -> None:
    """Never a pass: nothing, other programs, half a table, numbers that no hardware reaches."""
    found = fabric_finding(ended(text, test=kind, rate=400), {H200})
    assert (found.status, found.observed) == (CheckStatus.UNKNOWN, None)
    assert "exit code 0" in found.message


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=300) | st.text(alphabet="0123456789.eE+-naif #\n\tx:", max_size=300))
def test_any_text_is_a_plausible_bandwidth_or_refused(text: str) -> None:
    for lines in (text, NCCL[:700] + text, NCCL + text, PERFTEST[:-200] + text):
        for read in (read_all_reduce, read_write_bandwidth):
            try:
                value = read(lines)
            except UnreadableOutput:
                continue
            assert math.isfinite(value["rate"])
            assert 0 < value["rate"] < 100_000


def ended(text: str = NCCL, *, code: int = 0, at: float = NOW - 60, **fields: Any) -> EndedTest:
    base: dict[str, Any] = {"test": FabricTest.ALL_REDUCE, "nodes": ("a",), "image": "i@sha256:0", "namespace": "tests"}
    test = NetworkTest(**{**base, **fields})
    return EndedTest(test=test, nodes=test.nodes, output=text, code=code, ended_at=at)


@pytest.mark.parametrize(
    ("product", "rate", "fields", "status", "limit"),
    [
        (A100, 235.0, {}, CheckStatus.PASS, (228, "nd96asr_v4")),
        (A100, 227.0, {}, CheckStatus.FAIL, (228, "nd96asr_v4")),
        (H100, 459.0, {}, CheckStatus.FAIL, (460, "nd96isr_h100_v5")),
        (H100, 91.0, {"nodes": ("a", "b")}, CheckStatus.PASS, (90, "a3plus")),
        (H200, 430.0, {}, CheckStatus.FAIL, (431, "nd96isr_h200_v5")),
        (H200, 249.0, {"nodes": ("a", "b", "c")}, CheckStatus.FAIL, (250, "a3ultra")),
        ("NVIDIA-B200", 440.0, {}, CheckStatus.PASS, (432, "derived")),
        ("NVIDIA-B200", 249.0, {"nodes": ("a", "b")}, CheckStatus.FAIL, (250, "a4")),
        ("NVIDIA-GB200", 431.0, {"gpus": 4}, CheckStatus.FAIL, (432, "gb200")),
        ("NVIDIA-A100-80GB-PCIe", 192.0, {"gpus": 2}, CheckStatus.FAIL, (193, "NVLink bridges")),
        ("NVIDIA-A100-80GB-PCIe", 26.0, {"gpus": 4}, CheckStatus.PASS, (25, "PCI Express")),
        ("NVIDIA-H100-NVL", 207.0, {"gpus": 2}, CheckStatus.FAIL, (208, "NVLink bridges")),
        ("NVIDIA-H100-PCIe", 40.0, {"floor": 35.0}, CheckStatus.PASS, (35, "the policy")),
        ("NVIDIA-H100-PCIe", 40.0, {}, CheckStatus.UNKNOWN, (None, "")),
    ],
)
def test_floors_by_product(
    product: str, rate: float, fields: dict[str, Any], status: CheckStatus, limit: tuple[float | None, str]
) -> None:
    """The finding has the bandwidth, the floor and where the floor comes from; without a floor nothing passes."""
    text = NCCL.replace("235.26", str(rate)).replace("235.20", str(rate))
    found = fabric_finding(ended(text, **fields), {product})
    assert (found.check, found.status, found.profile) == ("net.allreduce", status, ProbeProfile.DEEP)
    assert f"{rate:.4g} GB/s" in found.message
    assert (found.threshold.value if found.threshold else None) == limit[0]
    assert limit[1] in (found.threshold.citation if found.threshold else "")


@pytest.mark.parametrize(("rate", "floor"), [(200.0, 180), (400.0, 360), (800.0, 640)])
def test_floors_by_rate_of_the_port(rate: float, floor: float) -> None:
    fields: dict[str, Any] = {"test": FabricTest.IB_WRITE, "nodes": ("a", "b"), "rate": rate}
    low, good = (PERFTEST.replace("392.36", str(value)) for value in (floor - 1, floor))
    assert fabric_finding(ended(good, **fields), {H200}).status is CheckStatus.PASS
    found = fabric_finding(ended(low, **fields), {H200})
    assert (found.check, found.status, found.unit) == ("net.rdma", CheckStatus.FAIL, "Gb/s")
    assert found.message.startswith(f"{floor - 1} Gb/s between a and b, below the floor of {floor} (azurehpc")


def test_exit_codes_and_wrong_results() -> None:
    """A program that failed after it printed a table has no pass; wrong results are fatal whatever its exit code."""
    assert fabric_finding(ended(code=1), {A100}).status is CheckStatus.UNKNOWN
    found = fabric_finding(ended(NCCL.replace(": 0 OK", ": 3 FAILED"), code=1), {A100})
    assert (found.status, found.severity) == (CheckStatus.FAIL, FindingSeverity.FATAL)


def test_nodes_of_two_products_have_no_floor() -> None:
    assert fabric_finding(ended(nodes=("a", "b")), {H100, H200}).status is CheckStatus.UNKNOWN
    assert fabric_finding(ended(), {""}).status is CheckStatus.UNKNOWN


def test_the_newest_test_of_a_week_counts() -> None:
    """A later pass ends the failure of an earlier one; what is older than a week says nothing any more."""
    slow = NCCL.replace("235.26", "10.00").replace("235.20", "10.00")
    reports = {"a": NodeReport(node="a", measured_at=NOW, skipped=("net.allreduce",))}

    def status(*tests: EndedTest) -> tuple[list[CheckStatus], bool]:
        changed = with_fabric(reports, tests, {"a": A100, "b": A100}, NOW)["a"]
        return [one.status for one in changed.findings], "net.allreduce" in changed.passed_by

    assert status(ended(slow)) == ([CheckStatus.FAIL], False)
    assert status(ended(slow, at=NOW - 99), ended()) == ([], True)
    assert status(ended(), ended(slow, at=NOW - 99)) == ([], True)
    assert status(ended(slow, at=NOW - 8 * 86400)) == ([], False)
    assert status(ended(slow, nodes=("b", "gone"))) == ([], False)


def test_the_fast_lane_never_acts_on_a_test_of_the_network() -> None:
    """Two nodes cannot tell which of them is at fault, so that only a person decides."""
    fast = {"mode": "enforce", "lane": "fast", "severity": "fatal"}
    policy = read_policy("base", {"checks": {"net.allreduce": fast, "net.rdma": fast, "gpu.count": fast}})
    lanes = {check: policy.rule(check, CheckRule()).lane for check in policy.checks}
    assert lanes == {"net.allreduce": Lane.REVIEWED, "net.rdma": Lane.REVIEWED, "gpu.count": Lane.FAST}


def test_tests_are_found_by_the_names_of_their_jobs() -> None:
    spec = {"test": "ibWrite", "nodes": ["a", "b"], "image": "i@sha256:0", "namespace": "tests", "rate": 400, "run": 3}
    book = PolicyBook([PolicyDocument(name="base", spec={"networkTests": {"rack-1": spec}})])
    assert {key: one.test for key, one in declared_tests(book).items()} == {
        ("tests", "net-base-rack-1-3"): FabricTest.IB_WRITE
    }

"""Xids: the lines that drivers write, what one means, what several mean together, and which no longer count."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler import resources
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding, RepairAction
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readings import ReadError, ReadingId, Sweep, normal_slot
from reconciler.nodehealth.xids import XidRule, bursts, mention, mentioned, parse_xid, read_xids, renamed, workload_of
from tests.nodehealth.readers.fakes.library import changed, sound

XIDS = read_xids(resources.read("data/xids.json"))
SLOT = "0000:10:00.0"
BOOT = 1_760_000_000.0  # when the sound node started, as its readings say
FATAL, DEGRADED, APP = FindingSeverity.FATAL, FindingSeverity.DEGRADED, FindingSeverity.APP
DATA = Path(__file__).parents[2] / "reconciler" / "data"
_TO_RESET = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
_TO_NONE = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"

Line = tuple[float, int, str]  # hours before the sweep, code, the rest of the line


def node(
    lines: list[Line], *, action: int | ReadError = ReadError.NOT_SUPPORTED, slot: str = "PCI:0000:10:00"
) -> Sweep:
    """Return a sound node whose kernel wrote these Xids; its driver tells no recovery action unless given."""
    sweep = changed(sound(1), {"nvml.recovery_action": action}, SLOT)
    up = sweep.taken_at - BOOT
    rows = [
        {"monotonic": up - hours * 3600, "text": f"NVRM: Xid ({slot}): {code}, {rest}"} for hours, code, rest in lines
    ]
    return changed(sweep, {"kmsg.lines": rows})


def xid(sweep: Sweep, **options: Any) -> HealthFinding:
    (found,) = judge(sweep, xids=options.pop("xids", XIDS), only=["gpu.xid"], **options)
    return found


@pytest.mark.parametrize(
    ("line", "slot", "code", "program", "pid"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
         "0000:3b:00.0", 79, "python3", "1234"),
        ("NVRM: Xid (0000:3b:00): 48, pid='<unknown>', name=<unknown>, DBE", "0000:3b:00.0", 48, "<unknown>", ""),
        ("NVRM: Xid (PCI:0000:9B:00.0): 154, " + _TO_RESET, "0000:9b:00.0", 154, "", ""),
        ("NVRM: Xid (PCI:0018:01:00): 149, NETIR Non-fatal XC0 i0 Link 08 (0x000000c0)", "0018:01:00.0", 149, "", ""),
        ("[  10.1] NVRM: Xid (PCI:00000000:3B:00): 31, pid=77, MMU Fault", "0000:3b:00.0", 31, "", "77"),
        ("NVRM: Xid (PCI:0000:3b:00): 63", "0000:3b:00.0", 63, "", ""),
        ("NVRM: Xid (PCI:0000:3b:00): 13, pid='12', name=train job, Graphics Exception", "0000:3b:00.0", 13, "train job", "12"),
    ],
)  # fmt: skip
def test_forms_of_a_line(line: str, slot: str, code: int, program: str, pid: str) -> None:
    """Every form that drivers have written."""
    event = parse_xid(line)
    assert event is not None
    assert (event.slot, event.code, event.program, event.pid) == (slot, code, program, pid)


@pytest.mark.parametrize(
    "line",
    ["", "NVRM: Xid", "NVRM: Xid (PCI:zzzz:3b:00): 79", "NVRM: Xid (PCI:0000:3b:00): x", "NVRM: Xid (PCI:0000:3b:00): 999999",
     "Xid (PCI:0000:3b:00): 79", "NVRM: Xid (PCI:0000:3b:00): \u0667\u0669"],
)  # fmt: skip
def test_lines_that_are_none(line: str) -> None:
    """A line that only looks like an Xid is none."""
    assert parse_xid(line) is None


@given(st.text() | st.builds("NVRM: Xid (PCI:{}): {}{}".format, st.text(), st.text(), st.text()))
def test_hostile_lines(line: str) -> None:
    """Never an exception; what is found has a slot of the usual form and a short text."""
    event = parse_xid(line)
    if event is not None:
        assert normal_slot(event.slot) == event.slot
        assert 0 <= event.code <= 99_999
        assert len(event.text) <= 200


@pytest.mark.parametrize(
    ("code", "status", "severity", "action"),
    [
        (13, CheckStatus.WARN, APP, RepairAction.RESTART_APP),
        (31, CheckStatus.WARN, APP, RepairAction.RESTART_APP),
        (43, CheckStatus.PASS, FindingSeverity.INFO, RepairAction.NONE),
        (45, CheckStatus.PASS, FindingSeverity.INFO, RepairAction.NONE),
        (48, CheckStatus.FAIL, FATAL, RepairAction.RESET_GPU),
        (61, CheckStatus.WARN, DEGRADED, RepairAction.OBSERVE),
        (63, CheckStatus.PASS, FindingSeverity.INFO, RepairAction.NONE),
        (64, CheckStatus.FAIL, FATAL, RepairAction.RESET_GPU),
        (74, CheckStatus.WARN, DEGRADED, RepairAction.RUN_DIAG),
        (79, CheckStatus.FAIL, FATAL, RepairAction.POWER_CYCLE),
        (92, CheckStatus.PASS, FindingSeverity.INFO, RepairAction.NONE),
        (94, CheckStatus.WARN, APP, RepairAction.RESTART_APP),
        (95, CheckStatus.FAIL, FATAL, RepairAction.RESET_GPU),
        (109, CheckStatus.WARN, DEGRADED, RepairAction.OBSERVE),
        (119, CheckStatus.FAIL, FATAL, RepairAction.RESET_GPU),
        (149, CheckStatus.WARN, DEGRADED, RepairAction.RUN_DIAG),
        (151, CheckStatus.FAIL, FATAL, RepairAction.REBOOT_NODE),
        (167, CheckStatus.FAIL, FATAL, RepairAction.REBOOT_NODE),
        (4711, CheckStatus.WARN, DEGRADED, RepairAction.CONTACT_SUPPORT),
    ],
)
def test_codes(code: int, status: CheckStatus, severity: FindingSeverity, action: RepairAction) -> None:
    """One event of a code; a code that nobody knows is for a person, and never fails by itself."""
    found = xid(node([(1, code, "pid=1, name=a, text")]))
    assert (found.status, found.severity, found.action) == (status, severity, action)


def test_the_recovery_action_wins() -> None:
    """Field 230 decides over the table, in both directions; without it, the text of Xid 154 does."""
    lines: list[Line] = [(1, 48, "pid=1, DBE")]
    assert xid(node(lines, action=2)).action is RepairAction.REBOOT_NODE
    calm = xid(node(lines, action=0))
    assert (calm.status, calm.severity) == (CheckStatus.WARN, DEGRADED)
    assert xid(node([(1, 13, "x")], action=1)).status is CheckStatus.FAIL
    told = xid(node([(1.01, 13, "pid=1, x"), (1, 154, _TO_RESET)]))
    assert (told.status, told.action) == (CheckStatus.FAIL, RepairAction.RESET_GPU)
    assert "13, 154" in told.message


def test_a_burst_is_judged_as_one() -> None:
    """Codes less than three minutes apart belong together; 45 beside another code says nothing."""
    sweep = node([(1, 45, "a"), (0.99, 48, "b"), (0.5, 63, "c")])
    found = xid(sweep)
    assert found.status is CheckStatus.FAIL
    assert "Xid 45, 48" in found.message
    assert "63" not in found.message
    events = [parse_xid(f"NVRM: Xid (PCI:0000:3b:00): {code}", seconds=at) for at, code in ((0, 1), (179, 2), (359, 3))]
    assert [len(burst) for burst in bursts(event for event in events if event)] == [2, 1]


def test_the_same_line_read_twice() -> None:
    """After a restart the whole log is read again: one event, also together with earlier sweeps."""
    sweep = node([(1, 31, "pid=1, name=a, x")])
    twice = changed(sweep, {"kmsg.lines": [*sweep.find(ReadingId("kmsg.lines")).value] * 2})  # type: ignore[union-attr]
    assert xid(twice) == xid(sweep)
    before = replace(sweep, taken_at=sweep.taken_at - 60)
    assert xid(sweep, history=[before, before]) == xid(sweep)


def test_the_kernel_has_dropped_a_line() -> None:
    """What an earlier sweep of this boot has read still counts."""
    before = replace(node([(1, 79, "x")]), taken_at=sound(1).taken_at - 60)
    assert xid(node([]), history=[before]).status is CheckStatus.FAIL


def test_an_earlier_boot_does_not_count() -> None:
    """A repaired node that was restarted is not held back by its old log."""
    before = replace(node([(1, 79, "x")]), boot_id="another", taken_at=sound(1).taken_at - 60)
    assert xid(node([]), history=[before]).status is CheckStatus.PASS
    sweep = node([(1, 79, "x")])
    rows = [{**row, "boot": "another"} for row in sweep.find(ReadingId("kmsg.lines")).value]  # type: ignore[union-attr]
    assert xid(changed(sweep, {"kmsg.lines": rows})).status is CheckStatus.PASS


def test_a_reset_ends_what_was_before() -> None:
    """The last change of the action to none; an event after it counts."""
    assert xid(node([(2, 79, "x"), (1, 154, _TO_NONE)])).status is CheckStatus.PASS
    assert xid(node([(1, 154, _TO_NONE), (0.5, 95, "x")])).status is CheckStatus.FAIL


def test_one_bad_program_does_not_condemn_a_gpu() -> None:
    """Repetition counts across programs; the same one may fail as often as it likes."""
    same: list[Line] = [(hour, 31, f"pid={hour}, name=bad.py, x") for hour in range(1, 20)]
    assert xid(node(same)).severity is APP
    two = [*same, (0.5, 31, "pid=9, name=good.py, x")]
    assert (xid(node(two)).severity, xid(node(two)).action) == (DEGRADED, RepairAction.RUN_DIAG)
    old: list[Line] = [(30, 31, "pid=1, name=a, x"), (1, 31, "pid=2, name=b, x")]
    assert xid(replace(node(old), taken_at=sound(1).taken_at)).severity is APP


POD, OTHER = "11111111-2222-3333-4444-555555555555", "11111111-2222-3333-4444-666666666666"
CONTAINER = "0123456789abcdef" * 4


def of_pods(*pods: str, code: int = 31) -> Sweep:
    """Return a node on which `python3` of each of these pods caused an Xid, an hour after the other."""
    sweep = node([(2 + hour, code, f"pid={hour}, name=python3, x") for hour, _ in enumerate(pods)])
    rows = sweep.find(ReadingId("kmsg.lines")).value  # type: ignore[union-attr]
    path = "0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope"
    groups = [path.format(pod.replace("-", "_"), CONTAINER) if pod else "" for pod in pods]
    return changed(sweep, {"kmsg.lines": [{**row, "cgroup": one} for row, one in zip(rows, groups, strict=True)]})


def test_pods_are_told_apart_where_their_programs_are_not() -> None:
    """F-081: the same program in two pods is two workloads, twice in one pod is one; the text names them."""
    twice = xid(of_pods(POD, POD))
    assert (twice.severity, twice.message) == (
        APP,
        f"Xid 31 (GPU memory page fault); python3 of pod/{POD} container/0123456789ab",
    )
    two = xid(of_pods(POD, OTHER))
    assert (two.severity, two.action) == (DEGRADED, RepairAction.RUN_DIAG)
    assert all(pod in two.message for pod in (POD, OTHER))


def test_threads_of_one_process_are_one_program() -> None:
    """F-081: each thread has a name of its own; the process id, reused hours later, is that of another."""
    threads = node([(1, 13, "pid=77, name=python3, x"), (0.99, 13, "pid=77, name=ray::Worker, x")])
    assert (xid(threads).severity, xid(threads).action) == (APP, RepairAction.RESTART_APP)
    later = node([(5, 13, "pid=77, name=python3, x"), (1, 13, "pid=77, name=other, x")])
    assert xid(later).severity is DEGRADED


def test_a_new_driver_ends_what_was_before() -> None:
    """F-081: a driver that is loaded again starts every GPU anew."""
    sweep = node([(2, 95, "pid=1, name=a, x")])
    (row,) = sweep.find(ReadingId("kmsg.lines")).value  # type: ignore[union-attr]
    reload = {"monotonic": row["monotonic"] + 60, "text": "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01"}
    found = xid(changed(sweep, {"kmsg.lines": [row, reload]}))
    assert (found.status, found.since) == (CheckStatus.PASS, BOOT + reload["monotonic"])


def test_a_log_that_begins_late_is_no_pass() -> None:
    """F-081: what the ring has overwritten is not known, unless the report said before then that all was well."""
    late = changed(node([]), {"kmsg.since": 80_000.0})
    found = xid(late)
    assert (found.status, found.since) == (CheckStatus.UNKNOWN, BOOT + 80_000.0)
    assert "begins 1.8 hours ago" in found.message
    assert xid(changed(node([(1, 79, "x")]), {"kmsg.since": 80_000.0})).status is CheckStatus.FAIL


def test_an_unknown_program_may_be_any_other() -> None:
    """Who is not known is not counted as another workload."""
    unknown = node([(2, 31, "pid='<unknown>', name=<unknown>, x"), (1, 31, "pid=1, name=a, x")])
    assert xid(unknown).severity is APP


@pytest.mark.parametrize(
    ("cgroup", "pod", "container"),
    [
        (f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/crio-{CONTAINER}.scope", POD, CONTAINER),
        (f"11:memory:/kubepods/besteffort/pod{POD}/{CONTAINER}", POD, CONTAINER),
        (f"0::/../../kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice", POD, ""),
        (f"0::/system.slice/docker-{'f' * 64}.scope/kubelet/kubepods/pod{POD}/{CONTAINER}", POD, CONTAINER),
        (f"0::/kubepods/podf{'0' * 31}/{CONTAINER}", f"f{'0' * 31}", CONTAINER),
        (f"12:cpu:/kubepods/pod{POD}\n0::/user.slice/{CONTAINER}", POD, ""),
        ("0::/user.slice/user-1000.slice", "", ""),
        ("0::/podman-1234.scope", "", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_the_pod_of_a_control_group(cgroup: str, pod: str, container: str) -> None:
    """Every driver and runtime, both versions of cgroups, clusters in containers."""
    assert workload_of(cgroup) == (pod, container)


def test_nvml_tells_what_no_log_does() -> None:
    """F-081: an agent without the kernel's log sees Xids; silence of NVML alone is no pass."""
    bare = changed(node([]), {"kmsg.lines": ReadError.NOT_SUPPORTED})
    silent = xid(changed(bare, {"nvml.xids": {"xids": []}}))
    assert silent.status is CheckStatus.SKIP
    assert "no NVML event since the agent started" in silent.message
    rows = [
        {"slot": SLOT, "code": 79, "seconds": bare.taken_at - 60},
        {"slot": "0000:99:00.0", "code": 48, "seconds": 1.0},
    ]
    told = changed(bare, {"nvml.xids": {"xids": rows}})
    assert (xid(told).status, xid(told).observed) == (CheckStatus.FAIL, 1)
    later = replace(bare, taken_at=bare.taken_at + 60)
    assert xid(later, history=[told]).status is CheckStatus.FAIL, "the agent has told it once"


@pytest.mark.parametrize("apart", [-900.0, 0.0, 15.0, 900.0])
def test_what_both_tell_is_one_event(apart: float) -> None:
    """F-081: as many of a code as the log has are the same events, whatever the clocks say; more are others."""
    sweep = node([(1, 48, "pid=1, name=a, DBE")])
    rows = [{"slot": SLOT, "code": 48, "seconds": sweep.taken_at - 3600 + apart}]
    assert xid(changed(sweep, {"nvml.xids": {"xids": rows}})).observed == 1
    assert xid(changed(sweep, {"nvml.xids": {"xids": [*rows, {**rows[0], "seconds": 1.0}]}})).observed == 2


@pytest.mark.parametrize("value", [None, [], {"xids": None}, {"xids": [None, 5, {"code": "x"}, {"slot": SLOT}]}])
def test_odd_events(value: Any) -> None:
    assert xid(changed(node([]), {"nvml.xids": value})).status is CheckStatus.PASS


def test_contained_errors() -> None:
    """94 blames the program; while a remap is pending, it is degraded."""
    sweep = node([(1, 94, "pid=1, name=a, x")])
    assert xid(sweep).severity is APP
    rows = {"corrected": 0, "uncorrected": 1, "pending": 1, "failure": 0}
    assert xid(changed(sweep, {"nvml.remapped_rows": rows}, SLOT)).severity is DEGRADED


def test_app_codes_age() -> None:
    """A program that failed two days ago is no news; a fatal code stays until a boot or a reset."""
    sweep = changed(node([]), {"procfs.btime": BOOT - 400_000})
    row = {"monotonic": 300_000.0, "text": "NVRM: Xid (PCI:0000:10:00): 13, x"}
    assert xid(changed(sweep, {"kmsg.lines": [row]})).status is CheckStatus.PASS
    row = {**row, "text": "NVRM: Xid (PCI:0000:10:00): 95, x"}
    assert xid(changed(sweep, {"kmsg.lines": [row]})).status is CheckStatus.FAIL


def test_another_slot_is_not_judged() -> None:
    """An Xid belongs to one GPU."""
    assert xid(node([(1, 79, "x")], slot="PCI:0000:99:00")).status is CheckStatus.PASS


def test_a_policy_replaces_rows() -> None:
    """The device plugin ignores 109; a policy may do so too."""
    rule = XidRule(code=109, bucket="IGNORE", severity=FindingSeverity.INFO)
    assert xid(node([(1, 109, "x")]), xids=XIDS.replaced({109: rule})).status is CheckStatus.PASS


def test_a_policy_makes_codes_graver() -> None:
    """F-081: also of a code that NVIDIA ignores; a lesser severity changes nothing of what was seen."""
    expected = NodeExpectation(xids={"43": FATAL, "48": APP, "109": FATAL})
    for code, status in ((43, CheckStatus.FAIL), (48, CheckStatus.FAIL), (109, CheckStatus.FAIL)):
        found = xid(node([(1, code, "x")]), expected=expected)
        assert (found.status, found.codes) == (status, (code,))


def test_the_table_is_valid_and_whole() -> None:
    """Every code from 1 to 172 has one row."""
    table = json.loads((DATA / "xids.json").read_text())
    jsonschema.validate(table, json.loads((DATA / "xids.schema.json").read_text()))
    assert [row["code"] for row in table["xids"]] == list(range(1, 173))
    assert not [row["code"] for row in table["xids"] if row["bucket"] != "UNUSED" and not row.get("name")]
    assert not [row["code"] for row in table["xids"] if row["bucket"] == "IGNORE" and row["severity"] != "info"]


def test_a_text_names_jobs_in_the_place_of_uids() -> None:
    """What nobody knows stays; a part of a UID, cut off by the length of a text, is none."""
    text = f"python3 of {mention(POD, CONTAINER)}, a of {mention(OTHER, '')}, pod/{POD[:20]}"
    assert mentioned(text) == {POD, OTHER}
    assert renamed(text, {POD: "job team-a/train (pod train-0)", OTHER: ""}) == (
        f"python3 of job team-a/train (pod train-0), a of pod/{OTHER}, pod/{POD[:20]}"
    )

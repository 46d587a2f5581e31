"""Folders of stored reports: what is written is read again, little is written twice, and old files go."""

from msgspec.structs import replace

from reconciler.nodehealth.report import NodeReport
from reconciler.nodehealth.stored import file_time, store_reports, stored_reports
from tests.nodehealth.reports import FAIL, NOW, UNKNOWN, finding, worst

DAY = 86400.0
GOOD = NodeReport(node="good", measured_at=NOW, passed=("hbm.bandwidth",))
BAD = replace(GOOD, node="bad", findings=(finding("gpu.xid", FAIL),))


def read(written: dict[str, bytes]) -> list[NodeReport]:
    return [one for name, raw in sorted(written.items()) for one in stored_reports(name, raw)]


def test_what_is_stored_is_read_again() -> None:
    """F-098: the folder that `health replay --reports` reads."""
    made = store_reports([GOOD, BAD], [], {}, now=NOW, days=14)
    assert [*made.written] == ["2027-01-15T080000Z.json"]
    assert read(dict(made.written)) == [BAD, GOOD]
    assert file_time("2027-01-15T080000Z.json") == NOW


def test_a_file_is_no_larger_than_plans_read() -> None:
    many = [replace(worst(16, 12), node=f"n{number:03}") for number in range(45)]
    made = store_reports(many, [], {}, now=NOW, days=14)
    assert len(made.written) > 1
    assert all(len(raw) < 3 << 20 for raw in made.written.values())
    assert sorted(one.node for one in read(dict(made.written))) == [one.node for one in many]
    assert {file_time(name) for name in made.written} == {NOW}


def test_one_a_day_is_enough_of_a_node_that_says_the_same() -> None:
    """A failure is repeated: its confirmation is part of what is replayed. A report that is not new is not."""
    last = {"good": GOOD, "bad": BAD}
    again = [replace(GOOD, measured_at=NOW + 600), replace(BAD, measured_at=NOW + 600)]
    assert [one.node for one in read(dict(store_reports(again, [], last, now=NOW + 600, days=14).written))] == ["bad"]
    assert store_reports([GOOD, BAD], [], last, now=NOW + 600, days=14).written == {}
    unknown = replace(GOOD, measured_at=NOW + 600, findings=(finding("gpu.xid", UNKNOWN),))
    assert store_reports([unknown], [], last, now=NOW + 600, days=14).written != {}


def test_old_files_go_and_those_of_others_stay() -> None:
    names = [
        "2027-01-01T075959Z.json",
        "2027-01-01T080000Z-2.json",
        "2027-01-10T080000Z.json",
        "mine.json",
        "2001.yaml",
    ]
    made = store_reports([], names, {}, now=NOW, days=14)
    assert made.removed == ("2027-01-01T075959Z.json",)
    assert made.written == {}

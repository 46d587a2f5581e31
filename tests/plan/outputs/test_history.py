"""`reconciler history` as text."""

from reconciler.live.apply.results import Record
from reconciler.live.pages.applied import render_history


def _record(cluster: str, counts: dict[str, int], finished: str = "2026-01-01T00:00:05Z") -> Record:
    return Record(
        cluster=cluster,
        server="https://127.0.0.1:6443",
        user="admin",
        plan="sha256:" + "a" * 64,
        commit="b" * 40,
        base="",
        started="2026-01-01T00:00:00Z",
        finished=finished,
        counts=counts,
    )


def test_history_says_what_was_done_in_columns() -> None:
    records = [
        _record("main", {"create done": 2, "update denied": 1}),
        _record("west", {"delete done": 1, "create not started": 3}),
        _record("main", {}, finished=""),
    ]
    start = "2026-01-01T00:00:00Z"
    assert "".join(render_history(records)).splitlines() == [
        f"{start}  Started      main  bbbbbbbbbbbb  aaaaaaaaaaaa  admin  no end recorded",
        f"{start}  Applied      west  bbbbbbbbbbbb  aaaaaaaaaaaa  admin  1 deleted, 3 not started (create)",
        f"{start}  Applied      main  bbbbbbbbbbbb  aaaaaaaaaaaa  admin  2 created, 1 denied (update)",
    ]

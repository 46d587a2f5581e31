"""What a plan means for the GPUs: requests joined with quotas, totals, and the first sentence."""

import pytest
from msgspec.structs import replace

from reconciler.plan import GpuLine, Plan, QueueLine
from reconciler.plan.outputs.findings import lint_headline
from reconciler.plan.outputs.sections.gpus import queues as queues_section
from reconciler.plan.outputs.sections.model import TableBlock, View
from reconciler.plan.outputs.summary import blockers, headline, headlines
from reconciler.plan.outputs.summary.queues import hidden_requests, number, queue_rows, total_requests
from tests.plan.outputs import plans


def plan(*gpus: GpuLine, queues: tuple[QueueLine, ...] = ()) -> Plan:
    return replace(plans.quiet(), gpus=gpus, queues=queues)


def gpu(queue: str, before: int, after: int, *, product: str = "A", cluster: str = "main") -> GpuLine:
    return GpuLine(cluster=cluster, queue=queue, product=product, before=before, after=after)


def quota(
    queue: str,
    before: float | None,
    after: float | None,
    *,
    requested: int = 0,
    product: str = "",
    limit: float | None = None,
    exists: bool = True,
    parent: str = "",
) -> QueueLine:
    return QueueLine(
        cluster="main",
        queue=queue,
        product=product,
        before=before,
        after=after,
        limit=limit,
        requested=requested,
        exists_after=exists,
        parent=parent,
    )


def test_a_kai_quota_joins_the_requests_of_its_queue() -> None:
    (row,) = queue_rows(plan(gpu("q", 8, 32), queues=(quota("q", 64, 64, requested=32),)))
    assert (row.product, row.requested_after, row.guaranteed_after, row.remark) == ("A", 32, 64, "")


def test_a_quota_for_any_product_is_compared_with_all_requests_of_its_queue() -> None:
    """The headline has one sum for the queue; the table has a row for each product, also of one that stays."""
    made = plan(gpu("q", 19, 3), gpu("q", 2, 2, product=""), queues=(quota("q", 32, 16, requested=5),))
    assert headline(made).startswith("-16 GPUs requested on main (q: 21 → 5, quota 16)")
    section = queues_section(View(plan=made))
    assert section is not None
    assert isinstance(section.blocks[0], TableBlock)
    assert len(section.blocks[0].rows) == 2


def test_quotas_by_product_join_their_product() -> None:
    queues = (quota("q", 8, 8, product="A", requested=9, limit=8), quota("q", 4, 4, product="B", requested=5, limit=8))
    rows = {row.product: row for row in queue_rows(plan(gpu("q", 0, 9), gpu("q", 0, 5, product="B"), queues=queues))}
    assert rows["A"].remark == "1 over the limit"
    assert rows["B"].remark == "1 borrowed"


def test_a_parent_is_compared_by_what_is_asked_below_it_and_not_counted_twice() -> None:
    made = plan(gpu("child", 4, 12), queues=(quota("child", 16, 16, requested=12), quota("parent", 8, 8, requested=12)))
    rows = {row.queue: row for row in queue_rows(made)}
    assert rows["parent"].is_parent
    assert rows["parent"].remark == "4 borrowed"
    assert (total_requests(made).before, total_requests(made).after) == (4, 12)
    assert hidden_requests(made, [rows["child"]]).after == 0


def test_a_deleted_queue_says_who_still_asks() -> None:
    (row,) = queue_rows(plan(gpu("q", 8, 8), queues=(quota("q", 64, 0, requested=8, limit=0, exists=False),)))
    assert row.remark == "queue deleted, 8 GPUs still requested"


@pytest.mark.parametrize(
    ("made", "sentences"),
    [
        (plan(), ("No changes",)),
        (plan(gpu("q", 0, 1)), ("+1 GPU requested on main (q: 0 → 1)",)),
        (plan(gpu("a", 8, 0), gpu("b", 0, 8)), ("GPU requests move between queues on main (a: 8 → 0, b: 0 → 8)",)),
        (plan(gpu("", 8, 0)), ("-8 GPUs requested on main (no queue: 8 → 0)",)),
        (
            plan(gpu("a", 0, 8), gpu("a", 8, 4, cluster="edge")),
            ("+8 GPUs requested on main (a: 0 → 8)", "-4 GPUs requested on edge (a: 8 → 4)"),
        ),
        (
            plan(gpu("q", 0, 8), gpu("q", 0, 4, product="google.com/tpu")),
            ("+12 devices requested on main (q: 0 → 8, q google.com/tpu: 0 → 4)",),
        ),
        (
            plan(gpu("q", 0, 1, product="nvidia.com/mig-1g.10gb")),
            ("+1 device requested on main (q nvidia.com/mig-1g.10gb: 0 → 1)",),
        ),
        (
            plan(queues=(quota("q", 8, None),)),
            ("GPU quotas change to or from unlimited on main (q: 8 → unlimited)",),
        ),
        (
            plan(queues=(quota("q", 8, 4.5), quota("r", 1, 1), quota("s", 2, 5.5))),
            ("GPU quotas move between queues on main (q: 8 → 4.5, s: 2 → 5.5)",),
        ),
        (replace(plan(), changes=(plans.MOVED,)), ("No change in requested GPUs or quotas",)),
        (
            plan(gpu("a", 0, 1), gpu("b", 0, 9), gpu("c", 0, 5)),
            ("+15 GPUs requested on main (b: 0 → 9, c: 0 → 5, 1 more)",),
        ),
    ],
)
def test_headlines(made: Plan, sentences: tuple[str, ...]) -> None:
    assert headlines(made) == sentences
    assert headline(made) == "; ".join(sentences)


def test_what_blocks_a_commit_is_counted() -> None:
    assert blockers(plans.everything()) == ("1 policy denial", "1 budget exceeded")
    assert blockers(plans.approved()) == ("1 policy denial",)
    assert blockers(plans.quiet()) == ()


def test_a_child_and_its_parent_share_what_they_are_guaranteed() -> None:
    """The headline counts the GPUs of a tree once, like the budget."""
    tree = (quota("root", 0, 16), quota("a", 0, 12, parent="root"), quota("b", 0, 12.5, parent="root"))
    assert headline(plan(queues=tree)).startswith("+24.5 GPUs of quota on main (root: 0 → 16, b: 0 → 12.5, ")
    moved = (quota("root", 32, 32), quota("a", 16, 8, parent="root"), quota("b", 16, 24, parent="root"))
    assert headline(plan(queues=moved)).startswith("GPU quotas move between queues on main (")
    raised = (quota("root", 16, 20), quota("a", 24, 24, parent="root"))
    assert headline(plan(queues=raised)).startswith("+4 GPUs of quota on main (root: 16 → 20)")


def test_lint_headlines() -> None:
    assert lint_headline(plans.broken()) == "3 errors and 1 warning in 3 files"
    assert lint_headline(plans.quiet()) == "No problems found"


def test_numbers() -> None:
    assert [number(value) for value in (None, 4.0, 0.5, 12)] == ["unlimited", "4", "0.5", "12"]

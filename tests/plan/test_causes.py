"""The blocks of lines in which a file differs: what causes are found in."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.plan.causes import FileEdit, read_edit


def edit(before: list[str], after: list[str]) -> FileEdit:
    return read_edit("jobs/a.yaml", "\n".join(before).encode(), "\n".join(after).encode())


def test_lines_that_are_edited_where_they_are_have_blocks_of_their_own() -> None:
    """In a file of any length: 5,000 lines with two edits are two blocks, not one of everything between."""
    before = [f"line: {number}" for number in range(5_000)]
    after = ["line: new" if number in (10, 4_000) else line for number, line in enumerate(before)]
    assert [(block.removed, block.added) for block in edit(before, after).blocks] == [
        (range(10, 11), range(10, 11)),
        (range(4_000, 4_001), range(4_000, 4_001)),
    ]


def test_lines_that_move_are_not_edited_where_they_are() -> None:
    """A line more at the start and one fewer at the end: two blocks, although both sides are equally long."""
    before = [f"line: {number}" for number in range(100)]
    found = edit([*before, "last"], ["first", *before]).blocks
    assert [(block.removed, block.added) for block in found] == [
        (range(0), range(1)),
        (range(100, 101), range(101, 101)),
    ]


LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


@given(LINES, LINES)
def test_blocks_make_one_side_of_the_other(before: list[str], after: list[str]) -> None:
    """Whatever changed, what is outside the blocks is equal."""
    made, at = [], 0
    blocks = edit(before, after).blocks
    for block in blocks:
        made += before[at : block.removed.start] + after[block.added.start : block.added.stop]
        at = block.removed.stop
    assert made + before[at:] == after

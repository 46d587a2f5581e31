"""Paragraphs of a terminal page: where a line may end."""

from reconciler.console.page import Page, Style, Styled


def test_a_line_ends_only_at_a_space() -> None:
    """Spans that touch stay together: a comma never begins a line."""
    page = Page(width=40)
    page.write("it is a forecast of ", Styled("2026-11-01T06:00:00Z", Style.STRONG), ", ", Styled("28 days old"))
    assert page.text() == "it is a forecast of\n  2026-11-01T06:00:00Z, 28 days old\n"


def test_spans_that_touch_and_exceed_a_line_are_split() -> None:
    page = Page(width=40)
    page.write("a ", Styled("b" * 30, Style.STRONG), "c" * 30)
    assert page.lines == ["a " + "b" * 30, "  " + "c" * 30]

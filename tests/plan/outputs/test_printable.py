"""Nothing that moves a cursor, hides, reorders or commands gets through; widths are those of a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.console.printable import cells, clip, clip_middle, printable, without_commands
from tests.plan.outputs.strategies import TEXT


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text ~!", "plain text ~!"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2028\u2029\u00a0\u3000", "\\u2028\\u2029\\xa0\\u3000"),
        ("\u3164\u115f\u2800", "\\u3164\\u115f\\u2800"),
        ("\ud800\ufffe\U0001ffff", "\\ud800\\ufffe\\U0001ffff"),
        ("\U000e0041\ufe0f", "\\U000e0041\\ufe0f"),
        ("Zürich 漢字 → 🚀", "Zürich 漢字 → 🚀"),
        ("e" + "\u0301" * 4, "e\u0301\u0301\\u0301\\u0301"),
    ],
)
def test_what_is_not_plainly_visible_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_ascii_terminals_get_ascii() -> None:
    assert printable("Zürich 漢 🚀", unicode=False) == "Z\\xfcrich \\u6f22 \\U0001f680"


@pytest.mark.parametrize(
    "line",
    ["::error::x", "  ::stop-commands::t", "\t::x::", "\x1b[1m::error::", "a ##[group]", "##vso[task]", "##TeamCity[x"],
)
def test_commands_to_build_servers_are_broken_up(line: str) -> None:
    shown = without_commands(f"first\n{line}\nlast")
    assert "##[" not in shown
    assert "##vso[" not in shown
    assert "##teamcity[" not in shown.lower()
    assert not any(part.lstrip().startswith("::") for part in shown.splitlines())


def test_text_that_is_no_command_stays() -> None:
    text = "a::b\nstd::vector\n## [x]\n# ["
    assert without_commands(text) == text


@given(st.text())
def test_printable_text_has_no_control_and_survives_itself(text: str) -> None:
    shown = printable(text)
    assert not any(unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for sign in shown)
    assert printable(shown) == shown
    assert printable(text, unicode=False).isascii()
    shown.encode("utf-8")


@given(TEXT, st.integers(0, 40))
def test_clipped_text_fits(text: str, width: int) -> None:
    shown = printable(text)
    for cut in (clip(shown, width), clip_middle(shown, width), clip(shown, width, ellipsis="...")):
        assert cells(cut) <= width
    if cells(shown) <= width:
        assert clip(shown, width) == clip_middle(shown, width) == shown


def test_cells_count_wide_signs_twice_and_marks_not() -> None:
    assert cells("漢字") == 4
    assert cells("e\u0301") == 1
    assert cells("🚀") == 2
    assert clip("漢字漢字", 5) == "漢字…"
    assert clip_middle("abcdefghij", 5) == "ab…ij"

"""When text is colored: the flag decides, then NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, then the terminal (F-141)."""

import pytest

from tests.cli.fleet import Fleet

_RED_OR_BOLD = "\x1b["


@pytest.mark.parametrize(
    ("environ", "flag", "colored"),
    [
        ({}, "auto", False),  # not a terminal
        ({}, "always", True),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"FORCE_COLOR": "0"}, "auto", False),
        ({"CLICOLOR_FORCE": "1"}, "auto", True),
        ({"FORCE_COLOR": "1"}, "never", False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, "auto", True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, "auto", False),
        ({"NO_COLOR": "1"}, "always", True),
    ],
)
def test_who_decides(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], flag: str, colored: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    ran = fleet.run("plan", "--color", flag)
    assert ran.code == 0
    assert (_RED_OR_BOLD in ran.out) is colored


def test_only_text_is_colored(fleet: Fleet) -> None:
    assert _RED_OR_BOLD not in fleet.run("plan", "--color", "always", "-o", "markdown").out
    assert _RED_OR_BOLD not in fleet.run("plan", "--color", "always", "-o", "json").out

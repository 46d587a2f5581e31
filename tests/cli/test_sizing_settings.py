"""Settings of sizing as a user meets them: an exit code and a place."""

import pytest

from tests.cli.fleet import Fleet


@pytest.mark.parametrize(
    ("sizing", "words"),
    [
        ("engine: wrapper", "engine is wrapper, but wrapper.script is not set"),
        ("engine: rest", "engine is rest, but rest.url is not set"),
        ("{wrapper: {script: size.py}, rest: {url: 'http://ado'}}", "wrapper.script and rest.url are both set"),
    ],
)
def test_none_or_both_of_script_and_service(fleet: Fleet, sizing: str, words: str) -> None:
    """F-018: exactly one, or the command ends with what is wrong and where."""
    text = (fleet.root / "reconciler.yaml").read_text()
    line = text.count("\n") + 1
    sizing = sizing if sizing.startswith("{") else f"{{{sizing}}}"
    fleet.write("reconciler.yaml", f"{text}  sizing: {sizing}\n")
    planned = fleet.run("plan", "--width", "200")
    assert planned.code == 3
    assert f"reconciler.yaml:{line}:" in planned.out + planned.err
    assert words in planned.out + planned.err

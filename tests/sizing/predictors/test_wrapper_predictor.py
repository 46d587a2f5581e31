"""Wrapper scripts: the protocol of the autoconf controller, and scripts that break it."""

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import PredictorError, PredictorUnavailable
from reconciler.sizing.engine_registry import WRAPPER, Outcome
from reconciler.sizing.engines.wrapper import WrapperPredictor, _parse_reply
from tests.sizing.predictors.asking import asked, environ, is_gone

if TYPE_CHECKING:
    from reconciler.sizing.engines.port import Predictor


def script(folder: Path, body: str, **limits: float) -> WrapperPredictor:
    path = folder / "wrapper with spaces.py"
    path.write_text("import json, os, subprocess, sys, time\nout = sys.argv[1]\n" + textwrap.dedent(body))
    return WrapperPredictor(path, environ=environ(), seconds=limits.get("seconds", 60))


def says(folder: Path, text: str) -> WrapperPredictor:
    return script(folder, f"open(out, 'w').write({text!r})")


def test_the_arguments_are_those_of_the_autoconf_controller(tmp_path: Path) -> None:
    """F-009: python SCRIPT OUT MODEL METHOD GPU TOKENS BATCH VERSION."""
    record = tmp_path / "argv"
    found: Predictor = script(
        tmp_path,
        f"""
        json.dump([sys.argv, os.getcwd(), sys.stdin.read()], open({str(record)!r}, "w"))
        assert os.path.isdir(os.path.dirname(out)) and not os.path.exists(out)
        json.dump({{"workers": 2, "gpus": 4, "error": ""}}, open(out, "w"))
        """,
    )
    with found:
        said = found.predict(asked(model="llama-7b; rm -rf $HOME `id`", batch_size=16, tokens_per_sample=4096))
    assert (said.engine, said.outcome, said.gpus, said.workers) == (WRAPPER, Outcome.RECOMMENDATION, 4, 2)
    argv, folder, given = json.loads(record.read_text())
    assert argv[2:] == ["llama-7b; rm -rf $HOME `id`", "full", "A", "4096", "16", "3.1.0"]
    assert folder == str(Path(argv[1]).parent)
    assert given == ""
    assert not Path(folder).exists()
    versions = dict(said.versions)
    assert versions.pop("script").startswith("sha256:")
    assert versions == {"model": "3.1.0"}


@pytest.mark.parametrize(
    ("text", "outcome", "gpus"),
    [
        ('{"workers": 1, "gpus": 2, "error": ""}', Outcome.RECOMMENDATION, 2),
        ('{"workers": 1, "gpus": 2}', Outcome.RECOMMENDATION, 2),
        ('{"workers": 1.0, "gpus": 2.0, "error": null}', Outcome.RECOMMENDATION, 2),
        ('{"workers": 1, "gpus": 2, "error": "", "can_recommend": true}', Outcome.RECOMMENDATION, 2),
        ('{"workers": 1, "gpus": 2, "can_recommend": 1}', Outcome.RECOMMENDATION, 2),
        # what the controller's own script writes where ado-autoconf recommends nothing
        ('{"workers": null, "gpus": null, "error": ""}', Outcome.REFUSAL, 0),
        ('{"workers": 0, "gpus": 0, "error": "", "can_recommend": false}', Outcome.REFUSAL, 0),
        ('{"can_recommend": 0}', Outcome.REFUSAL, 0),
    ],
)
def test_answers(tmp_path: Path, text: str, outcome: Outcome, gpus: int) -> None:
    """F-009: numbers are a recommendation, also without `can_recommend`; nulls are a refusal, never 0 GPUs."""
    said = says(tmp_path, text).predict(asked())
    assert (said.outcome, said.gpus) == (outcome, gpus)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"workers": 0, "gpus": 0, "error": "no such\\nmodel"}', "the wrapper script failed: no such model"),
        ('{"workers": 0, "gpus": 0, "error": ""}', "invalid recommendation: 0 GPUs, 0 workers"),
        ('{"workers": 1, "gpus": 0}', "0 GPUs"),
        ('{"workers": 1, "gpus": -4}', "-4 GPUs"),
        ('{"workers": 1, "gpus": null}', "None GPUs"),
        ('{"workers": null, "gpus": null, "can_recommend": true}', "None GPUs"),
        ('{"workers": 1}', "None GPUs"),
        ('{"workers": 1, "gpus": "4"}', "'4' GPUs"),
        ('{"workers": 1, "gpus": true}', "True GPUs"),
        ('{"workers": 1, "gpus": 2.5}', "2.5 GPUs"),
        ('{"workers": 1, "gpus": 1e300}', "GPUs"),
        ('{"workers": 1, "gpus": 99999999999999999999999}', "GPUs"),
        ('{"workers": 1, "gpus": [4]}', "GPUs"),
        ('{"workers": 1, "gpus": 2, "can_recommend": "no"}', "invalid value of can_recommend: 'no'"),
        ('{"workers": 1, "gpus": NaN}', "wrote invalid JSON"),
        ('{"workers": 1, "gpus": 2, "surprise": 1}', "wrote an invalid answer"),
        ('{"workers": 1, "gpus": 2} {"workers": 1, "gpus": 3}', "wrote invalid JSON"),
        ("[1, 2]", "wrote an invalid answer"),
        ("{}", "wrote an invalid answer"),
        ("", "wrote invalid JSON"),
        ("null", "wrote an invalid answer"),
        ("\x00\x01\x02", "wrote invalid JSON"),
        ("[" * 60_000, "wrote invalid JSON"),
        (" " * 70_000, "more than 64 KiB"),
    ],
)
def test_whatever_is_no_clear_answer_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    """F-009: an error with its reason, never a recommendation."""
    with pytest.raises(PredictorError) as raised:
        says(tmp_path, text).predict(asked())
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not raised.value.retryable


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("pass", "did not write its output file"),
        ("sys.exit(3)", "exited with code 3"),
        ("raise ValueError('no such model')", "exited with code 1: ValueError: no such model"),
        ("os.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("os.mkfifo(out)", "wrote invalid JSON"),
        ("os.symlink('/etc/passwd', out)", "cannot be read"),
        ("os.mkdir(out)", "cannot be read"),
        ("open(out, 'w').write('{}'); os.chmod(os.path.dirname(out), 0)", "the wrapper script"),
        ("print('x' * 10_000_000); print('last line'); sys.exit(1)", "exited with code 1: last line"),
    ],
)
def test_scripts_that_fail(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(PredictorError) as raised:
        script(tmp_path, body).predict(asked())
    assert words in str(raised.value)


def test_a_script_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    body = f"""
        other = subprocess.Popen(["sleep", "1000"])
        open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{other.pid}}")
        time.sleep(1000)
    """
    with pytest.raises(PredictorUnavailable, match="did not answer within 5 s"):
        script(tmp_path, body, seconds=5).predict(asked())
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())


def test_what_a_script_leaves_running_is_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    body = f"""
        other = subprocess.Popen(["sleep", "1000"])
        open({str(pids)!r}, "w").write(str(other.pid))
        json.dump({{"workers": 1, "gpus": 2}}, open(out, "w"))
    """
    assert script(tmp_path, body).predict(asked()).gpus == 2
    assert is_gone(int(pids.read_text()))


def test_a_script_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(PredictorUnavailable, match="did not answer within 1 s"):
        script(tmp_path, "while True: print('x' * 100_000)", seconds=1).predict(asked())


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PredictorError, match="cannot be read: No such file") as raised:
        WrapperPredictor(tmp_path / "none.py").predict(asked())
    assert raised.value.exit_code == 6


def test_arguments_that_no_process_can_have(tmp_path: Path) -> None:
    with pytest.raises(PredictorError, match="could not be started"):
        says(tmp_path, "{}").predict(asked(model="a\0b"))
    with pytest.raises(PredictorError, match="could not be started"):
        says(tmp_path, "{}").predict(asked(model="a" * 10_000_000))


def test_memory_of_a_script_is_capped(tmp_path: Path) -> None:
    path = tmp_path / "grow.py"
    path.write_text("import os\nheld = []\nwhile True: held.append(os.urandom(1 << 20) * 16)")
    with pytest.raises(PredictorUnavailable, match="more than its limit of 256 MiB"):
        WrapperPredictor(path, memory_bytes=256 << 20).predict(asked())


def test_a_script_gets_no_credentials(tmp_path: Path) -> None:
    """Tokens of the reconciler, of clouds and of forges stay out of programs that others wrote."""
    path, seen = tmp_path / "wrapper.py", tmp_path / "seen"
    path.write_text(
        f"import json, os, sys\njson.dump(dict(os.environ), open({str(seen)!r}, 'w'))\n"
        "json.dump({'workers': 1, 'gpus': 2}, open(sys.argv[1], 'w'))"
    )
    secrets = dict.fromkeys(
        ("RECONCILER_SIZING_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "APP_SECRET", "AWS_SESSION_TOKEN"), "s3cret-value"
    )
    with WrapperPredictor(path, environ=environ() | {"MY_SETTING": "stays"} | secrets) as found:
        found.predict(asked())
    environment = json.loads(seen.read_text())
    assert environment["MY_SETTING"] == "stays"
    assert not environment.keys() & secrets.keys()
    assert "s3cret-value" not in seen.read_text()


@given(
    reply=st.dictionaries(
        st.sampled_from(("can_recommend", "gpus", "workers", "error", "other")),
        st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=3) | st.lists(st.integers()),
    )
)
def test_no_reply_makes_zero_gpus(reply: dict[str, Any]) -> None:
    try:
        outcome, gpus, workers = _parse_reply(reply)
    except PredictorError:
        return
    assert (outcome is Outcome.RECOMMENDATION) == (gpus >= 1 and workers >= 1)
    if outcome is Outcome.RECOMMENDATION:
        assert (reply["gpus"], reply["workers"]) == (gpus, workers)
        assert not reply.get("error")
        assert reply.get("can_recommend") in (None, True)

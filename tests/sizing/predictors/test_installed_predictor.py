"""The child process of ado-autoconf, with a stand-in that misbehaves as the real one and worse."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.errors import PredictorError, PredictorUnavailable
from reconciler.sizing.config import Goal
from reconciler.sizing.engine_registry import AUTOCONF, Outcome
from reconciler.sizing.engines.installed import InstalledPredictor
from reconciler.sizing.engines.port import Prediction, Predictor
from tests.sizing.predictors.asking import LAYOUTS, STANDIN, asked, environ, is_gone

ROOT = Path(__file__).resolve().parents[3]


def predictor(call_seconds: float = 60.0, *, memory_bytes: int = 2 << 30, **more: str) -> InstalledPredictor:
    found = environ(STANDIN_UNRULY="1") | more
    return InstalledPredictor(environ=found, call_seconds=call_seconds, start_seconds=60, memory_bytes=memory_bytes)


def warm(found: InstalledPredictor) -> int:
    """Start the child and let it load the model; return its id."""
    assert found.predict(asked()).outcome is Outcome.RECOMMENDATION
    assert found._process is not None
    return found._process.pid


def test_it_recommends_and_gives_chances() -> None:
    """F-006: the fewest GPUs among those that divide the batch."""
    found: Predictor = predictor()
    with found:
        assert found.engine == AUTOCONF
        assert found.predict(asked(), LAYOUTS) == Prediction(
            engine=AUTOCONF,
            outcome=Outcome.RECOMMENDATION,
            gpus=4,
            workers=1,
            chances=((1, 8, 0.1), (2, 8, 0.1 + 0.2), (4, 8, 0.1 + 0.2 + 0.3), (8, 8, 0.1 + 0.2 + 0.3 + 0.3)),
            versions=(("ado-autoconf", "1.9.7"), ("model", "3.1.0")),
        )
        assert found.predict(asked(batch_size=6)).outcome is Outcome.REFUSAL
        assert found.predict(asked(batch_size=2)).outcome is Outcome.REFUSAL
        spread = found.predict(asked(gpus_per_worker=3))
        assert (spread.gpus, spread.workers) == (2, 2)


def test_the_requested_gpus_stay_where_they_fit() -> None:
    """F-007: 2 GPUs that would fail become 4; 5 that fit stay 5."""
    with predictor() as found:
        more = found.predict(asked(goal=Goal.AVOID_OOM, number_gpus=2))
        same = found.predict(asked(goal=Goal.AVOID_OOM, number_gpus=5), ((5, 40),))
    assert (more.gpus, more.workers) == (4, 1)
    assert (same.gpus, same.workers) == (5, 1)
    assert same.chances == ((5, 40, 0.1 + 0.2 + 0.3),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "671b"}, "ado-autoconf does not know model_name '671b'"),
        ({"model": "x\n\x1b[31m", "method": "qlora"}, "model_name 'x\\n\\x1b[31m', method 'qlora'"),
        ({"gpu_model": "toaster"}, "gpu_model 'toaster'"),
        ({"model_version": "4.0.0"}, "model_version '4.0.0'"),
        ({"batch_size": 10**8}, "a number is out of range"),
        ({"tokens_per_sample": 0}, "a number is out of range"),
    ],
)
def test_what_its_domain_check_refuses_is_not_asked_again(change: dict[str, object], words: str) -> None:
    with predictor() as found:
        said = found.predict(asked(**change), LAYOUTS)
    assert said.outcome is Outcome.REFUSAL
    assert words in said.text
    assert said.chances == ()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("hang", "did not answer within 0.5 s"),
        ("die", "exited without an answer"),
        ("rubbish", "sent an invalid answer"),
        ("two-lines", "sent more than one answer"),
        ("wrong-id", "answered another question"),
        ("endless", "sent an answer of more than"),
        ("family", "did not answer within 0.5 s"),
    ],
)
def test_a_child_without_an_answer_is_ended_and_the_next_one_answers(model: str, words: str, tmp_path: Path) -> None:
    starts, marker = tmp_path / "starts", tmp_path / "marker"
    with predictor(STANDIN_STARTS=str(starts), STANDIN_MARKER=str(marker)) as found:
        warm(found)
        found._call_seconds = 0.5 if "within" in words else 60
        with pytest.raises(PredictorUnavailable, match=words) as raised:
            found.predict(asked(model=model))
        assert raised.value.retryable
        found._call_seconds = 60
        assert found.predict(asked()).gpus == 4
    pids = [int(line) for line in starts.read_text().split()]
    assert len(pids) == 3  # the warm one, one more attempt, and one for the next question
    if marker.exists():
        pids.append(int(marker.read_text()))
    assert all(is_gone(pid) for pid in pids)


def test_a_child_that_dies_once_is_not_noticed(tmp_path: Path) -> None:
    with predictor(STANDIN_MARKER=str(tmp_path / "marker")) as found:
        assert found.predict(asked(model="die-once")).gpus == 4
    assert (tmp_path / "marker").exists()


def test_children_that_answer_nothing_are_not_started_for_ever(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    with predictor(STANDIN_STARTS=str(starts)) as found:
        for _ in range(2):
            with pytest.raises(PredictorUnavailable):
                found.predict(asked(model="die"))
        with pytest.raises(PredictorError, match="failed 4 times and is not started again: ") as raised:
            found.predict(asked())
    assert not raised.value.retryable
    assert len(starts.read_text().split()) == 4


def test_memory_is_capped() -> None:
    with predictor(memory_bytes=256 << 20) as found:
        warm(found)
        with pytest.raises(PredictorUnavailable, match=r"used \d+ MiB of memory, more than its limit of 256 MiB"):
            found.predict(asked(model="grow"))


def test_what_the_library_prints_is_no_answer() -> None:
    with predictor() as found:
        assert found.predict(asked(model="loud")).gpus == 4
        assert found.predict(asked()).gpus == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "fail"}, r"ado-autoconf failed: RuntimeError: the library failed with \x1b[31mcolours"),
        ({"model": "fail", "goal": Goal.AVOID_OOM, "number_gpus": 2}, "failed without a reason"),
        ({"model": "nan"}, "invalid answer"),
    ],
)
def test_a_failure_is_no_refusal(change: dict[str, object], words: str) -> None:
    with predictor() as found:
        with pytest.raises(PredictorError) as raised:
            found.predict(asked(**change), LAYOUTS)
        assert words in str(raised.value)
        assert found.predict(asked()).gpus == 4


@pytest.mark.parametrize(
    "said",
    [
        '"outcome": "recommendation"',
        '"outcome": "recommendation", "gpus": 0, "workers": 1',
        '"outcome": "recommendation", "gpus": 1, "workers": -1',
        '"outcome": "refusal", "gpus": 2, "workers": 1',
        '"outcome": "pending"',
        '"chances": []',
        '"outcome": "recommendation", "gpus": 1, "workers": 1, "chances": [[1, 8, 1.5]]',
        '"outcome": "recommendation", "gpus": 1, "workers": 1, "chances": [[1, 9, 0.5]]',
        '"outcome": "recommendation", "gpus": 1, "workers": 1, "chances": []',
    ],
)
def test_answers_that_make_no_sense(said: str, tmp_path: Path) -> None:
    """An interpreter that answers by itself: hello, loading, then nonsense in good form."""
    python = tmp_path / "python"
    lines = ['{"id": 1}', '{"id": 2}', f'{{"id": 3, {said}}}']
    python.write_text("#!/bin/sh\n" + "".join(f"read -r line; echo '{line}'\n" for line in lines) + "read -r line\n")
    python.chmod(0o700)
    with InstalledPredictor(str(python), call_seconds=60) as found, pytest.raises(PredictorError) as raised:
        found.predict(asked(), ((1, 8),))
    assert not raised.value.retryable


def test_an_interpreter_without_the_library_is_told_and_not_tried_for_ever() -> None:
    with InstalledPredictor(environ={**os.environ, "PYTHONPATH": ""}) as found:
        told = []
        for _ in range(6):
            with pytest.raises(PredictorError, match="No module named 'autoconf'") as raised:
                found.predict(asked())
            told.append(str(raised.value))
    assert ["gpu-reconciler[autoconf]" in one for one in told] == [True] * 4 + [False] * 2
    assert ["not started again" in one for one in told] == [False] * 4 + [True] * 2


def test_an_interpreter_that_is_none() -> None:
    for python in ("/no/such/python", "no-such-python-at-all", "/tmp", "a\0b"):
        with InstalledPredictor(python) as found, pytest.raises(PredictorError, match="could not be started"):
            found.predict(asked())


def test_a_library_that_cannot_be_imported() -> None:
    with predictor(STANDIN_IMPORT="fail") as found, pytest.raises(PredictorError, match="the library is broken"):
        found.predict(asked())


def test_a_release_without_models_is_refused_before_it_trains_one(tmp_path: Path) -> None:
    (tmp_path / "autoconf").mkdir()
    (tmp_path / "autoconf" / "__init__.py").touch()
    with (
        InstalledPredictor(environ=environ(folder=tmp_path)) as found,
        pytest.raises(PredictorError, match="has no model"),
    ):
        found.predict(asked())


def test_an_old_release_with_a_new_ado_core_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "autoconf" / "AutoGluonModels").mkdir(parents=True)
    (tmp_path / "autoconf" / "__init__.py").touch()
    (tmp_path / "autoconf" / "min_gpu_recommender.py").write_text("import orchestrator")
    with (
        InstalledPredictor(environ=environ(folder=tmp_path)) as found,
        pytest.raises(PredictorError, match="ado-core<2"),
    ):
        found.predict(asked())


def test_an_import_that_hangs(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    more = environ(STANDIN_IMPORT="hang", STANDIN_STARTS=str(starts))
    with (
        InstalledPredictor(environ=more, start_seconds=1) as found,
        pytest.raises(PredictorUnavailable, match="within 1 s"),
    ):
        found.predict(asked())
    assert all(is_gone(int(pid)) for pid in starts.read_text().split())


def test_the_repository_cannot_lend_it_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is planned may hold an `autoconf.py`; it is never run."""
    for name in ("autoconf.py", "json.py", "logging.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    with predictor() as found:
        assert found.predict(asked()).gpus == 4
    assert not (tmp_path / "ran").exists()


def test_the_library_gets_no_credentials(tmp_path: Path) -> None:
    seen, python = tmp_path / "seen", tmp_path / "python"
    python.write_text(f'#!/bin/sh\nenv > {seen}\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    more = environ(RECONCILER_SIZING_TOKEN="s3cret-value", HF_TOKEN="s3cret-value", AWS_PROFILE="s3cret-value")
    with InstalledPredictor(str(python), environ=more, call_seconds=60, start_seconds=60) as found:
        assert found.predict(asked()).gpus == 4
    assert "PYTHONPATH=" in seen.read_text()
    assert "s3cret-value" not in seen.read_text()


def test_threads_take_turns() -> None:
    with predictor() as found, ThreadPoolExecutor(4) as pool:
        sizes = [8, 4, 2, 16] * 10
        said = list(pool.map(lambda batch: found.predict(asked(batch_size=batch), ((1, batch),)), sizes))
    assert [(one.gpus, one.chances[0][1]) for one in said] == [(0 if n < 4 else 4, n) for n in sizes]


def test_close_may_be_called_twice_and_leaves_nothing() -> None:
    found = predictor()
    pid = warm(found)
    assert found._folder is not None
    folder = Path(found._folder.name)
    found.close()
    found.close()
    assert is_gone(pid)
    assert not folder.exists()
    assert found.predict(asked()).gpus == 4  # and starts anew
    found.close()


def test_a_dead_parent_leaves_no_child(tmp_path: Path) -> None:
    """Killed in the middle of a question, it takes its child with it."""
    parent, starts = _parent(tmp_path, "hang")
    pids = _wait_for(starts)
    parent.kill()
    parent.wait()
    assert all(is_gone(pid) for pid in pids)


def test_an_interrupt_ends_the_child(tmp_path: Path) -> None:
    parent, starts = _parent(tmp_path, "hang")
    pids = _wait_for(starts)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(60) == 7
    assert all(is_gone(pid) for pid in pids)


def _parent(folder: Path, model: str) -> tuple[subprocess.Popen[bytes], Path]:
    starts = folder / "starts"
    script = f"""
        from reconciler.sizing.engines.installed import InstalledPredictor
        from tests.sizing.predictors.asking import asked
        found = InstalledPredictor(call_seconds=1000)
        try:
            found.predict(asked(model={model!r}))
        except KeyboardInterrupt:
            raise SystemExit(7)
    """
    path = os.pathsep.join((str(STANDIN), str(ROOT)))
    more = environ(STANDIN_STARTS=str(starts), STANDIN_UNRULY="1") | {"PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], env=more), starts


def _wait_for(starts: Path) -> list[int]:
    """Wait until a child has started and is at the question."""
    waiting = threading.Event()
    for _ in range(600):
        if starts.exists() and starts.read_text().endswith("\n"):
            waiting.wait(1)
            return [int(pid) for pid in starts.read_text().split()]
        waiting.wait(0.1)
    raise AssertionError("no child was started")

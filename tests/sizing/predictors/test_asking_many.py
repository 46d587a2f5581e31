"""Many questions: each asked once, failures told, engines that say nothing given up, requests resumed."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.sizing.answers import NO_ANSWERS, Chance, Recommendation, Reply, write_answers
from reconciler.sizing.config import Goal
from reconciler.sizing.engine_registry import AUTOCONF, Outcome
from reconciler.sizing.engines.batch import current_time, predict_all
from reconciler.sizing.engines.installed import InstalledPredictor
from reconciler.sizing.engines.port import Predictor
from reconciler.sizing.engines.rest import RestPredictor
from reconciler.sizing.engines.wrapper import WrapperPredictor
from reconciler.sizing.question import Question, engine_question
from tests.sizing.predictors.asking import STANDIN, environ, is_gone
from tests.sizing.predictors.server import answer, cut, serving
from tests.sizing.predictors.test_rest_predictor import DONE
from tests.sizing.questions import A100, LLAMA, training

WHEN = "2026-01-31T12:00:00Z"


def question(model: str = "small", **changes: Any) -> Question:
    known = training(architecture=replace(LLAMA, name=model, autoconf=model), sequence=512)
    return Question(**{"training": known, "gpu": replace(A100, autoconf="A"), "batch": 8, "max_gpus": 8, **changes})


def told(predictor: Predictor, *questions: Question, **more: Any) -> list[Reply]:
    return list(predict_all(predictor, questions, clock=lambda: WHEN, **more))


def installed(**more: str) -> InstalledPredictor:
    return InstalledPredictor(environ=environ(STANDIN_UNRULY="1") | more, call_seconds=60, start_seconds=60)


def test_chances_of_every_layout_that_is_weighed() -> None:
    with installed() as found:
        [one] = told(found, question())
    said = one.answer
    assert (said.engine, said.outcome, said.answered_at) == (AUTOCONF, Outcome.CHANCES, WHEN)
    assert said.question == engine_question(question())
    assert said.chances == tuple(
        Chance(gpus=gpus, batch_size=8, probability=chance) for gpus, chance in ((1, 0.1), (2, 0.3), (4, 0.6), (8, 0.9))
    )
    assert dict(said.versions) == {"ado-autoconf": "1.9.7", "model": "3.1.0"}
    assert b"probability: 0.3\n" in write_answers(NO_ANSWERS.with_answers([said]), "main")


def test_the_same_is_asked_once_and_in_order(tmp_path: Path) -> None:
    """What the engine does not see (a safety margin) makes no other question."""
    asked_of = tmp_path / "asked"
    script = tmp_path / "script.py"
    script.write_text(
        f"import json, sys\nopen({str(asked_of)!r}, 'a').write(sys.argv[2] + '\\n')\n"
        "json.dump({'workers': 1, 'gpus': 2}, open(sys.argv[1], 'w'))"
    )
    steps: list[tuple[int, int]] = []
    questions = [question("b"), question("a"), question("b", safety=0.2), question("a", allow_paged=True)]
    with WrapperPredictor(script, environ=environ()) as found:
        answers = told(found, *questions, progress=lambda done, total: steps.append((done, total)))
    assert asked_of.read_text().split() == ["b", "a"]
    assert [one.answer.question.model for one in answers] == ["b", "a"]
    assert {one.answer.recommendation for one in answers} == {Recommendation(gpus=2, workers=1)}
    assert steps == [(0, 2), (1, 2), (2, 2)]


def test_what_the_engine_has_no_say_in_is_not_asked() -> None:
    with InstalledPredictor("/no/such/python") as found:
        assert told(found, question(batch=1000), question(gpu=replace(A100, autoconf=""))) == []


def test_a_refusal_a_failure_and_an_answer() -> None:
    with installed() as found:
        answers = told(found, question("671b"), question("fail"), question("die"), question(goal=Goal.AVOID_OOM))
    assert [(one.answer.outcome, one.retryable) for one in answers] == [
        (Outcome.REFUSAL, False),
        (Outcome.ERROR, False),
        (Outcome.ERROR, True),
        (Outcome.CHANCES, False),
    ]
    assert answers[0].answer.refusal == "ado-autoconf does not know model_name '671b'"
    assert "the library failed" in answers[1].answer.error


def test_an_engine_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.touch()
    script = tmp_path / "script.py"
    script.write_text(f"open({str(count)!r}, 'a').write('x'); import time; time.sleep(1000)")
    with WrapperPredictor(script, environ=environ(), seconds=0.5) as found:
        answers = told(found, *(question(str(number)) for number in range(20)))
    assert len(answers) == 20
    assert all(one.retryable and one.answer.outcome is Outcome.ERROR for one in answers)
    assert len(count.read_text()) <= 3
    assert "did not answer 3 times in a row" in answers[-1].answer.error


def test_all_are_submitted_before_the_first_is_awaited_and_the_rest_is_resumed() -> None:
    """F-010: one run submits, a later one fetches; the id is in the evidence in between."""
    ids = [answer(200, [f"id{number}"]) for number in range(3)]
    with serving(*ids, DONE, answer(404)) as server:
        found = RestPredictor(server.url, call_seconds=60, patience_seconds=0)
        first = told(found, question("a"), question("b"), question("c"))
        assert [one.method for one in server.said] == ["POST"] * 3 + ["GET"] * 3
    assert [one.answer.outcome for one in first] == [Outcome.RECOMMENDATION, Outcome.PENDING, Outcome.PENDING]
    assert first[0].answer.recommendation == Recommendation(gpus=4, workers=2)
    assert [one.answer.request_id for one in first[1:]] == ["id1", "id2"]
    assert {one.answer.submitted_at for one in first[1:]} == {WHEN}

    recorded = NO_ANSWERS.with_answers(one.answer for one in first)
    with serving(DONE) as server:
        found = RestPredictor(server.url, call_seconds=60, patience_seconds=0)
        second = told(found, question("b"), question("c"), recorded=recorded)
        paths = [(one.method, one.path.rpartition("/")[2]) for one in server.said]
    assert paths == [("GET", "id1"), ("GET", "id2")]
    assert {one.answer.outcome for one in second} == {Outcome.RECOMMENDATION}


def test_a_server_that_is_down_is_told_for_every_question() -> None:
    with serving(DONE) as server:
        url = server.url
    with RestPredictor(url, call_seconds=60, patience_seconds=1) as found:
        answers = told(found, *(question(str(number)) for number in range(5)))
    assert all(one.retryable and one.answer.outcome is Outcome.ERROR for one in answers)
    assert "Connection refused" in answers[0].answer.error


def test_a_request_is_not_lost_where_the_server_goes_down() -> None:
    with serving(answer(200, ["id0"]), cut) as server:
        found = RestPredictor(server.url, call_seconds=60, patience_seconds=0.2, pauses=(0.01,))
        [one] = told(found, question())
    assert (one.answer.outcome, one.answer.request_id, one.answer.submitted_at) == (Outcome.PENDING, "id0", WHEN)
    assert not one.retryable  # worth keeping


def test_an_interrupt_stops_the_engine(tmp_path: Path) -> None:
    """Ctrl-C in the middle of many questions: nothing is left running."""
    starts, root = tmp_path / "starts", Path(__file__).resolve().parents[3]
    script = """
        from tests.sizing.predictors.test_asking_many import predict_all, installed, question
        found = installed()
        found._call_seconds = 1000
        try:
            for one in predict_all(found, [question(), question("hang"), question("big")]):
                print(one.answer.outcome, flush=True)
        except KeyboardInterrupt:
            raise SystemExit(7)
    """
    path = os.pathsep.join((str(STANDIN), str(root)))
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environ(STANDIN_STARTS=str(starts)) | {"PYTHONPATH": path, "STANDIN_PATH": path},
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    with running.stdout as output:
        assert output.readline() == b"chances\n"
        threading.Event().wait(0.5)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 7
    assert all(is_gone(int(pid)) for pid in starts.read_text().split())


def test_the_time_is_told_as_kubernetes_tells_it() -> None:
    assert len(current_time()) == len(WHEN)
    assert current_time().endswith("Z")

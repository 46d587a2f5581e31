"""`InstalledPredictor`: the user's ado-autoconf, loaded once in a child process."""

import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from reconciler.errors import PredictorError, PredictorUnavailable, one_line
from reconciler.processes import ChildCommand, ChildProcess, absolute_program, without_credentials
from reconciler.sizing.engine_registry import AUTOCONF, Outcome
from reconciler.sizing.engines.port import Prediction, Predictor
from reconciler.sizing.engines.recommender import (
    as_predictor_errors,
    parse_count,
    recommender_arguments,
    recommender_name,
)
from reconciler.sizing.question import EngineQuestion

CALL_SECONDS = 5.0
START_SECONDS = 30.0  # the import of the library, and the first question to each version of its model
MEMORY_BYTES = 2 << 30  # 1.9.7 holds 0.3 GiB, 1.5.0 0.5 GiB
_ATTEMPTS = 2  # per question, each with a new child
_MAX_FAILURES = 4  # consecutive children without an answer, before no other is started
_MAX_BYTES = 16 << 20
_OUTCOMES = (Outcome.RECOMMENDATION, Outcome.REFUSAL)
_CHILD = Path(__file__).with_name("autoconf_child.py")
HINT = "install it with `pip install 'gpu-reconciler[autoconf]'`, or name the interpreter that has it"


class _ChildReply(Struct, frozen=True):
    """The fields that every answer of the child has."""

    id: int
    error: str = ""


class _VersionsReply(_ChildReply, frozen=True, kw_only=True):
    versions: dict[str, str] = field(default_factory=dict)


class _RecommendReply(_ChildReply, frozen=True, kw_only=True):
    outcome: Outcome = Outcome.ERROR
    gpus: int = 0
    workers: int = 0
    chances: tuple[tuple[int, int, float], ...] = ()
    text: str = ""


_Reply = TypeVar("_Reply", bound=_ChildReply)


class InstalledPredictor(Predictor):
    """ado-autoconf in a child process of `python`, started for the first question; one question at a time.

    A child that does not answer, crashes, sends invalid answers or exceeds `memory_bytes` is ended with everything it
    started, and a new one gets the question once more. After four consecutive children without an answer, no other is
    started. The child's environment has no credentials.
    """

    engine = AUTOCONF

    def __init__(
        self,
        python: str = sys.executable,
        *,
        environ: Mapping[str, str] = os.environ,
        call_seconds: float = CALL_SECONDS,
        start_seconds: float = START_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._python = absolute_program(python)
        self._environ = without_credentials(environ)
        self._call_seconds = call_seconds
        self._start_seconds = start_seconds
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._loaded: set[str] = set()  # versions of the model that the child has loaded
        self._versions: Mapping[str, str] = {}
        self._failures = 0
        self._failure = ""
        self._last_id = 0

    def predict(self, question: EngineQuestion, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:
        """Ask for the recommendation, and for the probability of each layout."""
        bounds = {"gpus_per_worker": question.gpus_per_worker, "max_gpus": question.max_gpus}
        arguments = [recommender_name(question), recommender_arguments(question), bounds, layouts]
        with self._lock:  # threads take turns
            reply = self._ask("recommend", arguments, _RecommendReply, question.model_version)
        has_counts = parse_count(reply.gpus) is not None and parse_count(reply.workers) is not None
        if reply.outcome not in _OUTCOMES or has_counts != (reply.outcome is Outcome.RECOMMENDATION):
            values = f"{reply.outcome}, {reply.gpus} GPUs and {reply.workers} workers"
            raise PredictorError(f"ado-autoconf sent a contradictory answer: {values}")
        answered = [(gpus, batch) for gpus, batch, probability in reply.chances if 0 <= probability <= 1]
        is_unknown = reply.outcome is Outcome.REFUSAL and reply.text and not reply.chances  # outside of its domain
        if not is_unknown and answered != list(layouts):
            raise PredictorError("ado-autoconf sent probabilities for other layouts, or outside of 0 to 1")
        return Prediction(
            engine=self.engine,
            outcome=reply.outcome,
            gpus=reply.gpus if has_counts else 0,
            workers=reply.workers if has_counts else 0,
            chances=reply.chances,
            versions=tuple(sorted({**self._versions, "model": question.model_version}.items())),
            text=one_line(reply.text),
        )

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._stop()

    def _ask(self, method: str, arguments: Sequence[Any], reply: type[_Reply], version: str) -> _Reply:
        """Call a method of the child, and of a new one if it did not answer. `version`: of the model that it needs."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                process = self._running()
                if version and version not in self._loaded:
                    self._call(process, "load", [version], _ChildReply, self._start_seconds)
                    self._loaded.add(version)
                answer = self._call(process, method, arguments, reply, self._call_seconds)
            except PredictorUnavailable as error:
                self._fail(error)
                if attempt == _ATTEMPTS:
                    raise
            except PredictorError:  # an answer of a healthy child
                raise
            except BaseException:  # an interrupt during an answer
                self._stop()
                raise
            else:
                self._failures = 0
                return answer
        raise AssertionError  # unreachable

    def _running(self) -> ChildProcess:
        """Return the child; start it if there is none."""
        if self._process is not None:
            return self._process
        if self._failures >= _MAX_FAILURES:
            raise PredictorError(
                f"ado-autoconf failed {self._failures} times and is not started again: {self._failure}"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="reconciler-", ignore_cleanup_errors=True)
        try:
            with as_predictor_errors():
                self._process = ChildProcess(self._command(Path(self._folder.name)), interactive=True)
            self._versions = self._call(self._process, "hello", [], _VersionsReply, self._start_seconds).versions
        except PredictorUnavailable:
            raise
        except PredictorError as error:
            self._fail(error)
            raise PredictorError(error.message, hint=HINT) from error
        return self._process

    def _call(
        self, process: ChildProcess, method: str, arguments: Sequence[Any], reply: type[_Reply], seconds: float
    ) -> _Reply:
        self._last_id += 1
        message = msgspec.json.encode({"id": self._last_id, "method": method, "arguments": arguments}) + b"\n"
        with as_predictor_errors():
            line = process.exchange(message, seconds=seconds, max_bytes=_MAX_BYTES)
        try:
            answer = msgspec.json.decode(line, type=reply)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise PredictorUnavailable(f"ado-autoconf sent an invalid answer: {one_line(error)}") from error
        if answer.id != self._last_id:
            raise PredictorUnavailable("ado-autoconf answered another question")
        if answer.error:
            raise PredictorError(f"ado-autoconf failed: {one_line(answer.error)}")
        return answer

    def _command(self, folder: Path) -> ChildCommand:
        # One thread is enough for one question, and no release may fetch data or models from the network.
        settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TMPDIR": str(folder)}
        return ChildCommand(
            name="ado-autoconf",
            argv=(self._python, str(_CHILD)),
            folder=folder,
            environ={**self._environ, **settings},
            memory_bytes=self._memory_bytes,
        )

    def _fail(self, error: PredictorError) -> None:
        self._failures += 1
        self._failure = error.message
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        self._loaded.clear()

"""`InstalledPredictor`: the user's ado-autoconf, kept warm in one child process."""

import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct, field

from reconciler.adapters.predictors.asked import inputs, one_line, recommender, whole
from reconciler.adapters.predictors.process import Process, Program, found
from reconciler.core.config import Engine
from reconciler.core.sizing.question import Asked
from reconciler.errors import PredictorError, PredictorUnavailable
from reconciler.ports import Outcome, Prediction

CALL_SECONDS = 5.0
COLD_SECONDS = 30.0  # the import of the library, and the first question to each version of its model
MEMORY_BYTES = 2 << 30  # 1.9.7 holds 0.3 GiB, 1.5.0 0.5 GiB
_ATTEMPTS = 2  # of a question, each with a fresh child
_MOST_FAILURES = 4  # children in a row that answered nothing, before no other is started
_MOST_BYTES = 16 << 20
_OUTCOMES = (Outcome.OK, Outcome.NO_RECOMMENDATION, Outcome.OUT_OF_DOMAIN)
_CHILD = Path(__file__).with_name("child.py")
HINT = "install it with `pip install 'gpu-reconciler[autoconf]'`, or name the interpreter that has it"


class Reply(Struct, frozen=True):
    """What every answer of the child may hold besides its own fields."""

    id: int
    error: str = ""


class _Hello(Reply, frozen=True, kw_only=True):
    versions: dict[str, str] = field(default_factory=dict)


class _Recommended(Reply, frozen=True, kw_only=True):
    outcome: Outcome = Outcome.ENGINE_ERROR
    gpus: int = 0
    workers: int = 0
    chances: tuple[tuple[int, int, float], ...] = ()
    text: str = ""


Replied = TypeVar("Replied", bound=Reply)


class InstalledPredictor:
    """ado-autoconf in a child process of `python`, started with the first question; one question at a time.

    A child that is silent, dies, talks nonsense or takes more than `memory_bytes` is ended with all it started and
    the question is put once more to a fresh one; after four children in a row without an answer no other is started.
    """

    engine = Engine.AUTOCONF

    def __init__(
        self,
        python: str = sys.executable,
        *,
        environ: Mapping[str, str] = os.environ,
        call_seconds: float = CALL_SECONDS,
        cold_seconds: float = COLD_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._python = found(python)
        self._environ = environ
        self._call_seconds = call_seconds
        self._cold_seconds = cold_seconds
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._warm: set[str] = set()  # versions of the model that the child has loaded
        self._versions: Mapping[str, str] = {}
        self._failures = 0
        self._reason = ""
        self._asked = 0

    def versions(self) -> Mapping[str, str]:
        """Name the versions of ado-autoconf and of what it stands on; starts the child."""
        with self._lock:
            self._attempt("hello", [], _Hello, "")
            return self._versions

    def predict(self, question: Asked, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:
        """Ask for the recommendation, and for the chance of each layout."""
        bounds = {"gpus_per_worker": question.gpus_per_worker, "max_gpus": question.max_gpus}
        arguments = [recommender(question), inputs(question), bounds, layouts]
        reply = self.ask("recommend", arguments, _Recommended, version=question.model_version)
        recommends = whole(reply.gpus) is not None and whole(reply.workers) is not None
        if reply.outcome not in _OUTCOMES or recommends != (reply.outcome is Outcome.OK):
            said = f"{reply.outcome}, {reply.gpus} GPUs and {reply.workers} workers"
            raise PredictorError(f"ado-autoconf answers {said}, which makes no sense")
        answered = [(gpus, batch) for gpus, batch, chance in reply.chances if 0 <= chance <= 1]
        if reply.outcome is not Outcome.OUT_OF_DOMAIN and answered != list(layouts):
            raise PredictorError("ado-autoconf gives other chances than it was asked for, or some that are none")
        return Prediction(
            engine=self.engine,
            outcome=reply.outcome,
            gpus=reply.gpus if recommends else 0,
            workers=reply.workers if recommends else 0,
            chances=reply.chances,
            versions=tuple(sorted({**self._versions, "model": question.model_version}.items())),
            text=one_line(reply.text),
        )

    def ask(self, do: str, arguments: Sequence[Any], reply: type[Replied], *, version: str) -> Replied:
        """Call a method of the child's library; `version` is that of the model it needs. Threads take turns."""
        with self._lock:
            return self._attempt(do, arguments, reply, version)

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _attempt(self, do: str, arguments: Sequence[Any], reply: type[Replied], version: str) -> Replied:
        """Call the child, and once more a fresh one where the first gave no answer."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                process = self._running()
                if version and version not in self._warm:
                    self._call(process, "warm", [version], Reply, self._cold_seconds)
                    self._warm.add(version)
                answer = self._call(process, do, arguments, reply, self._call_seconds)
            except PredictorUnavailable as error:
                self._fail(error)
                if attempt == _ATTEMPTS:
                    raise
            except PredictorError:  # said by a child that is well
                raise
            except BaseException:  # an interrupt in the middle of an answer
                self._stop()
                raise
            else:
                self._failures = 0
                return answer
        raise AssertionError  # unreachable

    def _running(self) -> Process:
        """Return the child; start it where there is none."""
        if self._process is not None:
            return self._process
        if self._failures >= _MOST_FAILURES:
            raise PredictorError(f"ado-autoconf failed {self._failures} times and is not started again: {self._reason}")
        self._folder = tempfile.TemporaryDirectory(prefix="reconciler-", ignore_cleanup_errors=True)
        try:
            self._process = Process(self._program(Path(self._folder.name)), talks=True)
            self._versions = self._call(self._process, "hello", [], _Hello, self._cold_seconds).versions
        except PredictorUnavailable:
            raise
        except PredictorError as error:
            self._fail(error)
            raise PredictorError(error.message, hint=HINT) from error
        return self._process

    def _call(
        self, process: Process, do: str, arguments: Sequence[Any], reply: type[Replied], seconds: float
    ) -> Replied:
        self._asked += 1
        message = msgspec.json.encode({"id": self._asked, "do": do, "with": arguments}) + b"\n"
        line = process.exchange(message, seconds=seconds, most=_MOST_BYTES)
        try:
            answer = msgspec.json.decode(line, type=reply)
        except (msgspec.MsgspecError, ValueError) as error:
            raise PredictorUnavailable(f"ado-autoconf answered nonsense: {one_line(error)}") from error
        if answer.id != self._asked:
            raise PredictorUnavailable("ado-autoconf answered another question")
        if answer.error:
            raise PredictorError(f"ado-autoconf failed: {one_line(answer.error)}")
        return answer

    def _program(self, folder: Path) -> Program:
        # One thread is enough for one question, and no release may fetch data or models from the network.
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TMPDIR": str(folder)}
        return Program(
            name="ado-autoconf",
            argv=(self._python, str(_CHILD)),
            folder=folder,
            environ={**self._environ, **quiet},
            memory_bytes=self._memory_bytes,
        )

    def _fail(self, error: PredictorError) -> None:
        self._failures += 1
        self._reason = error.message
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        self._warm.clear()

"""`WrapperPredictor`: a script of the user, as the autoconf controller runs it.

`python SCRIPT OUT MODEL METHOD GPU TOKENS BATCH VERSION` writes `{"workers": 1, "gpus": 2, "error": ""}` to OUT and may
add `can_recommend`. Without that key, numbers are a recommendation, and two nulls are a refusal.
"""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import Any, Self

import msgspec

from reconciler.adapters.predictors.asked import one_line, whole
from reconciler.adapters.predictors.process import Process, Program, found
from reconciler.core.config import Engine
from reconciler.core.sizing.question import Asked
from reconciler.errors import PredictorError
from reconciler.ports import Outcome, Prediction

SECONDS = 120.0  # of one question: the script imports all of ado-autoconf each time, 4 s on a quiet machine
MEMORY_BYTES = 4 << 30
_MOST_BYTES = 64 << 10
_KEYS = frozenset({"workers", "gpus", "error", "can_recommend"})


class WrapperPredictor:
    """Runs `script` for each question, in a private folder, in a group of processes that is ended with it."""

    engine = Engine.WRAPPER

    def __init__(
        self,
        script: Path,
        *,
        python: str = sys.executable,
        environ: Mapping[str, str] = os.environ,
        seconds: float = SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._script = script.absolute()
        self._python = found(python)
        self._environ = environ
        self._seconds = seconds
        self._memory_bytes = memory_bytes

    def versions(self) -> Mapping[str, str]:
        """Name the script by its digest, since it tells no version."""
        try:
            return {"script": f"sha256:{sha256(self._script.read_bytes()).hexdigest()[:16]}"}
        except OSError as error:
            raise PredictorError(
                f"the script {self._script} cannot be read: {error.strerror}", hint="correct its path"
            ) from error

    def predict(self, question: Asked, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:  # noqa: ARG002 - it gives no chances
        """Run the script and read what it wrote. Its protocol knows one goal only: the fewest GPUs for a batch."""
        versions = {**self.versions(), "model": question.model_version}
        with tempfile.TemporaryDirectory(prefix="reconciler-", ignore_cleanup_errors=True) as folder:
            out = Path(folder) / "recommendation.json"
            self._run(Path(folder), out, question)
            reply = _read(out)
        outcome, gpus, workers = _judge(reply)
        return Prediction(
            engine=self.engine, outcome=outcome, gpus=gpus, workers=workers, versions=tuple(sorted(versions.items()))
        )

    def _run(self, folder: Path, out: Path, question: Asked) -> None:
        numbers = (str(question.tokens_per_sample), str(question.batch_size))
        names = (question.model, question.method, question.gpu_model)
        program = Program(
            name="the wrapper script",
            argv=(self._python, str(self._script), str(out), *names, *numbers, question.model_version),
            folder=folder,
            environ={**self._environ, "TMPDIR": str(folder)},
            memory_bytes=self._memory_bytes,
        )
        process = Process(program, talks=False)
        try:
            code = process.wait(self._seconds)
        finally:
            process.end()
        if code:
            how = f"exited with {code}" if code > 0 else f"was ended by signal {-code}"
            message = process.message()
            raise PredictorError(f"the wrapper script {how}{f': {message}' if message else ''}")

    def close(self) -> None:
        """Nothing to stop: no script outlives its question."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(out: Path) -> Any:
    """Read what the script wrote, were it a pipe, a link or a file without end."""
    try:
        descriptor = os.open(out, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - an open descriptor, not a path
            raw = file.read(_MOST_BYTES + 1) if S_ISREG(os.fstat(descriptor).st_mode) else b""
    except FileNotFoundError as error:
        raise PredictorError("the wrapper script wrote no answer to the file it was given") from error
    except OSError as error:
        raise PredictorError(f"the answer of the wrapper script cannot be read: {error.strerror}") from error
    if len(raw) > _MOST_BYTES:
        raise PredictorError(f"the wrapper script wrote more than {_MOST_BYTES >> 10} KiB")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PredictorError(f"the wrapper script wrote no JSON: {one_line(error)}") from error


def _judge(reply: Any) -> tuple[Outcome, int, int]:
    """Return the outcome, GPUs a worker and workers. Whatever is no clear answer raises `PredictorError`."""
    if not isinstance(reply, dict) or not reply.keys() <= _KEYS or not reply:
        known = ", ".join(sorted(_KEYS))
        raise PredictorError("the wrapper script wrote something else than an answer", hint=f"it may hold {known}")
    if error := reply.get("error"):
        raise PredictorError(f"the wrapper script says: {one_line(error)}")
    can, gpus, workers = reply.get("can_recommend"), reply.get("gpus"), reply.get("workers")
    if can not in (None, True, False):  # 1 and 0 count as these
        raise PredictorError(f"the wrapper script says can_recommend {one_line(repr(can))}")
    nothing = gpus is None and workers is None
    if can is not None and not can:
        return Outcome.NO_RECOMMENDATION, 0, 0
    if can is None and nothing and {"gpus", "workers"} <= reply.keys():
        return Outcome.NO_RECOMMENDATION, 0, 0
    counts = whole(gpus), whole(workers)
    if counts[0] is None or counts[1] is None:
        raise PredictorError(f"the wrapper script says {one_line(repr(gpus))} GPUs, {one_line(repr(workers))} workers")
    return Outcome.OK, counts[0], counts[1]

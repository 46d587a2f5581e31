"""`WrapperPredictor`: a script of the user, called the way the autoconf controller calls it.

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
from typing import Any

import msgspec

from reconciler.errors import PredictorError, one_line
from reconciler.kube.values import NOT_JSON
from reconciler.processes import ChildCommand, ChildProcess, absolute_program, without_credentials
from reconciler.sizing.engine_registry import WRAPPER, Outcome
from reconciler.sizing.engines.port import Prediction, Predictor
from reconciler.sizing.engines.recommender import as_predictor_errors, parse_count
from reconciler.sizing.question import EngineQuestion

SECONDS = 120.0  # per question: the script imports all of ado-autoconf each time, 4 s on an idle machine
MEMORY_BYTES = 4 << 30
_MAX_BYTES = 64 << 10
_KEYS = frozenset({"workers", "gpus", "error", "can_recommend"})


class WrapperPredictor(Predictor):
    """Runs `script` for each question, in a private folder and without the credentials of the environment."""

    engine = WRAPPER

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
        self._python = absolute_program(python)
        self._environ = without_credentials(environ)
        self._seconds = seconds
        self._memory_bytes = memory_bytes

    def _digest(self) -> str:
        """Return the digest of the script, which has no version."""
        try:
            return f"sha256:{sha256(self._script.read_bytes()).hexdigest()[:16]}"
        except OSError as error:
            raise PredictorError(
                f"the script {self._script} cannot be read: {error.strerror}", hint="correct its path"
            ) from error

    def predict(self, question: EngineQuestion, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:  # noqa: ARG002 - it gives no chances
        """Run the script and read its answer. The protocol has a single goal: the fewest GPUs for a batch."""
        versions = (("model", question.model_version), ("script", self._digest()))
        with tempfile.TemporaryDirectory(prefix="reconciler-", ignore_cleanup_errors=True) as folder:
            out = Path(folder) / "recommendation.json"
            self._run(Path(folder), out, question)
            reply = _read_reply(out)
        outcome, gpus, workers = _parse_reply(reply)
        return Prediction(engine=self.engine, outcome=outcome, gpus=gpus, workers=workers, versions=versions)

    def _run(self, folder: Path, out: Path, question: EngineQuestion) -> None:
        numbers = (str(question.tokens_per_sample), str(question.batch_size))
        names = (question.model, question.method, question.gpu_model)
        command = ChildCommand(
            name="the wrapper script",
            argv=(self._python, str(self._script), str(out), *names, *numbers, question.model_version),
            folder=folder,
            environ={**self._environ, "TMPDIR": str(folder)},
            memory_bytes=self._memory_bytes,
        )
        with as_predictor_errors():
            process = ChildProcess(command, interactive=False)
            try:
                code = process.wait(self._seconds)
            finally:
                process.end()
        if code:
            how = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
            message = process.last_message()
            raise PredictorError(f"the wrapper script {how}{f': {message}' if message else ''}")


def _read_reply(out: Path) -> Any:
    """Read the file that the script wrote; it may be a pipe, a link or a file without end."""
    try:
        descriptor = os.open(out, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - an open descriptor, not a path
            raw = file.read(_MAX_BYTES + 1) if S_ISREG(os.fstat(descriptor).st_mode) else b""
    except FileNotFoundError as error:
        raise PredictorError("the wrapper script did not write its output file") from error
    except OSError as error:
        raise PredictorError(f"the output of the wrapper script cannot be read: {error.strerror}") from error
    if len(raw) > _MAX_BYTES:
        raise PredictorError(f"the wrapper script wrote more than {_MAX_BYTES >> 10} KiB")
    try:
        return msgspec.json.decode(raw)
    except NOT_JSON as error:
        raise PredictorError(f"the wrapper script wrote invalid JSON: {one_line(error)}") from error


def _parse_reply(reply: Any) -> tuple[Outcome, int, int]:
    """Return the outcome, GPUs per worker and workers. Raises `PredictorError` for an ambiguous answer."""
    if not isinstance(reply, dict) or not reply.keys() <= _KEYS or not reply:
        known = ", ".join(sorted(_KEYS))
        raise PredictorError("the wrapper script wrote an invalid answer", hint=f"allowed keys: {known}")
    if error := reply.get("error"):
        raise PredictorError(f"the wrapper script failed: {one_line(error)}")
    can_recommend, gpus, workers = reply.get("can_recommend"), reply.get("gpus"), reply.get("workers")
    if can_recommend not in (None, True, False):  # 1 and 0 compare equal to these
        raise PredictorError(f"the wrapper script: invalid value of can_recommend: {one_line(repr(can_recommend))}")
    if can_recommend is not None and not can_recommend:
        return Outcome.REFUSAL, 0, 0
    are_null = gpus is None and workers is None and {"gpus", "workers"} <= reply.keys()
    if can_recommend is None and are_null:
        return Outcome.REFUSAL, 0, 0
    counts = parse_count(gpus), parse_count(workers)
    if counts[0] is None or counts[1] is None:
        values = f"{one_line(repr(gpus))} GPUs, {one_line(repr(workers))} workers"
        raise PredictorError(f"the wrapper script: invalid recommendation: {values}")
    return Outcome.RECOMMENDATION, counts[0], counts[1]

"""What `reconciler size --record` needs: the engine of a cluster, its answers, and the evidence they become."""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.app.sized_files import SizedFile, questions_of
from reconciler.core.config import Cluster, Engine
from reconciler.core.sizing.answers import Answer, Answers, Outcome, write_answers
from reconciler.core.sizing.decide import decide
from reconciler.errors import ConfigError
from reconciler.settings import SIZING_TOKEN

if TYPE_CHECKING:
    from reconciler.ports import Predictor
    from reconciler.wiring import Session

_log = logging.getLogger(__name__)


class Recorded(Struct, frozen=True, kw_only=True):
    """What became of a cluster's questions: the evidence, how many were asked, how many wait, what failed."""

    path: str
    asked: int
    waiting: int = 0
    failures: tuple[str, ...] = ()


def record(
    session: "Session", files: Sequence[SizedFile], *, python: str, table: Path | None, again: bool
) -> list[Recorded]:
    """Ask the engines outside what they have not answered, and write the evidence.

    A failure is written too, for who reviews why a job waits, and is asked for again next time; it never takes the
    place of an answer, and one that may pass by itself (a deadline, a busy server) is not written.
    """
    from reconciler.adapters.files import write_file  # noqa: PLC0415 - late, as all adapters
    from reconciler.adapters.predictors.batch import predict_all  # noqa: PLC0415 - late, as all adapters
    from reconciler.outputs.progress import progress  # noqa: PLC0415 - late, as all outputs

    head = session.head
    done: list[Recorded] = []
    for name, questions in questions_of(files).items():
        cluster = next(one for one in head.clusters if one.name == name)
        known = head.context.answers.get(name, Answers()).heard_by(cluster.sizing.engine)
        wanted = [one for one in questions if again or decide(one, known).is_pending]
        with (
            predictor_of(cluster, head.tools.repository.root, python, table) as predictor,
            progress(f"asking {cluster.sizing.engine.value}", total=len(wanted)) as advance,
        ):
            counted = lambda done, _total, advance=advance: advance(1) if done else None  # noqa: E731 - one line
            told = list(predict_all(predictor, wanted, recorded=known, progress=counted))
        kept = [one.answer for one in told if not one.retryable and not _is_worse(one.answer, known)]
        path = head.tools.repository.root / head.config.evidence / name / "sizing.yaml"
        if kept:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, write_answers(known.with_answers(kept), name))
        shown = path.relative_to(head.tools.repository.root).as_posix()
        _log.info("%s of %s: asked %d questions, %d answers kept", cluster.sizing.engine, name, len(told), len(kept))
        failures = tuple(one.answer.error for one in told if one.answer.outcome is Outcome.ERROR)
        waiting = sum(one.answer.outcome is Outcome.PENDING for one in told)
        done.append(Recorded(path=shown, asked=len(told), waiting=waiting, failures=failures))
    return done


def _is_worse(answer: Answer, known: Answers) -> bool:
    """Whether a failure would take the place of an answer."""
    before = known.of(answer.question)
    settled = before is not None and before.outcome not in {Outcome.ERROR, Outcome.PENDING}
    return settled and answer.outcome is Outcome.ERROR


def predictor_of(cluster: Cluster, root: Path, python: str, table: Path | None) -> "Predictor":
    """Pick the adapter for a cluster's engine."""
    settings = cluster.sizing
    match settings.engine:
        case Engine.WRAPPER if settings.wrapper is not None:
            from reconciler.adapters.predictors.wrapper import WrapperPredictor  # noqa: PLC0415 - only the one in use

            script = root / settings.wrapper.script
            return WrapperPredictor(script, python=python or sys.executable, seconds=settings.wrapper.timeout_s)
        case Engine.REST if settings.rest is not None:
            from reconciler.adapters.predictors.rest import RestPredictor  # noqa: PLC0415 - only the one in use

            rest = settings.rest
            token = os.environ.get(SIZING_TOKEN, "")
            return RestPredictor(rest.url, token=token, call_seconds=rest.timeout_s, patience_seconds=rest.deadline_s)
        case Engine.AUTOCONF_TABLE:
            from reconciler.adapters.predictors.table import TablePredictor, read_table  # noqa: PLC0415 - only if used

            if table is None:
                hint = "compile it: reconciler autoconf compile -o autoconf.table; then give --table autoconf.table"
                raise ConfigError(f"cluster {cluster.name} asks the compiled table, and none is named", hint=hint)
            return TablePredictor(read_table(table))
        case Engine.AUTOCONF:
            from reconciler.adapters.predictors.installed import InstalledPredictor  # noqa: PLC0415 - only if used

            return InstalledPredictor(python or sys.executable)
    raise ConfigError(f"cluster {cluster.name} asks no engine outside: its engine is {settings.engine.value}")

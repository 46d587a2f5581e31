"""`RestPredictor`: a server with ado's REST API, which takes a question now and answers it later.

`POST …/requests` gives the id of a request; `GET …/requests/ID` is 404 until the answer is there (or 5xx: what was
accepted is waited for). The id can be recorded, so that a later run fetches the answer without asking again.
"""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import count
from threading import Event
from time import monotonic
from typing import Any, Self

import msgspec
from msgspec import Struct

from reconciler.adapters.predictors.asked import inputs, one_line, recommender, whole
from reconciler.adapters.predictors.transport import Response, Server
from reconciler.core.config import Engine
from reconciler.core.sizing.question import Asked
from reconciler.errors import PredictorError, PredictorUnavailable
from reconciler.ports import Outcome, Prediction

CALL_SECONDS = 30.0
PATIENCE_SECONDS = 60.0  # a warm server answers in 0.1 s, a cold one in 4 s
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before asking again; the last one from then on
_ATTEMPTS = 4  # of a call to a server that is busy or failed inside
_BUSY = frozenset({429, 500, 502, 503, 504})
# What a label can hold (the id of a request waits in one), and no path but itself.
_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class _Named(Struct, frozen=True):
    identifier: str


class _Observed(Struct, frozen=True):
    targetProperty: _Named  # noqa: N815 - ado's name


class _Measurement(Struct, frozen=True):
    value: Any
    property: _Observed


class _Result(Struct, frozen=True):
    measurements: tuple[_Measurement, ...] = ()
    reason: str = ""


class _Value(Struct, frozen=True):
    value: Any
    property: _Named


class _Entity(Struct, frozen=True):
    measurement_results: tuple[_Result, ...] = ()
    constitutive_property_values: tuple[_Value, ...] = ()


class _Request(Struct, frozen=True):
    entities: tuple[_Entity, ...]


class RestPredictor:
    """Asks the server at `url`; a user and password in it, or else a `token`, are sent and never shown.

    What is not answered `patience_seconds` after the polling began is `Outcome.PENDING`: that is for all requests
    together which were submitted before it began.
    """

    engine = Engine.REST

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        call_seconds: float = CALL_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._server = Server.at(url, token)
        self._call_seconds = call_seconds
        self._patience_seconds = patience_seconds
        self._pauses = tuple(pauses)
        self._patience_ends: float | None = None
        self._closed = Event()

    def versions(self) -> Mapping[str, str]:
        """Name the server: it does not tell the version of its ado-autoconf."""
        return {"server": self._server.shown}

    def predict(self, question: Asked, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:  # noqa: ARG002 - it gives no chances
        """Submit and wait."""
        return self.resume(question, self.submit(question))

    def submit(self, question: Asked) -> str:
        """Ask once and return the id under which the answer will be."""
        values = [
            {
                "valueType": "STRING_VALUE_TYPE" if isinstance(value, str) else "NUMERIC_VALUE_TYPE",
                "value": value,
                "property": {"identifier": name},
            }
            for name, value in inputs(question).items()
        ]
        body = msgspec.json.encode([{"identifier": "", "constitutive_property_values": values}])
        deadline = monotonic() + self._patience_seconds
        answer = self._call("POST", _path(question), body, deadline)
        if answer.status not in {HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED}:
            raise self._refused(answer)
        try:
            (request,) = msgspec.json.decode(answer.body, type=tuple[str])
        except msgspec.MsgspecError as error:
            raise PredictorError(f"{self._server.shown} gave no id of a request: {one_line(error)}") from error
        self._patience_ends = None
        return self._checked(request)

    def resume(self, question: Asked, request: str) -> Prediction:
        """Poll an earlier request until it is answered or the patience ends."""
        path = f"{_path(question)}/{self._checked(request)}"
        if self._patience_ends is None:
            self._patience_ends = monotonic() + self._patience_seconds
        deadline, text = self._patience_ends, ""
        for attempt in count():
            answer = self._call("GET", path, None, deadline)
            if answer.status == HTTPStatus.OK:
                return self._judged(question, request, answer)
            # ado 2.3 with ray 2.60 says 500 where it means 404: its own exception is lost between two processes.
            if answer.status not in {HTTPStatus.NOT_FOUND, *_BUSY}:
                raise self._refused(answer)
            text = "no answer yet" if answer.status == HTTPStatus.NOT_FOUND else f"no answer yet: {_said(answer)}"
            if not self._pause(attempt, deadline, answer):
                break
        return self._prediction(question, request, Outcome.PENDING, text=text)

    def close(self) -> None:
        """Stop waiting: `submit` and `resume` of other threads end at once."""
        self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, body: bytes | None, deadline: float) -> Response:
        """Call, and again where no connection could be made or a question was not taken, up to `_ATTEMPTS` times."""
        for attempt in count():
            last = attempt == _ATTEMPTS - 1
            try:
                answer = self._server.call(method, path, body, seconds=self._call_seconds)
            except PredictorUnavailable:
                # A question that may have arrived is not put again: whoever asked decides.
                if last or body is not None or not self._pause(attempt, deadline):
                    raise
                continue
            if body is None or answer.status not in _BUSY:
                return answer
            if last or not self._pause(attempt, deadline, answer):
                raise PredictorUnavailable(f"{self._server.shown} {_said(answer)}")
        raise AssertionError  # unreachable

    def _pause(self, attempt: int, deadline: float, answer: Response | None = None) -> bool:
        """Wait before the next attempt; say whether there is time for one."""
        seconds = self._pauses[min(attempt, len(self._pauses) - 1)]
        if answer is not None:
            seconds = max(seconds, answer.retry_after_s)
        if monotonic() + seconds > deadline:
            return False
        if self._closed.wait(seconds):
            raise PredictorUnavailable(f"{self._server.shown} is not waited for any more")
        return True

    def _checked(self, request: str) -> str:
        if not _ID.fullmatch(request):
            raise PredictorError(f"{self._server.shown}: {one_line(request, 80)!r} is no id of a request")
        return request

    def _refused(self, answer: Response) -> PredictorError:
        if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
            return PredictorError(f"{self._server.shown} sends us elsewhere", hint="name the final URL")
        said = self._server.hide(_said(answer))
        return PredictorError(f"{self._server.shown} {said}", hint=_HINTS.get(answer.status, ""))

    def _judged(self, question: Asked, request: str, answer: Response) -> Prediction:
        try:
            outcome, gpus, workers, text = _judge(question, msgspec.json.decode(answer.body, type=_Request))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise PredictorError(f"{self._server.shown} answered nonsense: {one_line(error)}") from error
        except PredictorError as error:
            raise PredictorError(f"{self._server.shown}: {error.message}") from error
        return self._prediction(question, request, outcome, gpus=gpus, workers=workers, text=text)

    def _prediction(
        self, question: Asked, request: str, outcome: Outcome, *, gpus: int = 0, workers: int = 0, text: str = ""
    ) -> Prediction:
        versions = {**self.versions(), "model": question.model_version}
        return Prediction(
            engine=self.engine,
            outcome=outcome,
            gpus=gpus,
            workers=workers,
            versions=tuple(sorted(versions.items())),
            text=text,
            request=request,
        )


_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "check the token (RECONCILER_SIZING_TOKEN)",
    HTTPStatus.FORBIDDEN: "check the token (RECONCILER_SIZING_TOKEN)",
    HTTPStatus.NOT_FOUND: "check the path of the URL, and that the server has ado-autoconf",
}


def _path(question: Asked) -> str:
    return f"/api/latest/actuators/custom_experiments/experiments/{recommender(question)}/requests"


def _said(answer: Response) -> str:
    """Name the status, and why, where the server says so in the way that FastAPI does."""
    try:
        detail = msgspec.json.decode(answer.body, type=dict[str, Any]).get("detail", "")
    except (msgspec.MsgspecError, RecursionError):
        detail = ""
    return f"answered with {answer.status}{f': {one_line(detail, 200)}' if detail else ''}"


def _judge(question: Asked, answer: _Request) -> tuple[Outcome, int, int, str]:
    """Return outcome, GPUs a worker, workers, reason. Whatever is no clear answer raises `PredictorError`."""
    if len(answer.entities) != 1:
        raise PredictorError(f"it answered with {len(answer.entities)} entities instead of one")
    entity = answer.entities[0]
    sent = inputs(question)
    for value in entity.constitutive_property_values:
        name = value.property.identifier
        if name in sent and value.value != sent[name]:
            raise PredictorError(f"it answered another question: {name} is {one_line(repr(value.value), 80)}")
    said: dict[str, Any] = {}
    for result in entity.measurement_results:
        for measurement in result.measurements:
            name = measurement.property.targetProperty.identifier
            if said.setdefault(name, measurement.value) != measurement.value:
                raise PredictorError(f"it says two things of {one_line(name, 80)}")
    reasons = " ".join(result.reason for result in entity.measurement_results if result.reason)
    can = said.get("can_recommend")
    if can not in (None, 0, 1):
        raise PredictorError(f"it says can_recommend {one_line(repr(can), 80)}")
    if can != 1:
        silence = "" if said else "it measured nothing: the question may be outside of its domain"
        return Outcome.NO_RECOMMENDATION, 0, 0, one_line(reasons or silence)
    gpus, workers = whole(said.get("gpus")), whole(said.get("workers"))
    if gpus is None or workers is None:
        told = f"{one_line(repr(said.get('gpus')), 80)} GPUs, {one_line(repr(said.get('workers')), 80)} workers"
        raise PredictorError(f"it recommends {told}")
    return Outcome.OK, gpus, workers, ""

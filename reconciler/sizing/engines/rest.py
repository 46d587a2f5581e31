"""`RestPredictor`: a server with ado's REST API, which accepts a question now and answers it later.

`POST …/requests` returns the id of a request. `GET …/requests/ID` returns 404 until there is an answer; 5xx is treated
the same way, because the request was accepted. The id can be recorded, so that a later run fetches the answer.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from itertools import count
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.errors import ConfigError, PredictorError, PredictorUnavailable, one_line
from reconciler.http import BUSY, PAUSES, Endpoint, HttpClient, HttpResponse
from reconciler.kube.values import NOT_JSON
from reconciler.sizing.engine_registry import REST, Outcome
from reconciler.sizing.engines.port import DeferredPredictor, Prediction
from reconciler.sizing.engines.recommender import (
    as_predictor_errors,
    parse_count,
    recommender_arguments,
    recommender_name,
)
from reconciler.sizing.question import EngineQuestion

CALL_SECONDS = 30.0
PATIENCE_SECONDS = 60.0  # a warm server answers in 0.1 s, a cold one in 4 s
# A label can hold it (the id of a pending request is recorded in one), and it is a single path segment.
_REQUEST_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class _Property(Struct, frozen=True):
    identifier: str


class _ObservedProperty(Struct, frozen=True):
    targetProperty: _Property  # noqa: N815 - ado's name


class _Measurement(Struct, frozen=True):
    value: Any
    property: _ObservedProperty


class _MeasurementResult(Struct, frozen=True):
    measurements: tuple[_Measurement, ...] = ()
    reason: str = ""


class _PropertyValue(Struct, frozen=True):
    value: Any
    property: _Property


class _Entity(Struct, frozen=True):
    measurement_results: tuple[_MeasurementResult, ...] = ()
    constitutive_property_values: tuple[_PropertyValue, ...] = ()


class _MeasurementRequest(Struct, frozen=True):
    entities: tuple[_Entity, ...]


class RestPredictor(DeferredPredictor):
    """Asks the server at `url`. A user and password in it, or else a `token`, are sent and never shown.

    The URL is in the repository, the token is not: it is sent only to `token_host` (`HOST`: port 443, or `HOST:PORT`).

    Requests without an answer `patience_seconds` after polling began are `Outcome.PENDING`. All requests that were
    submitted before polling began share this limit.
    """

    engine = REST

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        token_host: str = "",
        call_seconds: float = CALL_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._endpoint = Endpoint.parse(url, token=token, purpose="sizing service")
        server = f"{self._endpoint.host}:{self._endpoint.port}".lower()
        if token and server not in {token_host.lower(), f"{token_host.lower()}:443"}:
            named = f"is for {one_line(token_host)}" if token_host else "is for no named server"
            raise ConfigError(
                f"the token in RECONCILER_SIZING_TOKEN {named}, so it is not sent to {server}, as the repository asks",
                hint=f"set RECONCILER_SIZING_HOST={server} if the token is for this server, or unset the token",
            )
        self._client = HttpClient(self._endpoint, timeout_seconds=call_seconds, pauses=pauses)
        self._patience_seconds = patience_seconds
        self._polling_ends: float | None = None

    def predict(self, question: EngineQuestion, layouts: Sequence[tuple[int, int]] = ()) -> Prediction:  # noqa: ARG002 - it gives no chances
        """Submit the question and wait for the answer."""
        return self.resume(question, self.submit(question))

    def submit(self, question: EngineQuestion) -> str:
        """Submit the question once and return the id of the request."""
        values = [
            {
                "valueType": "STRING_VALUE_TYPE" if isinstance(value, str) else "NUMERIC_VALUE_TYPE",
                "value": value,
                "property": {"identifier": name},
            }
            for name, value in recommender_arguments(question).items()
        ]
        body = msgspec.json.encode([{"identifier": "", "constitutive_property_values": values}])
        with as_predictor_errors():
            response = self._client.send_until(monotonic() + self._patience_seconds, "POST", _path(question), body)
        if response.status in BUSY:
            raise PredictorUnavailable(f"{self._endpoint.url} {_describe(response)}")
        if response.status not in {HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED}:
            raise self._rejected(response)
        try:
            (request,) = msgspec.json.decode(response.body, type=tuple[str])
        except NOT_JSON as error:
            raise PredictorError(f"{self._endpoint.url} did not return a request id: {one_line(error)}") from error
        self._polling_ends = None
        return self._validate(request)

    def resume(self, question: EngineQuestion, request: str) -> Prediction:
        """Poll a request until it is answered or the patience ends."""
        path = f"{_path(question)}/{self._validate(request)}"
        if self._polling_ends is None:
            self._polling_ends = monotonic() + self._patience_seconds
        deadline, text = self._polling_ends, ""
        with as_predictor_errors():
            for attempt in count():
                response = self._client.send_until(deadline, "GET", path)
                if response.status == HTTPStatus.OK:
                    return self._parse(question, request, response)
                # ado 2.3 with ray 2.60 answers 500 where it means 404: its own exception is lost between two processes.
                if response.status not in {HTTPStatus.NOT_FOUND, *BUSY}:
                    raise self._rejected(response)
                is_known = response.status == HTTPStatus.NOT_FOUND
                text = "no answer yet" if is_known else f"no answer yet: {_describe(response)}"
                if not self._client.pause(attempt, deadline, response):
                    break
        return self._prediction(question, request, Outcome.PENDING, text=text)

    def close(self) -> None:
        """Stop waiting: `submit` and `resume` of other threads end at once."""
        self._client.close()

    def _validate(self, request: str) -> str:
        if not _REQUEST_ID.fullmatch(request):
            raise PredictorError(f"{self._endpoint.url}: {one_line(request, 80)!r} is not a request id")
        return request

    def _rejected(self, response: HttpResponse) -> PredictorError:
        if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
            return PredictorError(f"{self._endpoint.url} redirects to another URL", hint="name the final URL")
        reason = self._endpoint.mask(_describe(response))
        return PredictorError(f"{self._endpoint.url} {reason}", hint=_HINTS.get(response.status, ""))

    def _parse(self, question: EngineQuestion, request: str, response: HttpResponse) -> Prediction:
        try:
            reply = msgspec.json.decode(response.body, type=_MeasurementRequest)
            outcome, gpus, workers, text = _parse_reply(question, reply)
        except NOT_JSON as error:
            raise PredictorError(f"{self._endpoint.url} sent an invalid answer: {one_line(error)}") from error
        except PredictorError as error:
            raise PredictorError(f"{self._endpoint.url}: {error.message}") from error
        return self._prediction(question, request, outcome, gpus=gpus, workers=workers, text=text)

    def _prediction(
        self,
        question: EngineQuestion,
        request: str,
        outcome: Outcome,
        *,
        gpus: int = 0,
        workers: int = 0,
        text: str = "",
    ) -> Prediction:
        return Prediction(
            engine=self.engine,
            outcome=outcome,
            gpus=gpus,
            workers=workers,
            # The server does not tell the version of its ado-autoconf.
            versions=(("model", question.model_version), ("server", self._endpoint.url)),
            text=text,
            request=request,
        )


_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "check the token (RECONCILER_SIZING_TOKEN)",
    HTTPStatus.FORBIDDEN: "check the token (RECONCILER_SIZING_TOKEN)",
    HTTPStatus.NOT_FOUND: "check the path of the URL, and that the server has ado-autoconf",
}


def _path(question: EngineQuestion) -> str:
    return f"/api/latest/actuators/custom_experiments/experiments/{recommender_name(question)}/requests"


def _describe(response: HttpResponse) -> str:
    """Name the status, and the reason if the server gives one the way FastAPI does."""
    try:
        detail = msgspec.json.decode(response.body, type=dict[str, Any]).get("detail", "")
    except NOT_JSON:
        detail = ""
    return f"answered with status {response.status}{f': {one_line(detail, 200)}' if detail else ''}"


def _parse_reply(question: EngineQuestion, reply: _MeasurementRequest) -> tuple[Outcome, int, int, str]:
    """Return outcome, GPUs per worker, workers and reason. Raises `PredictorError` for an ambiguous answer."""
    if len(reply.entities) != 1:
        raise PredictorError(f"the answer has {len(reply.entities)} entities, expected 1")
    entity = reply.entities[0]
    arguments = recommender_arguments(question)
    for value in entity.constitutive_property_values:
        name = value.property.identifier
        if name in arguments and value.value != arguments[name]:
            raise PredictorError(f"the answer belongs to another question: {name} is {one_line(repr(value.value), 80)}")
    measured: dict[str, Any] = {}
    for result in entity.measurement_results:
        for measurement in result.measurements:
            name = measurement.property.targetProperty.identifier
            if measured.setdefault(name, measurement.value) != measurement.value:
                raise PredictorError(f"the answer has two values for {one_line(name, 80)}")
    reasons = " ".join(result.reason for result in entity.measurement_results if result.reason)
    can_recommend = measured.get("can_recommend")
    if can_recommend not in (None, 0, 1):
        raise PredictorError(f"invalid value of can_recommend: {one_line(repr(can_recommend), 80)}")
    if can_recommend != 1:
        default = "" if measured else "nothing was measured: the question may be outside the model's domain"
        return Outcome.REFUSAL, 0, 0, one_line(reasons or default)
    gpus, workers = parse_count(measured.get("gpus")), parse_count(measured.get("workers"))
    if gpus is None or workers is None:
        values = [one_line(repr(measured.get(name)), 80) for name in ("gpus", "workers")]
        raise PredictorError(f"invalid recommendation: {values[0]} GPUs, {values[1]} workers")
    return Outcome.RECOMMENDATION, gpus, workers, ""

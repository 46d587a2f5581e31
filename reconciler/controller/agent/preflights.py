"""What the agent answers to the preflight checks of pods on its node: it takes results, and hands on verdicts."""

from http import HTTPStatus

import msgspec

from reconciler.app.health.agent import Agent
from reconciler.app.health.jobs.result import PATH, PreflightAnswer
from reconciler.controller.web.listener import Answer, HttpAnswer, HttpRequest, text_answer
from reconciler.core.health.catalogue import BY_ID
from reconciler.core.health.inflight.preflight import PreflightResult
from reconciler.core.values import NOT_JSON

_MOST_FINDINGS = 2000
_LONGEST = 253


def preflight_api(agent: Agent) -> Answer:
    """Return what answers `PUT /preflight`. The same result may be put again: that asks for the verdict."""

    def answer(request: HttpRequest) -> HttpAnswer:
        if request.path != PATH:
            return text_answer(HTTPStatus.NOT_FOUND, "not found")
        if request.method != "PUT":
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "use PUT")
        try:
            result = msgspec.json.decode(request.body, type=PreflightResult)
        except NOT_JSON as error:
            return text_answer(HTTPStatus.BAD_REQUEST, f"not a result of a preflight check: {error}")
        if problem := _problem(result):
            return text_answer(HTTPStatus.BAD_REQUEST, problem)
        agent.take(result)
        found = PreflightAnswer(verdict=agent.verdict(result.uid) if result.has_failed else "")
        return HttpAnswer(status=HTTPStatus.OK, body=msgspec.json.encode(found), content_type="application/json")

    return answer


def _problem(result: PreflightResult) -> str:
    """Return what is wrong with a result that anybody in the cluster may have sent."""
    names = (result.namespace, result.pod, result.uid)
    if not all(0 < len(name) <= _LONGEST for name in names):
        return "namespace, pod and uid must be named"
    if len(result.findings) > _MOST_FINDINGS:
        return f"more than {_MOST_FINDINGS} findings"
    unknown = sorted({one.check for one in result.findings} - BY_ID.keys())
    return f"unknown check {unknown[0]!r}" if unknown else ""

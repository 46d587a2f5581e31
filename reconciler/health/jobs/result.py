"""The result of a preflight check on its way to the agent of the node, and the verdict on its way back."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from reconciler.clock import Clock
from reconciler.errors import ReconcilerError
from reconciler.nodehealth.inflight.preflight import PreflightResult

PATH = "/preflight"
_PAUSE = 2.0

Send = Callable[[str, bytes], bytes]
"""Puts a body to a path of the agent, and returns the answer. Raises `ReconcilerError`."""


class PreflightAnswer(Struct, frozen=True, kw_only=True):
    """The answer of the agent: the verdict of the controller, empty as long as there is none."""

    verdict: str = ""


def report_to_agent(send: Send, result: PreflightResult, clock: Clock, seconds: float) -> str:
    """Tell the agent, and wait for the verdict on a failure; empty if none came in time. A pass waits for nobody."""
    body, until = msgspec.json.encode(result), clock.elapsed() + seconds
    while True:
        try:
            verdict = msgspec.json.decode(send(PATH, body), type=PreflightAnswer).verdict
        except (ReconcilerError, msgspec.MsgspecError, RecursionError):
            verdict = ""  # an agent that restarts answers soon
        if verdict or not result.has_failed or clock.elapsed() + _PAUSE > until:
            return verdict
        clock.pause(_PAUSE)

"""Running steps: what a failure stops, and what an interruption leaves."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from reconciler.errors import Terminated
from reconciler.kinds.registry import BUILT_IN
from reconciler.live.apply import execution
from reconciler.live.apply.execution import Executed, execute
from reconciler.live.apply.order import order
from reconciler.live.apply.results import Ending, StepResult
from reconciler.live.apply.steps import Step, Verb
from tests.live.order.steps import body, job, queue, step


def run(steps: list[Step], ending: Callable[[Step], Ending], settled: dict[str, str] | None = None) -> Executed:
    def carry_out(one: Step) -> StepResult:
        return StepResult(verb=one.verb, key=one.key, path=one.path, ending=ending(one))

    return execute(order(BUILT_IN, steps, {}), carry_out, lambda _: settled or {}, lambda _: None)


def endings(executed: Executed) -> dict[str, Ending]:
    return {result.key.name: result.ending for result in executed.results}


STEPS = [
    step(Verb.CREATE, queue("root")),
    step(Verb.CREATE, queue("a", "root")),
    step(Verb.CREATE, job("vit", "a")),
    step(Verb.CREATE, job("free")),
]


def test_a_failure_stops_what_needs_it_and_nothing_else() -> None:
    executed = run(STEPS, lambda one: Ending.DENIED if one.key.name == "root" else Ending.DONE)
    assert endings(executed) == {
        "root": Ending.DENIED,
        "a": Ending.SKIPPED,
        "vit": Ending.SKIPPED,
        "free": Ending.DONE,
    }
    assert executed.results[1].message == "needs Queue/root, which was not created: denied"


def test_what_does_not_take_effect_counts_as_failed() -> None:
    """A namespace that does not become active, or an old gang that does not go."""
    old, new = step(Verb.DELETE, job("vit")), step(Verb.CREATE, job("vit-g1"), replaces=job("vit"))
    executed = run([old, new], lambda _: Ending.DONE, {old.path: "is being deleted, waits for x/y"})
    assert endings(executed) == {"vit": Ending.FAILED, "vit-g1": Ending.SKIPPED}


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, Terminated])
def test_an_interruption_tells_what_was_done(interruption: type[BaseException]) -> None:
    """Requests in progress end, others are not started."""
    started = threading.Event()

    def ending(one: Step) -> Ending:
        if one.key.name == "free":
            started.set()
            raise interruption
        return Ending.DONE

    executed = run([step(Verb.CREATE, queue("root")), step(Verb.CREATE, job("free"))], ending)
    assert started.is_set()
    assert isinstance(executed.interruption, interruption)
    assert endings(executed) == {"root": Ending.DONE, "free": Ending.NOT_STARTED}


def test_a_request_whose_thread_was_just_starting_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption in the start of a thread: the pool does not know it, but its request may create an object."""
    begun, is_interrupted = threading.Event(), threading.Event()

    class Interrupted(ThreadPoolExecutor):
        def submit(self, call: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
            threading.Thread(target=call, args=arguments, daemon=True).start()
            begun.wait(5)
            is_interrupted.set()
            raise KeyboardInterrupt

    def ending(_: Step) -> Ending:
        begun.set()
        is_interrupted.wait(5)
        time.sleep(0.05)  # the request is still in progress when the run ends
        return Ending.DONE

    monkeypatch.setattr(execution, "ThreadPoolExecutor", Interrupted)
    executed = run([step(Verb.CREATE, job("free"))], ending)
    assert isinstance(executed.interruption, KeyboardInterrupt)
    assert endings(executed) == {"free": Ending.DONE}


def test_nothing_to_do() -> None:
    assert run([], lambda _: Ending.DONE) == Executed(())


def test_bugs_are_not_results() -> None:
    def ending(_: Step) -> Ending:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run([step(Verb.CREATE, body("v1", "ConfigMap", "a", "b"))], ending)

"""Run the steps of a plan: batch by batch, several at a time, until all are done or the run is interrupted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import NamedTuple

from msgspec.structs import replace

from reconciler.errors import Terminated
from reconciler.kube.client.port import CONCURRENCY
from reconciler.live.apply.order import Ordered
from reconciler.live.apply.results import Ending, StepResult
from reconciler.live.apply.steps import Step, Verb

Advance = Callable[[StepResult], None]
WaitReliable = Callable[[Sequence[Step]], Mapping[str, str]]
"""Waits until steps have taken effect; returns, by path, why some have not."""


class _Gate:
    """Lets requests begin until it is closed, and knows how many are in progress.

    A pool does not wait for a thread in whose start it was interrupted, so it cannot be asked.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._in_progress = 0
        self._is_closed = False

    def enter(self) -> bool:
        """Return whether a request may begin; if so, `leave` follows."""
        with self._changed:
            self._in_progress += not self._is_closed
            return not self._is_closed

    def leave(self) -> None:
        """Note that a request has ended."""
        with self._changed:
            self._in_progress -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Let no further request begin, and wait until none is in progress."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._in_progress == 0)


class Executed(NamedTuple):
    """The results in the order of the steps, and what interrupted the run."""

    results: tuple[StepResult, ...]
    interruption: BaseException | None = None


def execute(
    ordered: Ordered, carry_out: Callable[[Step], StepResult], wait_reliable: WaitReliable, advance: Advance
) -> Executed:
    """Run all steps. A step runs only if those that it needs succeeded; others do not wait for a failure.

    An interruption (Ctrl-C, SIGTERM) lets the requests in progress end, and starts no others.
    """
    results: dict[str, StepResult] = {}
    failed: dict[str, StepResult] = {}
    needed = frozenset(path for needs in ordered.needs.values() for path in needs)

    def run(step: Step) -> None:
        if gate.enter():
            try:
                reason = _blocked(ordered, step, results) or _blocked_by_wave(ordered, step, tuple(failed.values()))
                results[step.path] = _result(step, Ending.SKIPPED, reason) if reason else carry_out(step)
                if not results[step.path].ending.is_success:
                    failed[step.path] = results[step.path]
                advance(results[step.path])
            finally:
                gate.leave()

    gate = _Gate()
    interruption: BaseException | None = None
    pool = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="apply")
    try:
        for batch in ordered.batches:
            for future in [pool.submit(run, step) for step in batch]:
                future.result()
            done = [step for step in batch if step.path in needed and results[step.path].ending is Ending.DONE]
            for path, why in wait_reliable(done).items() if done else ():
                results[path] = failed[path] = replace(results[path], ending=Ending.FAILED, message=why)
    except (KeyboardInterrupt, Terminated) as error:
        interruption = error
    finally:
        gate.close()
        pool.shutdown(wait=True, cancel_futures=True)
    steps = [step for batch in ordered.batches for step in batch]
    ended = (results.get(step.path) or _result(step, Ending.NOT_STARTED) for step in steps)
    return Executed(tuple(ended), interruption)


def only_refused(ordered: Ordered, refusals: Mapping[str, StepResult]) -> tuple[StepResult, ...] | None:
    """Return the results if every step is refused or needs one that is; None if there is something to do."""
    results: dict[str, StepResult] = {}
    for step in (step for batch in ordered.batches for step in batch):
        reason = _blocked(ordered, step, results) or _blocked_by_wave(ordered, step, results.values())
        result = _result(step, Ending.SKIPPED, reason) if reason else refusals.get(step.path)
        if result is None:
            return None
        results[step.path] = result
    return tuple(results.values()) or None


def _blocked(ordered: Ordered, step: Step, results: Mapping[str, StepResult]) -> str:
    failed = sorted(path for path in ordered.needs[step.path] if not results[path].ending.is_success)
    if not failed:
        return ""
    first = results[failed[0]]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"needs {first.key}{more}, which was not {first.verb}d: {first.ending}"


def _blocked_by_wave(ordered: Ordered, step: Step, failed: Iterable[StepResult]) -> str:
    """Return why an object waits: one of an earlier sync wave, or a hook before it, did not succeed."""
    if not ordered.waves or step.verb is Verb.DELETE:
        return ""
    own = ordered.waves.get(step.path, _DEFAULT)
    lower = (one for one in failed if one.verb is not Verb.DELETE and ordered.waves.get(one.path, _DEFAULT) < own)
    first = next(lower, None)
    return f"{first.key} of an earlier wave was not {first.verb}d: {first.ending}" if first is not None else ""


_DEFAULT = (0, 0)


def _result(step: Step, ending: Ending, message: str = "") -> StepResult:
    return StepResult(verb=step.verb, key=step.key, path=step.path, ending=ending, message=message)

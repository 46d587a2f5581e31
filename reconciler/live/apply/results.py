"""The result of every step, and the record of a whole run: a line of the decision log. Objects to release."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.secrets import mask_text
from reconciler.live.apply.steps import Verb


class Ending(StrEnum):
    """The result of a step."""

    DONE = "done"
    UNCHANGED = "unchanged"  # the server had nothing to change, or the object was gone
    EXCLUDED = "excluded"  # an annotation of the object excludes it
    SKIPPED = "skipped"  # a step that it needs did not succeed
    STALE = "stale"  # the object changed after it was planned
    REFUSED = "refused"  # it is not ours, or work still runs in it
    DENIED = "denied"  # the server or an admission webhook rejects it
    FAILED = "failed"  # the server did not do it
    UNKNOWN = "unknown"  # no answer: it may have been done
    NOT_STARTED = "not started"  # the run was interrupted before

    @property
    def is_success(self) -> bool:
        """True if steps that need this one may run."""
        return self in _SUCCESS


_SUCCESS = frozenset((Ending.DONE, Ending.UNCHANGED, Ending.EXCLUDED))

UNSAFE = frozenset((Ending.STALE, Ending.REFUSED))
"""Endings that a new plan, or an approval, has to solve."""


class StepResult(Struct, frozen=True, kw_only=True):
    """The result for one object. `uid` and `resource_version` are those of the object after a creation or update."""

    verb: Verb
    key: ObjectKey
    path: str
    ending: Ending
    message: str = ""
    uid: str = ""
    resource_version: str = ""
    warnings: tuple[str, ...] = ()


class Record(Struct, frozen=True, kw_only=True):
    """One run of `apply`: who carried out which plan, when, and with which result; or of `release`, without a plan."""

    cluster: str
    server: str
    user: str
    plan: str  # digest
    commit: str
    base: str  # commit
    started: str  # ISO 8601, UTC
    finished: str = ""  # empty: the run has only begun, or it was killed
    interrupted: bool = False
    counts: dict[str, int] = {}
    failures: tuple[StepResult, ...] = ()
    engine: str = ""
    released: tuple[str, ...] = ()  # objects that were handed over
    objects: tuple[str, ...] = ()  # what was done to the first of them, and why

    @property
    def result(self) -> str:
        """The result in one word, as kstatus and events use them."""
        if not self.finished:
            return "Started"
        if self.interrupted:
            return "Interrupted"
        if self.released and not self.plan:
            return "Released"
        return "Failed" if self.failures else "Applied"


class Release(Struct, frozen=True, kw_only=True):
    """One object to release, and the document in Git that renders it: None if none does any more.

    others: the number of other objects that the document renders.
    """

    cluster: str
    key: ObjectKey
    uid: str
    source: SourceRef | None = None
    others: int = 0


def count(results: Iterable[StepResult]) -> dict[str, int]:
    """Return the number of results by verb and ending, such as `create done`."""
    return dict(sorted(Counter(f"{result.verb} {result.ending}" for result in results).items()))


def failures(results: Iterable[StepResult]) -> tuple[StepResult, ...]:
    """Return the results that are not successes."""
    return tuple(result for result in results if not result.ending.is_success)


def encode_record(record: Record) -> bytes:
    """Return a record as one line of JSON, without secrets."""
    masked = tuple(
        msgspec.structs.replace(result, message=mask_text(result.message), warnings=()) for result in record.failures
    )
    plain = msgspec.to_builtins(msgspec.structs.replace(record, failures=masked))
    return msgspec.json.encode({"result": record.result, **plain}) + b"\n"


def decode_record(line: bytes | str) -> Record:
    """Read a line of the decision log; unknown fields are ignored. Raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(line, type=Record)

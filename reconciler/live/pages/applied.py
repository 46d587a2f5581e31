"""The results of an applied plan, and of released objects, for people and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from reconciler.kube.values import plural
from reconciler.live.apply.results import Ending, Record, Release, StepResult
from reconciler.live.apply.steps import Verb

_DONE = {Verb.CREATE: "created", Verb.UPDATE: "updated", Verb.DELETE: "deleted", Verb.RECREATE: "recreated"}
_WORDS = {
    Ending.UNCHANGED: "unchanged",
    Ending.EXCLUDED: "excluded",
    Ending.SKIPPED: "skipped",
    Ending.STALE: "stale",
    Ending.REFUSED: "refused",
    Ending.DENIED: "denied",
    Ending.FAILED: "failed",
    Ending.UNKNOWN: "unknown",
    Ending.NOT_STARTED: "not started",
}


def word(result: StepResult) -> str:
    """Return the outcome of an object in one word, such as `created`."""
    return _DONE[result.verb] if result.ending is Ending.DONE else _WORDS[result.ending]


def render_applied(
    record: Record, results: Sequence[StepResult], not_ready: Mapping[str, str], notes: Sequence[str]
) -> Iterator[str]:
    """Yield a line for each object, then the counts of one cluster."""
    yield f"{record.cluster} ({record.server})\n"
    for result in results:
        reason = f": {result.message}" if result.message else ""
        verb = "" if result.ending is Ending.DONE else f" ({result.verb})"
        yield f"  {word(result):<11} {result.key}{verb}{reason}\n"
        yield from (f"              warning: {warning}\n" for warning in result.warnings)
    for path, reason in sorted(not_ready.items()):
        key = next((str(result.key) for result in results if result.path == path), path)
        yield f"  not ready   {key}{f': {reason}' if reason else ''}\n"
    counts = Counter(map(word, results))
    yield f"{record.cluster}: {', '.join(f'{number} {name}' for name, number in counts.items())}"
    yield f"; {len(not_ready)} not ready\n" if not_ready else "\n"
    yield from (f"warning: {note}\n" for note in notes)


def applied_json(
    record: Record, results: Sequence[StepResult], not_ready: Mapping[str, str], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the outcome of one cluster as plain JSON values."""
    plain: dict[str, Any] = msgspec.to_builtins(record)
    del plain["failures"]
    return {
        **plain,
        "result": record.result,
        "results": [
            {**msgspec.to_builtins(result), "not_ready": not_ready[result.path]}
            if result.path in not_ready
            else msgspec.to_builtins(result)
            for result in results
        ],
        "notes": list(notes),
    }


def render_history(records: Sequence[Record]) -> Iterator[str]:
    """Yield a line for each applied plan, the newest first, and one for each object that it changed."""
    cluster = max((len(record.cluster) for record in records), default=0)
    user = max((len(record.user) for record in records), default=0)
    for record in reversed(records):
        counts = ", ".join(f"{number} {_ended(name)}" for name, number in record.counts.items())
        counts = counts or ", ".join(record.released) or "no end recorded"
        commit, plan = record.commit[:12] or "-", record.plan.removeprefix("sha256:")[:12] or "-"
        words = (f"{record.started[:19]}Z", f"{record.result:<11}", f"{record.cluster:<{cluster}}", f"{commit:<12}")
        yield "  ".join((*words, f"{plan:<12}", f"{record.user:<{user}}", counts)) + "\n"
        yield from (f"    {one}\n" for one in record.objects)


def _ended(count: str) -> str:
    """Return what `create done` means in the words of an apply: `created`; other endings name the verb beside them."""
    verb, _, ending = count.partition(" ")
    return _DONE[Verb(verb)] if ending == Ending.DONE else f"{ending} ({verb})"


def render_releases(releases: Sequence[Release], *, is_done: bool) -> Iterator[str]:
    """Yield a line for each released object, then what to remove from Git."""
    for one in releases:
        yield f"{'released' if is_done else 'to release'}: {one.key} on {one.cluster} (UID {one.uid})\n"
    defined = [one for one in releases if one.source is not None]
    yield "Remove from Git, then run `reconciler commit`:\n" if defined else "Git does not define it any more.\n"
    for one in defined:
        more = (
            f" and of {plural(one.others, 'other object')}; an apply deletes what is not released" if one.others else ""
        )
        yield f"  {one.source}: the source of {one.key}{more}\n"

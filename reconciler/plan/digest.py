"""The digest of a plan, the digest that an approval names, and the checksum of a saved plan."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from reconciler.plan.plan import Change, Plan


def digest(plan: Plan) -> str:
    """Return the SHA-256 of the whole plan, as canonical JSON: its inputs, and everything that outputs show.

    Labels, commit ids, what the base branch has besides, its evidence, the age of evidence, approvals, the edited
    lines of reasons, and the placement, which follows from the rest and the age of evidence, are not part of it, so
    that equal files under another name or commit, with another history, or on another day, give the same plan. The
    checksum of a saved plan covers them.
    """
    try:
        return checksum_of(_digested(plan))
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return _sha256({name: list(value) if isinstance(value, Iterator) else value for name, value in _digested(plan)})


def _digested(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Yield the content of the digest, by field. Lists are iterators, because copies of all changes fill the memory."""
    values = {name: getattr(plan, name) for name in plan.__struct_fields__}
    del values["admissions"]  # what runs and waits changes by itself
    values |= {side: replace(values[side], label="", commit="") for side in ("base", "head")}
    values |= {
        "digest": "",
        "behind": None,
        "approvals": (),
        "evidence_changes": (),
        "placement": (),
        "changes": map(_without_edits, plan.changes),
    }
    values["capacity"] = tuple(replace(line, before=0, evidence_days=None) for line in plan.capacity)
    values["breaches"] = tuple(replace(breach, approved=False) for breach in plan.breaches)
    for name, value in values.items():
        yield name, iter(value) if isinstance(value, tuple) else value


def _without_edits(change: Change) -> Change:
    reasons = (*change.because, *(field.why for field in change.fields))
    if not any(why is not None and (why.edited or why.removed) for why in reasons):
        return change
    because = tuple(replace(why, edited=(), removed=()) for why in change.because)
    fields = tuple(
        field if field.why is None else replace(field, why=replace(field.why, edited=(), removed=()))
        for field in change.fields
    )
    return replace(change, because=because, fields=fields)


def approval_digest(plan: Plan, judged_by: str, lost: Iterable[str] = ()) -> str:
    """Return the SHA-256 of what an approval allows: every changed object, before and after, and `judged_by`.

    It is the same for a branch, its merge with unrelated changes, and the commit that renders the merge: what differs
    between them, such as labels, dates and unchanged objects, is not part of it. `judged_by` is the digest of the
    settings, policies and evidence of the head, `lost` the kept objects that vanish.
    """
    changes = sorted(
        (change.path, change.moved_from, change.digest_before, change.digest_after) for change in plan.changes
    )
    folders = sorted(breach.actual for breach in plan.breaches if breach.budget == "sources.empty")
    return _sha256((changes, folders, sorted(lost), judged_by))


def checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a saved plan without its own `checksum`, as canonical JSON."""
    return _sha256({name: value for name, value in document.items() if name != "checksum"})


def checksum_of(fields: Iterable[tuple[str, Any]]) -> str:
    """Return the SHA-256 of fields as canonical JSON, item by item of the lists, which are iterators."""
    content = hashlib.sha256()
    for position, (name, value) in enumerate(sorted(fields, key=itemgetter(0))):
        content.update(b"%s%s:" % (b"," if position else b"{", msgspec.json.encode(name)))
        if not isinstance(value, Iterator):
            content.update(msgspec.json.encode(value, order="sorted"))
            continue
        content.update(b"[")
        for number, item in enumerate(value):
            content.update((b"," if number else b"") + msgspec.json.encode(item, order="sorted"))
        content.update(b"]")
    content.update(b"}")
    return "sha256:" + content.hexdigest()


def _sha256(value: Any) -> str:
    try:
        content = msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:  # a file name that is not UTF-8
        content = json.dumps(msgspec.to_builtins(value), sort_keys=True).encode()
    return "sha256:" + hashlib.sha256(content).hexdigest()

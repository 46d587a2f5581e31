"""The facts of live clusters in a plan: their states, refusals and missing answers as problems, and drift."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from reconciler.index.build import CompiledRevision
from reconciler.kinds.manifests.ownership import LABEL, LABEL_PATH, is_kept, is_owned
from reconciler.kube.items import ListKeys
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.values import value_at
from reconciler.plan import Drift
from reconciler.plan.baseline import Baseline
from reconciler.plan.inputs import LiveFacts
from reconciler.plan.live.annotations import why_not_applied, why_not_deleted
from reconciler.plan.live.baseline import LiveBaseline
from reconciler.plan.live.drift import changed_by, drift_of, lies_in
from reconciler.plan.live.managers import last_writer, managers_of
from reconciler.plan.replacements import SERVER_REFUSED, UNKNOWN
from reconciler.plan.updates import Update
from reconciler.repo.files import CONFIG_PATH

# Drift: fields of live objects that are not as Git says, although nobody edited them there.


def find_drift(
    index: CompiledRevision, live: LiveBaseline, existing: Baseline, updates: Mapping[str, Update]
) -> Iterator[Drift]:
    """Yield what others changed: fields of updated objects and deleted objects, which an apply reverts, and what stays.

    existing: `rendered/` of the base.
    """
    existing.objects(path for path in updates if path in existing.versions)  # all at one time
    left = live.left()
    for path in sorted({*updates, *left, *live.deleted}):
        yield from _reverted(index, live, existing, path, updates[path]) if path in updates else ()
        yield from left.get(path, ())
        yield from live.deleted.get(path, ())


def _reverted(
    index: CompiledRevision, live: LiveBaseline, existing: Baseline, path: str, update: Update
) -> Iterator[Drift]:
    body, comparison = live.live(path), update.comparison
    if body is None:
        return
    before = existing.body(path) if path in existing.versions else None
    key = comparison.key
    keys = _list_keys(index, key.group, key.kind)
    file, is_adopted = f"{index.revision.config.rendered}/{path}", bool(live.found[path].adopted)
    for field in comparison.fields:
        managers = changed_by(field, body, before, keys)
        if managers == () and field.has_before and lies_in(field, body, live.added(path), keys):
            continue  # a default of what somebody added
        if managers or (managers is not None and not is_adopted):  # what an adopted one lacks, it never had
            yield drift_of(comparison.cluster, key, file, field, managers, comparison.source, body)


def _list_keys(index: CompiledRevision, group: str, kind: str) -> ListKeys:
    return lambda path: index.context.catalogue.list_keys(group, kind, path)


RULE_EXPIRED = "drift.rule-expired"
"""Rule of a rule of `spec.drift` whose last day is over."""

EXCLUDED = "live.excluded"
"""Rule of an object on a cluster with an annotation or a label that keeps an apply from changing or deleting it."""

UNLABELLED = "live.unlabelled"
"""Rule of an object that an apply deletes although somebody took our label away: the inventory says that it is ours."""

EXTERNAL = "live.external"
"""Rule of an object of our inventory that others own now, by `external` of its cluster."""

WARNED = "live.warning"
"""Rule of what a server warns of in a dry run."""


def live_facts(
    index: CompiledRevision,
    live: LiveBaseline,
    existing: Baseline,
    updates: Mapping[str, Update],
    kept: Collection[str],
) -> LiveFacts:
    """Collect what live clusters said. `existing` is `rendered/` of the base; `kept` objects are not changed."""
    return LiveFacts(
        clusters=live.states,
        versions={path: one.version for path, one in live.identities().items()},
        problems=tuple(_problems(index, live, updates, kept)),
        drift=tuple(find_drift(index, live, existing, updates)),
        adopted=live.adopted(),
        contents=live.contents,
    )


def _problems(
    index: CompiledRevision, live: LiveBaseline, updates: Mapping[str, Update], kept: Collection[str]
) -> Iterator[Problem]:
    for rule in live.rules.policy.rules:
        if rule.is_expired(live.rules.day):
            yield Problem(
                rule=RULE_EXPIRED,
                place=rule.place,
                message=f"the rule about drift ({rule}) expired: what it covered is treated as if it did not exist",
                hint="remove the rule, or extend it",
                severity=Severity.WARNING,
            )
    rows = index.summaries([doubt.path for doubt in live.doubts if doubt.path] + [*live.warnings])
    for doubt in live.doubts:
        update = updates.get(doubt.path)
        if doubt.is_refused and (doubt.path in kept or (update is not None and update.comparison.frozen)):
            continue  # reported as a replacement
        yield Problem(
            rule=SERVER_REFUSED if doubt.is_refused else UNKNOWN,
            place=rows[doubt.path].place if doubt.path else SourceRef(path=CONFIG_PATH),
            field=doubt.field,
            message=doubt.message,
            hint=doubt.hint,
        )
    yield from _exclusions(index, live, updates, kept)
    for cluster, keys in live.released.items():
        for key in keys:
            yield Problem(
                rule=EXTERNAL,
                place=SourceRef(path=CONFIG_PATH),
                message=f"{key} is external now: an apply releases it on {cluster}, with all of its values, and "
                "no plan changes or deletes it any more",
                severity=Severity.WARNING,
            )
    for path, warnings in live.warnings.items():
        for text in warnings:
            yield Problem(rule=WARNED, place=rows[path].place, message=text, severity=Severity.WARNING)


def _exclusions(
    index: CompiledRevision, live: LiveBaseline, updates: Mapping[str, Update], kept: Collection[str]
) -> Iterator[Problem]:
    """Yield what an apply leaves out because of an annotation or label on the cluster, which Git may lack."""
    rows = index.summaries(updates.keys() - set(kept))
    for path, identity in live.identities().items():
        body = live.live(path)
        if body is None or path in kept or is_kept(body):
            continue
        is_deleted = path not in index.desired
        why = why_not_deleted(body) if is_deleted else why_not_applied({}, body) if path in rows else ""
        if is_deleted and not why and not is_owned(body):
            yield _unlabelled(SourceRef(path=f"{index.revision.config.rendered}/{path}"), identity.key, body)
        if why:
            yield Problem(
                rule=EXCLUDED,
                place=SourceRef(path=f"{index.revision.config.rendered}/{path}") if is_deleted else rows[path].place,
                message=f"an apply does not {'delete' if is_deleted else 'update'} the object, because the cluster has "
                f"{why}",
                hint="remove that from the object on the cluster, or undo the change in Git",
                severity=Severity.WARNING,
            )


def _unlabelled(place: SourceRef, key: ObjectKey, body: Mapping[str, Any]) -> Problem:
    """Return the warning that somebody else may rely on an object that an apply deletes."""
    managers = managers_of(body, LABEL_PATH)
    if managers:
        what = f"{managers[0].name} set the label {LABEL}: {value_at(body, LABEL_PATH)} at {managers[0].time}"
    else:
        last = last_writer(body)
        what = f"somebody removed the label {LABEL}{f' (last written by {last})' if last else ''}"
    return Problem(
        rule=UNLABELLED,
        place=place,
        message=f"an apply deletes the object, which our inventory lists with its UID, although {what}",
        hint=f"if it has a new owner: reconciler release --write {key}",
        severity=Severity.WARNING,
    )

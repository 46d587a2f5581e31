"""From a revision and live clusters to what is to do there: the plan of now, its steps, and what they send."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from reconciler.kube.client.port import LiveCluster, ObjectText
from reconciler.kube.objects import ObjectKey
from reconciler.kube.patterns import later
from reconciler.live.apply import Work
from reconciler.live.apply.steps import planned_objects, steps_of
from reconciler.plan import Plan
from reconciler.plan.live.annotations import may_not_apply, may_set_wave, wave
from reconciler.plan.live.choices import NO_CHOICES, LiveChoices
from reconciler.plan.use_cases import plan
from reconciler.plan.workspace import Workspace

_API_VERSION = later(rb"apiVersion: (?:[a-z0-9.-]+/)?(v[a-z0-9]+)\n")
"""The first line of every rendered file."""


def plan_work(
    workspace: Workspace,
    clusters: Mapping[str, LiveCluster],
    *,
    base: str = "",
    date: str = "",
    choices: LiveChoices = NO_CHOICES,
    saved: Plan | None = None,
) -> Work:
    """Plan a revision against live clusters, and return what is to do there.

    choices: as for `plan.use_cases`. saved: the plan that is carried out.
    """
    planned = plan(workspace, base=base, date=date, clusters=clusters, choices=choices, saved=saved)
    live = planned.live
    if live is None:
        raise AssertionError("a plan against live clusters has read them")
    made, index, folder = planned.plan, planned.index, planned.index.revision.config.rendered
    changed = planned_objects(made, folder)
    changed_paths = frozenset(one.path for one in changed)
    desired = sorted(one.path for one in changed if one.after)
    found = planned.baseline.objects(sorted(one.path for one in changed if one.before))
    existing = {path: one.summary for path, one in found.items() if one.summary is not None}
    summaries = tuple(index.first_summaries())
    contents = planned.renderer.contents(desired)
    reading = Lock()  # all files are read by one parser

    def body(path: str) -> Mapping[str, Any]:
        with reading:
            return planned.renderer.body(path, contents[path])

    return Work(
        plan=made,
        summaries=summaries,
        keys=frozenset((row.cluster, row.key) for row in summaries),
        folder=folder,
        kinds=workspace.runtime.engine.kinds,
        steps=steps_of(made, folder, index.summaries(desired), existing),
        body=body,
        sent=lambda path, found: live.sent(path, body(path), found),
        text=lambda key, path: _unread(key, contents[path]),
        waves={path: wave(body(path)) for path, content in contents.items() if may_set_wave(content)},
        version_of=live.version_of,
        added=live.added,
        released=live.released,
        refused={doubt.path: doubt for doubt in live.doubts if doubt.path in changed_paths},
        cache=workspace.runtime.cache,
        approvals=planned.approvals,
        left=live.left().keys(),
    )


def _unread(key: ObjectKey, content: bytes) -> ObjectText | None:
    """Return a rendered file as a creation that is sent as it is; None if it has to be read first."""
    has_version = _API_VERSION.match(content)
    if has_version is None or b"\n---" in content or may_not_apply(content):
        return None
    return ObjectText(key=key, version=has_version[1].decode(), content=content)


def adopted(saved: Plan) -> frozenset[str]:
    """Return the objects that a saved plan adopts: its review approved them."""
    return frozenset(str(change.key) for change in saved.changes if change.adopts)

"""From a revision and live clusters to what is to do there: the plan of now, its steps, and what they send."""

from collections.abc import Mapping

import msgspec

from reconciler.app.apply import Work
from reconciler.app.plan import plan
from reconciler.app.workspace import Workspace
from reconciler.core.apply.annotations import wave
from reconciler.core.apply.steps import planned_objects, steps_of
from reconciler.core.live.choices import NO_CHOICES, LiveChoices
from reconciler.core.live.projection import content_version, without
from reconciler.core.plan import Plan
from reconciler.ports.cluster import LiveCluster


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

    choices: as for `app.plan`. saved: the plan that is carried out.
    """
    planned = plan(workspace, base=base, date=date, clusters=clusters, choices=choices, saved=saved)
    made, index, folder = planned.plan, planned.index, planned.index.revision.config.rendered
    changed = planned_objects(made, folder)
    desired = sorted(one.path for one in changed if one.after)
    found = planned.baseline.objects(sorted(one.path for one in changed if one.before))
    existing = {path: one.summary for path, one in found.items() if one.summary is not None}
    summaries = tuple(index.first_summaries())
    bodies: dict[str, bytes] = {}
    waves: dict[str, tuple[int, int]] = {}
    for path, content in planned.renderer.contents(desired).items():
        sent = without(planned.renderer.body(path, content), planned.omitted.get(path, ()))
        bodies[path], waves[path] = msgspec.json.encode(sent), wave(sent)
    return Work(
        plan=made,
        summaries=summaries,
        keys=frozenset((row.cluster, row.key) for row in summaries),
        folder=folder,
        kinds=workspace.runtime.kinds,
        steps=steps_of(made, folder, index.summaries(desired), existing),
        desired=bodies,
        waves=waves,
        version_of=lambda path, body: content_version(body, planned.omitted.get(path, ())),
        cache=workspace.runtime.cache,
        approvals=planned.approvals,
        left=planned.omitted.keys(),
    )


def adopted(saved: Plan) -> frozenset[str]:
    """Return the objects that a saved plan adopts: its review approved them."""
    return frozenset(str(change.key) for change in saved.changes if change.adopts)

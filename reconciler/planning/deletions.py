"""What admission policies say about objects that a plan deletes."""

from collections.abc import Sequence

from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import SourceRef
from reconciler.core.policy.admission import PolicySet, Subject
from reconciler.core.problems import Severity
from reconciler.index.build import CompiledRevision
from reconciler.index.evaluator import PolicyEvaluator, PolicyFindings, join
from reconciler.planning.baseline import Baseline
from reconciler.planning.sides import Differences, Sides
from reconciler.planning.updates import Update


def in_place(differences: Differences) -> dict[str, Update]:
    """Return the updates of objects that are not deleted and created again under their names."""
    kept = differences.kept_specs
    return {path: one for path, one in differences.updates.items() if path in kept or not one.comparison.recreated}


def judge_deletions(sides: Sides, differences: Differences, policies: PolicySet) -> PolicyFindings:
    """Return the verdicts on the deletion of existing objects.

    Few repositories have policies about deletions: without one, nothing is looked up.
    """
    chosen = policies.about_deletions
    if not chosen.rules:
        return PolicyFindings()
    paths = _deleted_paths(sides, differences)
    return join(PolicyEvaluator(chosen).evaluate(_subjects(sides.index, sides.baseline, paths)))


def _deleted_paths(sides: Sides, differences: Differences) -> list[str]:
    """Return the paths of the objects that a plan deletes, or that it deletes and creates again.

    While a file has errors nothing is deleted for sure: the plan is refused, and what came from that file stays.
    """
    index = sides.index
    if any(problem.severity is Severity.ERROR for problem in index.problems()):
        return []
    waiting = index.pending()
    gone = [path for path in differences.differing if path not in index.desired and path not in waiting]
    kept = {path for path, found in sides.baseline.objects(gone).items() if found.is_kept}
    staying = in_place(differences)
    recreated = [path for path in differences.updates if path not in staying]
    return [*(path for path in gone if path not in kept), *recreated]


def _subjects(index: CompiledRevision, baseline: Baseline, paths: Sequence[str]) -> list[Subject]:
    subjects = []
    for path, found in baseline.objects(paths).items():
        body = baseline.body(path)
        if body is None or found.summary is None:
            continue
        place = SourceRef(path=f"{index.revision.config.rendered}/{path}")
        row = found.summary
        manifest = Manifest(cluster=row.cluster, key=row.key, body=dict(body), source=place)
        subjects.append(index.context.deletion(manifest))
    return subjects

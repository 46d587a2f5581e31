"""Resolve the conflicts of a merge in `rendered/`: its files follow from the sources, so they are rendered again."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.app.uncommitted import is_source
from reconciler.app.workspace import Workspace
from reconciler.core.config import Config
from reconciler.core.problems import Problem, Severity
from reconciler.errors import InvalidInput, UnsafePlan, printable
from reconciler.planning.plan import plan_tree
from reconciler.ports import Conflicts

_MAX_NAMES = 10


class Resolved(Struct, frozen=True, kw_only=True):
    """What was staged: the files that had conflicts, and all files that were rendered or removed."""

    conflicts: tuple[str, ...]
    rendered: tuple[str, ...]


def _reject_unmerged_sources(checkout: Conflicts, config: Config) -> None:
    """Raise `UnsafePlan` if sources have conflicts, which only people can resolve, or changes that are not staged.

    Git merges what is staged, so `rendered/` has to follow from that.
    """
    conflicts = [path for path in checkout.conflicts() if not path.startswith(f"{config.rendered}/")]
    if conflicts:
        hint = "resolve them first and `git add` them, then run `reconciler resolve` again"
        raise UnsafePlan(f"conflicts outside {config.rendered}/: {_names(conflicts)}", hint=hint)
    unstaged = [path for path in checkout.unstaged() if is_source(config, path)]
    if unstaged:
        hint = "`git add` them if they belong to the merge, else `git stash` them"
        raise UnsafePlan(f"changes that are not staged: {_names(unstaged)}", hint=hint)


def _names(paths: Sequence[str]) -> str:
    names = ", ".join(printable(path) for path in paths[:_MAX_NAMES])
    return f"{names} and {len(paths) - _MAX_NAMES} more" if len(paths) > _MAX_NAMES else names


def resolve(workspace: Workspace, checkout: Conflicts) -> Resolved:
    """Render the merged sources of the working tree, and stage what differs in `rendered/`.

    Raises `UnsafePlan` if sources have conflicts or changes that are not staged, `InvalidInput` if they have errors;
    nothing is changed then.
    """
    _reject_unmerged_sources(checkout, workspace.config)
    _reject(workspace.compile().problems())
    conflicts = checkout.conflicts()
    checkout.stage_versions({path: versions.ours or versions.theirs for path, versions in conflicts.items()})
    planned = plan_tree(workspace.runtime, workspace.tree, workspace.config, against_head=True)
    _reject(planned.plan.errors)
    contents = planned.contents()
    checkout.stage(contents)
    return Resolved(conflicts=tuple(conflicts), rendered=tuple(sorted(contents)))


def _reject(problems: tuple[Problem, ...]) -> None:
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)

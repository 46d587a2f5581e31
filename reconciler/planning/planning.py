"""Two sides in, a plan out; and what carrying it out would write."""

from collections.abc import Mapping
from hashlib import sha256

from msgspec import Struct

from reconciler.core.manifests.manifest import Manifest
from reconciler.core.plan import ExceptionInForce, Plan, Revision
from reconciler.core.plan.edits import MOST_DETAILED
from reconciler.core.plan.inputs import Inputs
from reconciler.core.plan.make import make_plan
from reconciler.core.policy.exceptions import apply_exceptions
from reconciler.core.problems import Problem, Severity
from reconciler.index.compile import compile_file
from reconciler.index.head import Head, Tools
from reconciler.index.sources import read_files
from reconciler.planning.details import Detail, details
from reconciler.planning.existing import Existing
from reconciler.revision.layout import Files, Layout, layout
from reconciler.revision.listing import Listing
from reconciler.revision.sides import Side, base_side

_NOTHING = Side(label="nothing", commit=None)


class Planned(Struct, frozen=True, kw_only=True):
    """A plan, and the compiled revision that can give the bytes of what it writes."""

    plan: Plan
    head: Head

    def contents(self) -> dict[str, bytes | None]:
        """Return what carrying the plan out writes, by path below the repository's root; None deletes."""
        folder = self.head.config.rendered
        paths = [change.path.removeprefix(f"{folder}/") for change in self.plan.changes]
        written = self.head.contents([path for path in paths if path in self.head.digests])
        files: dict[str, bytes | None] = {}
        for change, path in zip(self.plan.changes, paths, strict=True):
            if change.moved_from:
                files[change.moved_from] = None
            files[change.path] = written.get(path)
        return files


def plan(head: Head, *, base: str, date: str, acknowledge: str, against_head: bool) -> Planned:
    """Plan a revision (or the working tree) against a base; `against_head` compares a revision with itself."""
    tools = head.tools
    other = head.side if against_head else base_side(tools.repository, base, head.side)
    before = _before(head, other)
    existing = Existing(tools.repository, tools.kinds, head.config.rendered, _of_clusters(head, before))
    differing = existing.differing(head.digests)
    existing.load(differing, processes=tools.processes)
    foreign = existing.foreign(differing)
    if other is not head.side:
        foreign |= _foreign_of_head(tools, head, before, existing)
    owned = existing.oids.replaced(dict.fromkeys(foreign))
    changed = [path for path in head.digests.differing(owned) if path in head.digests]
    head.prepare(_detailed(changed, owned, moves=len(differing) > len(foreign)))
    detailed = details(head, existing, [path for path in changed if path in owned])
    findings = _Findings(head, detailed, foreign, date)
    rows = {path: row for path in differing if path not in foreign and (row := existing.summary(path))}
    inputs = Inputs(
        engine=tools.engine,
        base=_revision(other or _NOTHING, before.rendered),
        head=_revision(head.side, *head.layout.written),
        evidence=head.layout.evidence.digest,
        policies=head.context.policies.digest,
        config=head.config,
        kinds=tools.kinds,
        desired=head.some_rows(path for path in changed if path not in foreign),
        existing={path: owned[path] for path in differing if path in owned},
        existing_rows=rows,
        common=head.common(changed),
        manifest=lambda path: _manifest(head, path),
        body=existing.body,
        comparisons={path: detail.comparison for path, detail in detailed.items()},
        list_keys=head.context.catalogue.list_keys,
        is_quantity=head.context.catalogue.is_quantity,
        origins=_origins(tools, head, before, findings.problems),
        waiting=head.waiting(),
        inventories=head.context.inventories,
        verdicts=findings.verdicts,
        problems=findings.problems,
        exceptions=findings.in_force,
        folders=_folders(head, _last_rendered(tools, head) if other is head.side else before),
        acknowledgement=acknowledge,
    )
    planned = Planned(plan=make_plan(inputs), head=head)
    head.remember_tools()
    return planned


def _detailed(changed: list[str], owned: Mapping[str, str], *, moves: bool) -> list[str]:
    """Leave out the creations that a plan only counts, unless it looks among them for what has moved."""
    if moves:
        return changed
    created = sorted(path for path in changed if path not in owned)
    return [*(path for path in changed if path in owned), *created[:MOST_DETAILED]]


def lint(head: Head, *, date: str) -> Plan:
    """Check a revision by itself: a plan without changes."""
    tools = head.tools
    existing = Existing(tools.repository, tools.kinds, head.config.rendered, _of_clusters(head, head.layout))
    differing = existing.differing(head.digests)
    existing.load(differing)
    findings = _Findings(head, {}, existing.foreign(differing), date)
    at = _revision(head.side, *head.layout.written)
    return Plan(
        engine=tools.engine,
        base=at,
        head=at,
        evidence=head.layout.evidence.digest,
        policies=head.context.policies.digest,
        unchanged=len(head.digests),
        verdicts=findings.verdicts,
        problems=findings.problems,
        exceptions=findings.in_force,
    )


class _Findings:
    """Problems and verdicts of one plan, exceptions applied; updates are judged again beside what they replace."""

    def __init__(self, head: Head, detailed: Mapping[str, Detail], foreign: Mapping[str, Problem], date: str) -> None:
        again = {(detail.comparison.cluster, detail.comparison.key) for detail in detailed.values()}
        rules = set(head.context.policies.rules)
        raw = [
            verdict
            for verdict in head.verdicts()
            if (verdict.cluster, verdict.key) not in again or verdict.rule not in rules
        ]
        for detail in detailed.values():
            raw += detail.verdicts
        today = date or _date_of(head)
        excepted = apply_exceptions(raw, head.context.exceptions, today)
        self.verdicts = tuple(sorted(excepted.verdicts, key=lambda verdict: verdict.sort_key))
        self.in_force: tuple[ExceptionInForce, ...] = excepted.in_force
        found = [*head.problems(), *foreign.values(), *excepted.problems]
        self.problems: tuple[Problem, ...] = tuple(sorted(found, key=lambda problem: problem.sort_key))


def _date_of(head: Head) -> str:
    """Day of the head commit, of HEAD for the working tree; before the first commit no exception has expired."""
    return head.side.tip.committed_at[:10] if head.side.tip else ""


def _before(head: Head, other: Side | None) -> Layout:
    if other is head.side:
        return head.layout
    return head.layouts.of(other, "base") if other else layout(head.config, Files())


def _of_clusters(head: Head, before: Layout) -> Listing:
    return before.rendered.below(head.tools.cluster) if head.tools.cluster else before.rendered


def _foreign_of_head(tools: Tools, head: Head, before: Layout, base: Existing) -> dict[str, Problem]:
    if head.layout.rendered == before.rendered:
        return {}
    now = Existing(tools.repository, tools.kinds, head.config.rendered, _of_clusters(head, head.layout))
    suspects = [path for path in now.differing(head.digests) if base.oids.get(path) != now.oids[path]]
    now.load(suspects)
    return now.foreign(suspects)


def _manifest(head: Head, path: str) -> Manifest:
    return head.rendering(path).manifest


def _origins(tools: Tools, head: Head, before: Layout, problems: tuple[Problem, ...]) -> dict[str, str] | None:
    """Source files of existing objects, for the files that now have errors: by compiling what they held before.

    None where that had errors too, so that nobody can tell what came from it.
    """
    broken = {problem.place.path for problem in problems if problem.severity is Severity.ERROR}
    paths = [path for path in sorted(broken) if path in before.sources]
    origins: dict[str, str] = {}
    for path, raw in read_files(tools.repository, before.sources, paths):
        compiled = compile_file(head.context, path, raw)
        if any(problem.severity is Severity.ERROR for problem in compiled.problems):
            return None
        origins.update((rendering.row.path, path) for rendering in compiled.renderings)
    return origins


def _last_rendered(tools: Tools, head: Head) -> Layout:
    """Return the paths of the commit that last changed what is rendered: a folder that is empty since then counts.

    A revision that is compared with itself would otherwise never tell that its sources vanished.
    """
    commit = head.side.commit
    if commit is None or all(head.layout.sources.below(folder) for folder in head.config.sources):
        return head.layout
    found = tools.repository.last_change(commit.oid, head.config.rendered)
    if found is None:
        return head.layout
    return layout(head.config, Files.of(tools.repository.tree(found, head.config.sources), head.config.rendered))


def _folders(head: Head, before: Layout) -> dict[str, tuple[int, int]]:
    now = head.layout.sources
    return {folder: (len(before.sources.below(folder)), len(now.below(folder))) for folder in head.config.sources}


def _revision(side: Side, *files: Listing) -> Revision:
    """Name a side and digest its files: of a head all that people write, of a base what is rendered, so none twice.

    So a plan of the working tree and the plan that commits it are the same plan, under one acknowledgement.
    """
    tree = sha256("\n".join(listing.text for listing in files).encode()).hexdigest()
    return Revision(label=side.label, commit=side.commit.oid if side.commit else "", tree=tree)

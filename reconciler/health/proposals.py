"""The reviewed lane: one branch for each case, which people merge or close."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ReconcilerError, StalePlan
from reconciler.forge import ForgeError
from reconciler.forge.branches import contents as _contents
from reconciler.forge.identity import EditedFile, ProposedChange
from reconciler.health.fast_lane import LaneRound
from reconciler.health.quarantine_files import HealthSources, proposed_files
from reconciler.health.state_store import HealthCase, StateStore
from reconciler.nodehealth.fleet.decisions import HealthDecision
from reconciler.nodehealth.fleet.state import HealthPhase, NodeState
from reconciler.plan import opening
from reconciler.plan.outputs.commit import ENGINE, SOURCE_COMMIT, compose
from reconciler.repo.git.remote import GitRemote
from reconciler.repo.port import Draft, Repository
from reconciler.version import __version__

CASE, EVIDENCE = "Reconciler-Health-Case", "Reconciler-Health-Evidence"
CLOSED_SECONDS = 86400.0
"""The time in which a case that somebody closed is not proposed again for the same evidence."""


class ClusterRound(Struct, frozen=True, kw_only=True, eq=False):
    """The round of one cluster; `error` if the cluster could not be looked at, so that nothing was decided."""

    cluster: str
    store: StateStore | None = None
    done: LaneRound | None = None
    error: ReconcilerError | None = None


class CaseWork(Struct, frozen=True, kw_only=True, eq=False):
    """One proposal: what the branch of its case shall change."""

    case: HealthCase
    decision: HealthDecision
    files: Mapping[str, bytes | None]

    @property
    def branch(self) -> str:
        """The branch of the case."""
        return branch_of(self.case)


def branch_of(case: HealthCase) -> str:
    """Return the branch of a case."""
    return f"health/{case.id}"


class ChangeRequests(Protocol):
    """The change requests of branches that are pushed here."""

    def request(self, change: ProposedChange, head: str) -> object:
        """Open the change request of a branch that was pushed, or update it."""
        ...

    def close(self, branch: str, reason: str) -> None:
        """Close the change request of a branch that is about to be removed."""
        ...


class CaseBranches:
    """The branches of one repository."""

    def __init__(self, remote: GitRemote, requests: ChangeRequests | None = None) -> None:
        self._remote, self._requests = remote, requests

    def refs(self, rounds: Iterable[ClusterRound]) -> list[str]:
        """Return the references of all open cases, to be fetched."""
        cases = [case for one in rounds if one.done is not None for case in one.done.state.cases.values()]
        return [f"refs/heads/{branch_of(case)}" for case in cases]

    def propose(
        self,
        run: opening.Run,
        sources: Sequence[HealthSources],
        rounds: Mapping[str, ClusterRound],
        tips: Mapping[str, str],
    ) -> None:
        """Bring the branch of every case up to date, and remember what was pushed and what was closed.

        Then the change requests follow: if the forge fails, the branches are as they should be.
        """
        failed: ForgeError | None = None
        for one in sources:
            ran = rounds[one.cluster.name]
            if ran.done is None or ran.store is None:
                continue
            stored = ran.store.read()
            cases = {node: _followed(one, case, node, ran.done) for node, case in stored.state.cases.items()}
            for work in _work(one, ran.done, cases):
                cases[work.decision.node] = self._bring(run, work, tips, ran.done)
            for node in cases.keys() & ran.done.evaluation.decisions.keys():
                try:
                    cases[node] = self._finish(cases[node], ran.done.evaluation.decisions[node], tips)
                except ForgeError as error:
                    failed = error
            ran.store.write(replace(stored.state, cases=cases), stored)
            try:
                self._request(run, one, ran.done, cases)
            except ForgeError as error:
                failed = error
        if failed is not None:
            raise failed

    def _request(
        self, run: opening.Run, sources: HealthSources, done: LaneRound, cases: Mapping[str, HealthCase]
    ) -> None:
        """Open or update the change request of every branch that is there."""
        head = run.workspace.tree.commit
        if self._requests is None or head is None:
            return
        for work in _work(sources, done, cases):
            if work.case.branch:
                before = _contents(run.workspace.repository, head.oid, work.files)
                self._requests.request(_change(work, before), work.case.branch)

    def _bring(self, run: opening.Run, work: CaseWork, tips: Mapping[str, str], done: LaneRound) -> HealthCase:
        """Create the branch, amend it, or leave it to people; return the case as it is then."""
        case, now = work.case, done.now
        evidence, proposal = work.decision.evidence, str(work.decision.proposal or "")
        is_same = (case.evidence, case.proposal) == (evidence, proposal)
        tip = tips.get(f"refs/heads/{work.branch}")
        if tip is None and case.branch and is_same:  # somebody closed it
            case = replace(case, branch="", closed_at=case.closed_at or now)
        if case.closed_at and is_same and now - case.closed_at < CLOSED_SECONDS:
            return case
        if tip is not None and is_same and (tip != case.branch or self._is_current(run, work, tip)):
            return case
        new = self._push(run, work, tip, own=case.branch)
        return replace(case, evidence=evidence, proposal=proposal, branch=new or case.branch, closed_at=0.0)

    def _is_current(self, run: opening.Run, work: CaseWork, tip: str) -> bool:
        """Tell whether the branch still says what is proposed, on top of any part of the branch that is read."""
        return _contents(run.workspace.repository, tip, work.files) == dict(work.files)

    def _push(self, run: opening.Run, work: CaseWork, tip: str | None, *, own: str) -> str:
        """Push one commit: on top of what people committed to the branch, else on top of the branch that is read."""
        repository = run.workspace.repository
        head = run.workspace.tree.commit
        assert head is not None  # noqa: S101 - a revision is read
        has_theirs = tip is not None and tip != own
        files = dict(work.files)
        if has_theirs and tip is not None:
            files = _untouched(repository, files, before=own or head.oid, tip=tip)
        draft = Draft(
            parent=tip if has_theirs and tip is not None else head.oid,
            files=files,
            message=compose(_message(work), _trailers(work, head.oid)),
            branch=work.branch,
            replaces=tip,
        )
        made = repository.commit(draft) if files else None
        if made is None:
            return ""
        try:
            self._remote.push(work.branch, made, expected=tip)
        except StalePlan:
            return ""  # somebody pushed meanwhile: the next round looks at it
        return made

    def _finish(self, case: HealthCase, decision: HealthDecision, tips: Mapping[str, str]) -> HealthCase:
        """Remove the branch of a case that proposes nothing any more; one with commits of others stays."""
        tip = tips.get(f"refs/heads/{branch_of(case)}")
        if decision.proposal is not None:
            return case
        if tip is None or tip != case.branch:  # gone, or with commits of people
            return replace(case, branch="") if decision.phase is HealthPhase.HEALTHY else case
        if self._requests is not None:
            self._requests.close(branch_of(case), decision.reason or "the node needs nothing any more")
        try:
            self._remote.remove(branch_of(case), expected=tip)
        except StalePlan:  # somebody pushed to it: the next round looks again
            return case
        return replace(case, branch="", evidence="", proposal="")


def _followed(sources: HealthSources, case: HealthCase, node: str, done: LaneRound) -> HealthCase:
    """Note that Git shows the file of a case, and that a person deleted it: that cancels what the fast lane did."""
    if node in sources.quarantines:
        return replace(case, mirrored=True)
    state = done.evaluation.state.nodes.get(node)
    if case.mirrored and state is not None and state.ours and not case.closed_at:
        return replace(case, closed_at=done.now)
    return case


def _work(sources: HealthSources, done: LaneRound, cases: Mapping[str, HealthCase]) -> Iterable[CaseWork]:
    for node, decision in sorted(done.evaluation.decisions.items()):
        case = cases.get(node)
        if decision.proposal is None or case is None:
            continue
        files = proposed_files(sources, decision, done.evaluation.state.nodes.get(node, NodeState()))
        if files:
            yield CaseWork(case=case, decision=decision, files=files)


def _untouched(
    repository: Repository, files: Mapping[str, bytes | None], *, before: str, tip: str
) -> dict[str, bytes | None]:
    """Return the files that nobody has edited since our commit: edits of people in the others stay."""
    ours, theirs = _contents(repository, before, files), _contents(repository, tip, files)
    return {path: content for path, content in files.items() if ours[path] == theirs[path] and theirs[path] != content}


def _message(work: CaseWork) -> str:
    decision = work.decision
    action = "" if decision.action == "none" else f"\nRecommended: {decision.action}."
    body = f"{decision.reason}\nGPUs: {', '.join(decision.slots) or 'all'}.{action}"
    return f"Node health: {decision.proposal} {decision.node} ({decision.check or 'no check'})\n\n{body}"


def _change(work: CaseWork, before: Mapping[str, bytes | None]) -> ProposedChange:
    """Return the change request of a case."""
    title, _, body = _message(work).partition("\n\n")
    edits = (EditedFile(path=path, before=before[path], after=after) for path, after in sorted(work.files.items()))
    return ProposedChange(
        kind="health", name=work.decision.node, title=title, reason=body, edits=tuple(edits), own_branch=work.branch
    )


def _trailers(work: CaseWork, head: str) -> dict[str, str]:
    return {CASE: work.case.id, EVIDENCE: work.decision.evidence or "none", SOURCE_COMMIT: head, ENGINE: __version__}

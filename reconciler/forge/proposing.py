"""Change requests: opened once, kept up to date in place, left closed if people close them, withdrawn when obsolete."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from reconciler.errors import ReconcilerError, StalePlan
from reconciler.forge import ChangeRequest, Forge, ForgeConflict, LostAnswer, RequestState
from reconciler.forge.bodies import change_text, is_same, note_marker, read_marker, title_of, with_text
from reconciler.forge.commenting import comment_once, has_comment
from reconciler.forge.identity import Owner, ProposedChange, RequestDecision, RequestStep, Tip, decide, folder_of

MOST = 10
"""Change requests that may be open at a time, unless `budgets.changeRequests` says otherwise."""
_ATTEMPTS = 4
_CLOSED = note_marker("closed-").removesuffix(" -->")  # the start of our comments about closing, with any key
_AGAIN = note_marker("again")
_LEFT = (
    "Others committed to this branch, so gpu-reconciler leaves it to them and does not update it any more. Merge or "
    "close this, and delete the branch, to have the change proposed again."
)
_OBSOLETE = "This is no longer needed: {reason}. Others committed to its branch, so it stays open."


class Branches(Protocol):
    """The branches of proposals on the Git server."""

    def tip(self, change: ProposedChange) -> Tip | None:
        """Return the tip of a proposal's branch as it is now; None if there is no such branch."""
        ...

    def is_read(self, commit: str) -> bool:
        """Return whether the branch that is read has a commit."""
        ...

    def push(self, change: ProposedChange, key: str, tip: Tip | None, /) -> None:
        """Make the branch say what is proposed, if it still is at `tip`. Raises `StalePlan`."""
        ...

    def remove(self, branch: str, tip: Tip) -> None:
        """Remove a branch that still is at `tip`. Raises `StalePlan`."""
        ...

    def tip_of(self, branch: str) -> Tip | None:
        """Return the tip of a branch about whose content nothing is known."""
        ...


class RequestOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a proposal."""

    branch: str
    step: RequestStep
    number: int = 0
    url: str = ""

    def __str__(self) -> str:
        return f"{self.branch}: {_WORDS[self.step]}{f': {self.url}' if self.url else ''}"


_WORDS = {
    RequestStep.OPEN: "opened a change request",
    RequestStep.UPDATE: "the change request is up to date",
    RequestStep.REFUSED: "a person closed the change request, so it stays closed until its content changes",
    RequestStep.WAITING: "waits: budgets.changeRequests are open",
    RequestStep.MERGED: "the change request is merged",
    RequestStep.THEIRS: "others committed to its branch, so it is left to them",
    RequestStep.GONE: "a person deleted the branch of the change request",
}


class Proposer(Struct, frozen=True, kw_only=True, eq=False):
    """Brings proposals to a forge. `target`: the branch that they are for; `most` may be open at a time."""

    forge: Forge
    branches: Branches
    target: str
    most: int = MOST

    def propose(self, changes: Iterable[ProposedChange]) -> list[RequestOutcome]:
        """Open or update the change requests of all proposals, in this order."""
        wanted = [change for change in changes if any(edit.before != edit.after for edit in change.edits)]
        count = sum(read_marker(one.body) is not None for one in self._open()) if wanted else 0
        done = []
        for change in wanted:
            done.append(self._bring(change, has_room=count < self.most))
            count += done[-1].step is RequestStep.OPEN
        return done

    def withdraw(
        self, kind: str, *, clusters: Collection[str], is_needed: Callable[[str], bool], reason: str
    ) -> list[RequestOutcome]:
        """Close the open change requests of a kind for these clusters whose branches are not needed any more."""
        done = []
        for request in self._open():
            marker = read_marker(request.body)
            is_meant = request.branch.startswith(folder_of(kind)) and not is_needed(request.branch)
            if is_meant and marker is not None and marker.cluster in clusters and not marker.is_closed:
                done.append(_repeated(lambda one=request: self._close(one, reason)))  # type: ignore[misc]
        return done

    def close(self, branch: str, reason: str) -> None:
        """Close the open change request of a branch that its owner removes."""
        for request in self.forge.of_branch(branch):
            if request.state is RequestState.OPEN:
                _repeated(lambda one=request: self._close(one, reason))  # type: ignore[misc]

    def _open(self) -> Iterator[ChangeRequest]:
        return (one for one in self.forge.open_requests() if not one.is_fork)

    def _bring(self, change: ProposedChange, *, has_room: bool) -> RequestOutcome:
        return _repeated(lambda: self._attempt(change, has_room=has_room))

    def _attempt(self, change: ProposedChange, *, has_room: bool) -> RequestOutcome:
        """Look, decide and act once. Whatever moved meanwhile is an exception, after which all of it is done again."""
        requests = self.forge.of_branch(change.branch)
        tip = self.branches.tip(change)
        decision = decide(change, requests, tip, has_room=has_room, is_read=self.branches.is_read)
        while decision.step is RequestStep.REFUSED and self._is_closed_by_us(decision.request):
            requests = [one for one in requests if one != decision.request]
            decision = decide(change, requests, tip, has_room=has_room, is_read=self.branches.is_read)
        request = decision.request
        if decision.step is RequestStep.UPDATE and request is not None:
            self._update(change, request)  # first: what people close is what they are told
        if decision.pushes and decision.step in (RequestStep.OPEN, RequestStep.UPDATE):
            self.branches.push(change, change.key, tip)
        if decision.step is RequestStep.OPEN:
            request = self._open_request(change)
        elif decision.step is RequestStep.THEIRS and request is not None:
            comment_once(self.forge, request.number, note_marker("theirs"), _LEFT)
        elif decision.closes is not None and request is not None:
            self._close(decision.closes, f"what is proposed now was refused in #{request.number}")
        return _told(change.branch, decision, request)

    def _open_request(self, change: ProposedChange) -> ChangeRequest:
        body = with_text("", _text(change), cluster=change.cluster, key=change.key)
        title = title_of(change.title)
        return self.forge.open(title=title, body=body, branch=change.branch, target=self.target)

    def _update(self, change: ProposedChange, request: ChangeRequest) -> None:
        body = with_text(request.body, _text(change), cluster=change.cluster, key=change.key)
        if is_same(body, request.body):
            return
        if has_comment(self.forge, request.number, _CLOSED):
            if self.forge.request(request.number).state is not RequestState.OPEN:
                raise StalePlan(f"change request {request.number} was closed meanwhile")
            comment_once(self.forge, request.number, _AGAIN, "It is open again, so it is kept up to date again.")
        self.forge.edit(request.number, body=body)

    def _is_closed_by_us(self, request: ChangeRequest | None) -> bool:
        """Return whether comments say so: another run may have replaced the body of what was closed at that moment.

        Once a person opened it again, closing it is a refusal.
        """
        if request is None or not has_comment(self.forge, request.number, _CLOSED):
            return False
        return not has_comment(self.forge, request.number, _AGAIN)

    def _close(self, request: ChangeRequest, reason: str) -> RequestOutcome:
        """Close one, unless others committed to its branch: then they are told once."""
        tip = self.branches.tip_of(request.branch)
        if tip is not None and tip.owner is Owner.THEIRS:
            text = _OBSOLETE.format(reason=reason)
            comment_once(self.forge, request.number, note_marker("obsolete"), text)
            return RequestOutcome(
                branch=request.branch, step=RequestStep.THEIRS, number=request.number, url=request.url
            )
        marker = read_marker(request.body)
        if marker is not None and not marker.is_closed:  # else a person opened it again
            text = f"Closed: {reason}."
            comment_once(self.forge, request.number, note_marker(f"closed-{marker.key[:16]}"), text)
            body = with_text(request.body, text, cluster=marker.cluster, key=marker.key, closed=True)
            self.forge.edit(request.number, body=body, close=True)
        if tip is not None:
            self.branches.remove(request.branch, tip)
        return RequestOutcome(branch=request.branch, step=RequestStep.GONE, number=request.number, url=request.url)


def _repeated(attempt: Callable[[], RequestOutcome]) -> RequestOutcome:
    """Look and act again where something moved, or it is not known whether the last request took effect."""
    left: ReconcilerError | None = None
    for _ in range(_ATTEMPTS):
        try:
            return attempt()
        except (ForgeConflict, LostAnswer, StalePlan) as error:
            left = error
    assert left is not None  # noqa: S101 - every attempt failed
    raise left


def _text(change: ProposedChange) -> str:
    edits = [(edit.path, edit.reason) for edit in change.edits if edit.before != edit.after]
    return change_text(change.reason, edits, change.title)


def _told(branch: str, decision: RequestDecision, request: ChangeRequest | None) -> RequestOutcome:
    number, url = (request.number, request.url) if request is not None else (0, "")
    return RequestOutcome(branch=branch, step=decision.step, number=number, url=url)

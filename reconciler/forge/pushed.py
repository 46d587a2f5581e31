"""Change requests of branches that somebody else makes and removes."""

from msgspec import Struct

from reconciler.forge import Forge
from reconciler.forge.identity import Owner, ProposedChange, Tip
from reconciler.forge.proposing import MOST, Proposer, RequestOutcome


class PushedBranches:
    """A branch that was pushed: it is what is proposed, and nothing of it is changed here."""

    def __init__(self, head: str) -> None:
        self._tip = Tip(oid=head, owner=Owner.OURS, is_current=True)

    def tip(self, _: ProposedChange) -> Tip | None:
        """Return the tip that was pushed."""
        return self._tip

    def tip_of(self, _: str) -> Tip | None:
        """Return nothing: its owner removes it."""
        return None

    def is_read(self, _: str) -> bool:
        """Return whether what was merged is read: only somebody who saw that it is not proposes it again."""
        return True

    def push(self, change: ProposedChange, *_: object) -> None:
        """Refuse: it was pushed."""
        raise AssertionError(change.branch)

    def remove(self, branch: str, _: Tip) -> None:
        """Refuse: its owner removes it."""
        raise AssertionError(branch)


class PushedRequests(Struct, frozen=True, kw_only=True):
    """The change requests of pushed branches on one forge."""

    forge: Forge
    target: str
    most: int = MOST

    def request(self, change: ProposedChange, head: str) -> RequestOutcome | None:
        """Open the change request of a branch that was pushed, or update it; None if it changes nothing."""
        return next(iter(self._proposer(head).propose([change])), None)

    def close(self, branch: str, reason: str) -> None:
        """Close the change request of a branch that is about to be removed."""
        self._proposer("").close(branch, reason)

    def _proposer(self, head: str) -> Proposer:
        return Proposer(forge=self.forge, branches=PushedBranches(head), target=self.target, most=self.most)

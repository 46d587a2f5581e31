"""A round over the open change requests for a branch: what is new or lost its base is planned, and people are answered.

The commits of a change request, also of a fork, are data: they are planned, judged by the base, with the rights of
whoever makes the round. So a fork needs no token, and a push to the base is followed by new plans.
"""

from collections.abc import Callable, MutableMapping
from functools import partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import InvalidInput, OutsideError, ReconcilerError, StalePlan, UnsafePlan
from reconciler.forge import PLAN_STATUS, ChangeRequest, CommitStatus, Forge, StatusState
from reconciler.forge.branches import Remote
from reconciler.forge.obeying import Obeyed
from reconciler.forge.reviewing import review, status_of
from reconciler.plan import opening, use_cases
from reconciler.repo.config.forge import ForgeSettings

MOST = 20
"""Change requests that one round plans, and those whose news it reads; the others are for the next."""
_MOST_DUE = 100  # whose statuses one round sets to pending
_TRIES = 3


class SeenRequest(Struct, frozen=True, kw_only=True):
    """A commit of a change request and its base. Until it is planned, its status says that it waits.

    tries: plans that were begun: one that ends the process, by its size or its time, is the last of the next round.
    heard: the last change of the request after which its comments and reviews were read.
    """

    head: str
    base: str
    heard: str = ""
    tries: int = 0
    is_planned: bool = False


Seen = MutableMapping[int, SeenRequest]
"""The change requests that earlier rounds saw, by number; the same mapping holds those of this round."""


class RoundDone(Struct, frozen=True, kw_only=True):
    """Lines for people, the number of change requests that wait for the next round, and the first failure of a server.

    The failure concerns one change request; the others are done.
    """

    lines: tuple[str, ...] = ()
    waiting: int = 0
    error: OutsideError | None = None


class RequestRound:
    """The open change requests for `target`, of which `base` is the commit that was read and judges.

    reopen: opens the repository at another commit, to be compared with `base`. keep: stores what was seen. is_mirror:
    nothing is checked out.
    """

    def __init__(
        self,
        forge: Forge,
        remote: Remote,
        base: opening.Run,
        *,
        target: str,
        reopen: Callable[[str], opening.Run],
        scope: str = "default",
        is_mirror: bool = False,
        keep: Callable[[Seen], None] = lambda _: None,
    ) -> None:
        self._forge, self._remote, self._base, self._target = forge, remote, base, target
        self._reopen, self._scope, self._is_mirror, self._keep = reopen, scope, is_mirror, keep
        self._commit = base.workspace.tree.commit_id

    def make(self, seen: Seen) -> RoundDone:
        """Plan what is due, and answer people. Raises `ForgeError` if the forge does not list change requests."""
        found = [one for one in self._forge.open_requests() if one.target == self._target]
        for number in seen.keys() - {one.number for one in found}:
            del seen[number]
        due = [*islice((one for one in found if self._is_due(one, seen)), _MOST_DUE)]
        lines: list[str] = []
        errors: list[OutsideError] = []
        due.sort(key=lambda one: seen[one.number].tries)
        work = [(one, partial(self._plan, one, seen)) for one in due[:MOST]]
        rules = self._base.workspace.config.forge or ForgeSettings()
        if rules.commands or rules.owners_approve:
            told = (one for one in found if one.number in seen and not one.is_fork)
            news = [one for one in told if not one.updated or seen[one.number].heard != one.updated]
            work += [(one, partial(self._obey, one, seen)) for one in news[:MOST]]
        for one, act in work:
            try:
                lines += [f"#{one.number}: {line}" for line in act()]
            except OutsideError as error:
                errors.append(error)
            except StalePlan:  # somebody pushed meanwhile: the next round has another commit
                continue
            except ReconcilerError as error:  # of this change request alone
                lines.append(f"#{one.number}: {error}")
        self._keep(seen)
        return RoundDone(lines=tuple(lines), waiting=len(due[MOST:]), error=next(iter(errors), None))

    def _is_due(self, request: ChangeRequest, seen: Seen) -> bool:
        """Return whether a commit is to be planned, and say so once: nobody merges by a plan of another base."""
        before = seen.get(request.number)
        if before is not None and (before.head, before.base) == (request.head, self._commit):
            return not before.is_planned
        why = "the base moved" if before is None or before.head == request.head else "the plan is being made"
        self._forge.set_status(request.head, status_of(PLAN_STATUS, StatusState.PENDING, why))
        seen[request.number] = SeenRequest(head=request.head, base=self._commit)
        return True

    def _plan(self, request: ChangeRequest, seen: Seen) -> list[str]:
        self._fetch(request)
        now = seen[request.number] = replace(seen[request.number], tries=seen[request.number].tries + 1)
        self._keep(seen)
        status: CommitStatus | None
        try:
            if now.tries > _TRIES:
                raise UnsafePlan(f"the plan did not end in {_TRIES} attempts")
            run = self._reopen(request.head)
            plan = use_cases.plan(run.workspace, base=self._commit, date=run.settings.date).plan
        except ReconcilerError as error:  # what the change request holds cannot be planned
            problems = error.problems if isinstance(error, InvalidInput) else ()
            status = status_of(PLAN_STATUS, StatusState.FAILURE, str(problems[0]) if problems else error.message)
            self._forge.set_status(request.head, status)
        else:
            seen[request.number] = replace(now, tries=0)  # what the forge fails to take is no fault of the plan
            status = review(self._forge, request, plan, scope=self._scope).status
        seen[request.number] = replace(now, is_planned=True)
        return [] if status is None else [status.summary]

    def _fetch(self, request: ChangeRequest) -> None:
        """Fetch the commits of a change request, and in a mirror its branch, to which an approval is committed."""
        wanted = self._forge.head_ref(request.number)
        branches = [f"refs/heads/{one}" for one in (self._target, *([] if request.is_fork else [request.branch]))]
        if self._remote.fetch([*branches, wanted]).get(wanted) != request.head:
            raise StalePlan(f"the branch of #{request.number} moved meanwhile")

    def _obey(self, request: ChangeRequest, seen: Seen) -> list[str]:
        """Answer the commands in comments, and record what code owners approved by reviews."""
        obeyed = Obeyed(
            open_at=self._reopen,
            forge=self._forge,
            request=request,
            base=self._commit,
            rules=self._base.workspace.config,
            remote=self._remote,
            scope=self._scope,
            branch=request.branch if self._is_mirror else None,
        )
        done = obeyed.answer()
        seen[request.number] = replace(seen[request.number], heard=request.updated)
        return done

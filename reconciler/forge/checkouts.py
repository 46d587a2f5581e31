"""The forge of a checkout: for commands of people and of pipelines."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from reconciler.errors import RepositoryError
from reconciler.forge import Forge
from reconciler.forge.branches import GitBranches, contents
from reconciler.forge.identity import EditedFile, ProposedChange
from reconciler.forge.opening import access_of, address_of, open_forge
from reconciler.forge.proposing import Proposer, RequestOutcome
from reconciler.forge.pushed import PushedRequests
from reconciler.plan.opening import Run, open_repository
from reconciler.repo import checkout
from reconciler.repo.config.forge import ForgeSettings
from reconciler.settings import FORGE_APP, FORGE_TOKEN


def forge_of(run: Run, environ: Mapping[str, str]) -> Forge:
    """Open the forge of a repository: that of its settings, of the pipeline, or of `origin`."""
    remotes = [checkout.origin_url(run.workspace.repository.root)]
    settings = run.workspace.config.forge or ForgeSettings()
    return open_forge(address_of(settings, remotes, environ), access_of(remotes, environ))


def reopener(run: Run, flags: Mapping[str, str | None], environ: Mapping[str, str], base: str) -> Callable[[str], Run]:
    """Return the function that opens the same repository at another commit, to be compared with `base`.

    The last ones stay open: what is done with one change request is done in a row.
    """

    @lru_cache(maxsize=2)
    def reopen(commit: str) -> Run:
        return open_repository(run.workspace.repository, {**flags, "revision": commit, "base": base}, environ)

    return reopen


def has_forge(run: Run, environ: Mapping[str, str]) -> bool:
    """Return whether the settings name a forge, and the environment has a token for it."""
    return run.workspace.config.forge is not None and bool(environ.get(FORGE_TOKEN) or environ.get(FORGE_APP))


def most_of(run: Run) -> int:
    """Return how many change requests may be open at a time."""
    return (run.workspace.config.forge or ForgeSettings()).most


def proposer_of(run: Run, environ: Mapping[str, str]) -> Proposer:
    """Return what proposes changes of the checked-out commit."""
    repository, forge = run.workspace.repository, forge_of(run, environ)
    target = forge.default_branch()
    branches = GitBranches(
        repository,
        checkout.CheckoutRemote(repository.root),
        reference=f"refs/heads/{target}",
        head=repository.resolve("HEAD").oid,
    )
    return Proposer(forge=forge, branches=branches, target=target, most=most_of(run))


def edits_of(
    run: Run, files: Mapping[str, bytes | None], reasons: Mapping[str, str] | None = None
) -> tuple[EditedFile, ...]:
    """Return the edits of the checked-out commit that give files these contents."""
    repository = run.workspace.repository
    before = contents(repository, repository.resolve("HEAD").oid, files)
    known = reasons or {}
    return tuple(
        EditedFile(path=path, before=before[path], after=after, reason=known.get(path, ""))
        for path, after in sorted(files.items())
        if before[path] != after
    )


def work_edits(run: Run) -> tuple[EditedFile, ...]:
    """Return the edits of the working tree that are not committed."""
    repository = run.workspace.repository
    changed = repository.changed_since(repository.resolve("HEAD").oid)
    links = [path for path, entry in changed.items() if entry is not None and not entry.is_file]
    if links:
        raise RepositoryError(f"{links[0]} is not a regular file", hint="commit it yourself, or undo it")
    oids = {path: entry.oid for path, entry in changed.items() if entry is not None}
    found = dict(zip(oids, repository.read(oids.values()), strict=True))
    return edits_of(run, {path: found.get(path) for path in changed})


def bring(
    run: Run, environ: Mapping[str, str], changes: Sequence[ProposedChange], *, settled: Sequence[ProposedChange] = ()
) -> list[RequestOutcome]:
    """Bring proposals to the forge. Those of `settled` change nothing any more: what is open of them is closed."""
    proposer = proposer_of(run, environ)
    done = proposer.propose(changes)
    for one in settled:
        branch = one.branch
        done += proposer.withdraw(
            one.kind,
            clusters={one.cluster},
            is_needed=lambda other, own=branch: other != own,  # type: ignore[misc]
            reason="there is nothing to change any more",
        )
    return done


def request_pushed(run: Run, environ: Mapping[str, str], change: ProposedChange, head: str) -> RequestOutcome | None:
    """Open the change request of a branch that was pushed, or update it; None if it changes nothing."""
    forge = forge_of(run, environ)
    return PushedRequests(forge=forge, target=forge.default_branch(), most=most_of(run)).request(change, head)

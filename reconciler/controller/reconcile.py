"""One pass over one source: fetch, plan, and by its mode commit and push, or apply."""

from enum import StrEnum
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.console.access import ClusterFlags
from reconciler.controller.applying import acting_as, apply_revision
from reconciler.controller.evidence import commit_evidence
from reconciler.controller.outcome import PassFailure, PassOutcome, failure, summarize
from reconciler.controller.preempting import commit_suspensions
from reconciler.controller.refusing import refuse_in_full
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.controller.tracing import Trace
from reconciler.controller.use import use_of
from reconciler.errors import ConfigError, RemoteError, RepositoryError, StalePlan, UnsafePlan, one_line
from reconciler.forge import Forge, ForgeError
from reconciler.forge.branches import contents
from reconciler.forge.identity import EditedFile, ProposedChange
from reconciler.forge.opening import access_of_secret, address_of, open_forge
from reconciler.forge.pushed import PushedRequests
from reconciler.kube.secrets import mask_text
from reconciler.plan import opening
from reconciler.plan.live.choices import ContestedField
from reconciler.plan.outputs.commit import finished_proposal
from reconciler.plan.outputs.summary import commit_message
from reconciler.plan.planning import Planned
from reconciler.plan.use_cases import commit, plan_commit
from reconciler.repo.files import CONFIG_PATH
from reconciler.repo.git.remote import Credentials, GitRemote, RemoteLimits, folder_inside
from reconciler.repo.port import Repository

_ATTEMPTS = 3  # of a push, when the branch moves meanwhile


class ChildWork(StrEnum):
    """The work of a child process: a pass, a round of node health, or one over open change requests."""

    PASS = "pass"  # noqa: S105 - no password
    HEALTH = "health"
    REVIEWS = "reviews"


class Request(Struct, frozen=True, kw_only=True):
    """Everything that one pass needs. It goes to the child process on standard input, because it holds credentials."""

    source: ConfigSource
    folder: str  # of the mirror and the cache, for this source alone
    secret: dict[str, bytes] = {}
    accepted: str = ""  # the commit that the last successful pass read, by whose settings and rules the next is judged
    contested: frozenset[ContestedField] = frozenset()  # fields of live objects that stay as they are
    attempted: str = ""  # the revision of the last pass, for which they count
    access: ClusterFlags = ClusterFlags()
    max_repository: int = 1 << 30  # bytes
    trace: str = ""
    work: ChildWork = ChildWork.PASS


def reconcile(request: Request, environ: dict[str, str]) -> PassOutcome:
    """Make one pass. Every failure is part of the outcome, also SIGTERM."""
    trace = Trace(request.trace)
    outcome = PassOutcome()
    try:
        with trace.stage("reconcile", source=request.source.key, mode=request.source.mode):
            outcome = _attempts(request, environ, trace)
    except BaseException as error:  # noqa: BLE001 - it is reported, and a signal ends the process anyway
        outcome = replace(outcome, failure=failure(error))
    return replace(outcome, spans=tuple(trace.spans))


def _attempts(request: Request, environ: dict[str, str], trace: Trace) -> PassOutcome:
    """Try again at once when someone else pushes between our fetch and our push."""
    remote = open_remote(request, environ)
    for _ in range(_ATTEMPTS - 1):
        outcome = _attempt(request, environ, remote, trace)
        if outcome.push_result != "stale":
            return outcome
    return _attempt(request, environ, remote, trace)


def open_remote(
    request: Request, environ: dict[str, str], name: str = "repository", *, most_seconds: float = inf
) -> GitRemote:
    """Open a mirror of a source. Raises `ConfigError` for an address that cannot be used.

    A mirror of another name has a folder of its own, so that two may be in use at the same time.
    """
    return GitRemote(
        Path(request.folder) / name,
        request.source.url,
        environ=environ,
        credentials=Credentials.from_secret(request.secret),
        limits=RemoteLimits(seconds=min(request.source.timeout, most_seconds), file_bytes=request.max_repository),
    )


def source_forge(request: Request, run: opening.Run, environ: dict[str, str]) -> Forge | None:
    """Return the forge of a source; None unless its settings name one, and its Secret has a token for it."""
    settings, url = run.workspace.config.forge, request.source.url
    access = access_of_secret(url, request.secret, environ)
    if settings is None or not (access.token or access.app):
        return None
    return open_forge(address_of(settings, [url], {}), access)


def change_requests(request: Request, run: opening.Run, environ: dict[str, str]) -> PushedRequests | None:
    """Return the change requests of a source; None without a forge."""
    settings, forge = run.workspace.config.forge, source_forge(request, run, environ)
    if settings is None or forge is None:
        return None
    return PushedRequests(forge=forge, target=request.source.ref.removeprefix("refs/heads/"), most=settings.most)


def _attempt(request: Request, environ: dict[str, str], remote: GitRemote, trace: Trace) -> PassOutcome:
    source = request.source
    with trace.stage("fetch"):
        tips = dict(remote.fetch(source.refs))
    repository = remote.repository(source.path, identity=author_of(source))
    head = repository.resolve(source.ref)
    outcome = PassOutcome(
        revision=source.revision(head.oid), commit=head.oid, committed_at=head.committed_at, tips=tips
    )
    try:
        require_folder(repository, head.oid, source)
        flags = _flags(request, head.oid)
        with trace.stage("open"):
            run = opening.open_repository(repository, flags, environ)
        notes: PassFailure | None = None
        if source.mode is Mode.COMMIT:
            run, notes = _prepared(request, run, remote, environ=environ, trace=trace)
            head = run.workspace.tree.commit or head
        base = request.accepted if request.accepted and _is_known(repository, request.accepted, head.oid) else head.oid
        if source.mode is Mode.APPLY:
            return apply_revision(
                outcome,
                run,
                acting_as(source, request.access),
                environ=environ,
                base=base,
                accepted=request.accepted,
                contested=request.contested if request.attempted == outcome.revision else frozenset(),
                wait=source.wait,
                trace=trace,
            )
        with trace.stage("plan"):
            planned = plan_commit(run.workspace, base=base, date=run.settings.date)
        summary = summarize(planned.plan)
        use = use_of(planned.plan, planned.index)
        outcome = replace(outcome, plan=summary, message=summary.text, use=use)
        refuse_in_full(planned.plan)
        if source.mode is Mode.COMMIT:
            requests = _Requests(request, run, environ)
            done = _commit(source, run, planned, remote=remote, outcome=outcome, trace=trace, requests=requests)
            if not done.failure and (change := _proposal(source, run, planned, done)) is not None:
                requests.request(change, done.tips[f"refs/heads/{source.target}"])
            return done if done.failure else replace(done, failure=notes or requests.failure)
    except Exception as error:  # noqa: BLE001 - told as the failure of this revision
        return replace(outcome, failure=failure(error))
    return outcome


def _prepared(
    request: Request, run: opening.Run, remote: GitRemote, *, environ: dict[str, str], trace: Trace
) -> tuple[opening.Run, PassFailure | None]:
    """Commit evidence, and suspensions that follow from what evidence says; return the revision with them."""
    source, repository = request.source, run.workspace.repository
    notes: PassFailure | None = None
    if source.evidence:
        with trace.stage("observe"):
            made, notes = commit_evidence(source, run, acting_as(source, request.access), environ)
        if made:
            run = opening.open_repository(repository, _flags(request, made), environ)
    requests = _Requests(request, run, environ)
    made, undecided = commit_suspensions(source, run, remote, requests)
    if made:
        run = opening.open_repository(repository, _flags(request, made), environ)
    return run, notes or undecided or requests.failure


def _flags(request: Request, commit: str) -> dict[str, str | None]:
    """Return the settings of a pass over a commit."""
    log = str(Path(request.folder).parent.parent / "decisions.jsonl")
    return {**source_flags(request), "revision": commit, "base": commit, "decision_log": log}


def source_flags(request: Request) -> dict[str, str | None]:
    """Return the settings of everything that is made over a source."""
    return {"cluster": request.source.cluster or None, "cache_dir": str(Path(request.folder) / "cache")}


def require_folder(repository: Repository, commit: str, source: ConfigSource) -> None:
    """Raise `ConfigError` if the folder of a source has no `reconciler.yaml`: its mirror is no business of users."""
    if not repository.tree(commit, (CONFIG_PATH,)):
        where = folder_inside(source.path)
        raise ConfigError(
            f"there is no {CONFIG_PATH} in {f'the folder {where}' if where else 'the top folder'} of the repository",
            hint="correct spec.path",
        )


def _is_known(repository: Repository, commit: str, head: str) -> bool:
    """Return whether a commit is part of the history of the head: a forced push can remove it."""
    try:
        return repository.merge_base(commit, head) is not None
    except RepositoryError:  # the commit is gone with the history that held it
        return False


def _commit(
    source: ConfigSource,
    run: opening.Run,
    planned: Planned,
    *,
    remote: GitRemote,
    outcome: PassOutcome,
    trace: Trace,
    requests: "_Requests",
) -> PassOutcome:
    if not source.target:
        raise ConfigError("spec.ref is not a branch", hint="name the branch to push to in spec.commit.branch")
    with trace.stage("commit"):
        made = commit(run.workspace, planned, branch=source.target)
    head = run.workspace.tree.commit
    new = made.oid if made else head.oid if head and head.oid != outcome.commit else ""  # evidence alone
    ref = f"refs/heads/{source.target}"
    if not new:
        outcome = replace(outcome, push_result="unchanged", message="rendered/ is up to date")
        is_done = ref != source.ref and ref in outcome.tips and not planned.contents()
        return _remove_proposal(source, run, remote, outcome, requests) if is_done else outcome
    with trace.stage("push"):
        try:
            remote.push(source.target, new, expected=outcome.tips.get(ref))
        except (StalePlan, UnsafePlan) as error:
            return replace(outcome, push_result="stale", failure=failure(error))
        except RemoteError as error:
            return replace(outcome, push_result="rejected", failure=failure(error))
    is_own = ref == source.ref
    return replace(
        outcome,
        push_result="pushed",
        pushed=new,
        revision=source.revision(new) if is_own else outcome.revision,
        commit=new if is_own else outcome.commit,
        tips=outcome.tips | {ref: new},
        message=f"pushed {new[:12]} to {source.target}: {outcome.message.removesuffix(' pending')}",
    )


def _proposal(source: ConfigSource, run: opening.Run, planned: Planned, done: PassOutcome) -> ProposedChange | None:
    """Return the change request of what was pushed to another branch than the one that is read."""
    ref, files = f"refs/heads/{source.target}", planned.contents()
    if ref == source.ref or ref not in done.tips or not files:
        return None
    before = contents(run.workspace.repository, done.commit, files)
    edits = (EditedFile(path=path, before=before[path], after=after) for path, after in sorted(files.items()))
    title, _, reason = commit_message(planned.plan).partition("\n")
    return ProposedChange(
        kind="rendered",
        name=source.target,
        cluster=source.cluster,
        title=title,
        reason=reason,
        edits=tuple(edits),
        own_branch=source.target,
    )


class _Requests:
    """The change requests of a source; its forge is asked when there is something to say, and may fail alone."""

    def __init__(self, request: Request, run: opening.Run, environ: dict[str, str]) -> None:
        self._given = request, run, environ
        self.failure: PassFailure | None = None

    def request(self, change: ProposedChange, head: str) -> None:
        """Open the change request of a branch that was pushed, or update it; keep why that failed."""
        try:
            if (opened := change_requests(*self._given)) is not None:
                opened.request(change, head)
        except (ForgeError, ConfigError) as error:
            self.failure = failure(error)

    def close(self, branch: str, reason: str) -> None:
        """Close the change request of a branch that is about to be removed."""
        if (opened := change_requests(*self._given)) is not None:
            opened.close(branch, reason)


def _remove_proposal(
    source: ConfigSource, run: opening.Run, remote: GitRemote, outcome: PassOutcome, requests: _Requests
) -> PassOutcome:
    """Remove the branch of a proposal that is merged, or that nothing is left of. A branch with other commits stays."""
    tip = finished_proposal(run.workspace.repository, source.target, outcome.commit)
    if tip is None:
        return outcome
    try:
        requests.close(source.target, "rendered/ is up to date")
        remote.remove(source.target, expected=tip)
    except (StalePlan, RemoteError, ForgeError) as error:
        why = one_line(mask_text(error.message))
        return replace(outcome, message=f"{outcome.message}; branch {source.target} was not removed: {why}")
    tips = {ref: oid for ref, oid in outcome.tips.items() if ref != f"refs/heads/{source.target}"}
    return replace(
        outcome, tips=tips, message=f"{outcome.message}; removed branch {source.target}, which is no longer needed"
    )


def author_of(source: ConfigSource) -> dict[str, str]:
    """Return the variables that make the author of a source that of commits."""
    names = {"AUTHOR", "COMMITTER"}
    return {f"GIT_{name}_NAME": source.author for name in names} | {f"GIT_{name}_EMAIL": source.email for name in names}

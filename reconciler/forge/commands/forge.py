"""`reconciler forge`: what pipelines say to the forge."""

from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printable import printable
from reconciler.console.printing import emit
from reconciler.errors import ConfigError
from reconciler.forge.checkouts import bring, forge_of, reopener, work_edits
from reconciler.forge.identity import ProposedChange
from reconciler.forge.obeying import Obeyed
from reconciler.forge.opening import pipeline_branch, pipeline_link, pipeline_request
from reconciler.forge.reviewing import review, verify_status
from reconciler.forge.rounds import MOST, RequestRound
from reconciler.kube.values import plural
from reconciler.plan import opening
from reconciler.repo.checkout import CheckoutRemote

_NUMBER = click.IntRange(1, 1_000_000_000)
_link = click.option("--link", metavar="URL", help="Page with the whole plan. [default: the pipeline's run]")


@click.group(
    "forge",
    epilog="""\b
Examples:
  reconciler forge comment plan.json
  reconciler forge propose --kind evidence
""",
)
def command() -> None:
    """Comment plans, set statuses and propose changes on GitHub, GitLab, Gitea or Forgejo.

    The token is in RECONCILER_FORGE_TOKEN. Address and repository follow from the pipeline, or from the remote origin;
    spec.forge of reconciler.yaml sets others.
    """


@command.command(
    "comment",
    epilog="""\b
Examples:
  reconciler plan --revision HEAD --base main --out plan.json
  reconciler forge comment plan.json
  reconciler forge comment plan.json --request 12 --scope gpu-a
""",
)
@click.argument("plan_file", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--request", "number", metavar="N", type=_NUMBER, help="Change request. [default: the pipeline's]")
@click.option("--scope", metavar="NAME", default="default", help="Tells the comments of several plans apart.")
@_link
@options.repo
@options.run_options
def comment(*, plan_file: Path, number: int | None, scope: str, link: str | None, repo: str, **flags: Any) -> int:
    """Write the comment about a saved plan, or replace it, and set the status reconciler/plan of its commit.

    Findings become annotations where the forge has them. A plan of an older commit than the change request has now
    writes nothing. Settings are those of the base of the plan.
    """
    environ = options.environment()
    plan = opening.load_plan(plan_file)
    chosen = number or pipeline_request(environ)
    if not chosen:
        raise ConfigError("this is not the pipeline of a change request", hint="name one with --request N")
    run = opening.open_run(repo, {**options.setting_flags(flags), "revision": plan.base.commit or "HEAD"}, environ)
    forge = forge_of(run, environ)
    done = review(forge, forge.request(chosen), plan, scope=scope, link=link or pipeline_link(environ))
    if done.is_outdated:
        emit(f"nothing written: #{chosen} has other commits than the plan")
    elif done.status is not None:
        emit(f"#{chosen}: {'wrote the comment' if done.is_written else 'the comment is up to date'}")
        emit(f"{done.status.context}: {done.status.state}: {done.status.summary}")
    return 0


@command.command(
    "status",
    epilog="""\b
Examples:
  status=0; reconciler verify --revision HEAD || status=$?
  reconciler forge status --result $status
""",
)
@click.option(
    "--result", metavar="CODE", required=True, type=click.IntRange(0, 255), help="Exit code of `reconciler verify`."
)
@options.revision
@_link
@options.repo
@options.run_options
def status(*, result: int, link: str | None, repo: str, **flags: Any) -> int:
    """Set the status reconciler/verify of a commit. [default: HEAD]."""
    environ = options.environment()
    settings = options.setting_flags(flags)
    run = opening.open_run(repo, {"revision": "HEAD", **settings}, environ)
    commit = run.workspace.repository.resolve(run.settings.revision).oid
    said = verify_status(result, link or pipeline_link(environ))
    forge_of(run, environ).set_status(commit, said)
    emit(f"{said.context}: {said.state}: {said.summary}")
    return 0


@command.command(
    "propose",
    epilog="""\b
Examples:
  reconciler observe && reconciler forge propose --kind evidence
  reconciler propose --write && reconciler forge propose --kind quotas --reason 'nodes of the pool changed'
""",
)
@click.option("--kind", metavar="WORD", required=True, help="Kind of the proposal, the start of its branch's name.")
@click.option("--name", metavar="NAME", default="", help="Name among those of its kind.")
@click.option("--title", metavar="TEXT", default="", help="Title of the change request.")
@click.option("--reason", metavar="TEXT", default="", help="Why, for reviewers.")
@options.repo
@options.cluster
@options.run_options
def propose(*, kind: str, name: str, title: str, reason: str, repo: str, **flags: Any) -> int:
    """Propose the uncommitted edits of the working tree as a change request on a branch of their own.

    Run again, it updates the same change request in place. One that a person closed stays closed until its content
    changes. Without edits, the open one is closed.
    """
    environ = options.environment()
    run = opening.open_run(repo, {**options.setting_flags(flags), "revision": "HEAD"}, environ)
    change = ProposedChange(
        kind=kind,
        name=name,
        cluster=run.settings.cluster,
        title=title or f"Propose {' '.join(filter(None, (kind, name)))}",
        reason=reason,
        edits=work_edits(run),
    )
    done = bring(run, environ, [change] if change.edits else [], settled=[] if change.edits else [change])
    for one in done:
        emit(str(one))
    if not done:
        emit("nothing to propose")
    return 0


@command.command(
    "answer",
    epilog="""\b
Examples:
  reconciler forge answer --request 12          in a checkout of the branch of the change request
""",
)
@click.option("--request", "number", metavar="N", type=_NUMBER, help="Change request. [default: the pipeline's]")
@options.base
@options.repo
@options.run_options
def answer_comments(*, number: int | None, repo: str, **flags: Any) -> int:
    """Carry out the commands in the comments on a change request, and answer them.

    The base says which are allowed (spec.forge.commands): /plan, /approve REASON, /explain OBJECT [FIELD]. Only people
    who may push are obeyed, and /approve needs the code owners of the changed files. With spec.forge.ownersApprove,
    their reviews approve as well. HEAD must be the newest commit of the change request, and not of a fork.

    The base, which also says where the forge is, is the upstream's default branch, unless --base names another one.
    """
    environ = options.environment()
    settings = options.setting_flags(flags)
    run = opening.open_run(repo, {**settings, "revision": "HEAD"}, environ)
    repository, chosen = run.workspace.repository, number or pipeline_request(environ)
    named = run.settings.base or repository.upstream_default()
    if not named:
        raise ConfigError("the base is not known: there is no remote origin", hint="name it with --base")
    base = repository.resolve(named).oid
    judge = opening.open_run(repo, {**settings, "revision": base}, environ)
    forge = forge_of(judge, environ)  # of the base: a change does not choose who is asked about it
    request = forge.request(chosen)
    default = named.removeprefix("refs/remotes/origin/")
    if not run.settings.base and request.target != default:
        raise ConfigError(
            f"#{chosen} is for the branch {printable(request.target)}, not for {default}",
            hint="name its base with --base if the people who may approve are those of its CODEOWNERS",
        )
    if request.head != repository.resolve("HEAD").oid or request.is_fork:
        raise ConfigError(
            f"HEAD is not the newest commit of #{chosen}", hint="check out its branch, not that of a fork"
        )
    obeyed = Obeyed(
        open_at=reopener(run, settings, environ, base),
        forge=forge,
        request=request,
        base=base,
        rules=judge.workspace.config,
        remote=CheckoutRemote(repository.root),
    )
    for line in obeyed.answer():
        emit(f"#{chosen}: {line}")
    return 0


@command.command(
    "refresh",
    epilog="""\b
Examples:
  reconciler forge refresh          in a checkout of the branch that change requests are for
""",
)
@click.option("--scope", metavar="NAME", default="default", help="Tells the comments of several plans apart.")
@options.repo
@options.run_options
def refresh(*, scope: str, repo: str, **flags: Any) -> int:
    """Plan the open change requests for the checked-out branch again, and comment them.

    For pipelines of pushes: the statuses of all say that the base moved until they are planned. Those of forks are
    commented, too: what they contain is data, judged by the checked-out commit.
    """
    environ = options.environment()
    settings = options.setting_flags(flags)
    run = opening.open_run(repo, {**settings, "revision": "HEAD"}, environ)
    forge, remote = forge_of(run, environ), CheckoutRemote(run.workspace.repository.root)
    done = RequestRound(
        forge,
        remote,
        run,
        target=pipeline_branch(environ) or run.workspace.repository.head_branch() or forge.default_branch(),
        reopen=reopener(run, settings, environ, run.workspace.tree.commit_id),
        scope=scope,
    ).make({})
    for line in done.lines:
        emit(line)
    if done.waiting:
        emit(f"{plural(done.waiting, 'change request')} not planned: a run plans {MOST}")
    if done.error is not None:
        raise done.error
    return 0

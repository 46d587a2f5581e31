"""A plan on a forge: one comment that is replaced in place, a status of the commit, and annotations."""

import math

from msgspec import Struct

from reconciler.console.printable import clip, printable
from reconciler.errors import ReconcilerError, UnsafePlan
from reconciler.forge import (
    PLAN_STATUS,
    VERIFY_STATUS,
    Annotation,
    ChangeRequest,
    CommitStatus,
    Forge,
    StatusState,
)
from reconciler.forge.bodies import note_marker
from reconciler.forge.commenting import put_comment
from reconciler.kube.secrets import mask_text
from reconciler.outputs import RenderOptions
from reconciler.plan import Plan
from reconciler.plan.gate import refuse
from reconciler.plan.outputs.findings import Category, Level, findings
from reconciler.plan.outputs.markdown import GITHUB_LIMIT, marker, prose, render_markdown, size
from reconciler.plan.outputs.summary import counts, headline

_LEVELS = {Level.ERROR: "failure", Level.WARNING: "warning", Level.NOTE: "notice"}
_MAX_MESSAGE = 4_000
_MAX_SUMMARY = 140
_RESULTS = {0: "passed", 3: "invalid input", 4: "a policy denies it", 5: "unsafe or stale", 6: "something failed"}


class Reviewed(Struct, frozen=True, kw_only=True):
    """The status and whether a comment was written; `is_outdated`: nothing was, because there are newer commits."""

    status: CommitStatus | None = None
    is_written: bool = False
    is_outdated: bool = False


def review(forge: Forge, request: ChangeRequest, plan: Plan, *, scope: str = "default", link: str = "") -> Reviewed:
    """Put the comment about a plan, the status of its commit, and its findings at their lines.

    A plan of other commits than the change request has now writes nothing: pipelines may end in any order. A plan
    without changes and findings writes no first comment.
    """
    if plan.head.commit != request.head:
        return Reviewed(is_outdated=True)
    status = plan_status(plan, link)
    marks = annotations(plan)
    body = plan_comment(forge, plan, scope, link)
    first = marker(scope)
    is_quiet = plan.is_empty and not findings(plan) and not plan.settings
    is_written = False
    if not is_quiet or any(one.body.lstrip().startswith(first) for one in forge.comments(request.number)):
        is_written = put_comment(forge, request.number, first, body)
    forge.set_status(plan.head.commit, status)
    if marks:
        forge.annotate(plan.head.commit, "reconciler/findings", prose(headline(plan)), marks)
    return Reviewed(status=status, is_written=is_written)


def shown_at(forge: Forge, request: ChangeRequest) -> float:
    """Return the time of Unix since which our comments show the plan of the newest commit; infinity if none does.

    There is one of each scope. Whoever edits one makes it newer.
    """
    me, start, end = forge.me(), marker("").removesuffix(" -->"), _end(request.head)
    shown = (one for one in forge.comments(request.number) if one.author == me and one.updated)
    found = (one.updated for one in shown if one.body.lstrip().startswith(start) and one.body.rstrip().endswith(end))
    return max(found, default=math.inf)


def _end(commit: str) -> str:
    """Return the hidden last line of the comment about the plan of a commit."""
    return note_marker(f"head-{commit}")


def plan_comment(forge: Forge, plan: Plan, scope: str, link: str) -> str:
    """Return the comment: what is too long for one is left out, and a link leads to the whole."""
    is_link = link.startswith(("https://", "http://")) and not any(sign in link for sign in " ()<>\n")
    more = f"\n[The whole plan]({link})\n" if is_link else ""
    more += f"\n{_end(plan.head.commit)}\n"
    limit = min(forge.body_limit, GITHUB_LIMIT) - size(more)
    return render_markdown(plan, RenderOptions(), scope=scope, limit=limit) + more


def plan_status(plan: Plan, link: str = "") -> CommitStatus:
    """Return the status: whether the plan may be carried out, and what is missing."""
    changes = ", ".join(text for _, text in counts(plan))
    try:
        refuse(plan)
    except UnsafePlan as error:
        words = "needs an approval: " if plan.unapproved else ""
        return status_of(PLAN_STATUS, StatusState.FAILURE, f"{words}{error.message}", link)
    except ReconcilerError as error:
        return status_of(PLAN_STATUS, StatusState.FAILURE, error.message.replace(", shown above", ""), link)
    return status_of(PLAN_STATUS, StatusState.SUCCESS, changes or "no changes", link)


def verify_status(code: int, link: str = "") -> CommitStatus:
    """Return the status that `reconciler verify` had with this exit code."""
    state = StatusState.FAILURE if code else StatusState.SUCCESS
    return status_of(VERIFY_STATUS, state, _RESULTS.get(code, f"exit code {code}"), link)


def status_of(context: str, state: StatusState, summary: str, link: str = "") -> CommitStatus:
    """Return a status whose summary is one masked line."""
    shown = clip(printable(" ".join(mask_text(summary).split())), _MAX_SUMMARY)
    return CommitStatus(context=context, state=state, summary=shown, url=link)


def annotations(plan: Plan) -> list[Annotation]:
    """Return the findings that are at a line of a file, errors first; what an exception allows is left out."""
    return [
        Annotation(
            path=one.place.path,
            line=max(one.place.line, 1),
            level=_LEVELS[one.level],
            title=one.rule,
            message=clip(printable(mask_text(one.sentence)), _MAX_MESSAGE),
        )
        for one in findings(plan)
        if one.place is not None and one.category is not Category.EXCEPTED
    ]

"""Sections about what is wrong or risky: errors, budgets, risks, warnings, notes and exceptions."""

from reconciler.console.page import Style, Styled
from reconciler.kube.values import plural
from reconciler.plan import ExceptionInForce, Plan
from reconciler.plan.approvals import needs_united_approval, spent_files
from reconciler.plan.outputs.findings import Category, Finding, Level, findings, where
from reconciler.plan.outputs.sections.model import (
    Block,
    CommandBlock,
    FactsBlock,
    FindingsBlock,
    Name,
    NamesBlock,
    PageSection,
    SentenceBlock,
    View,
    strong,
)
from reconciler.plan.outputs.summary import approvals_in_force, held_back_headline


def errors(view: View) -> PageSection | None:
    """Return the problems and denials that prevent a commit."""
    return _checks(view.plan, "Errors", Level.ERROR)


def warnings(view: View) -> PageSection | None:
    """Return the problems and verdicts that do not prevent a commit."""
    return _checks(view.plan, "Warnings", Level.WARNING)


def notes(view: View) -> PageSection | None:
    """Return audits, and denials that an exception allows."""
    return _checks(view.plan, "Notes", Level.NOTE)


def risks(view: View) -> PageSection | None:
    """Return the effects that reverting the commit does not undo."""
    return _list("Risks", [finding for finding in findings(view.plan) if finding.category is Category.RISK])


def _checks(plan: Plan, title: str, level: Level) -> PageSection | None:
    categories = (Category.PROBLEM, Category.VERDICT, Category.APPROVAL)
    members = [finding for finding in findings(plan) if finding.category in categories and finding.level is level]
    return _list(title, members, is_complete=level is Level.ERROR, is_folded=level is not Level.ERROR)


def _list(
    title: str, members: list[Finding], *, is_complete: bool = False, is_folded: bool = False
) -> PageSection | None:
    if not members:
        return None
    block = FindingsBlock(members=tuple(members), is_complete=is_complete)
    return PageSection(title=title, count=len(members), blocks=(block,), is_folded=is_folded)


def behind(view: View) -> PageSection | None:
    """Return the changes of the base branch since the merge base."""
    found = view.plan.behind
    if found is None:
        return None
    names = (*found.both, *([f"… and {found.more:,} more"] if found.more else []))
    files = f"{plural(found.files, 'file')} ({found.rendered:,} rendered)"
    blocks: list[Block] = [
        SentenceBlock((f"Since the merge base, {files} changed in ", Name(view.plan.base.label), ".")),
        SentenceBlock(("To plan the result of the merge: ", Name("reconciler plan --merge-result"))),
    ]
    if names:
        blocks += [SentenceBlock(("Edited on both sides:",)), NamesBlock(names)]
    return PageSection(title="The base has moved", blocks=tuple(blocks))


def edited(view: View) -> PageSection | None:
    """Return the rendered files that are not what the sources render."""
    if not view.plan.edited:
        return None
    line = SentenceBlock(("They are out of date or were edited by hand; run ", Name("reconciler commit"), "."))
    return PageSection(
        title="Rendered files that differ", count=len(view.plan.edited), blocks=(line, NamesBlock(view.plan.edited))
    )


def held_back(view: View) -> PageSection | None:
    """Return the rendered files that the plan leaves unchanged."""
    if not view.plan.held_back:
        return None
    line = SentenceBlock((Styled(held_back_headline(view.plan), Style.WARNING),))
    return PageSection(
        title="Left unchanged", count=len(view.plan.held_back), blocks=(line, NamesBlock(view.plan.held_back))
    )


def kept_specs(view: View) -> PageSection | None:
    """Return the objects that stay as they are although their source changed."""
    blocks: list[Block] = []
    for has_spare, words in _KEPT.items():
        names = tuple(f"{kept.key} on {kept.cluster}" for kept in view.plan.kept_specs if kept.has_spare is has_spare)
        if names:
            style = Style.DIM if has_spare else Style.WARNING
            blocks += [SentenceBlock((Styled(words, style),)), NamesBlock(names)]
    if not blocks:
        return None
    return PageSection(title="Kept as they are", count=len(view.plan.kept_specs), blocks=tuple(blocks))


_KEPT = {
    False: "Their sources changed, but onImmutableChange is keep; new objects get the change",
    True: "Claims have more than their jobs need now; a claim can neither shrink nor change its access modes",
}


def budgets(view: View) -> PageSection | None:
    """Return exceeded budgets, the approvals that allow them, and how to approve the others."""
    if not view.plan.breaches:
        return None
    members = tuple(finding for finding in findings(view.plan) if finding.category is Category.BUDGET)
    blocks: list[Block] = [FindingsBlock(members=members, is_complete=True)]
    for approval in approvals_in_force(view.plan):
        path = Name(approval.place.path, Style.DIM)
        blocks.append(SentenceBlock((f"Approved until {approval.expires}: {approval.reason} (", path, ")")))
    if view.plan.unapproved:
        if united := needs_united_approval(view.plan):
            blocks.append(SentenceBlock(("Not approved: ", united)))
        blocks.append(SentenceBlock(("To approve exactly this plan, run this on its branch and commit the file:",)))
        blocks.append(CommandBlock("reconciler approve --reason 'TEXT'"))
    return PageSection(title="Budgets exceeded", count=len(members), blocks=tuple(blocks))


def spent_approvals(view: View) -> PageSection | None:
    """Return the approvals of merged plans, which the commit of this plan removes."""
    paths = spent_files(view.plan) if view.plan.changes else ()
    if not paths:
        return None
    merged = "Merged with the plans that they approve; "
    line = SentenceBlock((merged, Name("reconciler commit"), " removes them:"))
    if view.plan.review:
        line = SentenceBlock((f"{merged}they can be removed:",))
    return PageSection(title="Approvals to remove", count=len(paths), blocks=(line, NamesBlock(paths)), is_folded=True)


def exceptions(view: View) -> PageSection | None:
    """Return the exceptions in force."""
    if not view.plan.exceptions:
        return None
    blocks = tuple(map(_exception, view.plan.exceptions))
    return PageSection(title="Exceptions in force", count=len(blocks), blocks=blocks, is_folded=True)


def _exception(exception: ExceptionInForce) -> FactsBlock:
    unused = () if exception.used else ("  ", Styled("no longer used", Style.WARNING))
    return FactsBlock(
        title=(Name(exception.rule), " for ", strong(exception.target), *unused),
        facts=(
            ("until", (f"{exception.expires}, owner {exception.owner}: {exception.reason}",)),
            ("in", (Name(where(exception.place), Style.DIM),)),
        ),
    )

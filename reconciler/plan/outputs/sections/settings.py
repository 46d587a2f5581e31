"""The section about settings, rules and exceptions that a change weakens, strengthens or adds."""

from reconciler.console.page import Piece, Style, Styled
from reconciler.plan.outputs.findings import where
from reconciler.plan.outputs.sections.model import Name, PageSection, SentenceBlock, View, strong
from reconciler.repo.config.changes import SettingChange


def settings(view: View) -> PageSection | None:
    """Return the settings that differ from the base: before, after and effect."""
    changes = view.plan.settings
    if not changes:
        return None
    return PageSection(title="Settings", count=len(changes), blocks=tuple(map(_block, changes)))


def _block(change: SettingChange) -> SentenceBlock:
    pieces: list[Piece] = [strong(change.setting), ": "]
    pieces += [Name(change.before, Style.DELETED), " → "] if change.before else []
    pieces += [Name(change.after, Style.CREATED)]
    pieces += [Styled(" weaker", Style.WARNING)] if change.weakens else []
    pieces += [f"; {change.effect}"] if change.effect else []
    return SentenceBlock((*pieces, "  ", Name(where(change.place), Style.DIM)))

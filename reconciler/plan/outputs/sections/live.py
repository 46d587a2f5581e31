"""Sections of a plan against live clusters: which clusters these are, and what drifted there."""

import json
from typing import Any

from reconciler.console.page import Style, Styled
from reconciler.kube.values import plural
from reconciler.plan import Drift, LiveState, Plan
from reconciler.plan.outputs.sections.model import (
    Block,
    Column,
    Form,
    Name,
    NamesBlock,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
    View,
    strong,
)

_MAX_LENGTH = 60  # characters of a value


def clusters(view: View) -> PageSection | None:
    """Return the live clusters, and the objects that they could not check."""
    states = view.plan.clusters
    if not states:
        return None
    columns = (Column("cluster"), Column("server"), Column("version"), Column("objects", Form.NUMBER))
    blocks: list[Block] = [TableBlock(columns=columns, rows=tuple(map(_state, states)))]
    unchecked = [f"{key} on {state.cluster}" for state in states for key in state.unchecked]
    if unchecked:
        words = f"{plural(len(unchecked), 'object')} to be checked when what they need exists:"
        blocks += [SentenceBlock((Styled(words, Style.WARNING),)), NamesBlock(tuple(unchecked))]
    unknown = [f"{key} on {state.cluster}" for state in states for key in state.unknown]
    if unknown:
        words = f"{plural(len(unknown), 'object')} of which it is not known what exists:"
        blocks += [SentenceBlock((Styled(words, Style.ERROR),)), NamesBlock(tuple(unknown))]
    return PageSection(title="Live clusters", blocks=tuple(blocks))


def refusal_words(plan: Plan) -> str:
    """Return the consequence of the blockers, in words."""
    return "Cannot be applied" if plan.is_live else "Must not be merged" if plan.review else "Cannot be committed"


def _state(state: LiveState) -> Row:
    return (strong(state.cluster), Name(state.server), state.version, f"{state.objects:,}")


def drift(view: View) -> PageSection | None:
    """Return the fields that are not as Git says, with who changed them."""
    rows = tuple(map(_drift, view.plan.drift))
    if not rows:
        return None
    columns = (
        Column("object"),
        Column("field"),
        Column("live"),
        Column("Git"),
        Column("action"),
        Column("changed by", Form.NOTE),
    )
    words = (
        "Fields of live objects that were not changed in Git, and objects that somebody deleted or took over. An apply "
        "reverts those whose action is revert, and leaves the others as they are."
    )
    return PageSection(
        title="Drift",
        count=len(rows),
        blocks=(SentenceBlock((words,)), TableBlock(columns=columns, rows=rows)),
    )


def _drift(one: Drift) -> Row:
    return (
        Name(f"{one.key} on {one.cluster}"),
        Name(one.field or "(the object)"),
        Name(_value(one.live, exists=one.has_live), Style.DELETED),
        Name(_value(one.git, exists=one.has_git), Style.CREATED),
        one.action,
        _reason(one),
    )


def _reason(one: Drift) -> str:
    """Return who changed a field, and why it stays."""
    until = f" through {one.expires}" if one.expires else ""
    return f"{one.who}; {one.reason}{until}" if one.reason else f"{one.who}{until}"


def _value(value: Any, *, exists: bool) -> str:
    if not exists:
        return "(absent)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"

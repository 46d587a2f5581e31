"""Shows the changed objects of a plan as Markdown, as many as there is room for."""

from collections.abc import Iterable, Iterator

from reconciler.core.plan import FieldChange, Operation, Plan
from reconciler.core.values import plural
from reconciler.outputs.comment.markup import code, details, fence, html_code, size
from reconciler.outputs.differences import (
    diff_lines,
    group_fields,
    is_single_line,
    scalar,
    short_digests,
)
from reconciler.outputs.groups import ChangeGroup, group_changes, key_fields, leaves, main_reason
from reconciler.outputs.summary.queues import gpus
from reconciler.outputs.terminal.printable import without_commands

_MAX_DIFF_LINES = 200  # lines of one object
_SIGNS = {
    Operation.CREATE: "+",
    Operation.UPDATE: "~",
    Operation.REPLACE: "-/+",
    Operation.DELETE: "-",
    Operation.MOVE: "→",
}
_MAX_NAMES = 20
_LONG_REASON = 90  # characters that fit in a comment without scrolling


def objects_markdown(plan: Plan, room: int, *, full: bool) -> str:
    """Render changes while there is room. Changes that do not fit are counted and never cut."""
    if not plan.changes:
        return ""
    parts = [f"#### Objects: {len(plan.changes):,}"]
    used, left = size(parts[0]), len(plan.changes)
    reserved = size(_omitted(left)) + 2
    for group in group_changes(plan):
        members = 1 + len(group.others)
        reserve = reserved if left > members else 0
        for block in (_full_block(group, full=full), _short_block(group)):
            block = without_commands(block)  # noqa: PLW2901
            if used + 2 + size(block) + reserve <= room:
                break
        else:
            break
        parts.append(block)
        used += 2 + size(block)
        left -= members
    if left:
        parts.append(_omitted(left))
    return "\n\n".join(parts)


def _omitted(count: int) -> str:
    return f"… and {plural(count, 'more object')}. Run `reconciler plan` to see all."


def _full_block(group: ChangeGroup, *, full: bool) -> str:
    change = group.first
    parts = []
    if group.others:
        names = ", ".join(code(name) for name in group.names[:_MAX_NAMES])
        more = len(group.names) - _MAX_NAMES
        parts.append(names + (f" and {more:,} more" if more > 0 else ""))
    if change.moved_from:
        parts.append(f"{code(change.moved_from)} → {code(change.path)}")
    if change.recreated:
        parts.append(f"Deleted and created again because of {code(change.recreated)}")
    is_compact = change.operation in (Operation.CREATE, Operation.DELETE) and not full
    lines = list(_compact(group) if is_compact else _diff(group, full=full))
    if lines:
        cut = len(lines) - _MAX_DIFF_LINES
        parts.append(fence([*lines[:_MAX_DIFF_LINES], *([f"@@ {plural(cut, 'more line')} @@"] if cut > 0 else [])]))
    return details(_title(group), "\n\n".join(parts)) if parts else _short_block(group)


def _short_block(group: ChangeGroup) -> str:
    return details(_title(group), "Run `reconciler plan` to see the fields.")


def _title(group: ChangeGroup) -> str:
    change = group.first
    facts = []
    if change.gpus_before != change.gpus_after:
        each = " each" if group.others else ""
        facts.append(f"<b>{change.gpus_before} → {gpus(change.gpus_after)}{each}</b>")
    if change.fields and change.operation in (Operation.UPDATE, Operation.REPLACE, Operation.MOVE):
        facts.append(plural(len(change.fields), "field"))
    kind, _, rest = group.title.partition(" ")
    if group.others:
        start = f"{html_code(group.title)} {html_code(group.names[0])} and {len(group.others):,} more"
    else:
        start = f"{kind if kind.isalnum() else html_code(kind)} {html_code(rest)}"
    return " · ".join([f"<code>{_SIGNS[change.operation]}</code> {start}", *facts])


def _compact(group: ChangeGroup) -> Iterator[str]:
    change = group.first
    if not group.others:
        sign = "+" if change.operation is Operation.CREATE else "-"
        yield from (f"{sign} {step}: {value}" for step, value in key_fields(change))
        total = sum(1 for _ in leaves(change.fields))
        if total:
            yield f"# {plural(total, 'field')} in total, in {change.path}"
    why = main_reason(change)
    if why is not None:
        yield from _because(group.reason(why))


def _diff(group: ChangeGroup, *, full: bool) -> Iterator[str]:
    for position, alike in enumerate(group_fields(group.first.fields)):
        if position:
            yield ""
        for field in alike.fields:
            yield from _field(field, full=full)
        if alike.why is not None:
            yield from _because(group.reason(alike.why, alike.fields[0].path if len(alike.fields) == 1 else ""))
    if not group.first.fields:
        for why in group.first.because[:1]:
            yield from _because(group.reason(why))


def _because(parts: tuple[str, ...]) -> Iterator[str]:
    if sum(map(len, parts)) <= _LONG_REASON:
        parts = (": ".join(parts),)
    yield f"# because {parts[0]}"
    yield from (f"#   {part}" for part in parts[1:])


def _field(field: FieldChange, *, full: bool) -> Iterable[str]:
    if (not field.has_before or is_single_line(field.before)) and (not field.has_after or is_single_line(field.after)):
        both = scalar(field.before), scalar(field.after)
        before, after = both if full else short_digests(*both)
        if field.has_before:
            yield f"- {field.path}: {before}"
        if field.has_after:
            yield f"+ {field.path}: {after}"
        return
    yield f"@@ {field.path} @@"
    for line in diff_lines(field):
        yield f"@@ {line.text} @@" if line.sign == "…" else f"{line.sign} {line.text}".rstrip()

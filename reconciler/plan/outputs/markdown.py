"""The Markdown output: one pull-request comment with the summary first, details folded, and a bounded length."""

import re
from collections.abc import Iterable, Iterator, Sequence

from reconciler.console.page import Piece, Style
from reconciler.console.printable import clip, clip_middle, printable, spans, without_commands
from reconciler.kube.patterns import later
from reconciler.kube.values import plural
from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import FieldChange, Operation, Plan, Revision
from reconciler.plan.outputs.differences import diff_lines, group_fields, is_single_line, scalar, short_digests
from reconciler.plan.outputs.filters import Filtered, apply_filters
from reconciler.plan.outputs.findings import Finding, FindingEntry, group_findings, lint_headline, name_of
from reconciler.plan.outputs.followers import is_generated_json, told
from reconciler.plan.outputs.groups import ChangeGroup, group_changes, key_fields, leaves, main_reason
from reconciler.plan.outputs.sections import plan_sections
from reconciler.plan.outputs.sections.live import refusal_words
from reconciler.plan.outputs.sections.model import (
    Block,
    CommandBlock,
    FactsBlock,
    FindingsBlock,
    Form,
    Name,
    NamesBlock,
    PageSection,
    SentenceBlock,
    TableBlock,
    View,
)
from reconciler.plan.outputs.summary import (
    approved_headline,
    blockers,
    closing_line,
    counts,
    headlines,
    listed_counts,
)
from reconciler.plan.outputs.summary.answers import answers
from reconciler.plan.outputs.summary.queues import gpus

# Markdown escaping. All strings of a plan pass through this module before they enter a comment.
# Forges act on the text of a comment: they notify `@people`, link `#123` and URLs, render HTML and run `/commands`.
# Code spans and fences prevent that. In prose, special characters are written as character references, and a zero-width
# space, as dependency bots use it, breaks up references.


_MAX_NAME = 160  # cells; longer paths and names are cut in the middle

_MAX_PROSE = 600

_MAX_LINE = 400  # cells of one line in a fence

_BREAK = "&#8203;"

_PLAIN = later(r"[A-Za-z0-9 ,.;:%/()'+=→·…—-]")

# A sign and the text after it form a mention, an issue, a merge request, a label, a snippet, a milestone, an epic …
_REFERENCE = later(r"([@#!~$%&^*:])(?=[\w\"\[])")

_ISSUE = later(r"\b(GH|gh)-(?=\d)")  # GitHub makes these links to issues

_URL = later(r":(?=//)|(?<=www)(?=\.)", re.IGNORECASE)  # GitHub makes bare addresses links

_BACKTICKS = later(r"`+")

_SCOPE = later(r"[^A-Za-z0-9._/]+")

_MAX_SCOPE = 100


def prose(text: str, *, longest: int = _MAX_PROSE) -> str:
    """Escape a sentence that contains strings of users. It must not be placed at the start of a line."""
    parts = spans(clip(printable(text), longest))
    return "".join(f"`{part}`" if index % 2 else _escaped(part) for index, part in enumerate(parts))


def _escaped(shown: str) -> str:
    marked = _URL.sub(_mark, _ISSUE.sub(_mark, _REFERENCE.sub(_mark, shown)))
    return "".join(_SIGNS_OF.get(sign) or _character_reference(sign) for sign in _INSIDE.sub(_UNDERSCORE, marked))


# They stand for what is not escaped; `printable` escapes both, so they do not occur in the text.
_MARK, _UNDERSCORE = "\x00", "\x01"
_SIGNS_OF = {_MARK: _BREAK, _UNDERSCORE: "_"}
_INSIDE = later(r"(?<=[A-Za-z0-9])_(?=[A-Za-z0-9])")  # of a word, where it emphasizes nothing


def _mark(match: re.Match[str]) -> str:
    return match.group() + _MARK


def _character_reference(sign: str) -> str:
    return sign if _PLAIN.fullmatch(sign) or not sign.isascii() else f"&#{ord(sign)};"


def code(text: str, *, longest: int = _MAX_NAME) -> str:
    """Format a name as a code span, which is also safe in a table."""
    shown = clip_middle(printable(text), longest).replace("|", "\\x7c").strip()
    if not shown:
        return "—"
    ticks = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    pad = " " if "`" in shown else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def html_code(text: str, *, longest: int = _MAX_NAME) -> str:
    """Format a name as an HTML element, for places where Markdown is not parsed, such as `<summary>`."""
    shown = clip_middle(printable(text), longest)
    return f"<code>{''.join(_character_reference(sign) for sign in shown)}</code>"


def fence(lines: Iterable[str], *, language: str = "diff") -> str:
    """Format lines as a code block. Its fence is longer than any run of backticks in them."""
    shown = [clip(printable(line), _MAX_LINE) for line in lines]
    longest = max((len(run) for line in shown for run in _BACKTICKS.findall(line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([f"{ticks}{language}", *shown, ticks])


def details(summary: str, body: str) -> str:
    """Format a collapsed section with the title `summary` (HTML) and the content `body` (Markdown)."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def table_of(titles: Sequence[str], rows: Sequence[Sequence[str]], *, most: int) -> str:
    """Format a table of Markdown cells, with at most `most` rows and a count of the others.

    A title that ends in `:` is that of a right-aligned column.
    """
    head = "| " + " | ".join(title.rstrip(":") for title in titles) + " |"
    rule = "|" + "|".join("--:" if title.endswith(":") else "---" for title in titles) + "|"
    lines = [head, rule, *("| " + " | ".join(_no_break(cell) for cell in row) + " |" for row in rows[:most])]
    more = len(rows) - most
    return "\n".join(lines) + (f"\n\n… and {more:,} more" if more > 0 else "")


def _no_break(cell: str) -> str:
    return cell if "`" in cell else cell.replace(" → ", "&nbsp;→&nbsp;").replace(" %", "&nbsp;%")


def marker(scope: str) -> str:
    """Return the hidden line by which a later run finds its comment, without hyphens that could end an HTML comment."""
    return f"<!-- gpu-reconciler:plan:{_SCOPE.sub('-', scope).strip('-')[:_MAX_SCOPE].strip('-')} -->"


def size(text: str) -> int:
    """Return the length of text in UTF-16 units, the largest count that any forge uses."""
    return len(text.encode("utf-16-le")) // 2


# Shows the changed objects of a plan as Markdown, as many as there is room for.


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
        for block in _blocks_of(group, full=full):
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


def _blocks_of(group: ChangeGroup, *, full: bool) -> Iterator[str]:
    """Yield the same change, shorter each time: with the fields that follow from an edit, without them, its title."""
    if not full and (followers := told(group, full=False).followers):
        yield _full_block(group, full=False, rest=tuple(field for one in followers for field in one.fields))
    yield _full_block(group, full=full)
    yield _short_block(group)


def _full_block(group: ChangeGroup, *, full: bool, rest: tuple[FieldChange, ...] = ()) -> str:
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
    lines = list(compact_lines(group) if is_compact else diff_of(group, full=full))
    if lines:
        parts.append(_fenced(lines))
    if rest:
        parts.append(details(f"The {len(rest):,} fields", _fenced(list(field_lines(group, rest, full=False)))))
    return details(_title(group), "\n\n".join(parts)) if parts else _short_block(group)


def _fenced(lines: Sequence[str]) -> str:
    cut = len(lines) - _MAX_DIFF_LINES
    return fence([*lines[:_MAX_DIFF_LINES], *([f"@@ {plural(cut, 'more line')} @@"] if cut > 0 else [])])


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


def compact_lines(group: ChangeGroup) -> Iterator[str]:
    """Yield what summarizes a created or deleted object, as lines of a diff."""
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


def diff_of(group: ChangeGroup, *, full: bool) -> Iterator[str]:
    """Yield the edit of an object as lines of a diff: what follows from what, then the fields that are listed."""
    parts = told(group, full=full)
    for followers in parts.followers:
        yield f"# {followers.because}"
        yield f"# {followers.count}"
    yield from field_lines(group, parts.listed, full=full)
    if not group.first.fields:
        for why in group.first.because[:1]:
            yield from _because(group.reason(why))


def field_lines(group: ChangeGroup, fields: Iterable[FieldChange], *, full: bool) -> Iterator[str]:
    """Yield fields as lines of a diff, with their reasons."""
    for position, alike in enumerate(group_fields(fields)):
        if position:
            yield ""
        for field in alike.fields:
            yield from _field(field, full=full)
        if alike.why is not None:
            yield from _because(group.reason(alike.why, alike.fields[0].path if len(alike.fields) == 1 else ""))


def _because(parts: tuple[str, ...]) -> Iterator[str]:
    if sum(map(len, parts)) <= _LONG_REASON:
        parts = (": ".join(parts),)
    yield f"# because {parts[0]}"
    yield from (f"#   {part}" for part in parts[1:])


def _field(field: FieldChange, *, full: bool) -> Iterable[str]:
    if not full and is_generated_json(field):
        yield f"# {field.path}: a decision as JSON"
        return
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


# Shows sections as Markdown, with at most a given number of rows in each table and list.


_BOLD = frozenset({Style.STRONG, Style.CREATED, Style.UPDATED, Style.DELETED, Style.MOVED, Style.ERROR, Style.WARNING})

_MAX_LISTED = 10  # of objects or places with the same finding


def sections_markdown(sections: Iterable[PageSection], rows: int) -> Iterator[str]:
    """Yield the parts of a comment. If `rows` is 0, sections with a count are only named."""
    for section in sections:
        count = f" ({section.count:,})" if section.count else ""
        remark = f" ({section.remark})" if section.remark else ""
        title = f"{section.title}{count}{remark}"
        body = "\n\n".join(part for part in _blocks(section.blocks, rows) if part) if rows else ""
        if body and section.is_folded:
            yield details(f"<b>{title}</b>", body)
        elif body or section.count:
            yield f"#### {title}"
            if body:
                yield body


def _blocks(blocks: Sequence[Block], rows: int) -> Iterator[str]:
    records = 0
    for block in blocks:
        match block:
            case TableBlock():
                yield _table(block, rows)
            case SentenceBlock(pieces):
                yield _inline(pieces)
            case CommandBlock(text):
                yield code(text)
            case NamesBlock(names):
                yield "\n".join(f"- {code(name)}" for name in names[:rows]) + _more(len(names) - rows)
            case FindingsBlock(members=members):
                yield _findings(members, rows)
            case FactsBlock():
                records += 1
                if records <= rows:
                    yield from _record(block)
    if records > rows:
        yield f"… and {records - rows:,} more"


def _more(count: int) -> str:
    return f"\n\n… and {count:,} more" if count > 0 else ""


def _table(table: TableBlock, rows: int) -> str:
    table = table.without_empty_notes()
    titles = [
        (column.title[:1].upper() + column.title[1:]) + (":" if column.form is Form.NUMBER else "")
        for column in table.columns
    ]
    cells = [[_cell(piece) for piece in row] for row in (*table.rows[:rows], *table.footer)]
    return table_of(titles, cells, most=len(cells)) + _more(len(table.rows) - rows)


def _cell(piece: Piece) -> str:
    is_alarm = not isinstance(piece, str) and piece.text and piece.style is Style.ERROR
    return f"⚠️ {_piece(piece)}" if is_alarm else _piece(piece)


def _inline(pieces: Sequence[Piece]) -> str:
    return "".join(map(_piece, pieces))


def _piece(piece: Piece) -> str:
    """Format a name as code, and emphasize other styled text."""
    if isinstance(piece, Name):
        return code(piece.text) if piece.text else ""
    if isinstance(piece, str):
        return prose(piece)
    words = piece.text.strip()
    shown = prose(words)
    before, _, after = piece.text.partition(words) if words else ("", "", "")
    return f"{before}**{shown}**{after}" if shown and piece.style in _BOLD else f"{before}{shown}{after}"


def _record(record: FactsBlock) -> Iterator[str]:
    facts = [f"- {label}: {_inline(pieces)}" for label, pieces in record.facts]
    yield "\n".join([_inline(record.title), *facts])
    if record.details is not None:
        yield details(record.details_title, _table(record.details, len(record.details.rows)))


def _findings(members: Sequence[Finding], rows: int) -> str:
    """List findings by rule, with at most `rows` different messages in total."""
    lines, left = [], rows
    for group in group_findings(members):
        shown = group.entries[:left]
        if not shown:
            break
        left -= len(shown)
        count = f" ({group.count:,})" if group.count > 1 else ""
        label = f" **{prose(group.first.label)}**" if group.first.label else ""
        parts = [f"- **{code(group.first.rule)}**{count}{label}"]
        for entry in shown:
            parts.append(_entry(entry))
            if not group.hint and entry.first.hint:
                parts.append(f"→ {prose(entry.first.hint)}")
        hidden = sum(1 + len(entry.others) for entry in group.entries[len(shown) :])
        parts += [f"… and {hidden:,} more"] if hidden else []
        parts += [f"→ {prose(group.hint)}"] if group.hint else []
        lines.append("<br>".join(parts))
    rules = len({(finding.rule, finding.level) for finding in members}) - len(lines)
    return "\n".join(lines) + (f"\n\n… and {plural(rules, 'more rule')}" if rules else "")


def _entry(entry: FindingEntry) -> str:
    finding = entry.first
    says = (f"{code(finding.field)} " if finding.field else "") + prose(finding.message)
    if entry.others:
        what, names = entry.names
        listed = ", ".join(code(name) for name in names[:_MAX_LISTED])
        more = len(names) - _MAX_LISTED
        return f"{says}<br>{f'{prose(what)}: ' if what else ''}{listed}" + (f" and {more:,} more" if more > 0 else "")
    name = name_of(finding)
    subject = f" {code(finding.subject)}" if finding.subject not in ("", name) else ""
    return (f"{code(name)}{subject}: " if name else "") + says


GITHUB_LIMIT = 65_536
"""Most characters in one comment on GitHub."""

_MIN_LIMIT = 1_000

_ROWS = (25, 10, 4, 1, 0)  # most rows of a table or list, tried in turn until the summary fits

_SHORT_COMMIT = 12


def render_markdown(
    plan: Plan, options: RenderOptions = DEFAULTS, *, scope: str = "default", limit: int = GITHUB_LIMIT
) -> str:
    """Render the plan as one comment of at most `limit` characters.

    `scope` distinguishes the comments of one pull request, such as one per cluster; it goes into the hidden first line.
    Raises ValueError for a limit under 1,000, which is too small for a summary.
    """
    if limit < _MIN_LIMIT:
        raise ValueError(f"the limit of a comment is at least {_MIN_LIMIT} characters, not {limit}")
    lint = options.lint
    listed = apply_filters(plan, options.filters)
    view = View(plan=listed.plan, full=options.full, queues=listed.queues)
    start, end = marker(scope), "" if lint else without_commands(_footer(plan))
    # Escaping log commands lengthens the text, so every part is measured after it.
    for rows in _ROWS:
        parts = [start, *(_lint(plan, view, rows) if lint else _top(plan, listed, rows))]
        if not lint:
            parts += sections_markdown(plan_sections(view, summary=options.summary), rows)
        head = without_commands("\n\n".join(parts))
        if size(head) + size(end) + _MIN_LIMIT // 2 <= limit:
            break
    else:
        return _least(plan, start, lint=lint)
    if lint:
        return f"{head}\n"
    room = limit - size(head) - size(end) - len("\n\n\n\n\n")  # between the parts and at the end
    if options.summary:
        counted = listed_counts(view.plan)
        objects = f"Not listed: {', '.join(counted)}" if counted else ""
    else:
        objects = objects_markdown(view.plan, room, full=options.full)
    return "\n\n".join(part for part in (head, objects, end) if part) + "\n"


def _least(plan: Plan, start: str, *, lint: bool) -> str:
    what = lint_headline(plan) if lint else ", ".join(text for _, text in counts(plan))
    verb = "lint" if lint else "plan"
    return f"{start}\n\n### {prose(what)}\n\nThe plan is too long for a comment. Run `reconciler {verb}` to see it.\n"


def _top(plan: Plan, listed: Filtered, rows: int) -> Iterator[str]:
    """Yield what a reviewer needs first. It is about the whole plan, whatever the filters hide."""
    first, *others = headlines(plan)
    yield f"### {prose(first)}"
    if others and rows:
        yield "<br>".join(f"**{prose(sentence)}**" for sentence in others[:rows])
    yield " · ".join(f"**{text}**" if operation else text for operation, text in counts(plan))
    yield from _status(plan)
    if listed.note:
        yield prose(listed.note)
    found = answers(plan, listed.plan)
    if found and rows:
        yield "\n".join(f"- {_ALARMS.get(one.style, '')}**{one.question}:** {prose(one.text)}" for one in found)


_ALARMS = {Style.WARNING: "⚠️ ", Style.ERROR: "⛔ "}


def _lint(plan: Plan, view: View, rows: int) -> Iterator[str]:
    yield f"### {prose(lint_headline(plan))}"
    yield from sections_markdown(plan_sections(view, lint=True), rows)


def _status(plan: Plan) -> Iterator[str]:
    blocking = blockers(plan)
    if blocking:
        yield f"> [!CAUTION]\n> **{refusal_words(plan)}:** {', '.join(blocking)}"
    elif plan.breaches:
        yield f"> [!WARNING]\n> {approved_headline(plan)}"


def _footer(plan: Plan) -> str:
    ends = f"{_revision(plan.base)} → {_revision(plan.head)}"
    digest = code(plan.digest) if plan.digest else "(no digest)"
    last = "" if plan.is_empty else f"**{prose(closing_line(plan))}**\n\n"
    return f"{last}<sub>{ends} · plan {digest} · engine {code(plan.engine)}</sub>"


def _revision(revision: Revision) -> str:
    commit = f" {code(revision.commit[:_SHORT_COMMIT])}" if revision.commit else ""
    return f"{code(revision.label)}{commit}"

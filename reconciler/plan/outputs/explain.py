"""The output of `reconciler explain`: each value with its rule or formula, its source lines and evidence."""

import json
from typing import Any

import msgspec

from reconciler.console.page import Page, Style, Styled
from reconciler.console.printable import clip
from reconciler.kube.objects import SourceRef
from reconciler.kube.values import plural
from reconciler.plan.explanation import ExplainedField, Explanation, ValueSource
from reconciler.plan.outputs.differences import is_single_line, scalar, value_lines
from reconciler.plan.outputs.findings import subject_of, where
from reconciler.plan.outputs.sections.sizing import candidate_table, sizing_facts
from reconciler.plan.outputs.terminal_sections import write_facts, write_table

_LITERAL_INDENT = 13
_MAX_LINES = 40  # of one value; the rendered file has all


def render_explain(explanation: Explanation, *, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    """Render the reasons for a terminal of `width` cells. Neighboring fields with the same reason share it."""
    page = Page(width=width, color=color, unicode=unicode)
    page.write(Styled(subject_of(explanation.cluster, explanation.key), Style.STRONG))
    source = f" from {where(explanation.source)}" if explanation.source is not None else ""
    page.write(Styled(f"{explanation.path}{source}", Style.DIM))
    _status(page, explanation)
    if explanation.sizing is not None:
        page.heading("Sizing")
        write_facts(page, sizing_facts(explanation.sizing), indent=2)
        write_table(page, candidate_table(explanation.sizing.candidates))
    for group in _groups(explanation.fields):
        page.blank()
        for field in group:
            _value(page, field)
        _reason(page, group[0])
    return page.text()


def render_explain_json(explanation: Explanation) -> str:
    """Render the reasons as JSON: a list of fields, each with its value, rule, formula and origins."""
    key = explanation.key
    data = {
        "cluster": explanation.cluster,
        "group": key.group,
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "path": explanation.path,
        "source": None if explanation.source is None else _place(explanation.source),
        "status": explanation.status,
        "causes": [_origin(cause) for cause in explanation.causes],
        "problems": list(explanation.problems),
        "fields": [_field(field) for field in explanation.fields],
    }
    if explanation.sizing is not None:
        data["sizing"] = msgspec.to_builtins(explanation.sizing)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _status(page: Page, explanation: Explanation) -> None:
    if explanation.status:
        style = Style.DELETED if not explanation.fields else Style.UPDATED
        page.write(Styled(explanation.status, style), indent=2)
    for cause in explanation.causes:
        word = "removed " if cause.field == "removed" else ""
        page.write(Styled("because ", Style.DIM), f"{word}{cause.place}", indent=2)
    for problem in explanation.problems:
        page.write(Styled("problem ", Style.DELETED), problem, indent=2, hang=8)


def _groups(fields: tuple[ExplainedField, ...]) -> list[list[ExplainedField]]:
    groups: list[list[ExplainedField]] = []
    for field in fields:
        if groups and _why(groups[-1][0]) == _why(field):
            groups[-1].append(field)
        else:
            groups.append([field])
    return groups


def _why(field: ExplainedField) -> tuple[object, ...]:
    return (field.rule, field.formula, field.origins)


def _value(page: Page, field: ExplainedField) -> None:
    name = (field.field or "(whole object)") + (" (removed)" if field.removed else "")
    if is_single_line(field.value):
        page.write(Styled(name, Style.STRONG), Styled(" = ", Style.DIM), Styled(scalar(field.value), Style.CREATED))
        return
    page.write(Styled(name, Style.STRONG), Styled(" =", Style.DIM))
    lines = value_lines(field.value)
    for line in lines[:_MAX_LINES]:
        page.verbatim("", line, style=Style.CREATED, indent=4)
    if len(lines) > _MAX_LINES:
        page.write(Styled(f"… {plural(len(lines) - _MAX_LINES, 'more line')}", Style.DIM), indent=4)


def _reason(page: Page, field: ExplainedField) -> None:
    how = field.formula or ("set in the source" if field.origins else "fixed value")
    rule = "" if field.rule == "source" else f"  [{field.rule}]"
    page.write(Styled("because ", Style.DIM), how, Styled(rule, Style.DIM), indent=2)
    for origin in field.origins:
        kind = "evidence" if origin.is_evidence else "source"
        style = Style.MOVED if origin.is_evidence else Style.UPDATED
        field_name = [f" {origin.field}"] if origin.field else []
        page.write(Styled(f"{kind:<8} ", style), Styled(str(origin.place), Style.STRONG), *field_name, indent=4)
        if origin.line.strip():
            literal = clip(page.shown(origin.line.strip()), page.width - _LITERAL_INDENT - 2, ellipsis=page.ellipsis)
            page.verbatim(Styled("│ ", Style.DIM), literal, indent=_LITERAL_INDENT)


def _field(field: ExplainedField) -> dict[str, Any]:
    return {
        "field": field.field,
        "value": field.value,
        "rule": field.rule,
        "formula": field.formula,
        "removed": field.removed,
        "origins": [_origin(origin) for origin in field.origins],
    }


def _origin(origin: ValueSource) -> dict[str, Any]:
    return {
        **_place(origin.place),
        "field": origin.field,
        "text": origin.line,
        "evidence": origin.is_evidence,
    }


def _place(place: SourceRef) -> dict[str, Any]:
    return {"path": place.path, "line": place.line, "column": place.column}

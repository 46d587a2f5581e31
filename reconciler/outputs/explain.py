"""The reasons of one object in, a readable chain out: value, rule or formula, source line, evidence."""

import json
from typing import Any

import msgspec

from reconciler.core.plan.explanation import ExplainedField, Explanation, Origin
from reconciler.outputs.differences import is_single, scalar, value_lines
from reconciler.outputs.findings import subject_of, where
from reconciler.outputs.page import Page, Span, Tone
from reconciler.outputs.printable import clip
from reconciler.outputs.sizing import write_candidates, write_note

__all__ = ["ExplainedField", "Explanation", "Origin", "render_explain", "render_explain_json"]

_LITERAL_INDENT = 13
_MOST_LINES = 40  # of one value; `show` and the rendered file have the rest


def render_explain(explanation: Explanation, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """Write the chain for a terminal of `width` cells. Neighbouring fields with one reason share its lines."""
    page = Page(width=width, colour=colour, unicode=unicode)
    page.write(Span(subject_of(explanation.cluster, explanation.key), Tone.STRONG))
    page.write(Span(f"{explanation.path} from {where(explanation.source)}", Tone.FAINT))
    if explanation.sizing is not None:
        page.heading("Sizing")
        write_note(page, explanation.sizing, indent=2)
        write_candidates(page, explanation.sizing.candidates)
    for group in _groups(explanation.fields):
        page.blank()
        for field in group:
            _value(page, field)
        _reason(page, group[0])
    return page.text()


def render_explain_json(explanation: Explanation) -> str:
    """Write the chain as JSON: a list of fields, each with value, rule, formula and origins."""
    key = explanation.key
    data = {
        "cluster": explanation.cluster,
        "group": key.group,
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "path": explanation.path,
        "source": _place(explanation.source.path, explanation.source.line, explanation.source.column),
        "fields": [_field(field) for field in explanation.fields],
    }
    if explanation.sizing is not None:
        data["sizing"] = msgspec.to_builtins(explanation.sizing)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


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
    name = field.field or "(the whole object)"
    if is_single(field.value):
        page.write(Span(name, Tone.STRONG), Span(" = ", Tone.FAINT), Span(scalar(field.value), Tone.CREATED))
        return
    page.write(Span(name, Tone.STRONG), Span(" =", Tone.FAINT))
    lines = value_lines(field.value)
    for line in lines[:_MOST_LINES]:
        page.verbatim(Span(""), line, tone=Tone.CREATED, indent=4)
    if len(lines) > _MOST_LINES:
        page.write(Span(f"… {len(lines) - _MOST_LINES:,} more lines", Tone.FAINT), indent=4)


def _reason(page: Page, field: ExplainedField) -> None:
    how = field.formula or ("the source says so" if field.origins else "it is always so")
    rule = "" if field.rule == "source" else f"  [{field.rule}]"
    page.write(Span("because ", Tone.FAINT), how, Span(rule, Tone.FAINT), indent=2)
    for origin in field.origins:
        kind = "evidence" if origin.is_evidence else "source"
        tone = Tone.MOVED if origin.is_evidence else Tone.UPDATED
        named = [f" {origin.field}"] if origin.field else []
        page.write(Span(f"{kind:<8} ", tone), Span(str(origin.place), Tone.STRONG), *named, indent=4)
        if origin.line.strip():
            literal = clip(page.shown(origin.line.strip()), page.width - _LITERAL_INDENT - 2, ellipsis=page.ellipsis)
            page.verbatim(Span("│ ", Tone.FAINT), literal, indent=_LITERAL_INDENT)


def _field(field: ExplainedField) -> dict[str, Any]:
    return {
        "field": field.field,
        "value": field.value,
        "rule": field.rule,
        "formula": field.formula,
        "origins": [
            {
                **_place(origin.place.path, origin.place.line, origin.place.column),
                "field": origin.field,
                "text": origin.line,
                "evidence": origin.is_evidence,
            }
            for origin in field.origins
        ],
    }


def _place(path: str, line: int, column: int) -> dict[str, Any]:
    return {"path": path, "line": line, "column": column}

"""Tested examples of policies: as a table, as JSON, and as JUnit."""

import json
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

import msgspec

from reconciler.console.printable import printable
from reconciler.kube.values import plural
from reconciler.policy.examples import TestedExample

FORMATS = ("text", "json", "junit")


def render_examples(examples: Sequence[TestedExample], form: str) -> str:
    """Return the examples in one of the formats."""
    return {"text": _text, "json": _json, "junit": _junit}[form](examples)


def _text(examples: Sequence[TestedExample]) -> str:
    """Return a table, then what is not as expected, then the counts."""
    titles = ("", "TEST", "EXAMPLE", "RULE", "OBJECT", "VERDICT")
    rows = [
        ("FAIL" if one.reason else "ok", one.test, one.example, one.rule, one.subject, one.actual) for one in examples
    ]
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (titles, *rows)
    ]
    failed = [one for one in examples if one.reason]
    lines += ["", *(f"{one.place}: {one.subject}: {one.reason} [{one.rule}]" for one in failed)] if failed else []
    return "\n".join([*lines, "", _counts(examples, len(failed)), ""])


def _counts(examples: Sequence[TestedExample], failed: int) -> str:
    return f"{plural(len(examples), 'example')}: {len(examples) - failed} as expected, {failed} not"


def _json(examples: Sequence[TestedExample]) -> str:
    failed = sum(bool(one.reason) for one in examples)
    found = {"passed": len(examples) - failed, "failed": failed, "examples": msgspec.to_builtins(list(examples))}
    return json.dumps(found, indent=2) + "\n"


def _junit(examples: Sequence[TestedExample]) -> str:
    by_test: dict[str, list[TestedExample]] = {}
    for one in examples:
        by_test.setdefault(one.test, []).append(one)
    suites = "".join(
        f" <testsuite name={_attribute(test)} {_numbers(members)}>\n{''.join(map(_case, members))} </testsuite>\n"
        for test, members in by_test.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {_numbers(examples)}>\n{suites}</testsuites>\n'


def _numbers(examples: Sequence[TestedExample]) -> str:
    failed = sum(bool(one.reason) for one in examples)
    return f'tests="{len(examples)}" failures="{failed}" errors="0" skipped="0"'


def _case(one: TestedExample) -> str:
    owner, name = f"{one.test}.{one.rule}", f"{one.example} {one.subject}"
    start = f"  <testcase classname={_attribute(owner)} name={_attribute(name)}"
    if not one.reason:
        return f"{start}/>\n"
    body = escape(printable(f"{one.place}: {one.reason}"))
    failure = f"   <failure type={_attribute(one.rule)} message={_attribute(one.reason)}>{body}</failure>\n"
    return f"{start}>\n{failure}  </testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(printable(text))

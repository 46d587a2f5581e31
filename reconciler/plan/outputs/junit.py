"""The JUnit output: one test case per source file, which fails if the file has errors."""

from xml.sax.saxutils import escape, quoteattr

from reconciler.console.printable import printable
from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import Plan
from reconciler.plan.outputs.findings import Category, Finding, Level, findings

_WHOLE_PLAN = "whole plan"


def render_junit(plan: Plan, _: RenderOptions = DEFAULTS) -> str:
    """Render one suite, with a case for each file that has findings or changed objects.

    Errors, denials and exceeded budgets are failures; warnings, notes and risks are output of the case. Control
    characters are escaped, because XML allows none.
    """
    cases: dict[str, list[Finding]] = {}
    for change in plan.changes:
        if change.source is not None:
            cases.setdefault(change.source.path, [])
    for finding in findings(plan):
        if finding.category is not Category.EXCEPTED:
            cases.setdefault(finding.place.path if finding.place else _WHOLE_PLAN, []).append(finding)
    failed = sum(any(finding.level is Level.ERROR for finding in members) for members in cases.values())
    numbers = f'tests="{len(cases)}" failures="{failed}" errors="0" skipped="0"'
    body = "".join(_case(path, members) for path, members in sorted(cases.items()))
    suite = f' <testsuite name="gpu-reconciler" {numbers}>\n{body} </testsuite>\n'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {numbers}>\n{suite}</testsuites>\n'


def _case(path: str, members: list[Finding]) -> str:
    folder, _, _ = path.rpartition("/")
    errors = [finding for finding in members if finding.level is Level.ERROR]
    others = [finding for finding in members if finding.level is not Level.ERROR]
    start = f"  <testcase classname={_attribute(folder or '.')} name={_attribute(path)}"
    if not members:
        return f"{start}/>\n"
    parts = [f"{start}>\n"]
    if errors:
        # Most readers accept one failure per case, so all errors of a file share it.
        title = errors[0].sentence if len(errors) == 1 else f"{len(errors)} errors; {errors[0].sentence}"
        body = escape("\n".join(_line(finding) for finding in errors))
        parts.append(f"   <failure type={_attribute(errors[0].rule)} message={_attribute(title)}>{body}</failure>\n")
    if others:
        parts.append(f"   <system-out>{escape(chr(10).join(_line(finding) for finding in others))}</system-out>\n")
    return "".join([*parts, "  </testcase>\n"])


def _line(finding: Finding) -> str:
    place = f"{finding.place}: " if finding.place else ""
    return printable(f"{finding.level.value}: {place}{finding.sentence} [{finding.rule}]")


def _attribute(text: str) -> str:
    return quoteattr(printable(text))

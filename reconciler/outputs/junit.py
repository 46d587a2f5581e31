"""A plan in, JUnit XML out: one test case per source file, failed by every error in it."""

from xml.sax.saxutils import escape, quoteattr

from reconciler.core.plan import Plan
from reconciler.outputs.findings import Finding, Kind, Level, findings
from reconciler.outputs.printable import printable
from reconciler.outputs.registry import DEFAULTS, RenderOptions

_ELSEWHERE = "the plan as a whole"


def render_junit(plan: Plan, _: RenderOptions = DEFAULTS) -> str:
    """Write one suite. Its cases are the files with findings and the files of changed objects.

    Errors, denials and exceeded budgets are failures; warnings and risks are the case's output. Everything is escaped:
    XML knows no control characters at all.
    """
    cases: dict[str, list[Finding]] = {}
    for change in plan.changes:
        if change.source is not None:
            cases.setdefault(change.source.path, [])
    for finding in findings(plan):
        if finding.kind is not Kind.EXCEPTED:
            cases.setdefault(finding.place.path if finding.place else _ELSEWHERE, []).append(finding)
    failed = sum(any(finding.level is Level.ERROR for finding in found) for found in cases.values())
    numbers = f'tests="{len(cases)}" failures="{failed}" errors="0" skipped="0"'
    body = "".join(_case(path, found) for path, found in sorted(cases.items()))
    suite = f' <testsuite name="gpu-reconciler" {numbers}>\n{body} </testsuite>\n'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {numbers}>\n{suite}</testsuites>\n'


def _case(path: str, found: list[Finding]) -> str:
    folder, _, _ = path.rpartition("/")
    errors = [finding for finding in found if finding.level is Level.ERROR]
    others = [finding for finding in found if finding.level is not Level.ERROR]
    start = f"  <testcase classname={_attribute(folder or '.')} name={_attribute(path)}"
    if not found:
        return f"{start}/>\n"
    parts = [f"{start}>\n"]
    if errors:
        # Most readers take one failure a case, so that all errors of a file share one.
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

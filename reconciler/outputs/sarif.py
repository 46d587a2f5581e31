"""A plan in, SARIF 2.1.0 out: every finding with its rule, at the line of the source that it is about."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from reconciler.core.plan import Plan
from reconciler.core.plan.risks import RISKS
from reconciler.outputs.findings import Finding, Kind, findings
from reconciler.outputs.printable import clip, printable
from reconciler.outputs.registry import DEFAULTS, RenderOptions
from reconciler.outputs.summary import plural

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5_000
"""GitHub's code scanning keeps 5,000 results of a run and refuses a file with more than 25,000."""

_LONGEST = 2_000  # characters of one message
_SETTINGS = "reconciler.yaml"  # where budgets are set: the place of what has none of its own


def render_sarif(plan: Plan, _: RenderOptions = DEFAULTS, *, limit: int = MOST_RESULTS) -> str:
    """Write one run with at most `limit` results, errors first; what was left out is counted in a notification.

    A rule without a text of its own is described by its first finding. A denial that an exception allows is a
    suppressed result.
    """
    found = findings(plan)
    shown, left = found[:limit], len(found) - limit
    descriptors = list(_descriptors(shown))
    positions = {descriptor["id"]: position for position, descriptor in enumerate(descriptors)}
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if left > 0:
        text = f"{plural(left, 'more finding')} left out: `reconciler lint` shows all"
        invocation["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": text}}]
    run = {
        "tool": {"driver": {"name": "gpu-reconciler", "version": printable(plan.engine), "rules": descriptors}},
        "automationDetails": {"id": "gpu-reconciler/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": list(_results(shown, positions)),
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=True) + "\n"


def _descriptors(found: Iterable[Finding]) -> Iterator[dict[str, Any]]:
    first: dict[str, Finding] = {}
    for finding in found:
        first.setdefault(_id(finding), finding)
    for rule, finding in sorted(first.items()):
        title = RISKS.get(finding.rule) or _words(finding.rule)
        yield {
            "id": rule,
            "name": _pascal(finding.rule),
            "shortDescription": {"text": _text(title)},
            "fullDescription": {"text": _text(title)},
            "help": {"text": _text(finding.hint or title)},
            "defaultConfiguration": {"level": finding.level.value},
            "properties": {"tags": [finding.kind.value]},
        }


def _results(found: Iterable[Finding], positions: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    seen: Counter[str] = Counter()
    for finding in found:
        mark = _fingerprint(finding)
        seen[mark] += 1
        result = {
            "ruleId": _id(finding),
            "ruleIndex": positions[_id(finding)],
            "level": finding.level.value,
            "message": {"text": _text(finding.sentence)},
            "locations": [_location(finding)],
            "partialFingerprints": {"reconcilerFinding/v1": f"{mark}:{seen[mark]}"},
        }
        if finding.kind is Kind.EXCEPTED:
            result["suppressions"] = [{"kind": "external", "justification": "an exception file allows it"}]
        yield result


def _location(finding: Finding) -> dict[str, Any]:
    path = finding.place.path if finding.place else _SETTINGS
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(path), "uriBaseId": "%SRCROOT%"}}
    region = {}
    if finding.place and finding.place.line:
        region["startLine"] = finding.place.line
        if finding.place.column:
            region["startColumn"] = finding.place.column
    # Viewers show a result without a line nowhere; the first line stands for the file.
    physical["region"] = region or {"startLine": 1}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.subject:
        location["logicalLocations"] = [{"fullyQualifiedName": printable(finding.subject), "kind": "object"}]
    return location


def _uri(path: str) -> str:
    """Write a path as a relative reference: a colon in its first step would read as a scheme."""
    return quote(path.encode("utf-8", "surrogatepass"), safe="/")


def _fingerprint(finding: Finding) -> str:
    """Name a finding by what it is about, not by its line, so that edits above it do not make it a new alert."""
    path = finding.place.path if finding.place else ""
    parts = (finding.rule, path, finding.subject, finding.field, finding.message)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _id(finding: Finding) -> str:
    return clip(printable(finding.rule), 200) or "unknown"


def _words(rule: str) -> str:
    return " ".join(re.split(r"[^A-Za-z0-9]+", rule)).strip().capitalize() or "Unknown"


def _pascal(rule: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", rule)) or "Unknown"


def _text(text: str) -> str:
    """Write plain text: `[x](y)` would be a link in it."""
    return clip(printable(text), _LONGEST).replace("](", "] (")

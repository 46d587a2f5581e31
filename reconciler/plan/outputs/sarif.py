"""The SARIF 2.1.0 output: every finding with its rule, at its line in the sources."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from reconciler.console.printable import clip, printable
from reconciler.kube.values import plural
from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import Plan
from reconciler.plan.outputs.findings import Category, Finding, findings
from reconciler.plan.risks import RISKS

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MAX_RESULTS = 5_000
"""GitHub code scanning shows 5,000 results per run and rejects files with more than 25,000."""

_RISKS = {risk.rule: risk.summary for risk in RISKS}
_MAX_TEXT = 2_000  # characters of one message
_NO_PLACE = "reconciler.yaml"  # of findings without a place: budgets are set there


def render_sarif(plan: Plan, _: RenderOptions = DEFAULTS, *, limit: int = MAX_RESULTS) -> str:
    """Render one run with at most `limit` results, errors first. A notification counts the others.

    A rule without a text of its own is described by its first finding. A denial that an exception allows is a
    suppressed result.
    """
    everything = findings(plan)
    shown, left = everything[:limit], len(everything) - limit
    descriptors = list(_descriptors(shown))
    positions = {descriptor["id"]: position for position, descriptor in enumerate(descriptors)}
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if left > 0:
        text = f"{plural(left, 'more finding')} omitted; run `reconciler lint` to see all"
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


def _descriptors(members: Iterable[Finding]) -> Iterator[dict[str, Any]]:
    first: dict[str, Finding] = {}
    for finding in members:
        first.setdefault(_id(finding), finding)
    for rule, finding in sorted(first.items()):
        title = _RISKS.get(finding.rule) or _words(finding.rule)
        yield {
            "id": rule,
            "name": _pascal(finding.rule),
            "shortDescription": {"text": _text(title)},
            "fullDescription": {"text": _text(title)},
            "help": {"text": _text(finding.hint or title)},
            "defaultConfiguration": {"level": finding.level.value},
            "properties": {"tags": [finding.category.value]},
        }


def _results(members: Iterable[Finding], positions: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    occurrences: Counter[str] = Counter()
    for finding in members:
        fingerprint = _fingerprint(finding)
        occurrences[fingerprint] += 1
        result = {
            "ruleId": _id(finding),
            "ruleIndex": positions[_id(finding)],
            "level": finding.level.value,
            "message": {"text": _text(finding.sentence)},
            "locations": [_location(finding)],
            "partialFingerprints": {"reconcilerFinding/v1": f"{fingerprint}:{occurrences[fingerprint]}"},
        }
        if finding.category is Category.EXCEPTED:
            result["suppressions"] = [{"kind": "external", "justification": "allowed by an exception"}]
        yield result


def _location(finding: Finding) -> dict[str, Any]:
    path = finding.place.path if finding.place else _NO_PLACE
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(path), "uriBaseId": "%SRCROOT%"}}
    region = {}
    if finding.place and finding.place.line:
        region["startLine"] = finding.place.line
        if finding.place.column:
            region["startColumn"] = finding.place.column
    # Viewers do not show results without a line, so findings about a whole file are at its first line.
    physical["region"] = region or {"startLine": 1}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.subject:
        location["logicalLocations"] = [{"fullyQualifiedName": printable(finding.subject), "kind": "object"}]
    return location


def _uri(path: str) -> str:
    """Quote a path as a relative reference, so that a colon in its first step is not read as a scheme."""
    return quote(path.encode("utf-8", "surrogatepass"), safe="/")


def _fingerprint(finding: Finding) -> str:
    """Return an id that does not depend on the line, so that edits above a finding do not make it a new alert."""
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
    """Return plain text in which `[x](y)` is not a link."""
    return clip(printable(text), _MAX_TEXT).replace("](", "] (")

"""Findings of one node: as a table, as JSON, for Nagios and for Prometheus."""

import json
from collections.abc import Iterator, Sequence

import msgspec

from reconciler.kube.values import plural
from reconciler.nodehealth.findings import CheckStatus, HealthFinding
from reconciler.nodehealth.readings import Sweep

FORMATS = ("table", "json", "nagios", "prometheus")
_WORST = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.WARN, CheckStatus.PASS)
_NAGIOS = {CheckStatus.PASS: 0, CheckStatus.WARN: 1, CheckStatus.FAIL: 2, CheckStatus.UNKNOWN: 3}
_NPD = {CheckStatus.PASS: 0, CheckStatus.WARN: 0, CheckStatus.FAIL: 1, CheckStatus.UNKNOWN: 2}
_PREFLIGHT = {**dict.fromkeys(CheckStatus, 0), CheckStatus.FAIL: 42}
EXIT_CODES = {
    "nagios": _NAGIOS,
    "npd": _NPD,
    "preflight": _PREFLIGHT,
    "preflight-closed": {**_PREFLIGHT, CheckStatus.UNKNOWN: 42},
}
"""Exit codes by style. Node Problem Detector knows no warning: a problem there is a failure.

A preflight check stops its job with 42, for bad hardware alone; closed, also if it could not measure.
"""
_WORDS = {
    CheckStatus.PASS: "OK",
    CheckStatus.WARN: "WARNING",
    CheckStatus.FAIL: "CRITICAL",
    CheckStatus.UNKNOWN: "UNKNOWN",
}


def worst(findings: Sequence[HealthFinding]) -> CheckStatus:
    """Return the worst status: FAIL, UNKNOWN, WARN, PASS. UNKNOWN if every check was skipped."""
    found = {finding.status for finding in findings}
    return next((status for status in _WORST if status in found), CheckStatus.UNKNOWN)


def render(form: str, sweep: Sweep, findings: Sequence[HealthFinding]) -> str:
    """Return the findings in one of the formats."""
    return {"table": _table, "json": _json, "nagios": _nagios, "prometheus": _prometheus}[form](sweep, findings)


def _table(sweep: Sweep, findings: Sequence[HealthFinding]) -> str:
    """Return what is wrong first, then what passed, and skipped checks by reason."""
    rows = _rows(sweep, findings)
    widths = [max((len(row[column]) for row in rows), default=0) + 2 for column in (1, 2)]
    lines = [_headline(sweep, findings)]
    lines += [f"{status:<8}{subject:<{widths[0]}}{check:<{widths[1]}}{said}" for status, subject, check, said in rows]
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        if finding.status is CheckStatus.SKIP:
            ids = reasons.setdefault(finding.message, [])
            ids += [finding.check] if finding.check not in ids else []
    lines += [f"SKIP    {', '.join(ids)}: {reason}" for reason, ids in reasons.items()]
    return "\n".join(lines) + "\n"


def _rows(sweep: Sweep, findings: Sequence[HealthFinding]) -> list[tuple[str, str, str, str]]:
    """Return status, subject, check and message; GPUs that say the same are one row, unless something is wrong."""
    rows: list[tuple[str, str, str, str]] = []
    for status in (CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.UNKNOWN, CheckStatus.PASS):
        slots: dict[tuple[str, str, str], list[str]] = {}
        for finding in findings:
            if finding.status is status:
                own = finding.slot if status in {CheckStatus.FAIL, CheckStatus.WARN} else ""
                slots.setdefault((finding.check, _said(finding), own), []).append(finding.slot)
        for (check, said, _), same in slots.items():
            count = "all GPUs" if len(same) == len(sweep.gpus) else plural(len(same), "GPU")
            rows.append((status, (same[0] or "node") if len(same) == 1 else count, check, said))
    return rows


def _headline(sweep: Sweep, findings: Sequence[HealthFinding]) -> str:
    counts = {status: sum(finding.status is status for finding in findings) for status in CheckStatus}
    products = sorted({gpu.product for gpu in sweep.gpus if gpu.product})
    gpus = plural(len(sweep.gpus), "GPU") + (f" ({', '.join(products)})" if products else "")
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return f"{sweep.node}: {worst(findings)}: {gpus}{f', driver {sweep.driver}' if sweep.driver else ''}; {said}"


def _said(finding: HealthFinding) -> str:
    """Return the message with severity, action and limit, where they matter."""
    if finding.status not in {CheckStatus.FAIL, CheckStatus.WARN}:
        return finding.message
    parts = [str(finding.severity), f"action {finding.action}"]
    if finding.threshold is not None:
        limit = finding.threshold
        parts.append(f"limit {_plain(limit.value)} {finding.unit} ({limit.source})")
    return f"{finding.message} [{'; '.join(parts)}]"


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _json(sweep: Sweep, findings: Sequence[HealthFinding]) -> str:
    report = {
        "node": sweep.node,
        "status": worst(findings),
        "takenAt": sweep.taken_at,
        "bootId": sweep.boot_id,
        "driver": sweep.driver,
        "gpus": msgspec.to_builtins(sweep.gpus),
        "findings": msgspec.to_builtins(findings),
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _nagios(sweep: Sweep, findings: Sequence[HealthFinding]) -> str:
    """Return one line as plugins of Nagios print it, then one line for each finding that is not good."""
    status = worst(findings)
    bad = [
        finding for finding in findings if finding.status in {CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.UNKNOWN}
    ]
    first = next((finding for finding in bad if finding.status is status), None)
    text = _nagios_text(f"{first.check} {first.slot} {first.message}" if first else plural(len(sweep.gpus), "GPU"))
    counts = " ".join(f"{each.lower()}={sum(finding.status is each for finding in findings)}" for each in CheckStatus)
    lines = [f"GPU {_WORDS[status]} - {text} | {counts}"]
    lines += [_nagios_text(f"{finding.status} {finding.check} {finding.slot} {finding.message}") for finding in bad]
    return "\n".join(lines) + "\n"


def _nagios_text(text: str) -> str:
    """Return one line without `|`, which would start the figures."""
    return " ".join(text.replace("|", "/").split())


def _prometheus(sweep: Sweep, findings: Sequence[HealthFinding]) -> str:
    """Return the text format, as the textfile collector of the node exporter reads it."""
    return "\n".join(_samples(sweep, findings)) + "\n"


def _samples(sweep: Sweep, findings: Sequence[HealthFinding]) -> Iterator[str]:
    yield "# HELP reconciler_probe_status Status of a check; the value is 1."
    yield "# TYPE reconciler_probe_status gauge"
    for finding in findings:
        labels = _labels(check=finding.check, slot=finding.slot, status=finding.status)
        yield f"reconciler_probe_status{labels} 1"
    yield "# HELP reconciler_probe_observed Value that a check has observed."
    yield "# TYPE reconciler_probe_observed gauge"
    for finding in findings:
        if isinstance(finding.observed, int | float):
            labels = _labels(check=finding.check, slot=finding.slot, unit=finding.unit)
            yield f"reconciler_probe_observed{labels} {float(finding.observed)!r}"
    yield "# HELP reconciler_probe_timestamp_seconds When the node was read."
    yield "# TYPE reconciler_probe_timestamp_seconds gauge"
    yield f"reconciler_probe_timestamp_seconds {sweep.taken_at!r}"


def _labels(**labels: str) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""Diagnostics: the results of `dcgmi diag` in its JSON, and the errors that a job left on its GPUs."""

import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from msgspec import Struct

from reconciler.nodehealth.checks.check import (
    CheckInput,
    CheckResult,
    Unmeasured,
    as_number,
    failed,
    health_checks,
    outcome,
    passed,
    warned,
)
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, Threshold, ThresholdSource
from reconciler.nodehealth.readings import DIAG_READINGS, ReadingId

_SAME = {"memory": "gpu_memory", "ecc": "page_retirement_row_remap", "nvbandwidth": "nvlink"}
"""Names of tests that mean the same in another version."""


_UNUSABLE, _USABLE = (2, 6), (1, 5)
"""Severities of DCGM: isolate or reset the GPU; monitor it, or change a setting. The others leave it to the test."""


class DiagResult(Struct, frozen=True, kw_only=True):
    """The result of one test for one GPU, or for all. `path` is `<top>.<category>.<test>`, each plain."""

    path: str
    name: str
    gpu: str
    status: str
    text: str = ""
    severities: tuple[int, ...] = ()  # of DCGM 4
    errors: tuple[int, ...] = ()


def plain(name: str) -> str:
    """Return a name as names are compared: lower case, with `_` for spaces and slashes."""
    return re.sub(r"[\\/|\s]+", "_", name.strip().lower())


def diag_results(document: Any) -> Iterator[DiagResult]:
    """Yield the results in the JSON of `dcgmi diag`, of version 3 and 4."""
    for top, body in document.items() if isinstance(document, dict) else ():
        for category in _rows(body, "test_categories"):
            for test in _rows(category, "tests"):
                name = str(test.get("name", ""))
                path = ".".join(map(plain, (top, str(category.get("category", "")), name)))
                for result in _rows(test, "results"):
                    yield DiagResult(
                        path=path,
                        name=name,
                        gpu=_gpu(result),
                        status=_STATUSES.get(status := plain(str(result.get("status", ""))), status),
                        text=_text(result),
                        severities=_numbers(result, "error_severity"),
                        errors=_numbers(result, "error_id"),
                    )


_STATUSES = {"skipped": "skip", "passed": "pass", "failed": "fail", "warning": "warn", "notrun": "not_run"}


def _numbers(result: dict[str, Any], key: str) -> tuple[int, ...]:
    found = (as_number(row.get(key)) for row in _rows(result, "warnings"))
    return tuple(int(number) for number in found if number is not None)


def _run_errors(document: Any) -> str:
    """Return what went wrong with the run as a whole, whatever its tests say."""
    tops = (document, *document.values()) if isinstance(document, dict) else ()
    for body in tops:
        for key in ("global_errors", "runtime_error", "Error"):
            if isinstance(body, dict) and (found := body.get(key)):
                row = found[0] if isinstance(found, list) else found
                return str(row.get("error", row) if isinstance(row, dict) else row)[:200]
    return ""


def _rows(body: Any, key: str) -> list[dict[str, Any]]:
    rows = body.get(key) if isinstance(body, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _gpu(result: dict[str, Any]) -> str:
    """Return the number of the GPU, empty for all of them. Version 4 also reports on CPUs and switches."""
    if "entity_id" in result:
        group = str(result.get("entity_group", "GPU"))
        return str(result["entity_id"]) if group.upper() == "GPU" else f"{plain(group)}{result['entity_id']}"
    found = result.get("gpu_id", result.get("gpu_ids", ""))
    return str(found).strip()


def _text(result: dict[str, Any]) -> str:
    parts = result.get("warnings") or result.get("warning") or result.get("info") or ""
    rows = parts if isinstance(parts, list) else [parts]
    return "; ".join(str(row.get("warning", row)) if isinstance(row, dict) else str(row) for row in rows)


def _diag(given: CheckInput, level: int) -> CheckResult:
    """Judge by names of tests, never by the words of their messages, and never pass without results."""
    name = DIAG_READINGS[level]
    if given.sweep.find(name) is None:
        raise Unmeasured(CheckStatus.SKIP, f"level {level} is not part of this run")
    found = given.table(name)
    results = _chosen(given, [*diag_results(found.get("output"))])
    bad = [result for result in results if result.status == "fail"]
    code = as_number(found.get("exitCode"))
    if bad:
        return _failed(given, bad, len(results))
    if code != 0:
        message = f": {found['message']}" if found.get("message") else ""
        raise Unmeasured(CheckStatus.UNKNOWN, f"dcgmi ended with exit code {found.get('exitCode')}{message}")
    if errors := _run_errors(found.get("output")):
        raise Unmeasured(CheckStatus.UNKNOWN, f"dcgmi could not run as it should: {errors}")
    odd = sorted({result.status for result in results} - {"pass", "skip", "warn", "not_run"})
    if odd or not results:
        raise Unmeasured(
            CheckStatus.UNKNOWN, f"dcgmi printed the status {odd[0]!r}" if odd else "dcgmi printed no results"
        )
    good = [result for result in results if result.status == "pass"]
    doubtful = [result for result in results if result.status == "warn"]
    if doubtful:
        return warned(f"warnings of {_listed(doubtful)}{_reason(doubtful)}", _listed(doubtful), samples=len(results))
    if not good:
        raise Unmeasured(CheckStatus.SKIP, "dcgmi skipped all tests")
    return passed(f"{len(good)} tests of level {level} passed", samples=len(good))


def _chosen(given: CheckInput, results: list[DiagResult]) -> list[DiagResult]:
    """Return the results to judge. A path that names nothing is not a pass."""
    paths = {
        ".".join(map(plain, path.split("."))) for path in str(given.threshold("paths").value).split(",") if path.strip()
    }
    if not paths:
        return results
    missing = sorted(paths - {result.path for result in results})
    chosen = [result for result in results if result.path in paths]
    if missing and not any(result.status == "fail" for result in chosen):
        raise Unmeasured(CheckStatus.UNKNOWN, f"dcgmi has no result {', '.join(missing)}")
    return chosen


def _failed(given: CheckInput, bad: list[DiagResult], samples: int) -> CheckResult:
    """FAIL for a GPU that DCGM calls unusable, and for a test of the fatal list where DCGM says neither; else WARN."""
    threshold = given.threshold("fatal")
    fatal = {_name(name) for name in str(threshold.value).split(",") if name.strip()}
    is_fatal = any(_is_fatal(result, fatal) for result in bad)
    return outcome(
        CheckStatus.FAIL if is_fatal else CheckStatus.WARN,
        f"failed: {_listed(bad)}{_reason(bad)}",
        _listed(bad),
        threshold,
        severity=FindingSeverity.FATAL if is_fatal else FindingSeverity.DEGRADED,
        samples=samples,
    )


def _is_fatal(result: DiagResult, fatal: Collection[str]) -> bool:
    if any(severity in _UNUSABLE for severity in result.severities):
        return True
    is_usable = result.severities and all(severity in _USABLE for severity in result.severities)
    return not is_usable and _name(result.name) in fatal


def _name(name: str) -> str:
    return _SAME.get(plain(name), plain(name))


def _listed(results: list[DiagResult]) -> str:
    """Return names of tests with their GPUs: `pcie.0.3,software`."""
    gpus: dict[str, list[str]] = {}
    for result in results:
        mine = gpus.setdefault(plain(result.name), [])
        if result.gpu and result.gpu not in mine:
            mine.append(result.gpu)
    return ",".join(".".join((name, *mine)) for name, mine in gpus.items())


def _reason(results: list[DiagResult]) -> str:
    worst = next((result for result in results if result.text), None)
    if worst is None:
        return ""
    return f" ({worst.text}{f'; error {worst.errors[0]} of DCGM' if worst.errors else ''})"


JOB_ERRORS = "job.errors"
_AN_HOUR = {
    "ecc.corrected": "corrected memory errors",
    "pcie.replays": "PCIe replays",
    "nvlink.errors": "NVLink errors",
}
_LIMITS = {"ecc.corrected": "correctedAnHour", "pcie.replays": "replaysAnHour", "nvlink.errors": "linkErrorsAnHour"}
_DESTROYED = {"ecc.uncorrected": "uncorrected memory errors", "pcie.fatal": "fatal PCIe errors"}


def _job_errors(given: CheckInput) -> CheckResult:
    """Judge how much counters of errors grew from the start of a job to its end, which the controller knows."""
    if given.sweep.find(ReadingId.JOB_ERRORS, given.slot) is None:
        raise Unmeasured(CheckStatus.SKIP, "counted by the controller when a job ends")
    grown = given.table(ReadingId.JOB_ERRORS)
    hours = max(given.field(ReadingId.JOB_ERRORS, "seconds") / 3600, 1.0)
    counts = {name: as_number(grown.get(name)) or 0.0 for name in (*_DESTROYED, *_AN_HOUR)}
    named = {**_DESTROYED, **_AN_HOUR}
    text = ", ".join(f"{count:g} {named[name]}" for name, count in counts.items() if count) or "no errors"
    total = sum(counts.values())
    for name in _DESTROYED:
        if counts[name]:
            return failed(text, total, Threshold(value=0, source=ThresholdSource.SPEC))
    for name, limited in _LIMITS.items():
        if counts[name] > given.limit(limited) * hours:
            return warned(text, total, given.threshold(limited))
    return passed(text, total)


CHECKS = health_checks(
    "diagnostics",
    {**{f"dcgm.level{level}": partial(_diag, level=level) for level in DIAG_READINGS}, JOB_ERRORS: _job_errors},
)

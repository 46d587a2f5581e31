"""Errors that follow from the error of another file: a queue that cannot be read, and the jobs that name it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from reconciler.core.policy.verdict import Result, Verdict
from reconciler.core.problems import Problem, Severity
from reconciler.core.values import plural
from reconciler.index.build import CompiledRevision, Runtime, read_files
from reconciler.index.dependencies import DefinitionDependency, decode_dependencies
from reconciler.planning.findings import PlanFindings

_NO_DEFINITION = "torchrun.queue-unknown"
_NO_OBJECT = "reference."
_MAX_FILES = 3  # in one message


def fold_consequences(runtime: Runtime, index: CompiledRevision, findings: PlanFindings) -> PlanFindings:
    """Replace what is missing only because its file has errors by one note at that file.

    The files of what needs it are `blocked`: what they rendered stays as it is.
    """
    missing = {finding: names for finding in _candidates(findings) if (names := _missing_names(index, finding))}
    texts = _broken_files(runtime, index, findings.problems) if missing else {}
    waiting: dict[str, list[Problem | Verdict]] = {}
    for finding, names in missing.items():
        for path, text in texts.items():
            if path != finding.place.path and _may_define(text, names):
                waiting.setdefault(path, []).append(finding)
                break
    if not waiting:
        return findings
    folded = {finding for found in waiting.values() for finding in found}
    notes = [_note(findings.problems, path, found) for path, found in waiting.items()]
    problems = [*(problem for problem in findings.problems if problem not in folded), *notes]
    return replace(
        findings,
        problems=tuple(sorted(problems, key=lambda problem: problem.sort_key)),
        verdicts=tuple(verdict for verdict in findings.verdicts if verdict not in folded),
        blocked=frozenset(finding.place.path for finding in folded),
    )


def _candidates(findings: PlanFindings) -> Iterator[Problem | Verdict]:
    yield from (problem for problem in findings.problems if problem.rule == _NO_DEFINITION)
    yield from (
        verdict
        for verdict in findings.verdicts
        if verdict.rule.startswith(_NO_OBJECT) and verdict.result in (Result.DENY, Result.WARN)
    )


def _missing_names(index: CompiledRevision, finding: Problem | Verdict) -> frozenset[tuple[str, str]]:
    """Return the kinds and names of the definitions or objects that a finding misses."""
    if isinstance(finding, Problem):
        definitions = index.context.definitions
        return frozenset(
            (needed.kind, needed.name)
            for needed in decode_dependencies(index.records[finding.place.path].dependencies)
            if isinstance(needed, DefinitionDependency)
            and needed.name not in definitions.get((needed.cluster, (needed.group, needed.kind), needed.namespace), ())
        )
    path = index.context.kinds.manifest_path(finding.cluster, finding.key)
    rows = index.summaries([path]).values() if path in index.sources else ()
    return frozenset((one.kind, one.name) for row in rows for one in row.references if one.field == finding.field)


def _broken_files(runtime: Runtime, index: CompiledRevision, problems: Sequence[Problem]) -> Mapping[str, bytes]:
    """Return the source files with errors of their own that may define what other files need."""
    sources = index.revision.files.sources
    paths = {
        problem.place.path
        for problem in problems
        if problem.severity is Severity.ERROR and problem.rule != _NO_DEFINITION
    }
    return dict(read_files(runtime.repository, sources, sorted(path for path in paths if path in sources)))


def _may_define(text: bytes, names: Collection[tuple[str, str]]) -> bool:
    """Return whether a file that has errors may define one of these objects. A TorchrunQueue renders to a Queue."""
    return any(
        kind.encode() in text and re.search(_NAMED % re.escape(name.encode()), text) is not None for kind, name in names
    )


_NAMED = rb"""\b(?:name|kaiQueue)["']?\s*:\s*["']?%s(?:["'\s,}]|$)"""


def _note(problems: Sequence[Problem], path: str, found: Sequence[Problem | Verdict]) -> Problem:
    place = next(one.place for one in problems if one.place.path == path and one.severity is Severity.ERROR)
    files = sorted({finding.place.path for finding in found})
    count = len({str(finding.place) for finding in found})
    shown = ", ".join(files[:_MAX_FILES]) + (" …" if len(files) > _MAX_FILES else "")
    message = f"{plural(count, 'reference')} to what it defines in {plural(len(files), 'other file')}: {shown}"
    return Problem(
        rule="source.referenced",
        place=place,
        message=message,
        hint="their objects are left unchanged until this file is valid",
        severity=Severity.NOTE,
    )

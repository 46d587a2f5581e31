"""New generations: jobs that a change must replace get a new name before the plan is made.

The name depends on the sources and on the head's own `rendered/`, which holds the names that are in use: `plan`,
`commit` and `verify` compute the same, whatever they compare with.
"""

import msgspec
from msgspec.structs import replace

from reconciler.core.manifests.generations import base_path, next_suffix
from reconciler.core.plan.replacements import is_replaced
from reconciler.core.problems import Problem, Severity
from reconciler.index.build import CompiledRevision, Runtime, compile_again
from reconciler.index.renderer import Renderer
from reconciler.index.workers import in_parallel
from reconciler.planning.baseline import Baseline
from reconciler.planning.updates import compare_updates

_suffixes = msgspec.msgpack.Decoder(dict[str, str])


def assign_generations(
    runtime: Runtime, index: CompiledRevision, own: Baseline
) -> tuple[CompiledRevision, tuple[Problem, ...]]:
    """Return the index with new names for jobs that must be replaced, and why some cannot get one.

    own: the head's `rendered/`.
    """
    if not any(record.replaceable for record in index.records.values()):
        return index, ()
    paths = [path for path in own.differing(index.desired) if index.is_replaceable(path)]
    paths = [path for path, found in own.objects(paths).items() if found.is_owned]
    updates = compare_updates(runtime, index, Renderer(runtime, index), own, paths)
    config, kinds = index.context.config, index.context.kinds
    chosen = {path for path, update in updates.items() if is_replaced(update.comparison, config, kinds)}
    if not chosen:
        return index, ()
    renamed = _rename(runtime, index, chosen)
    problems = {path: _new_errors(index, renamed, path) for path in sorted(chosen)}
    if any(problems.values()):
        chosen = {path for path in chosen if not problems[path]}
        renamed = _rename(runtime, index, chosen) if chosen else index
    return renamed, tuple(dict.fromkeys(problem for found in problems.values() for problem in found))


def _rename(runtime: Runtime, index: CompiledRevision, paths: set[str]) -> CompiledRevision:
    generations = {**index.context.generations, **_next_suffixes(runtime, index, paths)}
    return compile_again(runtime, index, replace(index.context, generations=generations), paths)


def _new_errors(before: CompiledRevision, after: CompiledRevision, path: str) -> list[Problem]:
    """Return the errors that a source file has only under a new name, such as a name that is too long."""
    source = before.sources[path]
    known = before.records[source].findings.problems
    found = after.records[source].findings.problems
    return [problem for problem in found if problem.severity is Severity.ERROR and problem not in known]


def _next_suffixes(runtime: Runtime, index: CompiledRevision, paths: set[str]) -> dict[str, str]:
    """Return the new suffixes of rendered paths, by the path of each object under its own name."""
    current = index.context.generations
    bases = {path: base_path(path) if base_path(path) in current else path for path in sorted(paths)}
    others = {base: suffix for base, suffix in current.items() if base not in bases.values()}
    plain = Renderer(runtime, replace(index, context=replace(index.context, generations=others), compiled={}))
    groups = plain.group(bases)
    sources = list(groups)

    def work(positions: range) -> list[bytes]:
        chosen = [sources[position] for position in positions]
        compiled = zip(chosen, plain.compile(chosen), strict=True)
        return [
            msgspec.msgpack.encode(
                {
                    base: next_suffix(objects[base].content, current.get(base, ""))
                    for base in (bases[path] for path in groups[source])
                    if base in objects
                }
            )
            for source, objects in compiled
        ]

    suffixes: dict[str, str] = {}
    with runtime.progress("naming", len(sources)) as advance:
        for raw in in_parallel(work, len(sources), processes=runtime.processes, advance=advance):
            suffixes.update(_suffixes.decode(raw))
    return suffixes

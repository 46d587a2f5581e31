"""New generations: jobs that a change must replace get a new name before the plan is made.

The name depends on the sources and on the head's own `rendered/`, which holds the names that are in use: `plan`,
`commit` and `verify` compute the same, whatever they compare with.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from reconciler.core.documents import read
from reconciler.core.manifests.generations import base_path, next_suffix
from reconciler.core.plan.comparison import needs_new_object
from reconciler.core.problems import Problem, Severity
from reconciler.index.build import CompiledRevision, Runtime, compile_again
from reconciler.index.renderer import Renderer
from reconciler.index.workers import in_parallel
from reconciler.planning.baseline import Baseline

_suffixes = msgspec.msgpack.Decoder(dict[str, str])


def assign_generations(
    runtime: Runtime, index: CompiledRevision, own: Baseline
) -> tuple[CompiledRevision, tuple[Problem, ...]]:
    """Return the index with new names for jobs that must be replaced, and why some cannot get one.

    own: the head's `rendered/`.
    """
    paths = [path for path in own.differing(index.desired) if index.is_replaceable(path)]
    paths = [path for path, found in own.objects(paths).items() if found.is_owned]
    contents = Renderer(runtime, index).contents(paths) if paths else {}
    chosen = _find_replaced(runtime, index, own, contents)
    if not chosen:
        return index, ()
    renamed = _rename(runtime, index, chosen)
    problems = {path: _new_errors(index, renamed, path) for path in sorted(chosen)}
    if any(problems.values()):
        chosen = {path: content for path, content in chosen.items() if not problems[path]}
        renamed = _rename(runtime, index, chosen) if chosen else index
    return renamed, tuple(dict.fromkeys(problem for found in problems.values() for problem in found))


def _find_replaced(
    runtime: Runtime, index: CompiledRevision, own: Baseline, contents: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return those of the changed jobs whose pods get the change only from a new object."""
    paths, kinds, schemas = list(contents), index.context.kinds, index.context.catalogue
    renderer = Renderer(runtime, index)

    def is_replaced(path: str) -> bool:
        (after,) = read(path, contents[path]).documents
        before = own.body(path)
        return before is not None and needs_new_object(
            kinds,
            schemas,
            after.key,
            before,
            after.data,
            own_choice=lambda: renderer.object(path).manifest.on_immutable_change,
        )

    def work(positions: range) -> list[bytes]:
        return [b"replaced" if is_replaced(paths[position]) else b"" for position in positions]

    with runtime.progress("comparing", len(paths)) as advance:
        results = in_parallel(work, len(paths), processes=runtime.processes, advance=advance)
        return {path: contents[path] for path, found in zip(paths, results, strict=True) if found}


def _rename(runtime: Runtime, index: CompiledRevision, chosen: Mapping[str, bytes]) -> CompiledRevision:
    current = index.context.generations
    renamed = sorted(path for path in chosen if base_path(path) in current)
    new = {path: next_suffix(content, "") for path, content in chosen.items() if base_path(path) not in current}
    generations = {**current, **new, **_next_suffixes(runtime, index, renamed)}
    return compile_again(runtime, index, replace(index.context, generations=generations), chosen)


def _new_errors(before: CompiledRevision, after: CompiledRevision, path: str) -> list[Problem]:
    """Return the errors that a source file has only under a new name, such as a name that is too long."""
    source = before.sources[path]
    known = before.records[source].findings.problems
    found = after.records[source].findings.problems
    return [problem for problem in found if problem.severity is Severity.ERROR and problem not in known]


def _next_suffixes(runtime: Runtime, index: CompiledRevision, paths: list[str]) -> dict[str, str]:
    """Return the next suffixes of jobs that have one, by the path of each job under its own name."""
    current = index.context.generations
    bases = {path: base_path(path) for path in paths}
    others = {base: current[base] for base in current.keys() - set(bases.values())}
    plain = Renderer(runtime, replace(index, context=replace(index.context, generations=others), compiled={}))
    groups = plain.group(bases)
    sources = list(groups)

    def work(positions: range) -> list[bytes]:
        chosen = [sources[position] for position in positions]
        compiled = zip(chosen, plain.compile(chosen), strict=True)
        return [
            msgspec.msgpack.encode(
                {
                    base: next_suffix(objects[base].content, current[base])
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

"""All source files compiled: from memory where nothing they depend on changed, else by the workers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from msgspec import Struct

from reconciler.pipeline.compile import compile_files
from reconciler.pipeline.context import Context, holds_context
from reconciler.pipeline.state import FileState, State, decode_file, summarise
from reconciler.pipeline.workers import in_parallel
from reconciler.ports import Entry, Repository

Advance = Callable[[int], None]
Progress = Callable[[str, int], AbstractContextManager[Advance]]
"""Given a title and a total, counts finished work."""


@contextmanager
def silent(_: str, __: int) -> Iterator[Advance]:
    """Count nothing."""
    yield lambda _: None


class Fresh(Struct, frozen=True, kw_only=True):
    """Files whose bytes had to be read, and for every source file whether others depend on it."""

    contents: Mapping[str, bytes]
    defines: Mapping[str, bool]


def read_fresh(repository: Repository, sources: Mapping[str, Entry], state: State) -> Fresh:
    """Read the files that the state does not know."""
    known = {path: held for path, entry in sources.items() if (held := state.files.get(path)) and held.oid == entry.oid}
    paths = [path for path in sources if path not in known]
    contents = dict(read_files(repository, sources, paths))
    defines = {path: held.defines for path, held in known.items()}
    defines.update((path, holds_context(raw)) for path, raw in contents.items())
    return Fresh(contents=contents, defines=defines)


def read_files(repository: Repository, entries: Mapping[str, Entry], paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Read files by path."""
    return zip(paths, repository.read([entries[path].oid for path in paths]), strict=True)


def compile_all(
    repository: Repository,
    context: Context,
    sources: Mapping[str, Entry],
    *,
    state: State,
    fresh: Fresh,
    processes: int,
    progress: Progress,
) -> dict[str, FileState]:
    """Summarise every source file, in the order of `sources`."""
    unchanged = state.files if state.context == context.digest else {}
    current = {needs: context.queue_digest(needs) == digest for needs, digest in state.queues.items()}
    kept = {
        path: held
        for path, entry in sources.items()
        if (held := unchanged.get(path)) and held.oid == entry.oid and (not held.needs or current[held.needs])
    }
    paths = [path for path in sources if path not in kept]
    contents = {**fresh.contents}
    contents.update(read_files(repository, sources, [path for path in paths if path not in contents]))

    def work(positions: range) -> list[bytes]:
        chosen = [paths[position] for position in positions]
        compiled = compile_files(context, [(path, contents[path]) for path in chosen])
        return [
            summarise(one, oid=sources[path].oid, defines=fresh.defines[path])
            for path, one in zip(chosen, compiled, strict=True)
        ]

    with progress("compiling", len(paths)) as advance:
        results = in_parallel(work, len(paths), processes=processes, advance=advance)
        kept.update((path, decode_file(raw)) for path, raw in zip(paths, results, strict=True))
    return {path: kept[path] for path in sources} if paths else kept

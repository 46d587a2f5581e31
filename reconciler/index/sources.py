"""All source files compiled: from memory where nothing they depend on changed, else by the workers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from msgspec import Struct

from reconciler.index.compile import Compiled, compile_files
from reconciler.index.context import Context, holds_context
from reconciler.index.state import State
from reconciler.index.summary import Sent, receive, send, summarise
from reconciler.index.workers import in_parallel
from reconciler.ports import Repository
from reconciler.revision.listing import Listing

Advance = Callable[[int], None]
Progress = Callable[[str, int], AbstractContextManager[Advance]]
"""Given a title and a total, counts finished work."""
Keeps = Callable[[str, str], bool]
"""Whether the bytes of a rendered object, by path and blob id, will be asked for."""


def nothing(_: str, __: str) -> bool:
    """Keep the bytes of no object."""
    return False


@contextmanager
def silent(_: str, __: int) -> Iterator[Advance]:
    """Count nothing."""
    yield lambda _: None


class Fresh(Struct, frozen=True, kw_only=True):
    """Files whose bytes had to be read, and of all source files those that others depend on, sorted."""

    contents: Mapping[str, bytes]
    defining: tuple[str, ...]


class Compilation(Struct, frozen=True, kw_only=True):
    """The new state; of what was compiled the bytes that `keeps` asks for and, where they are few, the files."""

    state: State
    contents: Mapping[str, bytes]
    compiled: Mapping[str, Compiled]


def read_fresh(repository: Repository, sources: Listing, state: State) -> Fresh:
    """Read the files that the state does not know."""
    differing = state.files.sources.differing(sources)
    contents = dict(read_files(repository, sources, [path for path in differing if path in sources]))
    defining = state.defining.difference(differing) | {path for path, raw in contents.items() if holds_context(raw)}
    return Fresh(contents=contents, defining=tuple(sorted(defining)))


def read_files(repository: Repository, oids: Mapping[str, str], paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Read files by path."""
    return zip(paths, repository.read([oids[path] for path in paths]), strict=True)


def compile_all(
    repository: Repository,
    context: Context,
    sources: Listing,
    *,
    state: State,
    fresh: Fresh,
    keeps: Keeps,
    processes: int,
    progress: Progress,
) -> "Compilation":
    """Summarise every source file of which the state does not hold what it means now."""
    paths = _stale(context, sources, state, fresh)
    contents = {**fresh.contents}
    contents.update(read_files(repository, sources, [path for path in paths if path not in contents]))
    defining = frozenset(fresh.defining)
    made: dict[str, Compiled] = {}

    def work(positions: range) -> list[bytes]:
        chosen = [paths[position] for position in positions]
        compiled = compile_files(context, [(path, contents[path]) for path in chosen])
        if len(paths) <= _FEW:
            made.update(zip(chosen, compiled, strict=True))
        return [
            send(
                Sent(
                    summarise(one, oid=sources[path], defines=path in defining),
                    {each.row.path: each.content for each in one.renderings if keeps(each.row.path, each.row.digest)},
                )
            )
            for path, one in zip(chosen, compiled, strict=True)
        ]

    with progress("compiling", len(paths)) as advance:
        results = in_parallel(work, len(paths), processes=processes, advance=advance)
        sent = {path: receive(raw) for path, raw in zip(paths, results, strict=True)}
    kept = {path: content for one in reversed(sent.values()) for path, content in one.contents.items()}
    if sent or sources != state.files.sources:
        state = state.advanced(sources, {path: one.file for path, one in sent.items()})
    return Compilation(state=state, contents=kept, compiled=made)


_FEW = 20
"""So many compiled files are kept whole: they will be asked for again, to be compared with what was."""


def _stale(context: Context, sources: Listing, state: State, fresh: Fresh) -> list[str]:
    """Return the files to compile: those just read, and those that depend on something that has changed."""
    if state.context != context.digest:
        return list(sources)
    changed = {needs for needs, digest in state.queues.items() if context.queue_digest(needs) != digest}
    if not changed:
        return list(fresh.contents)
    return [path for path in sources if path in fresh.contents or state.files[path].needs in changed]

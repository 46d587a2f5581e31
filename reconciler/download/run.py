"""A run: list the items, fetch what is missing, delete what their sources have no more, write the marker."""

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from reconciler.clock import Clock
from reconciler.download.config import STATE, DownloadConfig
from reconciler.download.confined import PathRefused, open_file, open_folder, refuse_link, write_file
from reconciler.download.items import (
    CHUNK_BYTES,
    Content,
    Contents,
    FileMode,
    Item,
    MissingPackage,
    RemoteFile,
    SourceFailure,
)
from reconciler.download.ledger import PART, Ledger, open_ledger
from reconciler.errors import ReconcilerError, one_line

_MAX_LINK = 4096


class Transfers(Struct, frozen=True, kw_only=True):
    """State that all transfers of a run share: `advance` takes the number of written bytes, `stopped` ends them."""

    ledger: Ledger
    stopped: Event
    advance: Callable[[int], None]


def transfer(item: Item, file: RemoteFile, run: Transfers) -> None:
    """Fetch a file. Raises `SourceFailure`, `PathRefused` or `OSError`; then the target is as it was before."""
    place = item.place
    parent, _, name = posixpath.join(place.folder, file.name).rpartition("/")
    path = place.root / parent / name
    with open_folder(place.root, parent) as folder:
        if file.mode is FileMode.LINK:
            _write_link(item, file, folder, f"{name}{PART}")
        else:
            refuse_link(folder, name, path)
            descriptor = open_file(folder, f"{name}{PART}", path)
            try:
                resumed = os.fstat(descriptor).st_size if run.ledger.can_resume(path, place, file.version) else 0
                run.ledger.start(path, place, file.version)
                _fill(item, file, descriptor, resumed if resumed < file.size else 0, run)
            finally:
                os.close(descriptor)
        os.rename(f"{name}{PART}", name, src_dir_fd=folder, dst_dir_fd=folder)
    run.ledger.end(path, place, file.version)


def _fill(item: Item, file: RemoteFile, descriptor: int, offset: int, run: Transfers) -> None:
    """Write the content from `offset` on, and check size and checksum of the whole."""
    with item.read(file, offset) as content:
        os.ftruncate(descriptor, content.offset)
        checksum = content.checksum.start() if content.checksum is not None else None
        os.lseek(descriptor, 0, os.SEEK_SET)
        if checksum is not None:
            while chunk := os.read(descriptor, CHUNK_BYTES):
                checksum.update(chunk)
        size = os.lseek(descriptor, content.offset, os.SEEK_SET)
        run.advance(size)
        for chunk in content.chunks:
            if run.stopped.is_set():
                raise SourceFailure("interrupted", is_final=True)
            size += len(chunk)
            if size > file.size:
                break
            _write(descriptor, chunk)
            if checksum is not None:
                checksum.update(chunk)
            run.advance(len(chunk))
    if size < file.size:
        run.advance(-size)
        raise SourceFailure(f"the content ends after {size} of {file.size} bytes")
    if size > file.size or (checksum is not None and checksum.hexdigest() != _stated(content)):
        run.advance(-min(size, file.size))
        os.ftruncate(descriptor, 0)
        raise SourceFailure("the content is not what the source states: its size or checksum differs")
    os.fchmod(descriptor, _mode(descriptor, file.mode))
    os.fsync(descriptor)


def _stated(content: Content) -> str:
    return content.checksum.digest if content.checksum is not None else ""


def _write(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _mode(descriptor: int, mode: FileMode) -> int:
    """Return the permissions of a file: whoever may read it may run it, if it is executable."""
    bits = os.fstat(descriptor).st_mode & 0o777
    return bits | (bits & 0o444) >> 2 if mode is FileMode.EXECUTABLE else bits


def _write_link(item: Item, file: RemoteFile, folder: int, part: str) -> None:
    """Make a symbolic link, which stays within the folder of its item."""
    with item.read(file, 0) as content:
        target = os.fsdecode(b"".join(content.chunks)[:_MAX_LINK])
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(file.name), target))
    if target.startswith("/") or inside.split("/")[0] == ".." or "\0" in target:
        raise SourceFailure(f"{file.name} is a symbolic link that leaves its folder", is_final=True)
    with suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    os.symlink(target, part, dir_fd=folder)


PAUSES = (1.0, 5.0)
"""Seconds between the attempts for a file or a listing: there are three."""
HINT = "install it with `pip install 'gpu-reconciler[download]'`, or use the image of this program"

_SOURCES = {"s3": "s3", "gcs": "gcs", "azure_blob": "azure", "git": "git", "hf": "hub"}
_Result = TypeVar("_Result")


class ItemResult(Struct, kw_only=True, rename="camel"):
    """The result for an item, as `--output json` prints it. `bytes` are those that were fetched."""

    source: str
    target: str
    version: str = ""
    files: int = 0
    fetched: int = 0
    removed: int = 0
    bytes: int = 0
    notes: tuple[str, ...] = ()
    error: str = ""
    is_refused: bool = False

    def fail(self, error: Exception) -> None:
        """Record the first error."""
        if not self.error:
            self.error = one_line(str(error)) if isinstance(error, ReconcilerError | SourceFailure) else _reason(error)
            self.is_refused = isinstance(error, PathRefused)


class DownloadResult(Struct, kw_only=True, rename="camel"):
    """The result of a run. `is_complete`: everything is there, and the marker is written."""

    root: str
    marker: str
    is_complete: bool = False
    items: list[ItemResult] = field(default_factory=list)


class _ItemWork(Struct, kw_only=True, eq=False):
    """An item on its way. `contents` is None where it is known to be complete, or could not be listed."""

    item: Item
    result: ItemResult
    contents: Contents | None = None
    missing: tuple[RemoteFile, ...] = ()


class DownloadRun:
    """One run over a configuration. `advance` is called with bytes as they are written, `plan` once with their sum."""

    def __init__(self, config: DownloadConfig, clock: Clock, *, workers: int) -> None:
        self._config, self._clock, self._workers = config, clock, workers
        self._stopped = Event()

    def run(
        self, *, show: Callable[[ItemResult], None], plan: Callable[[int], Callable[[int], None]]
    ) -> DownloadResult:
        """Fetch everything that is missing.

        `show` gets each item when it is done; `plan` gets the number of bytes to fetch, and returns what is told of
        them as they come. Raises `OutsideError` if nothing could be done.
        """
        config = self._config
        root = Path(config.root)
        result = DownloadResult(root=config.root, marker=str(root / STATE / config.marker))
        with open_ledger(root) as ledger, self._pool() as pool:
            _remove_markers(root, keep=config.marker)
            works = [_ItemWork(item=one, result=_result(one)) for one in self._items()]
            result.items = [work.result for work in works]
            self._each(pool, works, lambda work: self._find(work, ledger))
            _refuse_shared(works)
            missing = [(work, file) for work in works for file in work.missing]
            if missing:
                _remove_markers(root)
            run = Transfers(ledger=ledger, stopped=self._stopped, advance=plan(sum(file.size for _, file in missing)))
            for work in self._transfer(pool, works, run):
                self._finish(work, ledger)
                show(work.result)
            result.is_complete = not any(work.result.error for work in works)
            if result.is_complete:
                ledger.discard_unfinished()
                write_file(root, f"{STATE}/{config.marker}", msgspec.json.encode(result) + b"\n")
        return result

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        """Yield the threads; an interruption ends them after the bytes that they wait for."""
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="download")
        try:
            yield pool
        except BaseException:
            self._stopped.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _items(self) -> Iterator[Item]:
        for name, module in _SOURCES.items():
            if not getattr(self._config, name):
                continue
            try:
                source = import_module(f"reconciler.download.sources.{module}")
            except ModuleNotFoundError as error:
                raise MissingPackage(f"the package {error.name} is not installed", hint=HINT) from None
            yield from source.items(self._config, self._workers)

    def _each(self, pool: ThreadPoolExecutor, works: Iterable[_ItemWork], act: Callable[[_ItemWork], None]) -> None:
        for done in as_completed([pool.submit(act, work) for work in works]):
            done.result()

    def _find(self, work: _ItemWork, ledger: Ledger) -> None:
        """List an item, unless it is known to be complete at the version that its source has now."""
        place, result = work.item.place, work.result
        try:
            version = self._attempt(work.item.resolve)
            if version and ledger.is_complete(place, version):
                result.version, result.files = version, len(ledger.files(place))
                return
            contents = self._attempt(work.item.find)
        except (SourceFailure, ReconcilerError, OSError) as error:
            result.fail(error)
            return
        work.contents = contents
        unique = {file.name: file for file in contents.files}
        work.missing = tuple(
            file for name, file in unique.items() if not ledger.is_current(_path(work, name), place, file.version)
        )
        result.version, result.files, result.notes = contents.version, len(unique), contents.notes

    def _transfer(self, pool: ThreadPoolExecutor, works: Sequence[_ItemWork], run: Transfers) -> Iterator[_ItemWork]:
        """Fetch what is missing, and yield each item when nothing of it is left to fetch."""

        def fetch(work: _ItemWork, file: RemoteFile) -> None:
            self._attempt(lambda: transfer(work.item, file, run))

        futures: dict[Future[None], tuple[_ItemWork, RemoteFile]] = {}
        left = {id(work): 0 if work.result.error else len(work.missing) for work in works}
        for work in works:
            if not work.result.error:
                futures |= {pool.submit(fetch, work, file): (work, file) for file in work.missing}
        yield from (work for work in works if not left[id(work)])
        for done in as_completed(futures):
            work, file = futures[done]
            try:
                done.result()
            except (SourceFailure, ReconcilerError, OSError) as error:
                work.result.fail(_about(file, error))
            else:
                work.result.fetched += 1
                work.result.bytes += file.size
            left[id(work)] -= 1
            if not left[id(work)]:
                yield work

    def _finish(self, work: _ItemWork, ledger: Ledger) -> None:
        """Delete what the source has no more, and record that the item is complete."""
        contents, place = work.contents, work.item.place
        if work.result.error or contents is None:
            return
        try:
            names = {str(_path(work, file.name)) for file in contents.files}
            gone = [file for file in ledger.files(place) if file.path not in names]
            work.result.removed = sum(ledger.remove(file) for file in gone)
            work.item.finish(contents)
            ledger.complete(place, contents.version)
        except (ReconcilerError, OSError) as error:
            work.result.fail(error)

    def _attempt(self, act: Callable[[], _Result]) -> _Result:
        """Try three times, with pauses."""
        for pause in PAUSES:
            try:
                return act()
            except SourceFailure as failure:
                if failure.is_final or self._stopped.is_set():
                    raise
            self._clock.pause(pause)
        return act()


def _result(item: Item) -> ItemResult:
    return ItemResult(source=item.place.label, target=str(item.place.root / item.place.folder))


def _path(work: _ItemWork, name: str) -> Path:
    return work.item.place.root / work.item.place.folder / name


def _about(file: RemoteFile, error: Exception) -> Exception:
    """Return an error that names the file, where it does not."""
    if isinstance(error, SourceFailure):
        return SourceFailure(f"{file.name}: {error}")
    return SourceFailure(f"{file.name}: {_reason(error)}") if isinstance(error, OSError) else error


def _reason(error: Exception) -> str:
    return one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _refuse_shared(works: Iterable[_ItemWork]) -> None:
    """Refuse items that write the same file, which would depend on chance."""
    owners: dict[Path, _ItemWork] = {}
    for work in works:
        for name in {file.name for file in work.contents.files} if work.contents is not None else ():
            path = _path(work, name)
            other = owners.setdefault(path, work)
            if other is not work:
                for one in (work, other):
                    one.result.fail(PathRefused(f"two items write {path}", hint="choose another targetPath"))
    for path, work in owners.items():
        if path.name.endswith(PART) and path.with_name(path.name.removesuffix(PART)) in owners:
            work.result.fail(PathRefused(f"{path} is the name of an unfinished file", hint="choose another targetPath"))


def _remove_markers(root: Path, keep: str = "") -> None:
    """Remove the markers of other configurations: their files may be about to change."""
    with open_folder(root, STATE) as folder:
        for name in os.listdir(folder):  # noqa: PTH208 - of a descriptor
            if not name.startswith(".") and name != keep:
                os.unlink(name, dir_fd=folder)

"""`reconciler download`."""

from contextlib import ExitStack
from pathlib import Path
from threading import Lock

import click
import msgspec

from reconciler.clock import SystemClock
from reconciler.console.printing import emit
from reconciler.console.progress import Advance, progress
from reconciler.download.config import MAX_WORKERS, STATE, DownloadConfig, read_config
from reconciler.download.run import DownloadResult, DownloadRun, ItemResult
from reconciler.errors import ConfigError, InvalidInput, OutsideError
from reconciler.kube.values import plural

_FORMATS = ("text", "json")
_WAIT_SECONDS = 5.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024


@click.command(
    "download",
    epilog="""\b
Examples:
  reconciler download /etc/download/config.yaml
  reconciler download config.yaml --max-workers 16 -o json
  reconciler download config.yaml --wait      wait until another pod has fetched everything
""",
)
@click.argument("config", metavar="CONFIG")
@click.option(
    "--max-workers",
    metavar="N",
    type=click.IntRange(1, MAX_WORKERS),
    help="Files to fetch at a time. [default: maxWorkers of CONFIG, else 8]",
)
@click.option("--wait", "is_waiting", is_flag=True, help="Fetch nothing, and wait for the marker of CONFIG.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(_FORMATS),
    metavar="FORMAT",
    default="text",
    help=f"Output format: {', '.join(_FORMATS)}. [default: text]",
)
def command(*, config: str, max_workers: int | None, is_waiting: bool, output: str) -> int:
    """Fetch data and models to a volume: from S3, Google Cloud Storage, Azure, Git and Hugging Face.

    Files are complete or absent, and verified where the source states a checksum. A second run fetches only what is
    missing or has changed. Needs the extra `download`, and git for repositories.
    """
    try:
        raw = Path(config).read_bytes()
    except OSError as error:
        raise ConfigError(f"{config} cannot be read: {error.strerror}") from None
    wanted = read_config(config, raw)
    if is_waiting:
        _wait(wanted)
        return 0
    result = _download(wanted, max_workers or wanted.max_workers, is_text=output == "text")
    if output == "json":
        emit(msgspec.json.format(msgspec.json.encode(result), indent=2).decode(), form="json")
    elif result.is_complete:
        emit(f"complete: {result.marker}")
    if result.is_complete:
        return 0
    return InvalidInput.exit_code if any(one.is_refused for one in result.items) else OutsideError.exit_code


def _wait(config: DownloadConfig) -> None:
    marker, clock = Path(config.root, STATE, config.marker), SystemClock()
    if not marker.is_file():
        emit(f"waiting for {marker}")
    while not marker.is_file():
        clock.pause(_WAIT_SECONDS)


def _download(config: DownloadConfig, workers: int, *, is_text: bool) -> DownloadResult:
    """Run with a progress bar in MiB, and print the items as they are done."""

    def show(one: ItemResult) -> None:
        if is_text and not one.error:
            emit(f"{one.source}: {_done(one)}")
        for note in one.notes:
            emit(f"note: {one.source}: {note}", err=True)
        if one.error:
            emit(f"error: {one.source}: {one.error}", err=True)

    with ExitStack() as stack:

        def plan(total: int) -> Advance:
            return _Mebibytes(stack.enter_context(progress("downloading (MiB)", total=total >> 20)))

        return DownloadRun(config, SystemClock(), workers=workers).run(show=show, plan=plan)


class _Mebibytes:
    """Counts bytes of several threads, and tells of whole MiB."""

    def __init__(self, advance: Advance) -> None:
        self._advance, self._lock = advance, Lock()
        self._bytes = self._shown = 0

    def __call__(self, count: int) -> None:
        with self._lock:
            self._bytes += count
            self._advance((self._bytes >> 20) - self._shown)
            self._shown = self._bytes >> 20


def _done(one: ItemResult) -> str:
    fetched = f"{one.fetched} fetched ({_size(one.bytes)})" if one.fetched else "nothing to fetch"
    removed = f", {one.removed} removed" if one.removed else ""
    return f"{plural(one.files, 'file')}, {fetched}{removed}"


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < _STEP:
            return f"{count:.4g} {unit}"
        count /= _STEP
    return f"{count:.4g} {_UNITS[-1]}"

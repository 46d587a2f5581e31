"""`reconciler health replay-jobs`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.console import emit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.core.health.inflight.series import JobSeries


@click.command(
    "replay-jobs",
    epilog="""\b
Examples:
  reconciler health replay-jobs /var/lib/reconciler/sources/*/jobs-main.json    in the pod of the controller
  reconciler health replay-jobs recorded.json
""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def replay_jobs(files: tuple[str, ...]) -> int:
    """Show what the detectors of hanging and slow jobs find in recorded series, and when.

    FILE is what the controller records of the jobs that it watches, or a JSON list of such series.
    """
    for path in files:
        for series in _read(path):
            for line in _lines(series):
                emit(line)
    return 0


def _read(path: str) -> "tuple[JobSeries, ...]":
    from reconciler.app.health.jobs.running import read_series  # noqa: PLC0415 - --help stays fast
    from reconciler.errors import ConfigError  # noqa: PLC0415

    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    return read_series(path, content)


def _lines(series: "JobSeries") -> "Iterator[str]":
    from reconciler.core.health.inflight.detect import JobLimits  # noqa: PLC0415 - --help stays fast
    from reconciler.core.health.inflight.watch import replay_series  # noqa: PLC0415
    from reconciler.core.values import plural  # noqa: PLC0415

    found, samples = replay_series(series, JobLimits()), series.samples
    minutes = round((samples[-1].at - samples[0].at) / 60) if samples else 0
    head = f"{series.namespace}/{series.name}: {plural(len(samples), 'sample')} of {minutes} min"
    yield f"{head}, {plural(len(found), 'problem')}"
    for one in found:
        begun, at = (round((moment - samples[0].at) / 60) for moment in (one.problem.since, one.at))
        end = "" if one.ended_at is None else f", over after {round((one.ended_at - samples[0].at) / 60)} min"
        yield f"  {one.problem.kind} since minute {begun}, found in minute {at}{end}: {one.problem.message}"

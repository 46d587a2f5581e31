"""`reconciler probe`."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from reconciler.clock import SystemClock
from reconciler.console import options
from reconciler.console.options import environment
from reconciler.console.printing import emit
from reconciler.errors import ConfigError
from reconciler.health.jobs.result import report_to_agent
from reconciler.health.node import node_name, node_sources, peak_table, xid_table
from reconciler.health.pages.probe import EXIT_CODES, render, worst
from reconciler.health.probe import read_replay, take_sweep, write_replay
from reconciler.kube.values import plural
from reconciler.nodehealth.catalogue import check_ids
from reconciler.nodehealth.findings import HealthFinding, ProbeProfile
from reconciler.nodehealth.inflight.preflight import PreflightResult, PreflightVerdict
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readings import Sweep
from reconciler.repo.checkout_files import require_writable, write_file

_FORMATS = ("table", "json", "nagios", "prometheus")
_PROFILES = ("light", "preflight", "postflight", "deep", "rma")

_PROFILE = click.option(
    "--profile", type=click.Choice(_PROFILES), default="light", show_default=True, help="Which checks to run."
)
_ROOT = click.option(
    "--root", metavar="DIR", default="/", show_default=True, help="Where the host's /sys, /proc and /dev are."
)


@click.group(
    "probe",
    invoke_without_command=True,
    epilog="""\b
Examples:
  reconciler probe                            check the GPUs of this machine
  reconciler probe --check remap.failure --check gpu.xid
  reconciler probe --expect-gpus 8 -o nagios  as a plugin of Nagios: exit code 0, 1, 2 or 3
  reconciler probe record h200.json           keep every reading, to judge it again elsewhere
  reconciler probe --replay h200.json
""",
)
@_PROFILE
@click.option("--check", "checks", metavar="ID", multiple=True, help="Run only this check. May be repeated.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(_FORMATS),
    metavar="FORMAT",
    default="table",
    help=f"Output format: {', '.join(_FORMATS)}. [default: table]",
)
@click.option(
    "--exit-style",
    type=click.Choice(("nagios", "npd", "preflight", "preflight-closed")),
    help="Exit with the verdict: 0, 1, 2, 3 as Nagios, 0, 1, 2 as Node Problem Detector, or 42 for bad hardware. "
    "[default: nagios with -o nagios, else 0]",
)
@_ROOT
@click.option("--replay", metavar="FILE", help="Judge recorded readings instead of this machine.")
@click.option("--ping", metavar="ADDRESS", multiple=True, help="Ping this address of another node. May be repeated.")
@click.option("--agent", metavar="URL", help="Report the results to the agent of this node, as the pod POD_NAME.")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.IntRange(0, 600),
    default=60,
    show_default=True,
    help="How long to wait for the controller after a failure, with --agent.",
)
@click.option(
    "--expect-gpus", metavar="N", type=click.IntRange(min=0), help="Number of GPUs that this machine should have."
)
@click.pass_context
def command(context: click.Context, /, **flags: Any) -> int:
    """Check the GPUs of this machine: no cluster, no repository, and nothing is changed.

    A check that cannot measure reports UNKNOWN, one that does not apply reports SKIP; neither is a pass.
    """
    if context.invoked_subcommand is not None:
        return 0

    style = flags["exit_style"] or ("nagios" if flags["output"] == "nagios" else "")
    sweep, findings = _probe(flags)
    emit(render(flags["output"], sweep, findings), form="json" if flags["output"] == "json" else "text", nl=False)
    code = EXIT_CODES[style][worst(findings)] if style else 0
    return _told(flags, sweep, findings, code) if flags["agent"] else code


def _told(flags: dict[str, Any], sweep: Sweep, findings: tuple[HealthFinding, ...], code: int) -> int:
    """Tell the agent, wait if the check has failed, and return the exit code: another one if the job is given up."""
    from reconciler.health.agents import to_agent  # noqa: PLC0415 - imports urllib3, and few probes tell an agent
    from reconciler.kinds.health.jobs import GIVEN_UP  # noqa: PLC0415 - imports all kinds

    environ = environment()
    result = PreflightResult(
        namespace=environ.get("POD_NAMESPACE", ""),
        pod=environ.get("POD_NAME", ""),
        uid=environ.get("POD_UID", ""),
        measured_at=sweep.taken_at,
        findings=findings,
        has_failed=bool(code),
    )
    if not result.uid:
        raise click.UsageError("--agent: POD_NAMESPACE, POD_NAME and POD_UID must be set")
    verdict = report_to_agent(to_agent(flags["agent"]), result, SystemClock(), flags["wait"])
    if code:
        emit(
            f"the controller answered: {verdict}"
            if verdict
            else f"no answer from the controller within {flags['wait']} s"
        )
    return GIVEN_UP if code and verdict == PreflightVerdict.STOP else code


@command.command("record")
@click.argument("file", metavar="FILE")
@click.option(
    "--sweeps", metavar="N", type=click.IntRange(1, 1000), default=1, show_default=True, help="Number of sweeps."
)
@click.option(
    "--interval",
    metavar="SECONDS",
    type=options.FiniteRange(0, 86400),
    default=1.0,
    show_default=True,
    help="Time between sweeps.",
)
@_PROFILE
@_ROOT
def record(*, file: str, sweeps: int, interval: float, profile: str, root: str) -> int:
    """Write every reading with its value, error and latency to FILE, for `probe --replay`."""
    require_writable(Path(file))
    taken = _sweeps(root, profile, sweeps, interval)
    write_file(Path(file), write_replay(taken), follows_links=True)
    failed = sum(reading.error is not None for reading in taken[-1].readings)
    emit(
        f"wrote {file}: {plural(len(taken), 'sweep')}, {len(taken[-1].readings)} readings in the last, "
        f"{failed} without a value"
    )
    return 0


def _probe(flags: dict[str, Any]) -> tuple[Sweep, tuple[HealthFinding, ...]]:
    _check_names(flags["checks"], check_ids())
    if flags["replay"]:
        *history, sweep = read_replay(_content(flags["replay"]), flags["replay"])
    else:
        *history, sweep = _sweeps(flags["root"], flags["profile"], 1, 0, flags["ping"])
    findings = judge(
        sweep,
        history=history,
        expected=NodeExpectation(gpus=flags["expect_gpus"]),
        xids=xid_table(),
        peaks=peak_table(),
        profile=ProbeProfile(flags["profile"]),
        only=flags["checks"],
        also=("net.ping",) if flags["ping"] else (),
    )
    return sweep, findings


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"--replay: {path} cannot be read: {error.strerror}") from None


def _check_names(wanted: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise click.UsageError(f"--check: unknown check {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def _sweeps(root: str, profile: str, count: int, interval: float, ping: tuple[str, ...] = ()) -> list[Sweep]:
    environ = environment()
    # starts the child processes, which load their libraries while the rest is imported
    sources = node_sources(environ, root=Path(root), tests=profile != "light", ping=ping)

    clock, taken = SystemClock(), list["Sweep"]()
    try:
        for number in range(count):
            if number:
                clock.pause(interval)
            taken.append(take_sweep(sources, node_name(environ), clock, ProbeProfile(profile)))
    finally:
        for source in sources:
            source.close()
    return taken

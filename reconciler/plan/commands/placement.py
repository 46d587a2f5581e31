"""`reconciler placement`: where workloads would run, by each strategy and in a scenario; and the strategy itself."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
import msgspec

from reconciler.console import options
from reconciler.console.printing import emit, emit_report
from reconciler.console.terminal import terminal
from reconciler.errors import ConfigError, InvalidInput
from reconciler.index.sized.splice import edit_source
from reconciler.kube.values import mapping, plural
from reconciler.kube.yaml import read
from reconciler.placement.scenario import FORMS, merged, scenario_of
from reconciler.plan import opening, use_cases
from reconciler.plan.opening import Run
from reconciler.plan.outputs.drift import render_diff
from reconciler.plan.outputs.placement import render_placement
from reconciler.plan.pinning import pin_jobs
from reconciler.plan.placement import ClusterForecast
from reconciler.plan.what_if import (
    PlacementReport,
    WrittenScenario,
    check_scenario,
    read_scenario,
    report_placement,
)
from reconciler.repo.config.placement import StrategyName
from reconciler.repo.files import CONFIG_PATH
from reconciler.sizing.prices import NO_PRICES


class _StrategyType(click.ParamType[str]):
    """The name of a strategy; the nearest one is suggested."""

    name = "strategy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name."""
        names = [str(one) for one in StrategyName]
        if value not in names:
            near = get_close_matches(str(value).replace("-", "_"), names, n=1, cutoff=0.3)
            meant = f"; did you mean {near[0]!r}?" if near else "."
            self.fail(f"{value!r} is not a strategy{meant} Strategies: {', '.join(names)}", param, ctx)
        return value


@click.group(
    "placement",
    subcommand_metavar="COMMAND [ARGS]...",
    epilog="""\b
Examples:
  reconciler placement plan                          where the jobs of this revision would run
  reconciler placement plan --compare fragmentation best_fit
  reconciler placement plan --what-if nodes+=4x8xNVIDIA-H200
  reconciler placement strategy fragmentation        edit reconciler.yaml
""",
)
def command() -> None:
    """Forecast where workloads run, and choose how."""


@command.command(
    "plan",
    epilog="""\b
Examples:
  reconciler placement plan
  reconciler placement plan --strategy fragmentation --compare best_fit --compare least_utilized
  reconciler placement plan --compare fragmentation best_fit
  reconciler placement plan --what-if nodes+=4x8xNVIDIA-H200
  reconciler placement plan --what-if rack-=r7 --what-if queue=research+64
  reconciler placement plan --what-if scenario.yaml -o json
""",
)
@options.repo
@options.base
@options.revision
@options.cluster
@click.option("--strategy", type=_StrategyType(), metavar="NAME", help="Strategy. [default: spec.placement.strategy]")
@click.option(
    "--compare", type=_StrategyType(), metavar="NAME", multiple=True, help="Strategy to compare with. May be repeated."
)
@click.argument("more", metavar="[NAME]...", nargs=-1, type=_StrategyType())
@click.option(
    "--what-if",
    "what_if",
    metavar="FILE|WORDS",
    multiple=True,
    help=f"Scenario: a file of kind PlacementScenario, or one of {FORMS}. May be repeated.",
)
@click.option("--full", is_flag=True, help="Show every workload.")
@options.output(("text", "json"))
@options.width
@options.date
@options.run_options
def plan(
    *,
    repo: str,
    strategy: str | None,
    compare: tuple[str, ...],
    more: tuple[str, ...],
    what_if: tuple[str, ...],
    full: bool,
    **flags: Any,
) -> int:
    """Show on which nodes workloads would run, by one strategy or several, and in a scenario.

    Reads the evidence of nodes and of their use (`reconciler observe`) and no cluster. The scheduler of the cluster
    decides: a placement is a forecast, and each line says what of it is guaranteed. Quotas are not part of it. Nothing
    is written.
    """
    written = _scenario(what_if)
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    settings = run.settings
    planned = use_cases.plan(run.workspace, base=settings.base, date=settings.date)
    planned.index.reject_broken_evidence()
    if written is not None:
        check_scenario(written, planned.forecasts())
    _require(planned.forecasts())
    others = (*compare, *more)
    reports = [
        _report(run, one, _strategies(one, strategy or (others[0] if compare and more else ""), others), written)
        for one in planned.forecasts()
    ]
    if settings.output == "json":
        content = msgspec.json.encode({"clusters": reports})
        emit_report(msgspec.json.format(content, indent=2).decode() + "\n", settings)
    else:
        emit_report(render_placement(reports, full=full, **terminal(settings)), settings)
    return 0


def _require(found: Sequence[ClusterForecast]) -> None:
    if not found:
        hint = "run `reconciler observe`, and commit what it writes"
        raise ConfigError("no cluster has evidence of use, so that nothing can be placed", hint=hint)


def _strategies(one: ClusterForecast, strategy: str, others: Sequence[str]) -> list[str]:
    """Return the strategies to show, the first of which the others are compared with."""
    return [*dict.fromkeys((strategy or str(one.settings.strategy), *others))]


def _report(
    run: Run, one: ClusterForecast, strategies: Sequence[str], written: WrittenScenario | None
) -> PlacementReport:
    cluster = run.workspace.config.cluster(one.cluster)
    prices = NO_PRICES if cluster is None else cluster.prices
    return report_placement(one, strategies, None if written is None else written.scenario, prices)


def _scenario(words: Sequence[str]) -> WrittenScenario | None:
    """Return the scenarios of a command line as one."""
    found = [_one_scenario(one) for one in words]
    if len(found) > 1:
        return WrittenScenario(scenario=merged(one.scenario for one in found))
    return found[0] if found else None


def _one_scenario(text: str) -> WrittenScenario:
    in_words = scenario_of(text)
    if in_words is not None:
        return WrittenScenario(scenario=in_words)
    if text != "-" and not Path(text).is_file():
        raise ConfigError(f"--what-if: {text!r} is neither a file nor a scenario", hint=f"write one of {FORMS}")
    return read_scenario(text, opening.read_input(Path(text)), opening.catalogue())


@command.command(
    "strategy",
    epilog="""\b
Examples:
  reconciler placement strategy                   show the strategy
  reconciler placement strategy fragmentation     write it into reconciler.yaml, and show which workloads move
""",
)
@click.argument("name", required=False, type=_StrategyType())
@options.repo
@options.cluster
@options.width
@options.date
@options.run_options
def strategy(*, name: str | None, repo: str, **flags: Any) -> int:
    """Show the strategy of placement, or edit spec.placement.strategy in reconciler.yaml.

    One line changes; comments stay. What waits goes on waiting in the same order. Running workloads never move.
    """
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    present = str(run.workspace.config.placement.strategy)
    if name is None:
        emit(present)
        return 0
    if name == present:
        emit(f"{CONFIG_PATH} says {name} already")
        return 0
    path = run.workspace.repository.root / CONFIG_PATH
    before = opening.read_input(path)
    after = _edited(before, name)
    opening.write_edits({CONFIG_PATH: after}, run)
    emit("".join(render_diff(CONFIG_PATH, before, after)), nl=False)
    settings = run.settings
    planned = use_cases.plan(run.workspace, base=settings.base, date=settings.date)
    reports = [_report(run, one, [name, present], None) for one in planned.forecasts()]
    if reports:
        emit_report(render_placement(reports, full=False, **terminal(settings)), settings)
    return 0


@command.command(
    "pin",
    epilog="""\b
Examples:
  reconciler placement pin             show the edits as a diff
  reconciler placement pin --write     write them to the working tree
""",
)
@options.repo
@options.base
@options.cluster
@click.option("--write", is_flag=True, help="Write the edits to the working tree.")
@options.date
@options.run_options
def pin(*, repo: str, write: bool, **flags: Any) -> int:
    """Write the nodes of the forecast into the jobs of the working tree, as required node affinity.

    Needs spec.placement.pin: true, and evidence that is recent enough. A pinned job waits if its node fails: prefer
    topologies and preferences. With spec.placement.annotate, an annotation names the nodes, too.
    """
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    wanted, settings = run.workspace.config.placement, run.settings
    if not wanted.pin:
        hint = "set it to true, if jobs may wait for one node"
        raise ConfigError("spec.placement.pin is false, so that no job is pinned", hint=hint)
    planned = use_cases.plan(run.workspace, base=settings.base, date=settings.date)
    planned.index.reject_broken_evidence()
    found = pin_jobs(run.workspace.repository, planned.index, planned.plan.placement, annotate=wanted.annotate)
    for note in found.notes:
        emit(note, err=True)
    for one in found.files:
        emit("".join(render_diff(one.path, one.before, one.after)), nl=False)
    if write and found.files:
        opening.write_edits({one.path: one.after for one in found.files}, run)
        emit(f"wrote {plural(len(found.files), 'file')}")
    return 0


def _edited(raw: bytes, name: str) -> bytes:
    """Return the settings with another strategy. Raises `InvalidInput` if the file cannot be edited in place."""
    (document,) = read(CONFIG_PATH, raw).documents
    spec = mapping(document.data["spec"])
    data = {**document.data, "spec": {**spec, "placement": {**mapping(spec.get("placement")), "strategy": name}}}
    edited = edit_source(raw, [(document, data)])
    if edited.problems:
        raise InvalidInput(edited.problems, where=f"in {CONFIG_PATH}")
    return edited.content

"""How accurate the predicted memory is, beside other estimators: `make sizing-report`.

Replays the measured runs of `tests/data/sizing` and prints, by group, mean and worst errors, what the bands hold, and
how many runs that were measured to work would have been refused. `--write` puts it into `docs/sizing-accuracy.md`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

from benchmarks.sizing.fit import STEPS, fit
from benchmarks.sizing.peers import missing, peers
from benchmarks.sizing.runs import FOREIGN, Run, half, measured
from reconciler.core.sizing.memory import fits
from reconciler.core.sizing.memory.stacks import stack_of
from reconciler.core.sizing.training import Method

SAFETY = 0.08
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "sizing-accuracy.md"

_INTRODUCTION = """# How accurate sizing is

`make sizing-report` replays the published measurements in `tests/data/sizing` (their sources are told there) and prints
this page; `python -m benchmarks.sizing.report --write` writes it. Errors are of the predicted peak against the measured
one; runs that filled their card to the brim (98 % and more) are left out of the errors, not of the verdicts.
"""

_LIMITS = """## What to know about these figures

- Most runs are of one stack (fms-hf-tuning on A100 and L40S, flash attention, checkpointing). Confidence is high only
  for dense models trained like that; the band of all others is wider.
- A measured peak holds what PyTorch's allocator keeps; `need` leaves it out. Whether a run fits is judged by its need.
- A paged optimizer lets runs through that do not fit: they are told to fit, with what they would need without paging.
- torchtune's rows say "recipe default", and two pairs of them differ by recipe only: what the recipes set by default is
  taken. A 405B model over 8 GPUs is told a fifth too much.
- Mixtures of experts take more than predicted where many GPUs gather them: one run of 8 GPUs by 14 %.
- LitGPT's, Qwen's and torchtune's figures are of PyTorch's live memory, not of the card; CUDA's context comes on top.
"""


def ours(run: Run) -> float:
    """Return our prediction, GiB."""
    return run.predict().peak_gib


def groups(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Return the runs whose peak counts, by group, sorted; and the goals' groups after them."""
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.group):
        if run.counts:
            found.setdefault(run.group, []).append(run)
    foreign = [run for runs in found.values() for run in runs if run.stack in FOREIGN]
    return {**found, "all foreign stacks": foreign}


def errors(runs: Iterable[Run], predict: Callable[[Run], float] = ours) -> list[float]:
    """Return the relative errors."""
    return [run.error(predict) for run in runs]


def refused(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that worked and yet would be refused."""
    return [run for run in runs if run.peak is not None and not fits(run.predict(), run.gpu, SAFETY)]


def held_out(runs: Sequence[Run], stack: str) -> Iterator[tuple[list[str], dict[str, float]]]:
    """Fit on each half of a stack's models, and yield its models with the mean absolute errors on the other half."""
    mine = [run for run in runs if run.stack == stack and run.counts]
    for remainder in (0, 1):
        chosen = half(mine, remainder)
        found = fit(chosen, stack_of(mine[0].training.framework), STEPS[stack])
        kinds: dict[str, list[float]] = {}
        for run in half(mine, 1 - remainder):
            kind = "adapters" if run.training.method.has_adapters else "full"
            kinds.setdefault(kind, []).append(abs(run.predict(found).peak_gib / (run.peak or 1) - 1))
        yield sorted({run.model for run in chosen}), {kind: fmean(told) for kind, told in sorted(kinds.items())}


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", "|---" + "|--:" * (len(header) - 1) + "|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def accuracy(runs: Sequence[Run]) -> list[str]:
    """Return the lines of the errors by group."""
    rows = []
    for name, group in groups(runs).items():
        found = errors(group)
        inside = sum(run.predict().low_gib <= (run.peak or 0) <= run.predict().high_gib for run in group)
        rows.append(
            (
                name,
                str(len(found)),
                f"{fmean(map(abs, found)):.1%}",
                f"{median(map(abs, found)):.1%}",
                f"{max(found, key=abs):+.1%}",
                f"{fmean(found):+.1%}",
                f"{inside / len(found):.0%}",
            )
        )
    return [
        "## Errors by group",
        "",
        *_table(("group", "runs", "mean", "median", "worst", "bias", "in the band"), rows),
    ]


def _halves(runs: Sequence[Run]) -> list[str]:
    rows = []
    for stack in STEPS:
        for models, means in held_out(runs, stack):
            told = ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())
            rows.append((f"{stack}: {', '.join(models)}", ", ".join(STEPS[stack]), told))
    text = [
        "## Errors on models that were not fitted",
        "",
        "The constants of each stack, fitted on every second of its models, and the mean error on the others. The",
        "shipped constants lie between the two.",
        "",
    ]
    return [*text, *_table(("fitted on", "what was fitted", "mean error on the other models"), rows)]


def verdicts(runs: Sequence[Run]) -> list[str]:
    """Return the lines of what would be refused and let through."""
    worked = [run for run in runs if run.peak is not None]
    wrong = refused(worked)
    died = [run for run in runs if run.peak is None]
    missed = [run for run in died if fits(run.predict(), run.gpu, SAFETY)]
    lines = [
        "## Verdicts",
        "",
        f"Of {len(worked)} runs that were measured to work, {len(wrong)} would be refused",
        f"({len(wrong) / len(worked):.1%}), with {SAFETY:.0%} of what is needed kept free.",
        f"Of {len(died)} that ran out of memory, {len(missed)} would be let through.",
        "",
    ]
    told = [(run, "refused") for run in wrong] + [(run, "let through") for run in missed]
    for run, what in told:
        measured_peak = f"measured {run.peak:.1f}" if run.peak else "ran out of memory"
        need = f"needs {run.predict().need_gib:.1f} of {run.gpu.memory_gib:g} GiB, {measured_peak}"
        lines.append(
            f"- {what}: {run.model} {run.training.method.value} on {run.layout.gpus} x {run.gpu.product}: {need}"
        )
    return [*lines, ""]


def _peers(runs: Sequence[Run]) -> list[str]:
    full = [run for run in runs if run.counts and run.stack == "fms" and run.training.method is Method.FULL]
    rows = [
        (
            "**this project**",
            "",
            f"{fmean(map(abs, errors(full))):.1%}",
            f"{max(errors(full), key=abs):+.1%}",
            str(len(full)),
        )
    ]
    for peer in peers():
        told = [(run, peer.predict(run)) for run in full]
        found = [value / (run.peak or 1) - 1 for run, value in told if value is not None]
        rows.append(
            (peer.name, peer.how, f"{fmean(map(abs, found)):.1%}", f"{max(found, key=abs):+.1%}", str(len(found)))
        )
    lines = ["## Other estimators, on the runs of fms-hf-tuning that train all weights", ""]
    lines += _table(("estimator", "what was run", "mean error", "worst", "runs"), rows)
    absent = missing()
    return [*lines, f"Not installed where this was written: {', '.join(absent)}.", ""] if absent else lines


def text(runs: Sequence[Run]) -> str:
    """Return the page."""
    lines = [*accuracy(runs), *_halves(runs), *verdicts(runs), *_peers(runs)]
    return "\n".join([_INTRODUCTION, *lines, _LIMITS]).replace("\n\n\n", "\n\n")


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    page = text(measured())
    if "--write" in arguments:
        DOCUMENT.write_text(page)
        print(f"written: {DOCUMENT}")
    else:
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

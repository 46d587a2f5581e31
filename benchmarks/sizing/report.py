"""The accuracy of the memory and speed models, and of other estimators: `make sizing-report`.

Compares predictions with the measured runs of `tests/data/sizing`: errors by framework and source, with the shipped
constants and with constants that were fitted elsewhere, the share of runs inside the predicted range, and how many
verdicts would be wrong. `--write` writes `docs/sizing-accuracy.md`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import exp
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.sizing.fit import STEPS, fit
from benchmarks.sizing.peers import missing, peers
from benchmarks.sizing.runs import Fold, Run, folds, measured
from benchmarks.sizing.speeds import FIGURES, SpeedRun, held_out, measured_speeds, rows
from reconciler.core.sizing.memory import fits
from reconciler.core.sizing.memory.stacks import stack_of
from reconciler.core.sizing.training import Method

SAFETY = 0.08
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "sizing-accuracy.md"

_INTRODUCTION = """# Sizing accuracy

`make sizing-report` compares the models of memory and speed with the published measurements in `tests/data/sizing`,
which names their sources, and prints this page; `python -m benchmarks.sizing.report --write` writes it. Errors compare
the predicted peak with the measured one. Runs that used 98 % or more of the GPU's memory count for the verdicts, but
not for the errors.
"""

_LIMITS = """## Limits of these figures

- Two thirds of the runs are of one stack: fms-hf-tuning on A100 and L40S, with flash attention and checkpointing.
  Confidence is high only for dense 16-bit models trained like that; the range of all others is wider.
- A measured peak includes memory that PyTorch's allocator keeps; `need` excludes it, and decides whether a run fits.
- Runs that fit only because the optimizer was paged count as runs that worked.
- The form of the terms was chosen with all of these runs in view; only the constants are tested on runs outside a fit.
- fms-acceleration subtracts what a GPU used before a run. The driver's 0.6 GiB are added to its figures, so that all
  peaks are what NVML reports.
- ms-swift's runs have samples of their own lengths, so that peaks of similar runs differ.
- The rows of torchtune say "recipe default", and two pairs of them differ in the recipe alone; the defaults of the
  recipes apply. For a 405B model on 8 GPUs, the prediction is a fifth too high.
- Mixtures of experts need more than predicted if many GPUs gather them: 16 % more in one run on 8 GPUs.
- The figures of LitGPT, Qwen, torchtune and Megatron-LM measure PyTorch's live memory, those of fsdp_qlora the memory
  that its allocator reserves, all without CUDA's context. As runs of a framework that nobody measured, those of LitGPT,
  torchtune and fsdp_qlora are predicted without what they do not count.
- Runs of pre-training are predicted without a fit. Those of Megatron-LM are of one 7B model on 8 GPUs; its bytes of a
  gated feed-forward block were chosen with them in view. No mixture of experts was measured.
- torchtitan's figures are what PyTorch reserves; compiled layers and FP8 keep less than predicted, and its versions
  since 2025 less for the loss, too. Its pipelines are predicted for as many microbatches as stages; the runs do not
  say how many they had.
- Speeds of tensor, pipeline and context parallelism rest on one measured run, those of offloaded optimizers on none.
  The speed of mixtures with more than 40 experts depends on the kernels of a framework; it is not predicted.
- A run close to the limit of its GPU may page although the memory model says it need not; one was 16 times slower.
"""


def ours(run: Run) -> float:
    """Return our prediction, GiB."""
    return run.predict().peak_gib


def groups(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Return the runs whose peak counts, by group, sorted."""
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.group):
        if run.counts:
            found.setdefault(run.group, []).append(run)
    return found


def errors(runs: Iterable[Run], predict: Callable[[Run], float] = ours) -> list[float]:
    """Return the relative errors."""
    return [run.error(predict) for run in runs]


def refused(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that worked and yet would be refused."""
    return [run for run in runs if run.peak is not None and not fits(run.predict(), run.gpu, SAFETY)]


def accepted(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that ran out of memory and yet would be accepted."""
    return [run for run in runs if run.peak is None and fits(run.predict(), run.gpu, SAFETY)]


class Unseen(NamedTuple):
    """What constants that were fitted elsewhere predict for the runs of a fold: relative errors, and those in range."""

    fold: Fold
    errors: list[float]
    inside: int


def unseen(runs: Sequence[Run], stack: str) -> Iterator[Unseen]:
    """Fit on each part of a stack's runs, and yield the errors on the rest."""
    for fold in folds(runs, stack):
        found = fit(fold.chosen, stack_of(fold.chosen[0].training.framework), STEPS[stack])
        told = [(run.peak or 0.0, run.predict(found)) for run in fold.held]
        inside = sum(one.low_gib <= peak <= one.high_gib for peak, one in told)
        yield Unseen(fold, [one.peak_gib / peak - 1 for peak, one in told], inside)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", "|---" + "|--:" * (len(header) - 1) + "|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _figures(found: Sequence[float], inside: int) -> tuple[str, ...]:
    return (
        str(len(found)),
        f"{fmean(map(abs, found)):.1%}",
        f"{median(map(abs, found)):.1%}",
        f"{max(found, key=abs):+.1%}",
        f"{fmean(found):+.1%}",
        f"{inside / len(found):.0%}",
    )


_FIGURES = ("runs", "mean", "median", "worst", "bias", "in the range")


def accuracy(runs: Sequence[Run]) -> list[str]:
    """Return the lines of the errors by group, with the shipped constants."""
    counted = [run for run in runs if run.counts]
    listed = {**groups(runs), "**all**": counted}
    rows = [(name, *_figures(errors(group), sum(run.inside for run in group))) for name, group in listed.items()]
    text = (
        "With the shipped constants, which were fitted on some of these runs. Groups are framework, method and source."
    )
    return ["## Errors by framework and source", "", text, "", *_table(("group", *_FIGURES), rows)]


def foreign(runs: Iterable[Run]) -> tuple[list[float], int]:
    """Return the errors of runs that were not Hugging Face's under its constants, and how many are in the range.

    Those of pre-training are predicted in another way.
    """
    others = (run for run in runs if run.counts and run.stack != "fms" and not stack_of(run.training.framework).staged)
    told = [(run.peak or 0.0, run.predict(run.stack_of_others)) for run in others]
    inside = sum(one.low_gib <= peak <= one.high_gib for peak, one in told)
    return [one.peak_gib / peak - 1 for peak, one in told], inside


def _unseen(runs: Sequence[Run]) -> list[str]:
    rows = []
    for stack in STEPS:
        found = list(unseen(runs, stack))
        rows += [(f"{stack}: {one.fold.fitted_on}", *_figures(one.errors, one.inside)) for one in found]
        both = [error for one in found for error in one.errors]
        rows.append((f"**{stack}**", *_figures(both, sum(one.inside for one in found))))
    rows.append(("**a framework without constants of its own**", *_figures(*foreign(runs))))
    names = [f"- {stack}: {', '.join(steps)}" for stack, steps in STEPS.items()]
    text = [
        "## Errors on runs outside the fit",
        "",
        "Constants were fitted on the runs of one source, or if a framework has one source only, on those of every",
        "second model; the table shows the errors on its other runs, and whether they are in the range. The shipped",
        "constants are between those of the folds. The last row predicts the runs of all frameworks but fms (and those",
        "of pre-training) as those of a framework that nobody measured. Fitted constants:",
        "",
        *names,
        "",
    ]
    return [*text, *_table(("fitted on", *_FIGURES), rows)]


def verdicts(runs: Sequence[Run]) -> list[str]:
    """Return the lines about runs that are wrongly rejected or accepted."""
    worked, died = [run for run in runs if run.peak is not None], [run for run in runs if run.peak is None]
    wrong, missed = refused(worked), accepted(died)
    lines = [
        "## Verdicts",
        "",
        f"Of {len(worked)} runs that worked, {len(wrong)} would be rejected ({len(wrong) / len(worked):.1%}), with",
        f"{SAFETY:.0%} of the needed memory kept free. Of {len(died)} runs that ran out of memory,",
        f"{len(missed)} would be accepted ({len(missed) / len(died):.1%}).",
        "",
        *_table(("framework", "worked", "rejected", "ran out of memory", "accepted"), _verdict_rows(runs)),
    ]
    told = [(run, "rejected") for run in wrong] + [(run, "accepted") for run in missed]
    for run, what in told:
        measured_peak = f"measured {run.peak:.1f}" if run.peak else "ran out of memory"
        need = f"needs {run.predict().need_gib:.1f} of {run.gpu.memory_gib:g} GiB, {measured_peak}"
        lines.append(
            f"- {what}: {run.model} {run.training.method.value} on {run.layout.gpus} x {run.gpu.product}: {need}"
        )
    return [*lines, ""]


def _verdict_rows(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    for stack in dict.fromkeys(run.stack for run in runs):
        mine = [run for run in runs if run.stack == stack]
        died = sum(run.peak is None for run in mine)
        counts = (len(mine) - died, len(refused(mine)), died, len(accepted(mine)))
        yield (stack, *map(str, counts))


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
    lines = ["## Other estimators, for full fine-tuning with fms-hf-tuning", ""]
    lines += _table(("estimator", "function or source", "mean error", "worst", "runs"), rows)
    absent = missing()
    return [*lines, f"Not installed for this report: {', '.join(absent)}.", ""] if absent else lines


def speeds(runs: Sequence[SpeedRun]) -> list[str]:
    """Return the lines of the errors of predicted speeds, with the shipped rates."""
    lines = [
        "## Tokens per second",
        "",
        f"Of {len(runs)} runs with a measured speed, by source, and by method and what widens the range. A factor of",
        "1.10 is a prediction 10% too fast, or as much too slow. In the range should be nine of ten.",
        "",
    ]
    return [*lines, *_table(("group", *FIGURES), rows(runs))]


def _unseen_speeds(runs: Sequence[SpeedRun]) -> list[str]:
    """Return the lines of the errors on each source, with rates that were fitted on the others."""
    told = [
        (one.source, str(len(one.errors)), f"{exp(median(sizes)):.2f}", f"{exp(fmean(sizes)):.2f}")
        for one in held_out(runs)
        if (sizes := [abs(error) for error in one.errors])
    ]
    lines = ["Rates that were fitted without the runs of a source predict those runs as follows.", ""]
    return [*lines, *_table(("source", "runs", "median factor", "mean factor"), told)]


def text(runs: Sequence[Run]) -> str:
    """Return the page."""
    told = measured_speeds()
    lines = [*accuracy(runs), *_unseen(runs), *verdicts(runs), *speeds(told), *_unseen_speeds(told), *_peers(runs)]
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

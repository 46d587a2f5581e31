"""The accuracy of the memory model and of other estimators: `make sizing-report`.

Compares predictions with the measured runs of `tests/data/sizing`: mean and worst errors by group, the share of runs
inside the predicted range, and how many runs that worked would be rejected. `--write` writes
`docs/sizing-accuracy.md`.
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

_INTRODUCTION = """# Sizing accuracy

`make sizing-report` compares the memory model with the published measurements in `tests/data/sizing`, which names their
sources, and prints this page; `python -m benchmarks.sizing.report --write` writes it. Errors compare the predicted peak
with the measured one. Runs that used 98 % or more of the GPU's memory count for the verdicts, but not for the errors.
"""

_LIMITS = """## Limits of these figures

- Most runs are of one stack: fms-hf-tuning on A100 and L40S, with flash attention and checkpointing. Confidence is high
  only for dense models trained like that; the range of all others is wider.
- A measured peak includes memory that PyTorch's allocator keeps; `need` excludes it, and decides whether a run fits.
- Runs that fit only because the optimizer was paged count as runs that worked.
- The rows of torchtune say "recipe default", and two pairs of them differ in the recipe alone; the defaults of the
  recipes apply. For a 405B model on 8 GPUs, the prediction is a fifth too high.
- Mixtures of experts need more than predicted if many GPUs gather them: 14 % more in one run on 8 GPUs.
- The figures of LitGPT, Qwen and torchtune measure PyTorch's live memory, without CUDA's context.
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
    return {**found, "all other stacks": foreign}


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
        *_table(("group", "runs", "mean", "median", "worst", "bias", "in the range"), rows),
    ]


def _halves(runs: Sequence[Run]) -> list[str]:
    rows = []
    for stack in STEPS:
        for models, means in held_out(runs, stack):
            told = ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())
            rows.append((f"{stack}: {', '.join(models)}", ", ".join(STEPS[stack]), told))
    text = [
        "## Errors on models outside the fit",
        "",
        "Constants were fitted to every second model of a stack; the table shows the mean error on the others. The",
        "shipped constants are between the two.",
        "",
    ]
    return [*text, *_table(("fitted on", "fitted constants", "mean error on the other models"), rows)]


def verdicts(runs: Sequence[Run]) -> list[str]:
    """Return the lines about runs that are wrongly rejected or accepted."""
    worked = [run for run in runs if run.peak is not None]
    wrong = refused(worked)
    died = [run for run in runs if run.peak is None]
    missed = [run for run in died if fits(run.predict(), run.gpu, SAFETY)]
    lines = [
        "## Verdicts",
        "",
        f"Of {len(worked)} runs that worked, {len(wrong)} would be rejected ({len(wrong) / len(worked):.1%}), with",
        f"{SAFETY:.0%} of the needed memory kept free. Of {len(died)} runs that ran out of memory,",
        f"{len(missed)} would be accepted.",
        "",
    ]
    told = [(run, "rejected") for run in wrong] + [(run, "accepted") for run in missed]
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
    lines = ["## Other estimators, for full fine-tuning with fms-hf-tuning", ""]
    lines += _table(("estimator", "function or source", "mean error", "worst", "runs"), rows)
    absent = missing()
    return [*lines, f"Not installed for this report: {', '.join(absent)}.", ""] if absent else lines


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

"""The accuracy of the memory and speed models, and of other estimators: `make sizing-report`.

Compares predictions with the measured runs of `tests/data/sizing`: errors by framework and source, with the shipped
constants and with constants that were fitted elsewhere, the share of runs inside the predicted range, and how many
verdicts would be wrong. `--write` writes `docs/sizing-accuracy.md`.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from math import exp
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.sizing.fit import STEPS, fit
from benchmarks.sizing.peers import HOW, Peer, peers
from benchmarks.sizing.runs import Fold, Run, folds, measured
from benchmarks.sizing.speeds import FIGURES, SpeedRun, held_out, measured_speeds, rows
from reconciler.sizing.decision import Estimate
from reconciler.sizing.memory import fits
from reconciler.sizing.memory.stacks import stack_of
from reconciler.sizing.memory.states import FSDP
from reconciler.sizing.training import Method

SAFETY = 0.08
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "sizing-accuracy.md"

_INTRODUCTION = """# Sizing accuracy

`make sizing-report` compares the models of memory and speed with the published measurements in `tests/data/sizing`,
which names their sources, and prints this page; `python -m benchmarks.sizing.report --write` writes it. Errors compare
the predicted peak with the measured peak. Runs that used 98 % or more of the GPU's memory count for the verdicts but
not for the errors.
"""

_LIMITS = """## Limits of these figures

- Two thirds of the runs come from one stack: fms-hf-tuning on A100 and L40S, with flash attention and checkpointing.
  Confidence is high only for dense 16-bit models trained in this way; the range of all others is wider.
- A measured peak includes memory that PyTorch's allocator caches. `need` excludes it and decides whether a run fits.
- Runs that fit only because the optimizer was paged count as runs that worked.
- The form of the terms was chosen with all of these runs in view; only the constants are tested on runs outside a fit.
- fms-acceleration subtracts the memory that a GPU used before a run. The driver's 0.6 GiB are added to its figures, so
  that all peaks are comparable with NVML's.
- ms-swift's runs have samples of varying lengths, so the peaks of similar runs differ.
- The rows of torchtune say "recipe default", and two pairs of them differ only in the recipe; the defaults of the
  recipes apply. For a 405B model on 8 GPUs, the prediction is a fifth too high.
- A framework without its own constants is predicted with Hugging Face's constants and the facts known from its code
  (whether PEFT prepares the base, whether the loss is computed in parts). The prediction is too high if its layers are
  compiled, as torchtune's were, and too low if it keeps more copies of the logits, as ms-swift 2 did.
- LitGPT's tables of 2023 are from another version, whose layers keep less for a 4-bit base (predicted a sixth too
  high); no shipped constant was fitted on them. On several GPUs, that version kept a whole model on each GPU in
  addition to its shard, because the model was created there (`init_module(empty_init=False)`). Those runs are left
  out, and later versions create the model without using memory.
- Mixtures of experts need more than predicted if many GPUs gather them: 16 % more in one run on 8 GPUs.
- The figures of LitGPT, Qwen and torchtune measure PyTorch's live memory, and those of fsdp_qlora the memory that its
  allocator reserves, all without CUDA's context. When the runs of LitGPT, torchtune and fsdp_qlora stand for a
  framework without measurements, they are predicted without the memory that they do not count.
- Pre-training runs are predicted without a fit. Those of Megatron-LM are for one 7B model on 8 GPUs and measure
  PyTorch's live memory, whereas the prediction includes 2.2 GiB of context; its bytes for a gated feed-forward block
  were chosen with these runs in view. Those of Megatron-SWIFT are comments in scripts, in whole GiB, and include
  blocks that the allocator keeps.
- torchtitan's figures are the memory that PyTorch reserves, without CUDA's context. FP8 is predicted as bf16; in two
  pairs of runs the difference was 0.2 GiB. Its pipelines are predicted with as many microbatches as stages, which is
  its default, because the runs do not state their number. Its terms come from its code and from PyTorch's; these runs
  showed which of them matter.
- Speeds of tensor, pipeline and context parallelism are based on one measured run, and those of offloaded optimizers on
  none. The speed of mixtures with more than 40 experts depends on the kernels of a framework and is not predicted.
- A run close to the limit of its GPU can page even if the memory model predicts that it fits; one run was 16 times
  slower.
"""


def refused(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that worked and yet would be refused."""
    return [run for run in runs if run.peak is not None and not fits(run.predict(), run.gpu, SAFETY)]


def accepted(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that ran out of memory and yet would be accepted."""
    return [run for run in runs if run.peak is None and fits(run.predict(), run.gpu, SAFETY)]


class Told(NamedTuple):
    """What was predicted for a run whose peak counts."""

    run: Run
    estimate: Estimate

    @property
    def error(self) -> float:
        """The relative error of the peak."""
        return self.estimate.peak_gib / (self.run.peak or 0.0) - 1

    @property
    def inside(self) -> bool:
        """Whether the measured peak is in the predicted range."""
        return self.estimate.low_gib <= (self.run.peak or 0.0) <= self.estimate.high_gib


class Unseen(NamedTuple):
    """What constants that were fitted elsewhere predict for the runs of a fold."""

    fold: Fold
    told: list[Told]

    @property
    def errors(self) -> list[float]:
        """The relative errors."""
        return [one.error for one in self.told]

    @property
    def inside(self) -> int:
        """How many runs are in the predicted range."""
        return sum(one.inside for one in self.told)


def unseen(runs: Sequence[Run], stack: str) -> Iterator[Unseen]:
    """Fit on each part of a stack's runs, and yield the predictions of the rest."""
    for fold in folds(runs, stack):
        found = fit(fold.chosen, stack_of(fold.chosen[0].training.framework), STEPS[stack])
        yield Unseen(fold, [Told(run, run.predict(found)) for run in fold.held])


def shipped(runs: Iterable[Run]) -> list[Told]:
    """Return what the shipped constants predict."""
    return [Told(run, run.predict()) for run in runs if run.counts]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", "|---" + "|--:" * (len(header) - 1) + "|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _of(found: Sequence[float]) -> tuple[str, ...]:
    sizes = [abs(error) for error in found]
    worst, bias = f"{max(found, key=abs):+.1%}", f"{fmean(found):+.1%}"
    return str(len(found)), f"{fmean(sizes):.1%}", f"{median(sizes):.1%}", worst, bias


def _figures(told: Sequence[Told]) -> tuple[str, ...]:
    return (*_of([one.error for one in told]), f"{sum(one.inside for one in told) / len(told):.0%}")


_FIGURES = ("runs", "mean", "median", "worst", "bias", "in the range")


def groups(told: Iterable[Told]) -> dict[str, list[Told]]:
    """Return the predictions by framework, method and source, sorted."""
    found: dict[str, list[Told]] = {}
    for one in sorted(told, key=lambda one: one.run.group):
        found.setdefault(one.run.group, []).append(one)
    return found


def by_group(told: Sequence[Told]) -> list[str]:
    """Return the table of errors by group, beside the mean errors of other estimators."""
    found = {**groups(told), "**all**": told}
    others = peers()
    rows = [(name, *_figures(group), *(_mean_of(peer, group) for peer in others)) for name, group in found.items()]
    return _table(("group", *_FIGURES, *(peer.name for peer in others)), rows)


def peer_errors(peer: Peer, told: Iterable[Told]) -> list[float]:
    """Return the relative errors of another estimator, for the runs of which it has an answer."""
    answers = [(peer.predict(one.run), one.run.peak or 0.0) for one in told]
    return [answer / peak - 1 for answer, peak in answers if answer is not None]


def _mean_of(peer: Peer, told: Iterable[Told]) -> str:
    found = peer_errors(peer, told)
    return f"{fmean(map(abs, found)):.1%}" if found else "-"


def accuracy(runs: Sequence[Run]) -> list[str]:
    """Return the lines of the errors with the shipped constants, on the runs of frameworks with fitted constants."""
    lines = [
        "## Errors by framework and source",
        "",
        "Groups are framework, method and source. The last columns are the mean errors of other estimators on the same",
        "runs. These estimators do not support adapters, so their last row covers only full training.",
        "",
        "### Runs that constants were fitted on",
        "",
    ]
    return [*lines, *by_group([one for one in shipped(runs) if one.run.stack in STEPS])]


def foreign(runs: Iterable[Run]) -> list[Told]:
    """Return what the constants of a framework that nobody measured predict for runs that were not Hugging Face's.

    Those of pre-training are predicted in another way.
    """
    others = (run for run in runs if run.counts and run.stack != "fms" and not stack_of(run.training.framework).staged)
    return [Told(run, run.predict(run.stack_of_others)) for run in others]


def _unseen(runs: Sequence[Run]) -> list[str]:
    folds_of = {stack: list(unseen(runs, stack)) for stack in STEPS}
    told = {stack: [one for fold in found for one in fold.told] for stack, found in folds_of.items()}
    rows = []
    for stack, found in folds_of.items():
        rows += [(f"{stack}: {one.fold.fitted_on}", *_figures(one.told)) for one in found]
        rows.append((f"**{stack}**", *_figures(told[stack])))
    rows.append(("**a framework without constants of its own**", *_figures(foreign(runs))))
    unfitted = [one for one in shipped(runs) if one.run.stack not in STEPS]
    names = [f"- {stack}: {', '.join(steps)}" for stack, steps in STEPS.items()]
    return [
        "### Runs outside the fit",
        "",
        "Constants were fitted on the runs of one source, or if a framework has only one source, on those of every",
        "second model. The table shows the errors on the framework's other runs. The shipped constants lie between",
        "those of the folds. No constants were fitted for frameworks that are not in the table above.",
        "",
        *by_group([*(one for held in told.values() for one in held), *unfitted]),
        "The next table groups the errors by the fitted runs. The last row predicts all frameworks except fms",
        "(and except pre-training) as if their framework had never been measured.",
        "",
        *_table(("fitted on", *_FIGURES), rows),
        "Fitted constants:",
        "",
        *names,
        "",
        *_estimators(runs, [one for held in told.values() for one in held]),
    ]


def _versions(runs: Sequence[Run]) -> list[str]:
    """Return the lines of the errors by version of fms-hf-tuning."""
    told: dict[str, list[Told]] = {}
    for one in shipped(run for run in runs if run.stack == "fms" and run.training.strategy in FSDP):
        told.setdefault(one.run.row["framework"], []).append(one)
    return [
        "## By version",
        "",
        "These are runs of fms-hf-tuning with FSDP. How the model is loaded and sharded depends on the versions of",
        "transformers and accelerate. One set of constants fits all: the bias by version is within the errors.",
        "",
        *_table(("version", *_FIGURES), [(name, *_figures(group)) for name, group in sorted(told.items())]),
    ]


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


def _estimators(runs: Sequence[Run], held: Iterable[Told]) -> list[str]:
    """Return the lines about all estimators on all runs of full training."""
    full = [one for one in shipped(runs) if one.run.training.method is Method.FULL]
    sixteen = [_sixteen(one.run) / (one.run.peak or 0.0) - 1 for one in full]
    fresh = [one.error for one in held if one.run.training.method is Method.FULL]
    fresh += [one.error for one in full if one.run.stack not in STEPS]
    listed = [("**this project**", [one.error for one in full]), ("**this project, outside the fit**", fresh)]
    listed += [(f"{peer.name} {peer.version}", peer_errors(peer, full)) for peer in peers()]
    listed.append(("16 bytes per parameter", sixteen))
    return [
        "## Other estimators, for full training",
        "",
        "`python -m benchmarks.sizing.record_peers` ran the installed packages and recorded their answers in",
        "`tests/data/sizing/peer_answers.csv`.",
        "",
        *(f"- {name}: {how}." for name, how in HOW.items()),
        "- 16 bytes per parameter: ZeRO, arXiv 1910.02054, section 3, over all GPUs.",
        "",
        *_table(("estimator", "runs", "mean", "median", "worst", "bias"), [(name, *_of(one)) for name, one in listed]),
    ]


def _sixteen(run: Run) -> float:
    return 16 * run.training.architecture.parameters / run.layout.gpus / (1 << 30)


def speeds(runs: Sequence[SpeedRun]) -> list[str]:
    """Return the lines of the errors of predicted speeds, with the shipped rates."""
    lines = [
        "## Tokens per second",
        "",
        f"Of {len(runs)} runs with a measured speed, by source, method and the facts that widen the range. A factor of",
        "1.10 is a prediction 10% too fast or too slow. Nine of ten runs should be in the range.",
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
    lines = ["The next table shows how rates that were fitted without the runs of a source predict those runs.", ""]
    return [*lines, *_table(("source", "runs", "median factor", "mean factor"), told)]


def text(runs: Sequence[Run]) -> str:
    """Return the page."""
    told = measured_speeds()
    lines = [*accuracy(runs), *_unseen(runs), *_versions(runs), *verdicts(runs), *speeds(told), *_unseen_speeds(told)]
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

"""The answer to a sizing question, as the outputs of `reconciler size` show it."""

from msgspec import Struct

from reconciler.launch import Framework
from reconciler.launch.changes import format_edits
from reconciler.sizing.decision import Candidate, Decision
from reconciler.sizing.devices import PRODUCT_LABEL
from reconciler.sizing.question import Question
from reconciler.sizing.remedies import Reach, Remedies, Remedy, SavingKind
from reconciler.sizing.summary import SizingSummary


class SizeAnswer(Struct, frozen=True, kw_only=True):
    """A question and its decision. `requested` evaluates the number of GPUs that the user asked about.

    `assumed` are the facts that nothing states; `by_length` is the number of GPUs by the tokens of a sample (None: no
    number fits), if the data decides about those. `reach` is that of the requested or the chosen layout. `remedies` are
    set if it does not fit; `framework` is the one whose settings they name.
    """

    question: Question
    decision: Decision
    note: SizingSummary
    name: str = ""  # of the job
    assumed: tuple[str, ...] = ()
    by_length: tuple[tuple[int, int | None], ...] = ()
    requested: Candidate | None = None
    reach: Reach | None = None
    remedies: Remedies | None = None
    framework: Framework | None = None


def instruction(answer: SizeAnswer, remedy: Remedy) -> str:
    """Return what to change for a remedy: settings as they are written, GPUs, and the product; empty if unknown."""
    parts = [format_edits(remedy.edits, answer.framework)] if answer.framework is not None and remedy.edits else []
    gpu = remedy.after.gpu
    if SavingKind.MORE_GPUS in remedy.kinds:
        parts.append(f"request {remedy.after.layout.gpus} GPUs")
    if SavingKind.OTHER_GPU in remedy.kinds:
        parts.append(f"{PRODUCT_LABEL[gpu.vendor]}: {gpu.product}")
    return remedy.refusal or "; ".join(part for part in parts if part)

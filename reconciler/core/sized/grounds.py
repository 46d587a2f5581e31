"""The reasons of a sized job: one decision, told value by value with its arithmetic."""

from msgspec import Struct

from reconciler.core.reasons import Origin, Reason
from reconciler.core.sizing.decision import Candidate
from reconciler.core.sizing.question import Question
from reconciler.core.values import plural


class Grounds(Struct, frozen=True, kw_only=True, eq=False):
    """What was asked and chosen, and the places that it came from: words of the launch line, evidence."""

    question: Question
    chosen: Candidate
    origins: tuple[Origin, ...]

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.chosen.layout.gpus

    @property
    def workers(self) -> int:
        """Nodes."""
        return self.chosen.layout.workers

    @property
    def per_worker(self) -> int:
        """GPUs of a node."""
        return self.chosen.layout.gpus_per_worker

    @property
    def resource(self) -> str:
        """Extended resource of the GPUs."""
        return self.chosen.gpu.vendor.resource

    def because(self, rule: str, text: str) -> Reason:
        """Return a reason."""
        return Reason(rule=f"sizing.{rule}", text=text, origins=self.origins)

    @property
    def spread(self) -> str:
        """The layout in words."""
        if self.workers == 1:
            return f"{plural(self.gpus, 'GPU')} on 1 node"
        return f"{plural(self.gpus, 'GPU')} / {self.workers} nodes = {self.per_worker} a node"

    @property
    def memory(self) -> str:
        """The predicted peak beside the memory that there is."""
        estimate, gpu = self.chosen.estimate, self.chosen.gpu
        if estimate is None:
            return f"on {gpu.product}"
        return f"predicted peak {estimate.peak_gib:.1f} of {gpu.memory_gib:.1f} GiB on {gpu.product}"

    @property
    def batch(self) -> str:
        """The effective batch, before and after."""
        layout, asked = self.chosen.layout, self.question
        after = f"{layout.batch} a GPU x {plural(layout.gpus, 'GPU')} x {plural(layout.accumulation, 'step')}"
        before = f"{asked.batch} x {asked.processes} x {asked.accumulation}"
        if layout.effective_batch == asked.effective_batch:
            return f"effective batch {layout.effective_batch} = {after}, as before ({before})"
        return f"effective batch {layout.effective_batch} = {after}, instead of {asked.effective_batch} ({before})"

"""The `AUTOCONF_*` variables: what was decided, for the script that reads them."""

from collections.abc import Iterator

from reconciler.core.objects import FieldPath
from reconciler.core.reasons import Reason
from reconciler.core.sized.draft import Draft, Row, same
from reconciler.core.sized.grounds import Grounds
from reconciler.core.training import TrainingJob
from reconciler.core.values import plural

NUM_GPUS = "AUTOCONF_NUM_GPUS"
NUM_PROCESSES = "AUTOCONF_NUM_PROCESSES"
NUM_MACHINES = "AUTOCONF_NUM_MACHINES"
BATCH = "AUTOCONF_PER_DEVICE_BATCH_SIZE"
ACCUMULATION = "AUTOCONF_GRADIENT_ACCUMULATION_STEPS"

Variable = tuple[str, str, Reason]


def variables(job: TrainingJob, grounds: Grounds) -> Iterator[Variable]:
    """Yield name, value and reason of each variable of the autoconf controller, in its order.

    `AUTOCONF_BATCH_SIZE` is what it calls the batch: samples of one step over all GPUs, without accumulation. The
    nodes of a TorchrunJob are settled later, by its queue, so it gets no numbers of them. The last one is ours, and
    only there once the number of steps had to change.
    """
    layout, training = grounds.chosen.layout, grounds.question.training
    nodes, memory, batch = grounds.spread, grounds.memory, grounds.batch
    if not job.format.total_gpus:
        yield NUM_GPUS, str(grounds.per_worker), grounds.because("gpus", nodes)
    yield "AUTOCONF_TOTAL_GPUS", str(layout.gpus), grounds.because("gpus", f"{nodes}; {memory}")
    yield (
        NUM_PROCESSES,
        str(max(1, layout.gpus)),
        grounds.because("processes", f"a process for each GPU: {layout.gpus}"),
    )
    if not job.format.total_gpus:
        yield NUM_MACHINES, str(layout.workers), grounds.because("workers", nodes)
    yield BATCH, str(layout.batch), grounds.because("batch", batch)
    read = "as the launch line says"
    yield "AUTOCONF_TOKENS_PER_SAMPLE", str(training.sequence), grounds.because("sequence", read)
    yield (
        "AUTOCONF_MODEL_NAME",
        training.architecture.autoconf or training.architecture.name,
        grounds.because("model", f"{training.model}, {read}"),
    )
    yield "AUTOCONF_METHOD", training.method.value, grounds.because("method", read)
    yield "AUTOCONF_GPU_MODEL", grounds.chosen.gpu.product, grounds.because("gpu", memory)
    step = layout.batch * layout.gpus
    text = f"{layout.batch} a GPU x {plural(layout.gpus, 'GPU')} = {step}"
    yield "AUTOCONF_BATCH_SIZE", str(step), grounds.because("batch", text)
    if layout.accumulation != grounds.question.accumulation or any(name == ACCUMULATION for name, _ in job.env):
        yield ACCUMULATION, str(layout.accumulation), grounds.because("batch", batch)


OURS = frozenset(
    (
        *(NUM_GPUS, "AUTOCONF_TOTAL_GPUS", NUM_PROCESSES, NUM_MACHINES, BATCH, "AUTOCONF_TOKENS_PER_SAMPLE"),
        *("AUTOCONF_MODEL_NAME", "AUTOCONF_METHOD", "AUTOCONF_GPU_MODEL", "AUTOCONF_BATCH_SIZE", ACCUMULATION),
    )
)


def set_variables(draft: Draft, path: FieldPath, wanted: list[Variable]) -> None:
    """Write the variables into the list at `path`: one that is there changes where it stands, others come last.

    A variable may refer to those before it (`$(NAME)`), so nothing is moved. Old values of ours that are not wanted
    any more go.
    """
    before = draft.get(path)
    rows: list[Row] = []
    missing = {name: (value, reason) for name, value, reason in wanted}
    for index, item in enumerate(before if isinstance(before, list) else []):
        name = item.get("name") if isinstance(item, dict) else None
        if name not in OURS:
            rows.append((item, index))
        elif name in missing:
            value, reason = missing.pop(name)
            entry = {"name": name, "value": value}
            rows.append((entry, index if same(item, entry) else reason))
    rows += [({"name": name, "value": value}, reason) for name, (value, reason) in missing.items()]
    draft.set_rows(path, rows)

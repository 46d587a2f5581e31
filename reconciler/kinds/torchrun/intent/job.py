"""`TorchrunJob`: one training run in a queue.

Two forms are read into one model: that of the documentation (`jobQueue`, `numGPUs`, `distributed`) and that of
torchrun-controller's types (`queue`, `jobName`, `jobID`, `numNodes`, `workspaceStorage`).
"""

from msgspec import Struct

from reconciler.kinds.torchrun.intent.fields import Entries, SpecReader, check_labels, duplicates, identity
from reconciler.kinds.torchrun.intent.sections import (
    Distributed,
    Scheduling,
    Storage,
    WorkspaceSection,
    parse_distributed,
    parse_scheduling,
    parse_storage,
    parse_workspace,
)
from reconciler.kube.patterns import is_label_value, later
from reconciler.kube.problems import Parsed, Severity
from reconciler.kube.reasons import Traced, copied
from reconciler.kube.yaml import Document


class Reliability(Struct, frozen=True, kw_only=True):
    """The limits of a job: restarts, its longest run, and the time until it is deleted (seconds)."""

    max_restarts: Traced | None = None
    restart_policy: Traced | None = None
    ttl: Traced | None = None
    deadline: Traced | None = None


class TorchrunJob(Struct, frozen=True, kw_only=True, eq=False):
    """The intent of a job. `namespace` is empty if the document names none."""

    document: Document
    name: str
    namespace: str
    queue_ref: Traced
    command: Traced
    job_name: Traced  # the rendezvous id
    job_id: Traced | None = None
    setup: Traced | None = None
    gpus: Traced | None = None
    nodes: Traced | None = None
    image: Traced | None = None
    workload: Traced | None = None
    network: Traced | None = None
    distributed: Distributed
    scheduling: Scheduling
    storage: Storage
    workspace: WorkspaceSection
    reliability: Reliability
    suspend: Traced | None = None
    env: tuple[Traced, ...] = ()
    mounts: tuple[Traced, ...] = ()
    volumes: tuple[Traced, ...] = ()
    labels: Entries = ()
    annotations: Entries = ()
    generation: str = ""  # suffix of the workload's name

    @property
    def workload_name(self) -> str:
        """Name of the workload, and so the start of the names of its pods."""
        return f"{self.name}{self.generation}"

    @property
    def is_suspended(self) -> bool:
        """True if the job is not to run now."""
        return bool(self.suspend and self.suspend.value)

    @property
    def queue(self) -> str:
        """Name of the queue, which is in the job's namespace."""
        name: str = self.queue_ref.value
        return name


def job_intent(document: Document) -> Parsed[TorchrunJob]:
    """Read a document that its JSON Schema has accepted. With an error among the problems there is no intent."""
    fields = SpecReader(document)
    name, namespace = identity(fields)
    own_name = copied(document, ("metadata", "name"), name)
    nothing = copied(document, (), "")
    job = TorchrunJob(
        document=document,
        name=name,
        namespace=namespace,
        queue_ref=_required(fields, fields.agree(fields.text("jobQueue"), fields.text("queue")), "jobQueue") or nothing,
        command=_required(fields, fields.text("command"), "command") or nothing,
        job_name=fields.text("jobName") or own_name,
        job_id=fields.text("jobID"),
        setup=fields.text("setupCommand"),
        gpus=fields.whole("numGPUs"),
        nodes=fields.whole("numNodes"),
        image=fields.text("image"),
        workload=fields.text("workload"),
        network=fields.text("network"),
        distributed=parse_distributed(fields),
        scheduling=parse_scheduling(fields),
        storage=parse_storage(fields),
        workspace=parse_workspace(fields),
        reliability=_reliability(fields),
        suspend=fields.flag("suspend"),
        env=fields.items("env"),
        mounts=fields.items("volumes", "additionalMounts"),
        volumes=fields.items("volumes", "additionalVolumes"),
        labels=fields.entries("labels"),
        annotations=fields.entries("annotations"),
    )
    _check(fields, job)
    return fields.parsed(job)


_NO_RELIABILITY = Reliability()


def _reliability(fields: SpecReader) -> Reliability:
    at = "reliability"
    if at not in fields.spec:
        return _NO_RELIABILITY
    return Reliability(
        max_restarts=fields.whole(at, "maxRestarts"),
        restart_policy=fields.text(at, "restartPolicy"),
        ttl=fields.whole(at, "ttlSecondsAfterFinished"),
        deadline=fields.whole(at, "activeDeadlineSeconds"),
    )


def _required(fields: SpecReader, value: Traced | None, name: str) -> Traced | None:
    if value is None or not value.value.strip():
        fields.problem("torchrun.required", ("spec", name), "is missing", f"add spec.{name}")
        return None
    return value


_LAUNCHER = later(
    r"(?:^|[;&|(\n]|\b(?:exec|then|do)\b|\s-\w*c\s+[\"'])\s*(?:[A-Za-z_]\w*=\S*\s+)*(?:\S*/)?"
    r"(torchrun|accelerate\s+launch|deepspeed|horovodrun|mpirun|"
    r"python[\d.]*\s+(?:-\w\s+)*-m\s+(?:torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch))(?=\s)"
)
"""A program that starts the processes of a training, as the first word of a command of the shell."""


def _check(fields: SpecReader, job: TorchrunJob) -> None:
    launcher = _LAUNCHER.search(job.command.value)
    if launcher:
        message = f"starts {launcher[1]!r}, but torchrun already starts the command once for each process"
        hint = f"start the training itself, such as `python train.py`, without {launcher[1]}"
        fields.problem("torchrun.nested-launcher", ("spec", "command"), message, hint, Severity.WARNING)
    for value, words in ((job.job_name, "jobName"), (job.job_id, "jobID")):
        if value and value.value and not is_label_value(value.value):
            hint = "use at most 63 letters, digits, `-`, `_` or `.`, because it becomes a label"
            fields.problem("torchrun.label", ("spec", words), "is not a valid label value", hint)
    for value, least in ((job.gpus, 0), (job.nodes, 1)):
        if value and value.value < least:
            path = value.reason.origins[0].field
            fields.problem("torchrun.range", path, f"is {value.value}", f"use {least} or more")
    for items, key in ((job.env, "name"), (job.volumes, "name"), (job.mounts, "mountPath")):
        for first, second in duplicates(items, key):
            fields.clash(first, second)
    check_labels(fields, job.labels)

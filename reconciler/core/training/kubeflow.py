"""Kubeflow's kinds: PyTorchJob of the training operator, TrainJob of the trainer."""

from reconciler.core.objects import FieldPath
from reconciler.core.training.container import container_of
from reconciler.core.training.job import Kind, Pods, TrainingJob
from reconciler.core.training.pods import only_container, sound
from reconciler.core.training.reader import Reader

_MASTER, _WORKER = "Master", "Worker"
_SPECS = "pytorchReplicaSpecs"


def pytorch_job(reader: Reader) -> TrainingJob | None:
    """Read a PyTorchJob under the rules of the autoconf controller: a Master, at most a Worker, one container each."""
    at: FieldPath = (*reader.root, "spec", _SPECS)
    specs = reader.mapping("spec", _SPECS)
    _check_roles(reader, list(specs), at)
    if "elasticPolicy" in reader.mapping("spec"):
        hint = "remove elasticPolicy, or the watch label"
        message = "an elastic job takes the number of pods that it finds"
        reader.problem("sizing.shape", (*reader.root, "spec", "elasticPolicy"), message, hint)
    pods = [found for role in (_MASTER, _WORKER) if role in specs and (found := _replicas(reader, role, at))]
    if not pods or reader.problems:
        return None
    lead, *others = pods
    for other in others:
        _check_same(reader, lead, other)
    return TrainingJob(
        document=reader.document,
        kind=Kind.PYTORCH_JOB,
        root=reader.root,
        pods=tuple(pods),
        command=lead.container.command,
        args=lead.container.args,
        env=lead.container.env,
        suspended=reader.flag("spec", "runPolicy", "suspend") or _wrapper_suspended(reader),
    )


def _check_roles(reader: Reader, roles: list[str], at: FieldPath) -> None:
    hint = "describe a Master, and at most a Worker"
    if len(roles) > len((_MASTER, _WORKER)):
        reader.problem("sizing.replica-specs", at, f"has {len(roles)} replica specs ({', '.join(roles)})", hint)
        return
    for role in roles:
        if role not in {_MASTER, _WORKER}:
            reader.problem("sizing.replica-specs", (*at, role), f"{role!r} is neither Master nor Worker", hint)
    if _MASTER not in roles:
        found = f"only {' and '.join(roles)}" if roles else "nothing"
        reader.problem("sizing.master", at, f"has no Master, {found}", "the Master's container holds the launch line")


def _replicas(reader: Reader, role: str, at: FieldPath) -> Pods | None:
    template: FieldPath = (*at, role, "template")
    container = only_container(reader, template)
    if container is None:
        return None
    return Pods(
        role=role, replicas=reader.count("spec", _SPECS, role, "replicas"), container=container, template=template
    )


def _check_same(reader: Reader, lead: Pods, other: Pods) -> None:
    """Report pods that run another line than the Master: nobody could say what they need."""
    for field in ("command", "args"):
        if getattr(lead.container, field) != getattr(other.container, field):
            message = f"{other.role} runs other words than {lead.role}"
            hint = f"make both the same, or leave {other.role} out: it is copied from {lead.role} when it is needed"
            reader.problem("sizing.worker-differs", (*other.container.path, field), message, hint)


def _wrapper_suspended(reader: Reader) -> bool:
    spec = reader.document.data.get("spec")
    return bool(reader.root) and isinstance(spec, dict) and spec.get("suspend") is True


def train_job(reader: Reader) -> TrainingJob | None:
    """Read a TrainJob that names its own command; what a runtime would run is not in the document."""
    path: FieldPath = (*reader.root, "spec", "trainer")
    container = container_of(reader.mapping("spec", "trainer"), path, resources="resourcesPerNode")
    if not container.command and not container.args:
        hint = "give command and args: what the runtime runs is not in this file"
        reader.problem("sizing.shape", path, "the trainer has no command of its own", hint)
        return None
    if sound(reader, container) is None:
        return None
    return TrainingJob(
        document=reader.document,
        kind=Kind.TRAIN_JOB,
        root=reader.root,
        pods=(Pods(role="node", replicas=reader.count("spec", "trainer", "numNodes"), container=container),),
        command=container.command,
        args=container.args,
        env=container.env,
        suspended=reader.flag("spec", "suspend") or _wrapper_suspended(reader),
    )

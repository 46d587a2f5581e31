"""The one container of a pod template that starts the training."""

from reconciler.core.objects import FieldPath
from reconciler.core.training.container import Container, containers
from reconciler.core.training.reader import Reader


def only_container(reader: Reader, template: FieldPath) -> Container | None:
    """Return the only container of a template (`template` from the document's root); a problem where there are more."""
    found = _containers(reader, template)
    if len(found) == 1:
        return sound(reader, found[0])
    names = ", ".join(container.name or "without a name" for container in found)
    message = f"has {len(found)} containers ({names})" if found else "has no container"
    hint = "keep exactly one; helpers go to initContainers, those that stay with `restartPolicy: Always`"
    reader.problem("sizing.containers", (*template, "spec", "containers"), message, hint)
    return None


def launching_container(reader: Reader, template: FieldPath) -> Container | None:
    """Return the container that starts a training: the only one, or the only one with a launch line."""
    found = _containers(reader, template)
    starting = found if len(found) == 1 else [container for container in found if reader.launches(container)]
    if len(starting) == 1:
        return sound(reader, starting[0])
    names = ", ".join(container.name for container in starting or found)
    message = f"{len(starting) or 'none'} of {len(found)} containers start a training ({names})"
    hint = (
        "exactly one container of the pod may hold the launch line (`accelerate launch`, `torchrun`, `python -m` ...)"
    )
    reader.problem("sizing.containers", (*template, "spec", "containers"), message, hint)
    return None


def sound(reader: Reader, container: Container) -> Container | None:
    """Return the container if its command and args are texts and its GPUs are counted; a problem where not."""
    for field in ("command", "args"):
        path = (*container.path, field)
        for index, word in enumerate(reader.items(*path[len(reader.root) :])):
            if not isinstance(word, str):
                reader.problem("sizing.shape", (*path, index), "is no text", "quote it")
                return None
    if container.resources.get("claims"):
        hint = "ask for GPUs by nvidia.com/gpu or amd.com/gpu, or leave the job out of sizing"
        reader.problem("sizing.shape", container.path, "gets its devices by resource claims", hint)
        return None
    return container


def _containers(reader: Reader, template: FieldPath) -> list[Container]:
    path = (*template, "spec")
    return containers(reader.mapping(*path[len(reader.root) :]), path)


def can_meet(container: Container) -> bool:
    """Whether a line or its variables say how several pods find each other, where no operator tells them."""
    text = " ".join((*container.command, *container.args))
    return any(word in text for word in _RENDEZVOUS) or any(name in _VARIABLES for name, _ in container.env)


_RENDEZVOUS = (
    *("--main_process_ip", "--main-process-ip", "--master_addr", "--master-addr", "--rdzv", "MASTER_ADDR"),
    *("--hostfile", "--deepspeed_multinode_launcher", "PET_RDZV"),
)
_VARIABLES = frozenset({"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT"})
"""torch.distributed and torchrun (`PET_*`) read them."""

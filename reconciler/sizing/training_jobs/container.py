"""A container as its job's document describes it: words, variables, resources."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.values import mapping, sequence, text


class Container(Struct, frozen=True, kw_only=True, eq=False):
    """The command of a container. `path` is its place in the document.

    `env` holds the variables in order; the value is None if the document does not hold it (`valueFrom`).
    """

    path: FieldPath
    name: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str | None], ...] = ()
    resources: Mapping[str, Any]

    @property
    def has_rendezvous(self) -> bool:
        """True if its words or variables tell several pods how to find each other, without an operator's help."""
        words = " ".join((*self.command, *self.args))
        return any(word in words for word in _RENDEZVOUS) or any(name in _RENDEZVOUS_VARIABLES for name, _ in self.env)


_RENDEZVOUS = (
    *("--main_process_ip", "--main-process-ip", "--master_addr", "--master-addr", "--rdzv", "MASTER_ADDR"),
    *("--hostfile", "--deepspeed_multinode_launcher", "PET_RDZV"),
)
_RENDEZVOUS_VARIABLES = frozenset({"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT"})
"""Variables of torch.distributed and torchrun (`PET_*`)."""


def parse_containers(pod: Mapping[str, Any], path: FieldPath) -> list[Container]:
    """Return the main containers of a pod spec, without sidecars (`restartPolicy: Always`)."""
    return [
        parse_container(item, (*path, "containers", index))
        for index, item in enumerate(sequence(pod.get("containers")))
        if isinstance(item, dict) and item.get("restartPolicy") != "Always"
    ]


def parse_container(item: Mapping[str, Any], path: FieldPath, *, resources: str = "resources") -> Container:
    """Parse a container; `resources` is the name of the field (`resourcesPerNode` in a TrainJob)."""
    return Container(
        path=path,
        name=text(item.get("name")),
        command=_strings(item.get("command")),
        args=_strings(item.get("args")),
        env=parse_environment(item.get("env")),
        resources=mapping(item.get(resources)),
    )


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(word for word in sequence(value) if isinstance(word, str))


def parse_environment(value: Any) -> tuple[tuple[str, str | None], ...]:
    """Return the names with their literal values; None for values from elsewhere."""
    entries = []
    for item in sequence(value):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            literal = item.get("value", None if item.get("valueFrom") else "")
            entries.append((item["name"], literal if isinstance(literal, str) else None))
    return tuple(entries)

"""A container as its job's document describes it: words, variables, resources."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.objects import FieldPath


class Container(Struct, frozen=True, kw_only=True, eq=False):
    """What a container runs. `path` is where it stands in the document.

    `env` holds the variables in order; None is a value that the document does not know (`valueFrom`).
    """

    path: FieldPath
    name: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str | None], ...] = ()
    resources: Mapping[str, Any]


def containers(pod: Mapping[str, Any], path: FieldPath) -> list[Container]:
    """Return the containers of a pod spec that run beside each other; sidecars (`restartPolicy: Always`) do not count.

    Init containers stand in a list of their own, and with them the sidecars of Kubernetes 1.29 and later.
    """
    return [
        container_of(item, (*path, "containers", index))
        for index, item in enumerate(_list(pod.get("containers")))
        if isinstance(item, dict) and item.get("restartPolicy") != "Always"
    ]


def container_of(item: Mapping[str, Any], path: FieldPath, *, resources: str = "resources") -> Container:
    """Read one container; `resources` is what the field is called (`resourcesPerNode` in a TrainJob)."""
    found, name = item.get(resources), item.get("name")
    return Container(
        path=path,
        name=name if isinstance(name, str) else "",
        command=words(item.get("command")),
        args=words(item.get("args")),
        env=environment(item.get("env")),
        resources=found if isinstance(found, dict) else {},
    )


def words(value: Any) -> tuple[str, ...]:
    """Return a list of strings; anything else in it is left to the schema."""
    return tuple(word for word in _list(value) if isinstance(word, str))


def environment(value: Any) -> tuple[tuple[str, str | None], ...]:
    """Return the names with their literal values; None where the value comes from elsewhere."""
    entries = []
    for item in _list(value):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            literal = item.get("value", None if item.get("valueFrom") else "")
            entries.append((item["name"], literal if isinstance(literal, str) else None))
    return tuple(entries)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

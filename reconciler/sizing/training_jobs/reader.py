"""`JobReader`: typed access to a job in a document, with the problems that keep it from being sized."""

from collections.abc import Callable
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.values import mapping, sequence, value_at
from reconciler.kube.yaml import Document
from reconciler.sizing.training_jobs.container import Container, parse_containers

Launches = Callable[[Container], bool]
"""Returns whether a container's words start a training; called only for pods with several containers."""


class JobReader:
    """A document, the path of the job in it, and the problems found so far.

    `root` is (), or the path of a component of a wrapper. Arguments called `path` are relative to the job; `template`
    and the paths of problems begin at the document's root.
    """

    __slots__ = ("document", "launches", "problems", "root")

    def __init__(self, document: Document, launches: Launches, root: FieldPath = ()) -> None:
        self.document = document
        self.launches = launches
        self.root = root
        self.problems: list[Problem] = []

    def get(self, *path: str | int) -> Any:
        """Return the value at a path; None if there is none."""
        return value_at(self.document.data, (*self.root, *path))

    def mapping(self, *path: str | int) -> dict[str, Any]:
        """Return the mapping at a path; empty if there is none."""
        return mapping(self.get(*path))

    def items(self, *path: str | int) -> list[Any]:
        """Return the list at a path; empty if there is none."""
        return list(sequence(self.get(*path)))

    def count(self, *path: str | int, default: int = 1) -> int:
        """Return the integer at a path."""
        value = self.get(*path)
        return value if type(value) is int else default

    def flag(self, *path: str | int) -> bool:
        """Return whether the value at a path is `true`."""
        return self.get(*path) is True

    @property
    def is_wrapper_suspended(self) -> bool:
        """True if the job is inside a wrapper that is suspended."""
        return bool(self.root) and value_at(self.document.data, ("spec", "suspend")) is True

    def problem(self, rule: str, path: FieldPath, message: str, hint: str) -> None:
        """Add an error."""
        self.problems.append(self.document.problem(rule, path, message, hint))

    def only_container(self, template: FieldPath) -> Container | None:
        """Return the only container of a pod template; a problem if there are several or none."""
        containers = self._containers(template)
        if len(containers) == 1:
            return self.check_container(containers[0])
        names = ", ".join(container.name or "unnamed" for container in containers)
        message = f"has {len(containers)} containers ({names})" if containers else "has no container"
        hint = "keep exactly one; use initContainers for helpers, with `restartPolicy: Always` for sidecars"
        self.problem("sizing.containers", (*template, "spec", "containers"), message, hint)
        return None

    def launching_container(self, template: FieldPath) -> Container | None:
        """Return the container that starts a training: the only one, or the only one with a launch line."""
        containers = self._containers(template)
        starting = containers if len(containers) == 1 else list(filter(self.launches, containers))
        if len(starting) == 1:
            return self.check_container(starting[0])
        names = ", ".join(container.name for container in starting or containers)
        message = f"{len(starting) or 'none'} of {len(containers)} containers start a training ({names})"
        hint = "keep the launch line (`accelerate launch`, `torchrun`, `python -m` ...) in exactly one container"
        self.problem("sizing.containers", (*template, "spec", "containers"), message, hint)
        return None

    def check_container(self, container: Container) -> Container | None:
        """Return the container if its command and args are strings and its GPUs are counted; else report a problem."""
        for field in ("command", "args"):
            path = (*container.path, field)
            for index, word in enumerate(self.items(*path[len(self.root) :])):
                if not isinstance(word, str):
                    self.problem("sizing.shape", (*path, index), "is not a string", "quote it")
                    return None
        if container.resources.get("claims"):
            hint = "request GPUs by nvidia.com/gpu or amd.com/gpu, or exclude the job from sizing"
            self.problem("sizing.shape", container.path, "gets its devices from resource claims", hint)
            return None
        return container

    def _containers(self, template: FieldPath) -> list[Container]:
        path = (*template, "spec")
        return parse_containers(self.mapping(*path[len(self.root) :]), path)

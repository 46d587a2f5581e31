"""`spec.podPaths`: where kinds have their pods, for kinds that the registry does not know.

A path is dotted, below the object or below `at`: `spec.roles[]` is each item of a list, `spec.services.*` each value of
a map. What is found may be a pod template, a pod's spec, a container, or the resources of one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Violation
from reconciler.kube.yaml import Document


class PodPath(Struct, frozen=True, kw_only=True):
    """The pods at one path of an object.

    at: the mappings that have the fields below.
    template: what the pods request; empty: the mapping itself.
    replicas: how many there are; 1 without it.
    least, most: between what an autoscaler may change `replicas`. Then `least` is what runs if `replicas` is absent.
    times: fields of the object, from its root, that the number is multiplied by; an absent one is 1.
    """

    at: str = ""
    template: str = "template"
    replicas: str = "replicas"
    least: str = ""
    most: str = ""
    times: tuple[str, ...] = ()


class DeclaredPods(Struct, frozen=True, kw_only=True):
    """The paths of the pods of one kind, and the place of the entry that declares them."""

    group: str
    kind: str
    paths: tuple[PodPath, ...]
    place: SourceRef = SourceRef(path="reconciler.yaml")


def parse_pod_paths(document: Document, spec: Mapping[str, Any]) -> tuple[DeclaredPods, ...]:
    """Read `spec.podPaths` of a document that its schema has accepted."""
    return tuple(
        DeclaredPods(
            group=entry["group"],
            kind=entry["kind"],
            paths=tuple(map(_path, entry["pods"])),
            place=document.at(("spec", "podPaths", index, "kind")),
        )
        for index, entry in enumerate(spec.get("podPaths", ()))
    )


def _path(entry: Mapping[str, Any]) -> PodPath:
    shipped = PodPath()
    return PodPath(
        at=entry.get("at", shipped.at),
        template=entry.get("template", shipped.template),
        replicas=entry.get("replicas", shipped.replicas),
        least=entry.get("minReplicas", shipped.least),
        most=entry.get("maxReplicas", shipped.most),
        times=tuple(entry.get("times", shipped.times)),
    )


def pod_path_violations(spec: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield what the schema cannot say: each kind is declared once."""
    seen: set[tuple[str, str]] = set()
    for index, entry in enumerate(spec.get("podPaths", ())):
        kind = (entry["group"], entry["kind"])
        if kind in seen:
            path = ("spec", "podPaths", index, "kind")
            message = f"the pods of {entry['kind']} ({entry['group'] or 'core'}) are declared twice"
            yield Violation(rule="config.pod-paths", path=path, message=message, hint="merge the two entries")
        seen.add(kind)

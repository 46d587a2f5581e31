"""Configurations of NVIDIA's device plugin, by which nodes offer each GPU several times.

Source: NVIDIA/k8s-device-plugin, api/config/v1/sharing.go and replicas.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kube.values import count, mapping, sequence, text
from reconciler.kube.yaml import read

_STRATEGIES = ("timeSlicing", "mps")


def offered_again(data: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return the resources that a ConfigMap has nodes offer several times under their own names, and how often.

    Where the plugin renames them (`nvidia.com/gpu.shared`), they are devices of their own.
    """
    found: dict[str, int] = {}
    for content in data.values():
        if type(content) is str and any(strategy in content for strategy in _STRATEGIES):
            for document in read("", content.encode("utf-8", "replace")).documents:
                for resource, times in _offered(mapping(document.data.get("sharing"))):
                    found[resource] = max(found.get(resource, 0), times)
    return tuple(sorted(found.items()))


def _offered(sharing: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for strategy in _STRATEGIES:
        settings = mapping(sharing.get(strategy))
        for entry in map(mapping, sequence(settings.get("resources"))):
            is_renamed = settings.get("renameByDefault") is True or bool(entry.get("rename"))
            times = count(entry.get("replicas"), 1)
            if times > 1 and not is_renamed and text(entry.get("name")):
                yield text(entry.get("name")), times

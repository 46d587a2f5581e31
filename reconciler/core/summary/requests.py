"""The resources that pods request as Kueue sees them: any amount counts, of GPUs and of everything else."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from reconciler.core.quantities import is_positive
from reconciler.core.values import mapping, sequence


class Requested(NamedTuple):
    """What pods request.

    requests: resources of which they request any amount.
    stated: resources of which all containers state a request, even of 0; None if there are no containers.
    """

    requests: tuple[str, ...] = ()
    stated: tuple[str, ...] | None = None


def requested_by(templates: Iterable[Mapping[str, Any]]) -> Requested:
    """Return what the pods of these templates request.

    As in Kueue (0.16, pkg/workload/resources.go), a limit counts where a container states no request, and the overhead
    of the pod is added. Pod-level requests are those of the pod (k8s.io/component-helpers/resource).
    """
    found: set[str] = set()
    stated: set[str] | None = None
    for template in templates:
        spec = mapping(template.get("spec"))
        found |= _positive(mapping(spec.get("overhead"))) | _positive(_amounts(spec, "requests"))
        for container in (*sequence(spec.get("containers")), *sequence(spec.get("initContainers"))):
            requests = _amounts(mapping(container), "requests")
            found |= _positive({**_amounts(mapping(container), "limits"), **requests})
            names = {name for name in requests if type(name) is str}
            stated = names if stated is None else stated & names
    return Requested(tuple(sorted(found)), None if stated is None else tuple(sorted(stated)))


def _amounts(part: Mapping[str, Any], field: str) -> dict[str, Any]:
    return mapping(mapping(part.get("resources")).get(field))


def _positive(amounts: Mapping[str, Any]) -> set[str]:
    return {name for name, amount in amounts.items() if type(name) is str and is_positive(amount)}

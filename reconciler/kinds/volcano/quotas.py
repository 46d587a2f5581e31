"""The GPUs that a queue of Volcano has."""

from collections.abc import Mapping
from typing import Any

from reconciler.kinds.facts import Quota
from reconciler.kinds.quantities import gpu_quantity
from reconciler.kube.values import mapping
from reconciler.sizing.devices import WHOLE_GPUS


def gpu_quota(spec: Mapping[str, Any]) -> Quota:
    """Return the quota of whole GPUs: `capability` is the limit, `deserved` or `guarantee` is guaranteed.

    The scheduler takes the larger of the last two (pkg/scheduler/plugins/capacity/capacity.go). If a queue names GPUs
    of one resource, the quota is of this resource; GPUs of several vendors are added up.
    """
    capability, deserved = _gpus(spec.get("capability")), _gpus(spec.get("deserved"))
    guarantee = _gpus(mapping(spec.get("guarantee")).get("resource"))
    names = {*capability, *deserved, *guarantee}
    guaranteed = sum(max(deserved.get(name, 0.0), guarantee.get(name, 0.0)) for name in names)
    limit = sum(capability.values()) if names and names == {*capability} else None
    return Quota("", guaranteed, limit, min(names) if len(names) == 1 else "")


def _gpus(amounts: Any) -> dict[str, float]:
    found = ((name, gpu_quantity(amount)) for name, amount in mapping(amounts).items() if name in WHOLE_GPUS)
    return {name: amount for name, amount in found if amount is not None and amount >= 0}

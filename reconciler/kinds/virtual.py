"""KubeVirt (`kubevirt.io`): machines, whose GPUs and host devices are named by their resource."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Pods
from reconciler.kinds.facts import Body, PodSet
from reconciler.kinds.immutable import value_of
from reconciler.kinds.kind import Kind
from reconciler.kinds.pod_paths import with_containers
from reconciler.kinds.pods import of_spec
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.sizing.devices import is_gpu

_GROUP = "kubevirt.io"


def _machine(template: Mapping[str, Any], replicas: int, prefix: str) -> PodSet:
    spec = mapping(template.get("spec"))
    devices = mapping(value_of(spec, "domain.devices"))
    limits = dict(mapping(value_of(spec, "domain.resources.limits")))
    unknown = ""
    for field in ("gpus", "hostDevices"):
        for device in map(mapping, sequence(devices.get(field))):
            name = text(device.get("deviceName"))
            if is_gpu(name) or (field == "gpus" and "/" in name):
                limits[name] = count(limits.get(name), 0) + 1
                unknown = unknown or ("" if is_gpu(name) else f"the GPU {name}")
    pod = {field: spec[field] for field in ("nodeSelector", "affinity", "tolerations") if field in spec}
    body = with_containers({"resources": {"limits": limits}}, **pod)
    body["metadata"] = mapping(template.get("metadata"))
    return PodSet(replicas, body, prefix, unknown=unknown)


def _instance(body: Body, prefix: str) -> Iterator[PodSet]:
    yield _machine(body, 1, prefix)


def _virtual_machine(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    stopped = spec.get("running") is False or spec.get("runStrategy") in ("Halted", "Manual")
    yield _machine(mapping(spec.get("template")), 0 if stopped else 1, f"{prefix}template.")


def _replica_set(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    yield _machine(mapping(spec.get("template")), count(spec.get("replicas"), 1), f"{prefix}template.")


KINDS = (
    Kind(group=_GROUP, kind="VirtualMachine", pods=Pods(of_spec(_virtual_machine))),
    Kind(group=_GROUP, kind="VirtualMachineInstance", pods=Pods(_instance)),
    Kind(group=_GROUP, kind="VirtualMachineInstanceReplicaSet", pods=Pods(of_spec(_replica_set))),
)

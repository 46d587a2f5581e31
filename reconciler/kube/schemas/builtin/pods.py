"""Rules between the fields of a pod: names that refer to each other, requests and limits.

Sources: pkg/apis/core/validation/validation.go (ValidatePodSpec), pkg/apis/core/v1/helper (extended resources).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Violation
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.schemas.builtin.pod_specs import pod_violations
from reconciler.kube.schemas.messages import bad_value, closest
from reconciler.kube.schemas.metadata import label_violations


def template_violations(
    template: Mapping[str, Any],
    path: FieldPath,
    restart_policies: tuple[str, ...],
    claims: frozenset[str] = frozenset(),
) -> Iterator[Violation]:
    """Validate a pod template or a pod.

    `restart_policies` are those that its owner allows, the default first; an empty default means that the field is
    required. `claims` are volumes from the claim templates of a StatefulSet.
    """
    metadata, spec = template.get("metadata"), template.get("spec") or {}
    if metadata:
        yield from label_violations(metadata, (*path, "metadata"))
    path = (*path, "spec")
    policy = spec.get("restartPolicy") or restart_policies[0]
    if policy not in restart_policies or not policy:
        yield Violation(
            rule="schema.not-allowed" if policy else "schema.missing-field",
            path=(*path, "restartPolicy"),
            message=f"{policy} is not allowed here" if policy else "is required",
            hint=f"use {' or '.join(name for name in restart_policies if name)}",
        )
    yield from _validate_containers(spec, path, claims)
    yield from pod_violations(spec, path)
    sysctls = (spec.get("securityContext") or {}).get("sysctls") or ()
    names = [(sysctl["name"], index) for index, sysctl in enumerate(sysctls)]
    yield from _find_repeated(names, (*path, "securityContext", "sysctls"))
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("projected"):
            sources = volume["projected"].get("sources") or ()
            yield from _find_repeated(_projected_paths(sources), (*path, "volumes", index, "projected", "sources"))


def _projected_paths(sources: Sequence[Mapping[str, Any] | None]) -> Iterator[tuple[str, int]]:
    """Yield each path in a projected volume and the position of its source."""
    for index, source in enumerate(sources):
        for projection in (source or {}).values():
            for item in [projection, *(projection.get("items") or ())] if projection else ():
                if item.get("path"):
                    yield item["path"], index


def duplicate(path: FieldPath, message: str, hint: str) -> Violation:
    """Return the violation for a name that is already in use, of rule `schema.duplicate-item`."""
    return Violation(rule="schema.duplicate-item", path=path, message=message, hint=hint)


def _find_repeated(names: Iterable[tuple[str, int]], path: FieldPath) -> Iterator[Violation]:
    seen: set[str] = set()
    for name, index in names:
        if name in seen:
            yield duplicate((*path, index), f"{name} is already in the list", "remove one of the two")
        seen.add(name)


def _validate_containers(spec: Mapping[str, Any], path: FieldPath, claims: frozenset[str]) -> Iterator[Violation]:
    volumes = spec.get("volumes") or ()
    block = {volume["name"] for volume in volumes if volume.get("persistentVolumeClaim") or volume.get("ephemeral")}
    known = {volume["name"] for volume in volumes} | claims
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            container_path, name = (*path, field, index), container["name"]
            if name in names:
                message = f"the name {name} is used by another container"
                yield duplicate((*container_path, "name"), message, "rename one of the two")
            names.add(name)
            yield from _validate_mounts(container, container_path, known, block | claims)
            if container.get("resources"):
                yield from _validate_resources(container["resources"], (*container_path, "resources"))
            yield from _validate_ports(container, container_path, host_network=spec.get("hostNetwork") is True)


def _validate_mounts(
    container: Mapping[str, Any], path: FieldPath, volumes: set[str], block: set[str]
) -> Iterator[Violation]:
    taken: set[str] = set()
    for field, target in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for index, mount in enumerate(container.get(field) or ()):
            name, mount_path = mount["name"], (*path, field, index)
            if name not in volumes:
                match = closest(name, sorted(volumes))
                yield Violation(
                    rule="schema.unknown-volume",
                    path=(*mount_path, "name"),
                    message=f"volume {name} not found in the pod",
                    hint=f"did you mean {match}?" if match else "add it under volumes",
                )
            elif field == "volumeDevices" and name not in block:
                hint = "use a persistentVolumeClaim or an ephemeral volume"
                yield bad_value((*mount_path, "name"), f"volume {name} is not a block device", hint)
            if mount[target] in taken:
                message = f"{mount[target]} is used by another volume"
                yield duplicate((*mount_path, target), message, "choose another path")
            taken.add(mount[target])


def _validate_ports(container: Mapping[str, Any], path: FieldPath, *, host_network: bool) -> Iterator[Violation]:
    names: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        port_path = (*path, "ports", index)
        name, host = port.get("name"), port.get("hostPort")
        if name and name in names:
            message = f"the name {name} is used by another port of the container"
            yield duplicate((*port_path, "name"), message, "rename it")
        names.add(name)
        if host_network and host and host != port["containerPort"]:
            hint = f"use {port['containerPort']} or remove it"
            yield bad_value((*port_path, "hostPort"), "must equal containerPort when hostNetwork is true", hint)


def is_extended(resource: str) -> bool:
    """Return whether a resource is an extended resource, such as GPUs: whole numbers, no overcommit."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def _validate_resources(resources: Mapping[str, Any], path: FieldPath) -> Iterator[Violation]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if type(amount) is not int and is_extended(name) and not _is_whole(amount):
                message = f"{amount} is not a whole number of {name}"
                hint = "write a whole number"
                yield Violation(rule="schema.bad-quantity", path=(*path, field, name), message=message, hint=hint)
    for name, amount in requests.items():
        if name not in limits or amount != limits[name]:
            yield from _validate_request(name, amount, limits, path)


def _is_whole(amount: Any) -> bool:
    value = parse_quantity(amount or 0)
    return value is None or value.denominator == 1


def _validate_request(name: str, amount: Any, limits: Mapping[str, Any], path: FieldPath) -> Iterator[Violation]:
    no_overcommit = is_extended(name) or name.startswith("hugepages-")
    path = (*path, "requests", name)
    if name not in limits:
        if no_overcommit:
            hint = f"add limits: {{{name}: {amount}}}; {name} cannot be overcommitted"
            message = f"{name} has a request but no limit"
            yield Violation(rule="schema.request-without-limit", path=path, message=message, hint=hint)
        return
    request, limit = parse_quantity(amount or 0), parse_quantity(limits[name] or 0)
    if request is None or limit is None:
        return
    if no_overcommit and request != limit:
        message = f"request {amount} and limit {limits[name]} of {name} differ"
        hint = f"set both to the same value; {name} cannot be overcommitted"
        yield Violation(rule="schema.request-differs-from-limit", path=path, message=message, hint=hint)
    elif request > limit:
        message = f"request {amount} exceeds the limit {limits[name]}"
        yield Violation(rule="schema.request-over-limit", path=path, message=message, hint="raise the limit")

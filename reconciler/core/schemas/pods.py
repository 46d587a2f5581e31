"""What the server checks between the fields of a pod: names that must be known, amounts that must agree.

Sources: pkg/apis/core/validation/validation.go (ValidatePodSpec), pkg/apis/core/v1/helper (extended resources).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.quantities import parse_quantity
from reconciler.core.schemas.finding import Finding
from reconciler.core.schemas.metadata import label_findings
from reconciler.core.schemas.words import did_you_mean

Claims = frozenset[str]
"""Names of volumes that come from elsewhere: the claim templates of a StatefulSet."""


def template_findings(
    template: Mapping[str, Any], path: FieldPath, restart: tuple[str, ...], claims: Claims = frozenset()
) -> Iterator[Finding]:
    """Judge a pod template (or a pod); `restart` are the restart policies that its owner allows, first the default.

    An owner whose default is empty wants one to be written.
    """
    metadata, spec = template.get("metadata"), template.get("spec") or {}
    if metadata:
        yield from label_findings(metadata, (*path, "metadata"))
    path = (*path, "spec")
    policy = spec.get("restartPolicy") or restart[0]
    if policy not in restart or not policy:
        yield _restart(policy, (*path, "restartPolicy"), [name for name in restart if name])
    yield from _containers(spec, path, claims)
    sysctls = (spec.get("securityContext") or {}).get("sysctls") or ()
    if sysctls:
        yield from _twice(
            [(one["name"], index) for index, one in enumerate(sysctls)], (*path, "securityContext", "sysctls")
        )
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("projected"):
            place = (*path, "volumes", index, "projected", "sources")
            yield from _twice(_projected(volume["projected"].get("sources") or ()), place)


def _projected(sources: Sequence[Mapping[str, Any] | None]) -> Iterator[tuple[str, int]]:
    """Yield each path in a projected volume and the position of the source it comes from."""
    for index, source in enumerate(sources):
        for held in (source or {}).values():
            for item in [held, *(held.get("items") or ())] if held else ():
                if item.get("path"):
                    yield item["path"], index


def _twice(names: Iterable[tuple[str, int]], path: FieldPath) -> Iterator[Finding]:
    seen: set[str] = set()
    for name, index in names:
        if name in seen:
            message = f"{name} is given above"
            yield Finding(
                rule="schema.duplicate-item", path=(*path, index), message=message, hint="remove one of the two"
            )
        seen.add(name)


def _restart(policy: str, path: FieldPath, allowed: list[str]) -> Finding:
    message = f"{policy} is not possible here" if policy else "required, but missing"
    rule = "schema.not-allowed" if policy else "schema.missing-field"
    return Finding(rule=rule, path=path, message=message, hint=f"use {' or '.join(allowed)}")


def _containers(spec: Mapping[str, Any], path: FieldPath, claims: Claims) -> Iterator[Finding]:
    devices = {
        one["name"] for one in spec.get("volumes") or () if one.get("persistentVolumeClaim") or one.get("ephemeral")
    }
    volumes = {volume["name"] for volume in spec.get("volumes") or ()} | claims
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = (*path, field, index)
            if container["name"] in names:
                message = f"another container is called {container['name']} too"
                yield Finding(
                    rule="schema.duplicate-item", path=(*place, "name"), message=message, hint="rename one of the two"
                )
            names.add(container["name"])
            yield from _mounts(container, place, volumes, devices | claims)
            if container.get("resources"):
                yield from _resources(container["resources"], (*place, "resources"))
            yield from _ports(container, place, host_network=spec.get("hostNetwork") is True)


def _mounts(container: Mapping[str, Any], path: FieldPath, volumes: set[str], devices: set[str]) -> Iterator[Finding]:
    taken: set[str] = set()
    for field, where in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for index, mount in enumerate(container.get(field) or ()):
            name, place = mount["name"], (*path, field, index)
            if name not in volumes:
                close = did_you_mean(name, sorted(volumes))
                yield Finding(
                    rule="schema.unknown-volume",
                    path=(*place, "name"),
                    message=f"the pod has no volume {name}",
                    hint=f"did you mean {close}?" if close else "add it under volumes",
                )
            elif field == "volumeDevices" and name not in devices:
                message = f"{name} is no block device"
                hint = "use a persistentVolumeClaim or an ephemeral volume"
                yield Finding(rule="schema.bad-value", path=(*place, "name"), message=message, hint=hint)
            if mount[where] in taken:
                message = f"{mount[where]} is taken by another volume"
                yield Finding(
                    rule="schema.duplicate-item", path=(*place, where), message=message, hint="choose another path"
                )
            taken.add(mount[where])


def _ports(container: Mapping[str, Any], path: FieldPath, *, host_network: bool) -> Iterator[Finding]:
    names: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        place = (*path, "ports", index)
        name, host = port.get("name"), port.get("hostPort")
        if name and name in names:
            message = f"another port of the container is called {name} too"
            yield Finding(rule="schema.duplicate-item", path=(*place, "name"), message=message, hint="rename it")
        names.add(name)
        if host_network and host and host != port["containerPort"]:
            message = "with hostNetwork it must be the same as containerPort"
            hint = f"use {port['containerPort']} or leave it out"
            yield Finding(rule="schema.bad-value", path=(*place, "hostPort"), message=message, hint=hint)


def is_extended(resource: str) -> bool:
    """Whether a resource is counted in whole devices and cannot be overcommitted, as GPUs are."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def _resources(resources: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if type(amount) is not int and is_extended(name) and not _is_whole(amount):
                message = f"{amount} of {name}, but devices are counted in whole numbers"
                hint = "write a whole number"
                yield Finding(rule="schema.bad-quantity", path=(*path, field, name), message=message, hint=hint)
    for name, amount in requests.items():
        if name not in limits or amount != limits[name]:
            yield from _request(name, amount, limits, path)


def _is_whole(amount: Any) -> bool:
    value = parse_quantity(amount or 0)
    return value is None or value.denominator == 1


def _request(name: str, amount: Any, limits: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    strict = is_extended(name) or name.startswith("hugepages-")
    place: FieldPath = (*path, "requests", name)
    if name not in limits:
        if strict:
            message = f"{name} is requested, but not limited"
            hint = f"add limits: {{{name}: {amount}}}; devices are never overcommitted"
            yield Finding(rule="schema.request-without-limit", path=place, message=message, hint=hint)
        return
    request, limit = parse_quantity(amount or 0), parse_quantity(limits[name] or 0)
    if request is None or limit is None:
        return
    if strict and request != limit:
        message = f"request {amount} and limit {limits[name]} of {name} differ"
        hint = "make them equal; devices are never overcommitted"
        yield Finding(rule="schema.request-differs-from-limit", path=place, message=message, hint=hint)
    elif request > limit:
        message = f"request {amount} is more than the limit {limits[name]}"
        yield Finding(rule="schema.request-over-limit", path=place, message=message, hint="raise the limit")

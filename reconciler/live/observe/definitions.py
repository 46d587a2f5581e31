"""The kinds that a live cluster serves, as evidence: its definitions, and the versions of its components."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.workloads import DEFINITION, DEPLOYMENT
from reconciler.kube.client.port import ClusterError, LiveCluster, UnknownKind
from reconciler.kube.schemas.components import COMPONENTS, KUBERNETES, component_of
from reconciler.kube.values import mapping, metadata_text, sequence, text
from reconciler.live.observe.reading import read_kind
from reconciler.repo.evidence.definitions import ClusterDefinitions, ServedKind, served_kind

_LABEL = "app.kubernetes.io/version"
_VERSION = re.compile(r"v?\d+\.\d+(\.\d+)?([-+.][0-9A-Za-z.+-]+)?")
Kinds = Mapping[tuple[str, str], ServedKind]


class ObservedDefinitions(Struct, frozen=True, kw_only=True):
    """The definitions and versions of a cluster, or why they could not be read (`failure`)."""

    kinds: Kinds = {}
    versions: Mapping[str, str] = {}
    failure: str = ""


def observe_definitions(
    live: LiveCluster, groups: Iterable[str], known: ClusterDefinitions | None
) -> ObservedDefinitions:
    """Read the definitions of API groups, and the versions of components as far as the cluster tells them."""
    wanted = frozenset(groups)
    try:
        bodies = list(_definitions(live, wanted))
        version = live.version()
    except ClusterError as error:
        return ObservedDefinitions(failure=error.message)
    before = known.kinds if known is not None else {}
    kinds: dict[tuple[str, str], ServedKind] = {}
    for body in bodies:
        spec = mapping(body.get("spec"))
        key = text(spec.get("group")), text(mapping(spec.get("names")).get("kind"))
        found = served_kind(body, before.get(key))
        if found is not None:
            kinds[key] = found
    versions = {KUBERNETES: version, **_labelled(bodies), **_of_images(read_kind(live, DEPLOYMENT).objects)}
    read = {name: each.removeprefix("v") for name, each in versions.items() if _VERSION.fullmatch(each)}
    order = [component.name for component in COMPONENTS]
    return ObservedDefinitions(
        kinds=dict(sorted(kinds.items())), versions={name: read[name] for name in order if name in read}
    )


def _definitions(live: LiveCluster, groups: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the definitions of API groups one by one: together they may be large."""
    try:
        resource = live.resource(*DEFINITION)
    except UnknownKind:  # a server without extensions
        return
    names = [metadata_text(body, "name") for body in live.list(resource, metadata_only=True).objects]
    for name in sorted(names):
        if name.partition(".")[2] in groups:
            yield from live.list(resource, fields=f"metadata.name={name}").objects


def _labelled(bodies: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the versions that operators write on their definitions, if all of one agree."""
    found: dict[str, set[str]] = {}
    for body in bodies:
        spec = mapping(body.get("spec"))
        component = component_of(text(spec.get("group")), text(mapping(spec.get("names")).get("kind")))
        label = text(mapping(mapping(body.get("metadata")).get("labels")).get(_LABEL))
        if component is not None and label:
            found.setdefault(component.name, set()).add(label)
    return _agreed(found)


def _of_images(deployments: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the versions that the images of operators are tagged with, if all of one agree."""
    found: dict[str, set[str]] = {}
    for body in deployments:
        pod = mapping(mapping(mapping(body.get("spec")).get("template")).get("spec"))
        for container in map(mapping, sequence(pod.get("containers"))):
            name, _, tag = text(container.get("image")).partition("@")[0].rpartition(":")
            for component in COMPONENTS:
                if tag and any(f"/{name}".endswith(f"/{image}") for image in component.images):
                    found.setdefault(component.name, set()).add(tag)
    return _agreed(found)


def _agreed(found: Mapping[str, set[str]]) -> dict[str, str]:
    return {name: next(iter(versions)) for name, versions in found.items() if len(versions) == 1}

"""Workloads of a cluster and their pods, found by the owners of the pods, whatever kinds they are."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.kinds.kind import Kinds
from reconciler.kinds.workloads import POD
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey, split_api_version
from reconciler.kube.values import mapping, metadata_map, metadata_text, sequence, text
from reconciler.live.observe.reading import read_kind

Body = Mapping[str, Any]

_MAX_OWNERS = 8
GENERAL = ("job", "service")
"""Types that name no kind."""
USER_LABELS = ("kaiwo.silogen.ai/user", "kaiwo-cli/username")

Ask = Callable[[str, Sequence[str]], str]
"""Asks the user for one of several names; the first argument is what they are."""


class ContainerTarget(Struct, frozen=True, kw_only=True):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str
    gpus: str = ""  # the resource key of its GPUs


class LiveWorkload(Struct, frozen=True, kw_only=True):
    """An object that runs pods and has no owner. `phases` counts its pods by phase."""

    key: ObjectKey
    user: str
    phases: Mapping[str, int]

    @property
    def named(self) -> str:
        """`TYPE/NAME`, as commands take it."""
        return f"{self.key.kind.lower()}/{self.key.name}"


class Owners:
    """The owners of objects, up to those that have none. Each is read once."""

    def __init__(self, live: LiveCluster) -> None:
        self._live = live
        self._read: dict[ObjectKey, Body | None] = {}

    def of(self, body: Body) -> Iterator[ObjectKey]:
        """Yield the owners of an object, the nearest first."""
        namespace = metadata_text(body, "namespace")
        for _ in range(_MAX_OWNERS):
            key = _owner(body, namespace)
            if key is None:
                return
            yield key
            found = self._get(key)
            if found is None:
                return
            body = found

    def _get(self, key: ObjectKey) -> Body | None:
        if key not in self._read:
            try:
                self._read[key] = self._live.get(key)
            except ClusterError:  # a kind that may not be read: the chain ends there
                self._read[key] = None
        return self._read[key]


def _owner(body: Body, namespace: str) -> ObjectKey | None:
    rows = [mapping(one) for one in sequence(mapping(body.get("metadata")).get("ownerReferences"))]
    row = next((one for one in rows if one.get("controller") is True), None)
    if row is None:
        return None
    group, _ = split_api_version(text(row.get("apiVersion")))
    return ObjectKey(group=group, kind=text(row.get("kind")), namespace=namespace, name=text(row.get("name")))


def pods_of(live: LiveCluster, named: str, namespace: str) -> list[Body]:
    """Return the pods of `TYPE/NAME`, those that run first. Raises `ConfigError` if there are none."""
    kind, _, name = named.rpartition("/")
    owners = Owners(live)
    pods = [body for body in _pods(live, namespace) if _belongs(body, owners, kind.lower(), name)]
    if not pods:
        hint = "it may wait in its queue: see `reconciler status`; -n names its namespace"
        raise ConfigError(f"no pod of {named} in namespace {namespace}", hint=hint)
    return sorted(pods, key=lambda body: (_phase(body) != "Running", metadata_text(body, "name")))


def _pods(live: LiveCluster, namespace: str) -> Sequence[Body]:
    found = read_kind(live, POD, namespace=namespace)
    if found.failure:
        raise ClusterError(found.failure)
    return found.objects


def _belongs(pod: Body, owners: Owners, kind: str, name: str) -> bool:
    own = ObjectKey(group=POD[0], kind=POD[1], namespace="", name=metadata_text(pod, "name"))
    chain = (own, *owners.of(pod))
    return any(key.name == name and (kind in ("", *GENERAL) or key.kind.lower() == kind) for key in chain)


def choose(pods: Sequence[Body], pod: str, container: str, ask: Ask | None) -> ContainerTarget:
    """Return the container that is meant: the named one, the only one, or the one that the user chooses.

    Raises `ConfigError` with the names if there are several and nobody to ask.
    """
    names = [metadata_text(body, "name") for body in pods]
    chosen = pods[names.index(_one("pod", names, pod, ask))]
    spec = mapping(chosen.get("spec"))
    main = [mapping(one) for one in sequence(spec.get("containers"))]
    others = [mapping(one) for one in sequence(spec.get("initContainers"))]
    known = [text(one.get("name")) for one in main]
    every = [*known, *(text(one.get("name")) for one in others)]
    name = _one("container", every if container else known, container, ask)
    row = next(one for one in (*main, *others) if one.get("name") == name)
    limits = mapping(mapping(row.get("resources")).get("limits"))
    gpus = next((key for key in limits if key.startswith(("amd.com/", "nvidia.com/"))), "")
    return ContainerTarget(
        namespace=metadata_text(chosen, "namespace"), pod=metadata_text(chosen, "name"), container=name, gpus=gpus
    )


def _one(what: str, names: Sequence[str], named: str, ask: Ask | None) -> str:
    if named in names or (len(names) == 1 and not named):
        return named or names[0]
    if not named and ask is not None:
        return ask(what, names)
    problem = f"there is no {what} {named}" if named else f"there are several {what}s"
    raise ConfigError(problem, hint=f"choose one with --{what}: {', '.join(names)}")


def workloads(live: LiveCluster, kinds: Kinds, namespace: str, user: str) -> list[LiveWorkload]:
    """Return what runs pods, or may once its queue lets it; `user`: only those of this user.

    Raises `ClusterError` if pods cannot be read; kinds that cannot are left out.
    """
    found: dict[ObjectKey, LiveWorkload] = {}
    owners = Owners(live)
    phases: dict[ObjectKey, dict[str, int]] = {}
    for pod in _pods(live, namespace):
        own = ObjectKey(
            group=POD[0], kind=POD[1], namespace=metadata_text(pod, "namespace"), name=metadata_text(pod, "name")
        )
        root = [own, *owners.of(pod)][-1]
        counts = phases.setdefault(root, {})
        counts[_phase(pod)] = counts.get(_phase(pod), 0) + 1
        found.setdefault(root, LiveWorkload(key=root, user=_user(pod), phases=counts))
    rows = [row.id for row in kinds.values() if row.id != POD and (row.life.progress is not None or row.pods.scale)]
    for kind in rows:
        for body in read_kind(live, kind, namespace=namespace).objects:
            where = metadata_text(body, "namespace")
            key = ObjectKey(group=kind[0], kind=kind[1], namespace=where, name=metadata_text(body, "name"))
            if _owner(body, where) is None:
                found[key] = LiveWorkload(key=key, user=_user(body), phases=phases.get(key, {}))
    chosen = (one for one in found.values() if not user or _plain(one.user) == _plain(user))
    return sorted(chosen, key=lambda one: (one.key.namespace, one.key.kind, one.key.name))


def _plain(user: str) -> str:
    """Return a user as a label has it: signs that labels lack become dashes."""
    return re.sub(r"[^a-z0-9]+", "-", user.lower()).strip("-")


def _user(body: Body) -> str:
    labels = metadata_map(body, "labels")
    return next((text(labels[label]) for label in USER_LABELS if text(labels.get(label))), "")


def _phase(pod: Body) -> str:
    return text(mapping(pod.get("status")).get("phase")) or "Unknown"

"""The pods of a workload: as they are written, or as Kaiwo makes them, with what the common fields add to each."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from reconciler.kinds.fields import Fields, Tree
from reconciler.kinds.kai import SCHEDULER
from reconciler.kinds.kaiwo.config import KaiwoConfig, default
from reconciler.kinds.kaiwo.sizing import Size
from reconciler.kinds.kaiwo.storage import WorkloadVolumes, wait_container
from reconciler.kinds.translated import node_affinity, own_annotations
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Reason, Traced, untrace
from reconciler.kube.values import mapping, plural, sequence, text
from reconciler.repo.config import Backend, Cluster
from reconciler.sizing.devices import devices_in, is_gpu, pod_devices, read_devices

_CPUS, _MEMORY = 4, 32  # of a GPU, in CPUs and GiB
_NO_GPU = {"cpu": default("2", "a pod without GPUs"), "memory": default("16Gi", "a pod without GPUs")}
_USER = default(
    {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}, "pods run as user 1000, unless dangerous is true"
)
_SHM = Reason(rule="kaiwo.default", text="shared memory of the processes in a pod")
_KAI = default(SCHEDULER, "the cluster uses KAI")


class Role(Struct, frozen=True, kw_only=True):
    """Pods of one template, and what Kaiwo makes of them where they are not written.

    gpus: those of each pod, which its main container gets.
    amounts: CPU and memory of the main container.
    """

    container: str
    gpus: Traced
    shm: str
    amounts: Tree
    command: list[Any] | None = None
    restart: str = ""


class PodContext(Struct, frozen=True, kw_only=True):
    """The things that all pods of a workload have in common.

    models: the node label that tells GPU models apart, and its values. labels: those that win over all others.
    """

    fields: Fields
    config: KaiwoConfig
    cluster: Cluster
    size: Size
    resource: Traced
    models: tuple[str, tuple[str, ...]]
    storage: WorkloadVolumes
    labels: Tree
    has_ray: bool
    problems: list[Problem]

    @property
    def has_gpus(self) -> bool:
        """True if the workload requests GPUs."""
        return bool(self.size.gpus.value)


def with_gpus(gpus: Traced) -> Tree:
    """Return CPU and memory in proportion to GPUs."""
    count = gpus.value
    if not count:
        return dict(_NO_GPU)
    reason = Reason(
        rule="kaiwo.resources",
        text=f"{_CPUS} CPUs and {_MEMORY}Gi for each of {plural(count, 'GPU')}",
        origins=gpus.reason.origins,
    )
    return {"cpu": Traced(str(_CPUS * count), reason), "memory": Traced(f"{_MEMORY * count}Gi", reason)}


def pod_template(own: PodContext, at: FieldPath, role: Role) -> Tree:
    """Return the tree of a pod template, which starts from the one at a path, if there is any."""
    fields = own.fields
    written = fields.entries(*at, without=("metadata", "spec"))
    return {**written, "metadata": _metadata(own, at), "spec": _spec(own, (*at, "spec"), role)}


def _metadata(own: PodContext, at: FieldPath) -> Tree:
    fields = own.fields
    labels = fields.entries(*at, "metadata", "labels") | fields.entries("spec", "podTemplateSpecLabels") | own.labels
    annotations = fields.entries(*at, "metadata", "annotations") | own_annotations(fields)
    required = fields.get("spec", "requiredTopologyLabel")
    preferred = fields.get("spec", "preferredTopologyLabel")
    if required or preferred:
        which = "required" if required else "preferred"
        annotations[f"kueue.x-k8s.io/podset-{which}-topology"] = required or preferred
    own.problems.extend(_overridden(fields, own.labels))
    metadata = fields.entries(*at, "metadata", without=("labels", "annotations"))
    return {**metadata, "labels": labels, **({"annotations": annotations} if annotations else {})}


def _overridden(fields: Fields, labels: Tree) -> Iterator[Problem]:
    for key in fields.entries("spec", "podTemplateSpecLabels"):
        if key in labels:
            path = ("spec", "podTemplateSpecLabels", key)
            yield fields.warning("override", path, "has no effect: Kaiwo sets this label itself", "remove it")


# --- the pod -----------------------------------------------------------------------------------------------------

_MERGED = ("containers", "initContainers", "volumes", "tolerations", "imagePullSecrets", "affinity")


def _spec(own: PodContext, at: FieldPath, role: Role) -> Tree:
    fields, is_made = own.fields, _is_made(own.fields, at)
    spec = fields.entries(*at, without=_MERGED)
    volumes = [*own.storage.volumes, *_secret_volumes(fields), *([_shm(role)] if is_made else [])]
    _check_names(own, (*at, "volumes"), volumes)
    if is_made and fields.plain("spec", "dangerous") is not True:
        spec.setdefault("securityContext", _USER)
    if role.restart:
        spec.setdefault("restartPolicy", role.restart)
    scheduler = _KAI if own.cluster.backend is Backend.KAI else own.config.scheduler
    if scheduler is not None and "schedulerName" not in spec:
        spec["schedulerName"] = scheduler
    lists = {
        "initContainers": _init_containers(own, at),
        "containers": _containers(own, at, role),
        "volumes": [*fields.items(*at, "volumes"), *volumes],
        "tolerations": [*fields.items(*at, "tolerations"), *_tolerations(own, role)],
        "imagePullSecrets": _pull_secrets(fields, at),
    }
    spec |= {name: items for name, items in lists.items() if items}
    affinity = _affinity(own, (*at, "affinity"), role)
    return spec | ({"affinity": affinity} if affinity is not None else {})


def _is_made(fields: Fields, at: FieldPath) -> bool:
    """Return whether a pod has no containers of its own, so that it is Kaiwo's."""
    return not fields.plain(*at, "containers")


def _shm(role: Role) -> Tree:
    return {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": Traced(role.shm, _SHM)}}


def _secret_volumes(fields: Fields) -> list[Tree]:
    volumes = []
    for index in range(len(sequence(fields.plain("spec", "secretVolumes")))):
        at = ("spec", "secretVolumes", index)
        source: Tree = {"secretName": fields.get(*at, "secretName")}
        key = fields.get(*at, "key")
        if key is not None:
            source["items"] = [{"key": key, "path": fields.get(*at, "subPath") or key}]
        volumes.append({"name": fields.get(*at, "name"), "secret": source})
    return volumes


def _mounts(own: PodContext, *, with_shm: bool) -> list[Tree]:
    fields, mounts = own.fields, [*own.storage.mounts]
    for index in range(len(sequence(fields.plain("spec", "secretVolumes")))):
        own_fields = fields.entries("spec", "secretVolumes", index, without=("secretName", "key"))
        mounts.append({**own_fields, "readOnly": True})
    if with_shm:
        mounts.append({"name": "dshm", "mountPath": Traced("/dev/shm", _SHM)})  # noqa: S108 - a mount point
    return mounts


def _check_names(own: PodContext, at: FieldPath, added: Sequence[Tree]) -> None:
    """Report a volume that has the name of one that Kaiwo adds."""
    names = {untrace(volume["name"]) for volume in added}
    for index, volume in enumerate(map(mapping, sequence(own.fields.plain(*at)))):
        if volume.get("name") in names:
            message = f"volume {volume.get('name')!r} is added for the storage or the secrets of the workload"
            own.problems.append(own.fields.problem("clash", (*at, index, "name"), message, "rename it"))


def _tolerations(own: PodContext, role: Role) -> list[Tree]:
    if own.config.taint is None or not role.gpus.value:
        return []
    return [{"key": own.config.taint, "operator": "Exists", "effect": "NoSchedule"}]


def _pull_secrets(fields: Fields, at: FieldPath) -> list[Traced]:
    written = fields.items(*at, "imagePullSecrets")
    names = {mapping(item.value).get("name") for item in written}
    return [*written, *(one for one in fields.items("spec", "imagePullSecrets") if one.value["name"] not in names)]


def _affinity(own: PodContext, at: FieldPath, role: Role) -> Traced | Tree | None:
    """Return the affinity as it is written, in which every alternative requires the models as well."""
    fields = own.fields
    if not fields.plain("spec", "gpuModels") or not role.gpus.value:
        return fields.get(*at)
    label, values = own.models
    expression = {"key": label, "operator": "In", "values": list(values)}
    text = f"nodes whose {label} is one of these"
    return node_affinity(fields, at, [fields.made(expression, "gpu-models", text, ("spec", "gpuModels"))])


# --- containers --------------------------------------------------------------------------------------------------


def _init_containers(own: PodContext, at: FieldPath) -> list[Tree]:
    found = [wait_container(own.storage.download, own.storage)] if own.storage.download is not None else []
    count = len(sequence(own.fields.plain(*at, "initContainers")))
    return [*found, *(_common(own, (*at, "initContainers", index), with_shm=False) for index in range(count))]


def _containers(own: PodContext, at: FieldPath, role: Role) -> list[Tree]:
    """Return the containers. The main one gets the GPUs and the command, and no other does."""
    count = len(sequence(own.fields.plain(*at, "containers")))
    if not count:
        return [_made(own, (*at, "containers", 0), role)]
    main = _main(own, at)
    if count > 1 and role.gpus.value:
        names = [text(mapping(own.fields.plain(*at, "containers", index)).get("name")) for index in range(count)]
        others = ", ".join(name for index, name in enumerate(names) if index != main)
        message = f"container {names[main]} gets the GPUs of the pod; without any: {others}"
        path = (*at, "containers")
        own.problems.append(own.fields.warning("main-container", path, message, "put the one that computes first"))
    found = [_common(own, (*at, "containers", index), with_shm=False) for index in range(count)]
    if role.command is not None:
        found[main]["command"] = role.command
    for index in range(count):
        place = (*at, "containers", index, "resources")
        if resources := _resources(own, place, role.gpus if index == main else None, {}):
            found[index]["resources"] = resources
    return found


def _main(own: PodContext, at: FieldPath) -> int:
    """Return the number of the container that gets the GPUs: the first, or the only one that requests any itself."""
    found = [
        index
        for index, container in enumerate(map(mapping, sequence(own.fields.plain(*at, "containers"))))
        if any(read_devices(mapping(mapping(container.get("resources")).get(part))) for part in ("limits", "requests"))
    ]
    return found[0] if len(found) == 1 else 0


def _made(own: PodContext, at: FieldPath, role: Role) -> Tree:
    """Return the container of a pod that is Kaiwo's."""
    return {
        "name": role.container,
        **_common(own, at, with_shm=True),
        "imagePullPolicy": "Always",
        "resources": _resources(own, (*at, "resources"), role.gpus, role.amounts),
        **({"command": role.command} if role.command is not None else {}),
    }


def _common(own: PodContext, at: FieldPath, *, with_shm: bool) -> Tree:
    """Return a container with the image, the variables and the mounts that all of them have."""
    fields = own.fields
    container = fields.entries(*at)
    if not container.get("image"):
        container["image"] = fields.get("spec", "image") or (own.config.ray_image if own.has_ray else None)
        if container["image"] is None:
            path = at if fields.plain(*at) is not None else ("spec",)
            found = fields.problem("image", path, "a container has no image", "add spec.image")
            if found not in own.problems:
                own.problems.append(found)
            container["image"] = ""
    container["env"] = _env(own, (*at, "env"))
    written = fields.items(*at, "volumeMounts")
    places = {mapping(mount.value).get("mountPath") for mount in written}
    mounts = [*written]
    for mount in _mounts(own, with_shm=with_shm):
        if untrace(mount["mountPath"]) in places:
            message = f"{untrace(mount['mountPath'])} is where the storage or a secret of the workload is mounted"
            own.problems.append(fields.problem("clash", (*at, "volumeMounts"), message, "mount it elsewhere"))
        mounts.append(mount)  # type: ignore[arg-type]
    return container | ({"volumeMounts": mounts} if mounts else {})


def _env(own: PodContext, at: FieldPath) -> list[Any]:
    """Return the variables of a container: its own, those of the workload, and what Kaiwo tells about its size."""
    fields, size = own.fields, own.size
    numbers = {"NUM_GPUS": size.total, "NUM_REPLICAS": size.replicas.value, "NUM_GPUS_PER_REPLICA": size.gpus.value}
    origins = tuple(dict.fromkeys((*size.replicas.reason.origins, *size.gpus.reason.origins)))
    why = Reason(rule="kaiwo.size", text="the size of the workload", origins=origins)
    ours: dict[str, Any] = {untrace(one["name"]): one for one in own.storage.env}
    ours |= {name: {"name": name, "value": Traced(str(value), why)} for name, value in numbers.items()}
    named: dict[Any, Any] = {}
    for path in (at, ("spec", "env")):
        for item in fields.items(*path):
            name = mapping(item.value).get("name")
            if name in ours:
                found = _of_size(own, item, str(name))
                own.problems.extend(() if found in own.problems else (found,))
                continue
            named.pop(name, None)
            named[name] = item
    return [*named.values(), *ours.values()]


def _of_size(own: PodContext, item: Traced, name: str) -> Problem:
    path = item.reason.origins[0].field
    return own.fields.warning("override", path, f"has no effect: Kaiwo sets {name} itself", "remove it")


def _resources(own: PodContext, at: FieldPath, gpus: Traced | None, otherwise: Tree) -> Tree:
    """Return requests and limits: as written, then those of the workload, then Kaiwo's own; GPUs of the main one."""
    fields = own.fields
    amounts = {part: fields.entries(*at, part) for part in ("requests", "limits")}
    known = {*amounts["requests"], *amounts["limits"]}
    for part, found in amounts.items():
        common = fields.entries("spec", "resources", part)
        found |= {name: value for name, value in common.items() if name not in known and not is_gpu(name)}
    known |= {*amounts["requests"], *amounts["limits"]}
    for found in amounts.values():
        found |= {name: value for name, value in otherwise.items() if name not in known}
    if gpus is not None and gpus.value:
        _check_gpus(own, at, gpus.value)
        for found in amounts.values():
            found[own.resource.value] = Traced(str(gpus.value), gpus.reason)
    rest = fields.entries(*at, without=("requests", "limits"))
    return {**rest, **{part: found for part, found in amounts.items() if found}}


def _check_gpus(own: PodContext, at: FieldPath, gpus: int) -> None:
    for part in ("limits", "requests"):
        for name, count in read_devices(mapping(own.fields.plain(*at, part))).items():
            if name != own.resource.value or count != gpus:
                message = f"{count} {name} contradict the {gpus} {own.resource.value} of the workload"
                path = (*at, part, name)
                own.problems.append(own.fields.problem("contradiction", path, message, "remove them"))


def _requests(spec: Tree) -> Tree:
    """Return what of a pod says its devices, as plain values; the rest of it is not copied."""
    found: Tree = {
        field: [
            {name: untrace(container[name]) for name in ("resources", "restartPolicy") if name in container}
            for container in spec.get(field, ())
        ]
        for field in ("containers", "initContainers")
    }
    return found | ({"overhead": untrace(spec["overhead"])} if "overhead" in spec else {})


def check_sum(own: PodContext, pods: Sequence[tuple[int, Tree]]) -> None:
    """Report GPUs of all pods that are not those of the workload; without any there, they are as they are written."""
    if not own.has_gpus:
        return
    rendered: dict[str, int] = {}
    for count, template in pods:
        for name, devices in pod_devices(_requests(template["spec"])).items():
            rendered[name] = rendered.get(name, 0) + devices * count
    asked = devices_in({own.resource.value: own.size.total})
    if rendered != asked:
        path = next(path for path in (("spec", "gpus"), ("spec", "gpusPerReplica")) if own.fields.plain(*path))
        shown = " and ".join(f"{count} {name}" for name, count in rendered.items())
        message = f"its pods request {shown}, but the workload is to have {own.size.total} {own.resource.value}"
        hint = "remove the GPUs of other containers and groups, or request the sum"
        own.problems.append(own.fields.problem("contradiction", path, message, hint))

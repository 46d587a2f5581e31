"""The reason why pods fit nowhere, in one sentence: the nodes that are left after each requirement."""

from bisect import bisect_left
from collections.abc import Sequence

from reconciler.kube.values import plural
from reconciler.placement.fleet import ClusterNodes
from reconciler.placement.jobs import PodAsk
from reconciler.placement.space import WHOLE, Ask, Space
from reconciler.sizing.devices import is_other_device


def why_not(fleet: ClusterNodes, space: Space, pods: PodAsk, ask: Ask) -> str:
    """Return why not all of equal pods fit."""
    nodes = [*space.nodes_of(ask.groups)]
    if not nodes:
        return _no_nodes(fleet, pods)
    fits = sum(space.fits(node, ask) for node in nodes) if pods.pods > 1 else 0
    gpus, level = _gpus(pods), _level(pods)
    if not fits:
        return _no_room(space, pods, ask, nodes)
    if fits < pods.pods:
        return f"{fits} of {plural(pods.pods, 'pod')} with {gpus} each have room, and a part is not placed"
    if level:
        return f"no single {level} has room for {plural(pods.pods, 'pod')} of {gpus}"
    return f"{plural(pods.pods, 'pod')} of {gpus} fit, but not beside its other pods"


def _level(pods: PodAsk) -> str:
    return pods.topology.level if pods.topology is not None else ""


def _no_room(space: Space, pods: PodAsk, ask: Ask, nodes: Sequence[int]) -> str:
    """Return what the nodes lack that pods may use."""
    gpus = _gpus(pods)
    largest = max(len(space.rooms[node].slots) for node in nodes)
    if largest < pods.gpus:
        return f"a pod requests {gpus}, and no node that it may use has more than {largest}"
    free = {node: _free(space, node, ask) for node in nodes}
    enough = [node for node, slots in free.items() if slots >= pods.gpus]
    if not enough:
        total = f"{sum(free.values())} of those that it may use are free"
        return f"a pod requests {gpus}; {total}, at most {max(free.values())} on one node"
    cores = [node for node in enough if space.rooms[node].cpu >= ask.cpu]
    short = f"{ask.cpu / WHOLE:g} cores" if not cores else f"{ask.memory / 1024:g} GiB of memory"
    return f"room for {gpus} is on {plural(len(enough), 'node')}, but not the {short} that a pod requests"


def _free(space: Space, node: int, ask: Ask) -> int:
    slots = space.rooms[node].slots
    return len(slots) - bisect_left(slots, ask.share)


def _gpus(pods: PodAsk) -> str:
    if is_other_device(pods.site.resource):
        return f"{pods.gpus} {pods.site.resource}"
    return plural(pods.gpus, "GPU") if pods.share == WHOLE else f"{pods.gpus * pods.share / WHOLE:g} of a GPU"


def _no_nodes(fleet: ClusterNodes, pods: PodAsk) -> str:
    """Return which requirement no node meets."""
    site = pods.site
    products = sorted({node.product for node in fleet.nodes if node.product})
    text = f"no open node matches its {_requirement(pods)}"
    if site.product and site.product not in products:
        text = f"no open node has {site.product}; there are {', '.join(products) or 'no GPUs'}"
    elif site.hosts:
        text = f"no open node of those that it names ({', '.join(site.hosts[:3])})"
    elif site.gpu_memory and all(node.memory_mib < site.gpu_memory for node in fleet.nodes):
        most = max((node.memory_mib for node in fleet.nodes), default=0)
        text = f"it asks for a GPU with {site.gpu_memory} MiB, and the largest has {most}"
    closed = "; ".join(f"{plural(one.nodes, 'node')} {one.why}" for one in fleet.excluded)
    return f"{text} ({closed})" if closed else text


def _requirement(pods: PodAsk) -> str:
    site = pods.site
    if site.selector or site.terms:
        keys = sorted({*(key for key, _ in site.selector), *(one.key for term in site.terms for one in term)})
        return f"selector or affinity ({', '.join(keys[:3])}) and tolerations"
    return "tolerations"

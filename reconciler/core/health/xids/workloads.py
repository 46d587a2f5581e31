"""Which pod a process belongs to: the kubelet puts its UID into the path of the control group."""

import re
from collections.abc import Mapping

_POD = re.compile(
    r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])", re.ASCII
)
_CONTAINER = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])", re.ASCII)
_MENTION = re.compile(
    r"pod/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})(?: container/[0-9a-f]{12})?", re.ASCII
)


def workload_of(cgroup: str) -> tuple[str, str]:
    """Return the UID of the pod and the id of the container in `/proc/PID/cgroup`; empty where it names none.

    The path differs by driver (`cgroupfs` or systemd), runtime and version of cgroups, the two ids do not. The last
    ones count: a cluster in a container has those of the outer one before them. UIDs of static pods have no dashes.
    """
    pods = list(_POD.finditer(cgroup))
    if not pods:
        return "", ""
    last = pods[-1]
    line = cgroup[last.end() :].partition("\n")[0]
    container = _CONTAINER.search(line)
    return last[1].replace("_", "-"), container[1] if container else ""


def mention(pod: str, container: str) -> str:
    """Return how a text names a pod that only its UID is known of."""
    return f"pod/{pod}{f' container/{container[:12]}' if container else ''}"


def mentioned(text: str) -> set[str]:
    """Return the UIDs of the pods that a text names."""
    return {found[1] for found in _MENTION.finditer(text)}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the names of pods in the place of their UIDs, as far as they are known."""
    return _MENTION.sub(lambda found: names.get(found[1]) or found[0], text)

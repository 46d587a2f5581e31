"""The results of the network tests that policies declare: the termination messages of their pods."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from reconciler.health.fleet_reading import FleetReading
from reconciler.kinds.health.jobs import NETWORK_TEST
from reconciler.kinds.health.network import CONTAINER
from reconciler.kinds.workloads import POD
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.times import unix_time
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.nodehealth.active.fabric import EndedTest, declared_tests, with_fabric
from reconciler.nodehealth.policy import NetworkTest, PolicyBook


def with_network_tests(
    cluster: LiveCluster, reading: FleetReading, policies: PolicyBook, now: float
) -> tuple[FleetReading, tuple[str, ...]]:
    """Return what was read with the results of declared tests, and what went wrong. Without tests nothing is listed."""
    declared = declared_tests(policies)
    try:
        ended = [one for pods in _pods(cluster, declared) for one in ended_tests(pods, declared)]
    except ClusterError as error:
        return reading, (f"results of network tests cannot be read: {error.message}",)
    products = {name: one.product for name, one in reading.facts.items()}
    return replace(reading, reports=with_fabric(reading.reports, ended, products, now)), ()


def _pods(cluster: LiveCluster, declared: Mapping[tuple[str, str], NetworkTest]) -> Iterator[Sequence[Body]]:
    for namespace in sorted({namespace for namespace, _ in declared}):
        yield [*cluster.list(cluster.resource(*POD), namespace=namespace, labels=NETWORK_TEST).objects]


def ended_tests(pods: Sequence[Body], declared: Mapping[tuple[str, str], NetworkTest]) -> Iterator[EndedTest]:
    """Yield the tests that have ended, of pods that carry the name of a declared one.

    An end of a pair speaks about its own node; a launcher about all nodes of its test.
    """
    for pod in pods:
        metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
        name = text(mapping(metadata.get("labels")).get(NETWORK_TEST))
        test = declared.get((text(metadata.get("namespace")), name))
        end = _end(pod)
        if test is None or not end:
            continue
        node = text(spec.get("nodeName"))
        is_end = len(test.nodes) == 1 or (node in test.nodes and _has_index(pod))
        nodes = (node,) if is_end else test.nodes
        if set(nodes) <= set(test.nodes):
            yield EndedTest(
                test=test,
                nodes=nodes,
                output=text(end.get("message")),
                code=count(end.get("exitCode"), 1),
                ended_at=unix_time(end.get("finishedAt")),
            )


def _has_index(pod: Body) -> bool:
    labels = mapping(mapping(pod.get("metadata")).get("labels"))
    return "batch.kubernetes.io/job-completion-index" in labels


def _end(pod: Body) -> Mapping[str, object]:
    """Return how the program of a test ended; empty while it runs."""
    statuses = map(mapping, sequence(mapping(pod.get("status")).get("containerStatuses")))
    ends = (mapping(mapping(one.get("state")).get("terminated")) for one in statuses if one.get("name") == CONTAINER)
    return next(ends, {})

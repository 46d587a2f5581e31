"""The tests of the network that a HealthPolicy declares, as Jobs for review: on the nodes that it names, once.

The program runs in the user's image. The end of its output is the termination message of its pod, which the controller
reads: no token, no further image, no way from the pod to an agent.
"""

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from reconciler.kinds.aspects import Lookup
from reconciler.kinds.health.jobs import NETWORK_TEST
from reconciler.kinds.kai import QUEUE_LABELS, SCHEDULER
from reconciler.kinds.kueue.labels import QUEUE_LABEL
from reconciler.kinds.manifests.manifest import Manifest, manifest
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import metadata_map
from reconciler.kube.yaml import Document
from reconciler.nodehealth.active.fabric import job_name
from reconciler.nodehealth.nodes import TAINT
from reconciler.nodehealth.policy import FabricTest, NetworkTest, read_policy
from reconciler.repo.config import Backend, Cluster

CONTAINER = "network-test"
_OUTPUT, _TAIL = "/tmp/network-test", 4000  # noqa: S108 - in the container; a termination message has 4096 bytes
_SIZE = "8G"
_IB_SECONDS = 10
_WORKERS_START = 120  # seconds: the server of a pair, or the last worker

Data = dict[str, Any]


def network_manifests(document: Document, lookup: Lookup) -> Iterator[Manifest]:
    """Yield the objects of all tests of a policy."""
    policy = read_policy(document.key.name, document.data["spec"])
    for name, test in sorted(policy.network_tests.items()):
        place: tuple[str | int, ...] = ("spec", "networkTests", name)
        text = f"tests the network of {', '.join(test.nodes)} with {program_of(test)}"
        reason = Reason(rule="health.network-test", text=text, origins=(Origin(document=document, field=place),))
        labels = metadata_map(document.data, "labels")
        for tree in objects_of_test(job_name(policy.name, name, test), test, labels, lookup.cluster):
            yield manifest(cluster=lookup.cluster.name, tree=tree, source=document.at(place), reason=reason)


def program_of(test: NetworkTest) -> str:
    """Return the program that a test runs."""
    return test.program or ("all_reduce_perf" if test.test is FabricTest.ALL_REDUCE else "ib_write_bw")


def objects_of_test(name: str, test: NetworkTest, labels: Mapping[str, Any], cluster: Cluster) -> Iterator[Data]:
    """Yield the objects of one test. Its Job has the labels of the policy, such as that of its team."""
    is_kai = cluster.backend is Backend.KAI
    queue = {QUEUE_LABELS[0] if is_kai else QUEUE_LABEL: test.queue} if test.queue else {}
    metadata = {"name": name, "namespace": test.namespace, "labels": {**labels, NETWORK_TEST: name, **queue}}
    resources = {cluster.vendor.resource: str(test.gpus), **test.resources}
    if len(test.nodes) > 1 and test.test is FabricTest.ALL_REDUCE:
        tree = _mpi_job(metadata, test, resources)
        pods = [role["template"]["spec"] for role in tree["spec"]["mpiReplicaSpecs"].values()]
    else:
        template = _template(name, test, _program(test, name), resources)
        pods = [template["spec"]]
        spec: Data = {"backoffLimit": 0, "activeDeadlineSeconds": test.seconds, "template": template}
        tree = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    if is_kai and queue:
        for pod in pods:
            pod["schedulerName"] = SCHEDULER
    if test.test is FabricTest.IB_WRITE:
        yield {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": test.namespace},
            "spec": {"clusterIP": "None", "selector": {NETWORK_TEST: name}, "publishNotReadyAddresses": True},
        }
        tree["spec"] |= {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
        pods[0]["subdomain"] = name
    yield tree


def _program(test: NetworkTest, name: str) -> str:
    """Return the command of a pod: the all-reduce of one node, or one end of a pair."""
    program = quote(program_of(test))
    if test.test is FabricTest.ALL_REDUCE:
        return f"{program} -b {_SIZE} -e {_SIZE} -g {test.gpus}"
    device = f" -d {quote(test.device)}" if test.device else ""
    write = f"{program} -F --report_gbits -D {_IB_SECONDS}{device}"
    # The client tries again while the server starts.
    return (
        f'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then {write}; else '
        f"n=0; until {write} {name}-0.{name}; do n=$((n+2)); [ $n -lt {_WORKERS_START} ] || exit 1; sleep 2; done; fi"
    )


def _script(command: str) -> list[str]:
    """Return a command whose output ends in the termination message, and which exits as the program does."""
    text = f"({command}) > {_OUTPUT} 2>&1; code=$?; cat {_OUTPUT}; tail -c {_TAIL} {_OUTPUT} > /dev/termination-log"
    return ["/bin/sh", "-c", f"{text}; exit $code"]


def _template(name: str, test: NetworkTest, command: str, resources: Data) -> Data:
    container: Data = {
        "name": CONTAINER,
        "image": test.image,
        "command": _script(command),
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},  # RDMA pins memory
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - NCCL exchanges data there
    }
    if test.env:
        container["env"] = [{"name": key, "value": value} for key, value in sorted(test.env.items())]
    return {"metadata": {"labels": {NETWORK_TEST: name}}, "spec": _on_nodes(name, test, container)}


def _on_nodes(name: str, test: NetworkTest, container: Data) -> Data:
    """Return the pod on the nodes of the test, one pod a node, also while we keep them out of use."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in sorted(test.nodes)
    ]
    affinity: Data = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    if len(test.nodes) > 1:
        apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {NETWORK_TEST: name}}}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": affinity,
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }


def _mpi_job(metadata: Data, test: NetworkTest, resources: Data) -> Data:
    """Return the MPIJob of an all-reduce between nodes: its launcher has the output, its workers have the GPUs."""
    name, ranks = metadata["name"], len(test.nodes) * test.gpus
    exported = "".join(f" -x {quote(key)}" for key in sorted(test.env))
    command = f"mpirun --allow-run-as-root -np {ranks}{exported} {quote(program_of(test))} -b {_SIZE} -e {_SIZE} -g 1"
    workers = f"{name}-worker"
    worker = _template(workers, test, "", resources)
    container = worker["spec"]["containers"][0]
    container |= {"name": "worker", "command": ["/usr/sbin/sshd", "-De"]}
    launcher = {key: value for key, value in container.items() if key in ("image", "env")}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": metadata,
        "spec": {
            "slotsPerWorker": test.gpus,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, "activeDeadlineSeconds": test.seconds},
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": {
                        "metadata": {"labels": {NETWORK_TEST: name}},
                        "spec": {
                            "restartPolicy": "Never",
                            "automountServiceAccountToken": False,
                            "containers": [{"name": CONTAINER, **launcher, "command": _script(command)}],
                        },
                    },
                },
                "Worker": {"replicas": len(test.nodes), "restartPolicy": "Never", "template": worker},
            },
        },
    }

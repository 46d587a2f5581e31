"""`Network`: what the pods of a job need for the network that the job takes from its queue.

A queue names a preset in `network`, or defines networks in `networks`, each on its own or on top of a preset. A job
takes one of them by its name. A job on one node needs none.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from reconciler.kinds.rendered import place, problem_at
from reconciler.kinds.torchrun.intent.job import TorchrunJob
from reconciler.kinds.torchrun.intent.queue import TorchrunQueue
from reconciler.kinds.torchrun.intent.sections import NetworkSection
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Reason, Traced
from reconciler.kube.values import plural

# Presets of networks, as vendors publish them: what a pod requests, mounts and sets for NCCL to use the network.
# To add one, add a row; `source` is where its values are published.


class Preset(Struct, frozen=True, kw_only=True):
    """The additions to a pod that uses a network.

    per_node: devices of a whole node, of which a pod gets the share that it has of the node's GPUs.
    per_pod: amounts that do not depend on the share.
    off: variables that turn the network off, and the value that does.
    setup: lines of bash that run before the training, for variables that only the node knows.
    shm: size of /dev/shm, unless the job or its queue sets one.
    whole: whether a pod must have all GPUs of its node.
    """

    name: str
    title: str
    source: str
    per_node: Mapping[str, int] = {}
    per_pod: Mapping[str, int | str] = {}
    annotations: Mapping[str, str] = {}
    capabilities: tuple[str, ...] = ()
    privileged: bool = False
    host: bool = False
    env: Mapping[str, str] = {}
    off: Mapping[str, str] = {}
    setup: str = ""
    shm: str = ""
    volumes: Mapping[str, str] = {}  # name -> path on the node
    mounts: Mapping[str, str] = {}  # name -> path in the trainer
    sidecar: Mapping[str, Any] = {}
    whole: bool = False


_GOOGLE = "https://github.com/GoogleCloudPlatform/container-engine-accelerators/blob/master"

_ORACLE = "https://github.com/oracle-quickstart/oci-hpc-oke/blob/main/manifests/nccl-tests"

_NVIDIA = "https://github.com/Mellanox/network-operator-docs/blob/main/examples/processed"

_NO_RDMA = {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
"""Variables that make NCCL use sockets: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html."""


def _interfaces(networks: Mapping[str, str]) -> Mapping[str, str]:
    """Return the annotations of GKE for a pod with several networks; names of networks are those of the cluster."""
    rows = ",".join(f'{{"interfaceName":"{name}","network":"{network}"}}' for name, network in networks.items())
    return {"networking.gke.io/default-interface": "eth0", "networking.gke.io/interfaces": f"[{rows}]"}


def _devices(container: str, *more: str) -> Mapping[str, str]:
    """Return the annotation by which GKE gives the GPUs of the node to a sidecar."""
    paths = [*(f"/dev/nvidia{index}" for index in range(8)), "/dev/nvidiactl", "/dev/nvidia-uvm", *more]
    return {f"devices.gke.io/container.{container}": "".join(f"- path: {path}\n" for path in paths)}


_NEAR = 2  # interfaces of the first socket


def _bindings(near: str, far: str) -> str:
    """Return the CPUs of each interface of an A3 High: two interfaces belong to each socket."""
    return ";".join(f"eth{index}:{near if index <= _NEAR else far}" for index in range(1, 5))


_LIBRARIES = "/usr/local/nvidia/lib64"

_OF_NODE = {"nvidia-libraries": "/home/kubernetes/bin/nvidia/lib64", "host-sys": "/sys", "host-proc-sys": "/proc/sys"}

_DAEMON_MOUNTS = {"nvidia-libraries": _LIBRARIES, "host-sys": "/hostsysfs", "host-proc-sys": "/hostprocsysfs"}


def _daemon(
    name: str, image: str, command: tuple[str, ...], capabilities: tuple[str, ...], **mounts: str
) -> Mapping[str, Any]:
    """Return the sidecar that receives for the GPUs of a node; as an init container it ends with the training."""
    return {
        "name": name,
        "image": image,
        "restartPolicy": "Always",
        "command": list(command),
        "env": [{"name": "LD_LIBRARY_PATH", "value": _LIBRARIES}],
        "securityContext": {"capabilities": {"add": list(capabilities)}},
        "volumeMounts": [
            {"name": volume.replace("_", "-"), "mountPath": path}
            for volume, path in {**_DAEMON_MOUNTS, **mounts}.items()
        ],
    }


_TCPX_IMAGE = "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev:v2.0.15"

_TCPXO_IMAGE = "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.9"

_TCPX_PROGRAM = "/tcpgpudmarxd/build/app/tcpgpudmarxd"

_TCPXO_START = (
    "set -ex; chmod 755 /fts/entrypoint_rxdm_container.sh;"
    " exec /fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8 --uid= --alsologtostderr"
)

_EFA = Preset(
    name="eks-efa-p5",
    title="Amazon EKS: P5 with 32 Elastic Fabric Adapters",
    source="https://github.com/aws-samples/awsome-distributed-training/blob/main/micro-benchmarks/nccl-tests/kubernetes/nccl-tests.yaml",
    per_node={"vpc.amazonaws.com/efa": 32},
    per_pod={"hugepages-2Mi": "5120Mi"},
    env={"FI_PROVIDER": "efa", "FI_EFA_FORK_SAFE": "1"},
    off={"NCCL_NET": "Socket"},
)

_OCI = Preset(
    name="oci-rdma-vf-h100",
    title="Oracle OKE: BM.GPU.H100.8 with virtual functions",
    source=f"{_ORACLE}/virtual-functions/kueue/BM.GPU.H100.8.yaml",
    per_node={"nvidia.com/rdma-vf": 16},
    annotations={"k8s.v1.cni.cncf.io/networks": ",".join(["rdma-vf"] * 16)},
    capabilities=("IPC_LOCK",),
    privileged=True,
    env={
        "NCCL_CUMEM_ENABLE": "0",
        "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_HCA": "mlx5",
        "NCCL_IB_TC": "41",
        "NCCL_IB_SL": "0",
        "NCCL_IB_TIMEOUT": "22",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    },
    off=_NO_RDMA,
    shm="32Gi",
    volumes={"infiniband": "/dev/infiniband"},
    mounts={"infiniband": "/dev/infiniband"},
    whole=True,
)

_OCI_HCAS = "=" + ",".join(f"mlx5_{index}" for index in (0, 1, *range(3, 11), *range(12, 18)))

_ROWS = (
    Preset(
        name="rdma-shared",
        title="NVIDIA Network Operator: shared RDMA devices (InfiniBand or RoCE)",
        source=f"{_NVIDIA}/macvlan-rdma-shared/40-pod.yaml",
        per_pod={"rdma/rdma_shared_device_a": 1},
        capabilities=("IPC_LOCK",),
        off=_NO_RDMA,
    ),
    Preset(
        name="rdma-hca",
        title="RDMA shared device plugin: a host channel adapter (bare metal)",
        source="https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/blob/master/example/test-hca-pod.yaml",
        per_pod={"rdma/hca_shared_devices_a": 1},
        capabilities=("IPC_LOCK",),
        off=_NO_RDMA,
    ),
    Preset(
        name="sriov-infiniband",
        title="NVIDIA Network Operator: SR-IOV InfiniBand",
        source=f"{_NVIDIA}/sriov-ib-rdma/50-pod.yaml",
        per_pod={"nvidia.com/mlnxnics": 1},
        annotations={"k8s.v1.cni.cncf.io/networks": "sriov-ib-network"},
        capabilities=("IPC_LOCK",),
        off=_NO_RDMA,
    ),
    Preset(
        name="coreweave-infiniband",
        title="CoreWeave: H100 with InfiniBand",
        source="https://github.com/coreweave/nccl-tests/blob/master/jobset/nccl-test-distributed-h100-64-jobset.yaml",
        per_pod={"rdma/ib": 1},
        env={
            "NCCL_SOCKET_IFNAME": "eth0",
            "NCCL_IB_HCA": "ibp",
            "NCCL_COLLNET_ENABLE": "0",
            "NCCL_NET_PLUGIN": "none",
            "UCX_NET_DEVICES": ",".join(f"ibp{index}:1" for index in range(8)),
            "SHARP_COLL_ENABLE_PCI_RELAXED_ORDERING": "1",
        },
        off=_NO_RDMA,
    ),
    _EFA,
    Preset(
        name="eks-efa-p4d",
        title="Amazon EKS: P4d with 4 Elastic Fabric Adapters",
        source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html",
        per_node={"vpc.amazonaws.com/efa": 4},
        per_pod=_EFA.per_pod,
        env=_EFA.env,
        off=_EFA.off,
    ),
    _OCI,
    Preset(
        name="oci-rdma-host-h100",
        title="Oracle OKE: BM.GPU.H100.8 on the network of the host",
        source=f"{_ORACLE}/host-network/kueue/BM.GPU.H100.8.yaml",
        capabilities=_OCI.capabilities,
        privileged=True,
        host=True,
        env={**_OCI.env, "NCCL_IB_HCA": _OCI_HCAS},
        off=_NO_RDMA,
        shm=_OCI.shm,
        volumes=_OCI.volumes,
        mounts=_OCI.mounts,
        whole=True,
    ),
    Preset(
        name="gke-rdma",
        title="Google GKE: A3 Ultra with GPUDirect RDMA",
        source=f"{_GOOGLE}/gpudirect-rdma/nccl-test.yaml",
        annotations=_interfaces({"eth0": "default", **{f"eth{index + 2}": f"rdma-{index}" for index in range(8)}}),
        env={"LD_LIBRARY_PATH": _LIBRARIES},
        off=_NO_RDMA,
        setup="source /usr/local/gib/scripts/set_nccl_env.sh",
        shm="250Gi",
        volumes={"nvidia": "/home/kubernetes/bin/nvidia", "gib": "/home/kubernetes/bin/gib"},
        mounts={"nvidia": "/usr/local/nvidia", "gib": "/usr/local/gib"},
        whole=True,
    ),
    Preset(
        name="gke-tcpxo",
        title="Google GKE: A3 Mega with GPUDirect-TCPXO",
        source=f"{_GOOGLE}/gpudirect-tcpxo/nccl-test-latest.yaml",
        annotations={
            **_interfaces({"eth0": "default", **{f"eth{index}": f"vpc{index}" for index in range(1, 9)}}),
            **_devices("tcpxo-daemon", "/dev/dmabuf_import_helper"),
        },
        env={"LD_LIBRARY_PATH": _LIBRARIES, "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices"},
        off={"NCCL_NET": "Socket"},
        setup=f"export NCCL_LIB_DIR={_LIBRARIES}; source {_LIBRARIES}/nccl-env-profile.sh",
        shm="1Gi",
        volumes={**_OF_NODE, "aperture-devices": "/dev/aperture_devices"},
        mounts={"nvidia-libraries": _LIBRARIES, "aperture-devices": "/dev/aperture_devices"},
        sidecar=_daemon(
            "tcpxo-daemon", _TCPXO_IMAGE, ("/bin/sh", "-c", _TCPXO_START), ("NET_ADMIN", "NET_BIND_SERVICE")
        ),
        whole=True,
    ),
    Preset(
        name="gke-tcpx",
        title="Google GKE: A3 High with GPUDirect-TCPX",
        source=f"{_GOOGLE}/gpudirect-tcpx/nccl-test-unprivileged-without-hostnetwork.yaml, nccl-config-latest.yaml",
        annotations={
            **_interfaces({"eth0": "default", **{f"eth{index}": f"vpc{index}" for index in range(1, 5)}}),
            **_devices("tcpx-daemon"),
        },
        capabilities=("IPC_LOCK",),
        env={
            "LD_LIBRARY_PATH": _LIBRARIES,
            "NCCL_SOCKET_IFNAME": "eth0",
            "NCCL_CROSS_NIC": "0",
            "NCCL_ALGO": "Ring",
            "NCCL_PROTO": "Simple",
            "NCCL_NSOCKS_PERTHREAD": "4",
            "NCCL_SOCKET_NTHREADS": "1",
            "NCCL_MAX_NCHANNELS": "8",
            "NCCL_MIN_NCHANNELS": "8",
            "NCCL_NET_GDR_LEVEL": "PIX",
            "NCCL_P2P_PXN_LEVEL": "0",
            "NCCL_DYNAMIC_CHUNK_SIZE": "524288",
            "NCCL_P2P_NET_CHUNKSIZE": "524288",
            "NCCL_P2P_PCI_CHUNKSIZE": "524288",
            "NCCL_P2P_NVL_CHUNKSIZE": "1048576",
            "NCCL_GPUDIRECTTCPX_FORCE_ACK": "0",
            "NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP": "1000",
            "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "eth1,eth2,eth3,eth4",
            "NCCL_GPUDIRECTTCPX_CTRL_DEV": "eth0",
            "NCCL_GPUDIRECTTCPX_TX_BINDINGS": _bindings("8-21,112-125", "60-73,164-177"),
            "NCCL_GPUDIRECTTCPX_RX_BINDINGS": _bindings("22-35,124-139", "74-87,178-191"),
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS": "1000000",
        },
        off={"NCCL_NET": "Socket"},
        volumes={**_OF_NODE, "tcpx-socket": "/run/tcpx"},
        mounts={"nvidia-libraries": _LIBRARIES, "tcpx-socket": "/tmp"},  # noqa: S108 - where the plugin looks for it
        sidecar=_daemon(
            "tcpx-daemon",
            _TCPX_IMAGE,
            (
                *(_TCPX_PROGRAM, "--gpu_nic_preset", "a3vm", "--gpu_shmem_type", "fd", "--uds_path", "/run/tcpx"),
                *("--setup_param", '\\"--verbose 128 2 0 \\"'),
            ),
            ("NET_ADMIN",),
            tcpx_socket="/run/tcpx",
        ),
        whole=True,
    ),
)

PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _ROWS}
"""All presets by name."""

NO_NETWORK = "none"

_NOTHING = Preset(name="", title="", source="")


class Network(Struct, frozen=True, kw_only=True):
    """A network that was chosen: the values of the queue's own section are over those of the preset."""

    chosen: Traced
    preset: Preset = _NOTHING
    section: NetworkSection | None = None

    @property
    def name(self) -> str:
        """Name of the network, as the job or its queue writes it."""
        name: str = self.chosen.value
        return name

    def traced(self, value: Any) -> Traced:
        """Return a value of the preset with its source."""
        text = f"network {self.name}: {self.preset.title} ({self.preset.source})"
        return Traced(value, Reason(rule="torchrun.network", text=text, origins=self.chosen.reason.origins))

    @property
    def env(self) -> Mapping[str, Traced]:
        """Variables by name."""
        own = {item.value.get("name"): item for item in self.section.env} if self.section else {}
        preset = {name: self.traced({"name": name, "value": value}) for name, value in self.preset.env.items()}
        return {**preset, **{str(name): item for name, item in own.items()}}

    @property
    def annotations(self) -> Mapping[str, Traced]:
        """Annotations of the pods, such as the networks that Multus attaches."""
        own = dict(self.section.annotations) if self.section else {}
        return {key: self.traced(value) for key, value in self.preset.annotations.items()} | own

    @property
    def resource_names(self) -> tuple[str, ...]:
        """Resources that the pods request."""
        own = [key for key, _ in self.section.resources] if self.section else []
        return tuple(dict.fromkeys([*self.preset.per_node, *self.preset.per_pod, *own]))

    def resources(self, gpus: int, whole: int | None, problems: list[Problem]) -> Mapping[str, Traced]:
        """Return the amounts for a pod with `gpus` of the `whole` GPUs of its node (None: the whole node)."""
        amounts = {key: self.traced(value) for key, value in self.preset.per_pod.items()}
        for key, count in self.preset.per_node.items():
            share, rest = divmod(count * gpus, whole) if whole and gpus else (count, 0)
            if rest or not share:
                message = f"{count} {key} of a node cannot be shared: a pod has {gpus} of {plural(whole or 0, 'GPU')}"
                hint = "use whole nodes, or set the amount for a pod in `resources` of the network"
                problems.append(problem_at(self.chosen, "torchrun.network", message, hint))
            amounts[key] = self.traced(share)
        return amounts | (dict(self.section.resources) if self.section else {})

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Capabilities of the trainer."""
        own: list[str] = self.section.capabilities.value if self.section and self.section.capabilities else []
        return tuple(dict.fromkeys([*self.preset.capabilities, *own]))

    def security(self, written: Traced | None) -> dict[str, Any] | None:
        """Return the security context of the trainer, with what the network adds to what is written."""
        before: dict[str, Any] = dict(written.value) if written else {}
        if self.capabilities:
            known = before.get("capabilities")
            known = known if isinstance(known, dict) else {}
            added = known.get("add") if isinstance(known.get("add"), list) else []
            every = [*dict.fromkeys([*(added or []), *self.capabilities])]
            before["capabilities"] = self.traced({**known, "add": every})
        if self.preset.privileged:
            before["privileged"] = self.traced(value=True)
        return before or None


def find_network(job: TorchrunJob, queue: TorchrunQueue, problems: list[Problem]) -> Network | None:
    """Return the network that a job takes; None for none, or with a problem for one that its queue does not have."""
    chosen = job.network or queue.network
    if chosen is None or chosen.value == NO_NETWORK:
        return None
    known = {network.name: network for network in networks_of(queue)}
    if chosen.value not in known:
        hint = _near(chosen.value, tuple(known)) or f"networks of the queue: {', '.join(known) or 'none'}"
        message = f"network {chosen.value!r} is not in queue {queue.name}"
        problems.append(problem_at(chosen, "torchrun.network-unknown", message, hint))
        return None
    found = known[chosen.value]
    return Network(chosen=chosen, preset=found.preset, section=found.section)


def networks_of(queue: TorchrunQueue) -> Iterator[Network]:
    """Yield the networks that jobs of a queue may take."""
    names = set()
    for section in queue.networks:
        names.add(section.name.value)
        preset = section.preset or section.name
        yield Network(chosen=section.name, preset=PRESETS.get(preset.value, _NOTHING), section=section)
    if queue.network and queue.network.value in PRESETS and queue.network.value not in names:
        yield Network(chosen=queue.network, preset=PRESETS[queue.network.value])


def check_networks(queue: TorchrunQueue) -> Iterator[Problem]:
    """Yield presets that do not exist."""
    names = [section.name.value for section in queue.networks]
    for preset in (section.preset for section in queue.networks if section.preset):
        if preset.value not in PRESETS:
            yield _unknown_preset(preset, tuple(PRESETS))
    if queue.network and queue.network.value not in (*names, *PRESETS, NO_NETWORK):
        yield _unknown_preset(queue.network, (*names, *PRESETS))


def _unknown_preset(value: Traced, known: tuple[str, ...]) -> Problem:
    hint = _near(value.value, known) or f"known: {', '.join(known)}"
    return problem_at(value, "torchrun.network-unknown", f"unknown network preset {value.value!r}", hint)


def _near(name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else ""


def conflicts(network: Network, given: Mapping[str, Traced], what: str) -> Iterator[Problem]:
    """Yield warnings about values of a job or queue that replace those of its network, or turn it off."""
    ours = network.env if what == "variable" else network.annotations
    for name, item in given.items():
        value = item.value.get("value") if what == "variable" else item.value
        wanted = ours.get(name)
        if wanted is not None and wanted is not item and wanted.value not in (item.value, value):
            wish = wanted.value.get("value") if what == "variable" else wanted.value
            message = f"{what} {name} replaces {wish!r} of network {network.name} at {place(network.chosen)}"
            hint = f"remove it, or set it in `networks` of the queue, with `preset: {network.preset.name or '…'}`"
            yield problem_at(item, "torchrun.network-conflict", message, hint, severity=Severity.WARNING)
        if what == "variable" and network.preset.off.get(name) == value and value is not None:
            message = f"{name}={value} turns off network {network.name}, which the job takes at {place(network.chosen)}"
            hint = "remove the variable, or set `network: none` in the job"
            yield problem_at(item, "torchrun.network-conflict", message, hint, severity=Severity.WARNING)

"""Components of a cluster whose versions decide what is valid: Kubernetes, and the operators whose definitions ship."""

from msgspec import Struct


class Component(Struct, frozen=True, kw_only=True):
    """A component: its name in `versions` of a cluster, its name for people, the Go module whose version ships.

    groups: the API groups that it defines; `Kind.group` is one kind of a group that several components share.
    images: the ends of the names of the images in which it runs, without tags.
    """

    name: str
    title: str
    module: str
    groups: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


KUBERNETES = "kubernetes"

COMPONENTS = (
    Component(name=KUBERNETES, title="Kubernetes", module="kubernetes"),
    Component(
        name="kueue",
        title="Kueue",
        module="sigs.k8s.io/kueue",
        groups=("kueue.x-k8s.io",),
        images=("kueue/kueue",),
    ),
    Component(
        name="kai",
        title="the KAI scheduler",
        module="github.com/NVIDIA/KAI-scheduler",
        groups=("kai.scheduler", "scheduling.run.ai"),
        images=("kai-scheduler/operator", "kai-scheduler/scheduler"),
    ),
    Component(
        name="mpiOperator",
        title="the MPI operator",
        module="github.com/kubeflow/mpi-operator",
        groups=("MPIJob.kubeflow.org",),
        images=("mpioperator/mpi-operator",),
    ),
    Component(
        name="trainingOperator",
        title="the training operator",
        module="github.com/kubeflow/training-operator",
        groups=("kubeflow.org",),
        images=("training-operator",),
    ),
    Component(
        name="trainer",
        title="Kubeflow Trainer",
        module="github.com/kubeflow/trainer/v2",
        groups=("trainer.kubeflow.org",),
        images=("trainer-controller-manager",),
    ),
    Component(
        name="kuberay",
        title="KubeRay",
        module="github.com/ray-project/kuberay/ray-operator",
        groups=("ray.io",),
        images=("kuberay/operator",),
    ),
    Component(
        name="appwrapper",
        title="AppWrapper",
        module="github.com/project-codeflare/appwrapper",
        groups=("workload.codeflare.dev",),
        images=("appwrapper",),
    ),
    Component(
        name="jobset",
        title="JobSet",
        module="sigs.k8s.io/jobset",
        groups=("jobset.x-k8s.io",),
        images=("jobset/jobset",),
    ),
    Component(
        name="lws",
        title="LeaderWorkerSet",
        module="sigs.k8s.io/lws",
        groups=("disaggregatedset.x-k8s.io", "leaderworkerset.x-k8s.io"),
        images=("lws/lws",),
    ),
    Component(
        name="kserve",
        title="KServe",
        module="github.com/kserve/kserve",
        groups=("serving.kserve.io",),
        images=("kserve/kserve-controller",),
    ),
    Component(
        name="argoWorkflows",
        title="Argo Workflows",
        module="github.com/argoproj/argo-workflows/v3",
        groups=("argoproj.io",),
        images=("argoproj/workflow-controller",),
    ),
    Component(
        name="sparkOperator",
        title="the Spark operator",
        module="github.com/kubeflow/spark-operator/v2",
        groups=("sparkoperator.k8s.io",),
        images=("spark-operator/controller", "kubeflow/spark-operator"),
    ),
    Component(
        name="volcano",
        title="Volcano",
        module="volcano.sh/volcano",
        groups=("batch.volcano.sh", "bus.volcano.sh", "nodeinfo.volcano.sh", "scheduling.volcano.sh"),
        images=("volcanosh/vc-controller-manager",),
    ),
    Component(
        name="gatewayApi",
        title="Gateway API",
        module="sigs.k8s.io/gateway-api",
        groups=("gateway.networking.k8s.io",),
    ),
    Component(
        name="inferenceExtension",
        title="the Gateway API Inference Extension",
        module="sigs.k8s.io/gateway-api-inference-extension",
        groups=("inference.networking.k8s.io", "inference.networking.x-k8s.io"),
        images=("gateway-api-inference-extension/epp",),
    ),
)

_BY_GROUP = {group: component for component in COMPONENTS for group in component.groups}


def component_of(group: str, kind: str) -> Component | None:
    """Return the component that defines a kind whose schema ships; None for other kinds."""
    return _BY_GROUP.get(f"{kind}.{group}") or _BY_GROUP.get(group)

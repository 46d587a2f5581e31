"""Which real parts the tests build, and from which pinned module each comes.

Versions are pinned to what the Go module proxy serves; the control plane's own are in `controlplane/go.mod`.
"""

from dataclasses import dataclass, field
from pathlib import Path

KUBERNETES = "1.37.2"
KUBERNETES_MINOR = "37"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Go module at a version, and where in it the custom resource definitions lie ("" for none)."""

    path: str
    version: str
    crds: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change to a source file before the build, where a program cannot be told by a flag or a variable."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Programs built from one module: `programs` maps the name of a program to its package in the module.

    `install` are the kustomizations of its objects, kept as `install.json`; `data` are folders that it reads as it runs.
    `own` are programs of ours, by the folder beside this file, which are built as packages of the module.
    """

    name: str
    module: Module
    programs: tuple[tuple[str, str], ...]
    edits: tuple[Edit, ...] = ()
    install: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    tags: str = ""
    cgo: bool = False
    own: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """Where the programs of a control plane lie; what the assets may lack is None."""

    etcd: Path
    apiserver: Path
    kubectl: Path | None
    manager: Path | None
    scheduler: Path | None


CONTROL_PLANE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")

KAI_MODULE = Module(path="github.com/NVIDIA/KAI-scheduler", version="v0.12.0", crds="deployments/kai-scheduler/crds")
KUEUE_MODULE = Module(path="sigs.k8s.io/kueue", version="v0.19.1", crds="config/components/crd/bases")
JOBSET_MODULE = Module(path="sigs.k8s.io/jobset", version="v0.12.0", crds="config/components/crd/bases")
# Later ones need a module of their own repository that the proxy does not serve.
ARGO_CD_MODULE = Module(path="github.com/argoproj/argo-cd/v3", version="v3.2.0", crds="manifests/crds")
FLUX_KUSTOMIZE_MODULE = Module(path="github.com/fluxcd/kustomize-controller", version="v1.9.0", crds="config/crd/bases")
FLUX_SOURCE_MODULE = Module(path="github.com/fluxcd/source-controller", version="v1.9.0", crds="config/crd/bases")
KUBEFLOW_MODULE = Module(path="github.com/kubeflow/training-operator", version="v1.9.3", crds="manifests/base/crds")

TRAINER_MODULE = Module(path="github.com/kubeflow/trainer/v2", version="v2.3.0", crds="manifests/base/crds")
MPI_MODULE = Module(path="github.com/kubeflow/mpi-operator", version="v0.8.0", crds="manifests/base")
KUBERAY_MODULE = Module(path="github.com/ray-project/kuberay/ray-operator", version="v1.6.2", crds="config/crd/bases")
APPWRAPPER_MODULE = Module(path="github.com/project-codeflare/appwrapper", version="v1.2.0", crds="config/crd/bases")
LWS_MODULE = Module(path="sigs.k8s.io/lws", version="v0.9.0", crds="config/crd/bases")

CRD_MODULES = (
    KAI_MODULE,
    KUEUE_MODULE,
    KUBEFLOW_MODULE,
    MPI_MODULE,
    KUBERAY_MODULE,
    APPWRAPPER_MODULE,
    JOBSET_MODULE,
    LWS_MODULE,
    TRAINER_MODULE,
)
"""Whose definitions every API server of the tests has."""
SERVING_MODULES = (
    Module(path="github.com/kserve/kserve", version="v0.16.0", crds="config/crd/full"),
    Module(path="github.com/argoproj/argo-workflows/v3", version="v3.7.2", crds="manifests/base/crds/full"),
    Module(path="github.com/kubeflow/spark-operator/v2", version="v2.3.0", crds="config/crd/bases"),
    Module(path="volcano.sh/volcano", version="v1.10.0", crds="config/crd/volcano/bases"),
    Module(path="sigs.k8s.io/gateway-api", version="v1.6.0", crds="config/crd/standard"),
    Module(path="sigs.k8s.io/gateway-api-inference-extension", version="v1.5.0", crds="config/crd/bases"),
)
"""Whose definitions ship, too. They are large: a server needs a minute for them, so that few tests have one."""
SHIPPED_MODULES = (*CRD_MODULES, *SERVING_MODULES)

# What syncs the rendered tree: the template's objects are judged by these definitions.
SYNC_MODULES = (ARGO_CD_MODULE, FLUX_KUSTOMIZE_MODULE, FLUX_SOURCE_MODULE)
NAMED_MODULES = (
    Module(path="github.com/argoproj/argo-rollouts", version="v1.8.3", crds="manifests/crds"),
    Module(path="knative.dev/serving", version="v0.51.0", crds="config/core/300-resources"),
    *SYNC_MODULES,
)
"""Whose definitions do not ship, only the names of their kinds in URLs, by which policies match objects."""

REPORT_MODULES = (Module(path="github.com/kyverno/kyverno", version="v1.12.5", crds="config/crds/policyreport"),)
"""The definitions of PolicyReport and ClusterPolicyReport of the Kubernetes policy working group."""
# A bed has all definitions from the start: those that come later cost more, as the server reads all of them again.
# The first of two modules with the same definition says which version is stored: that of the MPI operator, which runs.
BED_MODULES = (MPI_MODULE, *CRD_MODULES, *SYNC_MODULES)

KAI = Part(
    name="kai",
    module=KAI_MODULE,
    programs=(
        ("kai-scheduler", "./cmd/scheduler"),
        ("kai-binder", "./cmd/binder"),
        ("kai-podgrouper", "./cmd/podgrouper"),
        ("kai-queuecontroller", "./cmd/queuecontroller"),
    ),
)
KWOK = Part(
    name="kwok",
    module=Module(path="sigs.k8s.io/kwok", version="v0.8.0"),
    programs=(("kwok", "./cmd/kwok"),),
    install=("kustomize/kwok", "kustomize/stage/fast"),
)
TRAINING_OPERATOR = Part(
    name="training-operator",
    module=KUBEFLOW_MODULE,
    programs=(("training-operator", "./cmd/training-operator.v1"),),
    edits=(
        # Where it waits for its certificate is a constant: make it a folder below its working directory.
        Edit(file="pkg/cert/cert.go", old='"/tmp/k8s-webhook-server', new='"k8s-webhook-server'),
        # Its webhook would listen on every interface.
        Edit(
            file="cmd/training-operator.v1/main.go",
            old="Port: webhookServerPort,",
            new='Port: webhookServerPort, Host: "127.0.0.1",',
        ),
    ),
    install=("manifests/overlays/standalone",),
)
KUEUE = Part(name="kueue", module=KUEUE_MODULE, programs=(("kueue", "./cmd/kueue"),), install=("config/default",))
KUEUE_ADMISSION = Part(
    name="kueue-admission",
    module=Module(path=KUEUE_MODULE.path, version=KUEUE_MODULE.version),
    programs=(("admission", "./cmd/admission"),),
    own=("admission",),
)
KUEUE_016_ADMISSION = Part(
    name="kueue-0.16-admission",
    module=Module(path=KUEUE_MODULE.path, version="v0.16.1"),
    programs=(("admission", "./cmd/admission"),),
    own=("admission",),
    tags="kueue016",
)
_EXPORTS = Edit(
    file="pkg/scheduler/scheduler.go",
    old="func (s *Scheduler) setAdmissionRoutineWrapper(",
    new="""// ScheduleOnce runs one cycle.
func (s *Scheduler) ScheduleOnce(ctx context.Context) { s.schedule(ctx) }

// SetAdmissionRoutineWrapper sets how admissions run.
func (s *Scheduler) SetAdmissionRoutineWrapper(wrapper routine.Wrapper) { s.setAdmissionRoutineWrapper(wrapper) }

func (s *Scheduler) setAdmissionRoutineWrapper(""",
)
KUEUE_FORECAST = Part(
    name="kueue-forecast",
    module=Module(path=KUEUE_MODULE.path, version=KUEUE_MODULE.version),
    programs=(("forecasting", "./cmd/forecasting"),),
    edits=(_EXPORTS,),
    own=("forecasting",),
)
KUEUE_016_FORECAST = Part(
    name="kueue-0.16-forecast",
    module=Module(path=KUEUE_MODULE.path, version="v0.16.1"),
    programs=(("forecasting", "./cmd/forecasting"),),
    edits=(_EXPORTS,),
    own=("forecasting",),
    tags="kueue016",
)
KAI_FORECAST = Part(
    name="kai-forecast",
    module=Module(path=KAI_MODULE.path, version=KAI_MODULE.version),
    programs=(("kai_forecasting", "./cmd/kai_forecasting"),),
    own=("kai_forecasting",),
)
APPWRAPPER_ADMISSION = Part(
    name="appwrapper-admission",
    module=Module(path="github.com/project-codeflare/appwrapper", version="v1.2.0"),
    programs=(("wrapping", "./cmd/wrapping"),),
    own=("wrapping",),
    edits=(
        Edit(
            file="internal/webhook/appwrapper_webhook.go",
            old="func SetupAppWrapperWebhook(",
            new="""// NewValidator returns the validator of a webhook that asks nobody for rights.
func NewValidator() webhook.CustomValidator { return &appWrapperWebhook{} }

func SetupAppWrapperWebhook(""",
        ),
    ),
)
JOBSET = Part(
    name="jobset",
    module=JOBSET_MODULE,
    programs=(("jobset", "."),),
    # As for the training operator.
    edits=(Edit(file="pkg/util/cert/cert.go", old='"/tmp/k8s-webhook-server', new='"k8s-webhook-server'),),
    install=("config/default",),
)
TRAINER = Part(
    name="trainer",
    module=TRAINER_MODULE,
    programs=(("trainer", "./cmd/trainer-controller-manager"),),
    # As for the training operator.
    edits=(Edit(file="pkg/util/cert/cert.go", old='"/tmp/k8s-webhook-server', new='"k8s-webhook-server'),),
    install=("manifests/base/webhook",),
)
LWS = Part(name="lws", module=LWS_MODULE, programs=(("lws", "./cmd"),), install=("config/default",))
KUBERAY = Part(name="kuberay", module=KUBERAY_MODULE, programs=(("kuberay", "."),))
APPWRAPPER = Part(
    name="appwrapper",
    module=APPWRAPPER_MODULE,
    programs=(("appwrapper", "./cmd"),),
    edits=(
        Edit(
            file="cmd/main.go",
            old="var configMapName string",
            new='var configMapName string\n\twebhookPort := flag.Int("webhook-port", 9443, "")',
        ),
        # It would listen on every interface, at ports that are constants.
        Edit(file="cmd/main.go", old="Port:    9443,", new='Port: *webhookPort, Host: "127.0.0.1",'),
        Edit(file="pkg/config/config.go", old='":8443"', new='"127.0.0.1:0"'),
        Edit(file="pkg/config/config.go", old='":8081"', new='"127.0.0.1:0"'),
        # As for the training operator.
        Edit(file="pkg/config/config.go", old='"/tmp/k8s-webhook-server', new='"k8s-webhook-server'),
    ),
    install=("config/default",),
)
MPI_OPERATOR = Part(
    name="mpi-operator",
    module=MPI_MODULE,
    programs=(("mpi-operator", "./cmd/mpi-operator"),),
    edits=(
        # Both would listen on every interface, the check of its health at a port that is a constant.
        Edit(file="cmd/mpi-operator/main.go", old='Sprintf(":%d", m', new='Sprintf("127.0.0.1:%d", m'),
        Edit(file="cmd/mpi-operator/app/server.go", old='fmt.Sprintf(":%d", healthCheckPort)', new='"127.0.0.1:0"'),
        # It ends when it cannot renew its lease in time, which a busy machine may keep it from.
        Edit(
            file="cmd/mpi-operator/app/server.go",
            old="leaseDuration = 15 * time.Second\n\trenewDuration = 5 * time.Second",
            new="leaseDuration = 15 * time.Minute\n\trenewDuration = 10 * time.Minute",
        ),
    ),
)
FLUX_SOURCE = Part(
    name="flux-source",
    module=FLUX_SOURCE_MODULE,
    programs=(("source-controller", "."),),
    # The replacement is a folder that the published module does not hold.
    edits=(Edit(file="go.mod", old="replace github.com/fluxcd/source-controller/api => ./api", new=""),),
)
FLUX_KUSTOMIZE = Part(
    name="flux-kustomize",
    module=FLUX_KUSTOMIZE_MODULE,
    programs=(("kustomize-controller", "."),),
    edits=(Edit(file="go.mod", old="replace github.com/fluxcd/kustomize-controller/api => ./api", new=""),),
)
GITEA = Part(
    name="gitea",
    module=Module(path="code.gitea.io/gitea", version="v1.26.0"),
    programs=(("gitea", "."),),
    data=("templates", "options"),
    tags="sqlite sqlite_unlock_notify",
    cgo=True,
)
KIND = Part(
    name="kind",
    module=Module(path="sigs.k8s.io/kind", version="v0.33.0"),
    programs=(("kind", "."),),
)
ARGO_CD = Part(
    name="argo-cd",
    module=ARGO_CD_MODULE,
    programs=(("argocd", "./cmd"),),
    # Its metrics would listen on every interface.
    edits=(
        Edit(file="controller/appcontroller.go", old='"0.0.0.0:%d", metricsPort', new='"127.0.0.1:%d", metricsPort'),
    ),
)
MONITORING_MODULE = Module(
    path="github.com/prometheus-operator/prometheus-operator",
    version="v0.85.0",
    crds="example/prometheus-operator-crd",
)
KUSTOMIZE = Part(
    name="kustomize",
    module=Module(path="sigs.k8s.io/kustomize/kustomize/v5", version="v5.8.2"),
    programs=(("kustomize", "."),),
)
HELM = Part(name="helm", module=Module(path="helm.sh/helm/v4", version="v4.3.1"), programs=(("helm", "./cmd/helm"),))
_DISCOVERIES = '_ "github.com/prometheus/prometheus/plugins"'
PROMTOOL = Part(
    name="promtool",
    module=Module(path="github.com/prometheus/prometheus", version="v0.309.1"),
    programs=(("promtool", "./cmd/promtool"),),
    # Alerts are tested without the clients of every cloud, which are most of what would be compiled.
    edits=tuple(Edit(file=f"cmd/promtool/{name}.go", old=_DISCOVERIES, new="") for name in ("main", "query")),
)
REDIS = "redis"
"""The folder with our own module of the store in memory that Argo CD asks for."""

S5CMD = Part(name="s5cmd", module=Module(path="github.com/peak/s5cmd/v2", version="v2.3.0"), programs=(("s5cmd", "."),))
GOFAKES3 = Part(
    name="gofakes3",
    module=Module(path="github.com/johannesboyne/gofakes3", version="v1.2.0"),
    programs=(("gofakes3", "./cmd/gofakes3"),),
)
"""A store like S3, for the tests of the scripts that fetch a workspace."""

PARTS = (
    KWOK,
    KAI,
    TRAINING_OPERATOR,
    KUEUE,
    KUEUE_ADMISSION,
    KUEUE_016_ADMISSION,
    KUEUE_FORECAST,
    KUEUE_016_FORECAST,
    KAI_FORECAST,
    APPWRAPPER_ADMISSION,
    JOBSET,
    TRAINER,
    LWS,
    KUBERAY,
    APPWRAPPER,
    MPI_OPERATOR,
    FLUX_SOURCE,
    FLUX_KUSTOMIZE,
    GITEA,
    ARGO_CD,
    KIND,
    HELM,
    KUSTOMIZE,
    PROMTOOL,
    S5CMD,
    GOFAKES3,
)

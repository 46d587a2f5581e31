"""The real operators, with their webhooks: a row says what one is told, and one function starts them all.

They run outside the cluster: the API server reaches their webhooks through a Service that is localhost.
"""

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import parts, shared
from tests.cluster.bed.bed import Bed, Body, installed, read_objects
from tests.cluster.build import INSTALL
from tests.cluster.parts import Part
from tests.cluster.server import free_port, listens, wait_until

_ANY = "127.0.0.1:0"
_CERTIFICATES = "k8s-webhook-server/serving-certs"
"""Where operators look for their certificate, below the folder for temporary files, in which they run."""
_WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What the program of a part is told.

    `settings` are those of the file that `--config` names, beside what all of them share. `secret` holds the
    certificate of its webhooks; `without` names webhooks to leave out; `probe` is accepted when they are there. One
    without webhooks is ready when it listens.
    """

    part: Part
    namespace: str
    flags: tuple[str, ...] = ()
    settings: Body = field(default_factory=dict)
    secret: str = ""
    without: frozenset[str] = frozenset()
    probe: Body | None = None


def start_operator(bed: Bed, operator: Operator, programs: Path) -> None:
    """Start an operator in the bed, or find it running."""
    name, folder, port = operator.part.name, Path(), 0

    def plan() -> tuple[shared.Program, ...]:
        nonlocal folder, port
        folder, port = bed.part_folder(name), free_port()
        bed.server.client.ensure_namespaces([operator.namespace])
        if operator.secret:
            installed(bed, outside(operator, read_objects(programs / INSTALL), port))
        flags = [flag.format(port=port) for flag in operator.flags]
        if operator.settings:
            (folder / "settings.json").write_text(json.dumps(_settings(operator.settings, port)))
            flags.append("--config=settings.json")
        environment = (
            ("KUBECONFIG", str(bed.kubeconfig)),
            ("TMPDIR", str(folder)),
            ("NAMESPACE", operator.namespace),
        )
        return (shared.Program(name=name, argv=(str(programs / name), *flags), environment=environment),)

    def ready(check: shared.Check) -> None:
        if operator.probe is None:
            wait_until(lambda: listens(port), name, check=check)
            return
        _hand_over(bed, operator, folder / _CERTIFICATES, check)
        wait_until(lambda: bed.judge(operator.probe or {})[0].ok, f"webhooks of {name}", check=check)

    bed.attach(name, plan, ready)


def outside(operator: Operator, objects: list[Body], port: int) -> list[Body]:
    """Return what is left of an installation whose operator runs on this machine and listens on `port`.

    The definitions are there before; those stay whose versions the operator converts.
    """
    kept = [body for body in objects if body["kind"] in _WEBHOOKS or _is_converted(body)]
    for body in kept:
        if body["kind"] in _WEBHOOKS:
            body["webhooks"] = [hook for hook in body["webhooks"] if hook["name"] not in operator.without]
    services = [client["service"] for body in kept for client in _clients(body)]
    for service in services:
        service |= {"port": port, "namespace": operator.namespace}
    return [
        *kept,
        _object("Secret", operator.secret, operator.namespace),
        *(
            _object("Service", name, operator.namespace, spec={"type": "ExternalName", "externalName": "localhost"})
            for name in sorted({service["name"] for service in services})
        ),
    ]


def _settings(own: Body, port: int) -> Body:
    """Return the settings that all operators with a file of them share, and those of one."""
    return {
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": _ANY},
        "leaderElection": {"leaderElect": False},
        **own,
        "metrics": {"bindAddress": _ANY, **own.get("metrics", {})},
        "webhook": {"host": "127.0.0.1", "port": port, **own.get("webhook", {})},
    }


def _hand_over(bed: Bed, operator: Operator, folder: Path, check: shared.Check) -> None:
    """Write the certificate that an operator made for itself where it looks for it, as a mounted Secret would."""
    path = f"/api/v1/namespaces/{operator.namespace}/secrets/{operator.secret}"
    wait_until(lambda: "tls.crt" in ((bed.find(path) or {}).get("data") or {}), operator.secret, check=check)
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in bed.get(path)["data"].items():
        (folder / name).write_bytes(base64.b64decode(value))


def _is_converted(body: Body) -> bool:
    return body["kind"] == "CustomResourceDefinition" and len(body["spec"]["versions"]) > 1 and bool(_clients(body))


def _clients(body: Body) -> list[Body]:
    """Return the `clientConfig`s of an object."""
    if body["kind"] in _WEBHOOKS:
        return [webhook["clientConfig"] for webhook in body["webhooks"]]
    webhook = body["spec"].get("conversion", {}).get("webhook")
    return [webhook["clientConfig"]] if webhook else []


def _object(kind: str, name: str, namespace: str, *, version: str = "v1", **content: Body) -> Body:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **content}


_TEMPLATE: Body = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}]}}
KUEUE = Operator(
    part=parts.KUEUE,
    namespace="kueue-system",
    flags=("--feature-gates=VisibilityOnDemand=false,ElasticJobsViaWorkloadSlices=true",),
    settings={
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "webhook": {"certDir": _CERTIFICATES},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": "kueue-webhook-service",
            "webhookSecretName": "kueue-webhook-server-cert",
        },
        "clientConnection": {"qps": 200, "burst": 400},
        "integrations": {
            "frameworks": [
                "batch/job",
                "deployment",
                "jobset.x-k8s.io/jobset",
                "kubeflow.org/jaxjob",
                "kubeflow.org/mpijob",
                "kubeflow.org/paddlejob",
                "kubeflow.org/pytorchjob",
                "kubeflow.org/tfjob",
                "kubeflow.org/xgboostjob",
                "leaderworkerset.x-k8s.io/leaderworkerset",
                "pod",
                "ray.io/raycluster",
                "ray.io/rayjob",
                "statefulset",
                "trainer.kubeflow.org/trainjob",
                "workload.codeflare.dev/appwrapper",
            ]
        },
    },
    secret="kueue-webhook-server-cert",
    probe={"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "probe"}},
)
TRAINING_OPERATOR = Operator(
    part=parts.TRAINING_OPERATOR,
    namespace="kubeflow",
    flags=(
        f"--metrics-bind-address={_ANY}",
        f"--health-probe-bind-address={_ANY}",
        "--webhook-server-port={port}",
        # Its MPIJob is another one than that of Kueue and KAI. The probe is of the kind that comes last.
        *(f"--enable-scheme={kind}job" for kind in ("jax", "paddle", "tf", "xgboost", "pytorch")),
    ),
    secret="training-operator-webhook-cert",
    probe=_object(
        *("PyTorchJob", "probe", "kubeflow"),
        version="kubeflow.org/v1",
        spec={
            "runPolicy": {},
            "pytorchReplicaSpecs": {
                "Worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "probe"}]}}}
            },
        },
    ),
)
JOBSET = Operator(
    part=parts.JOBSET,
    namespace="jobset-system",
    settings={"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "internalCertManagement": {"enable": True}},
    secret="jobset-webhook-server-cert",
    # The webhook of pods speaks of exclusive placement alone, and would stand in the way of every pod.
    without=frozenset({"mpod.kb.io", "vpod.kb.io"}),
    probe=_object(
        *("JobSet", "probe", "jobset-system"),
        version="jobset.x-k8s.io/v1alpha2",
        spec={"replicatedJobs": [{"name": "a", "template": {"spec": {"template": _TEMPLATE}}}]},
    ),
)
TRAINER = Operator(
    part=parts.TRAINER,
    namespace="kubeflow-system",
    settings={"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "metrics": {"secureServing": False}},
    secret="kubeflow-trainer-webhook-cert",
    probe=_object(
        *("TrainingRuntime", "probe", "kubeflow-system"),
        version="trainer.kubeflow.org/v1alpha1",
        spec={"mlPolicy": {"numNodes": 1}},
    ),
)
LWS = Operator(
    part=parts.LWS,
    namespace="lws-system",
    settings={
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "webhook": {"certDir": _CERTIFICATES},
        "internalCertManagement": {"enable": True},
    },
    secret="lws-webhook-server-cert",
    probe=_object(
        *("LeaderWorkerSet", "probe", "lws-system"),
        version="leaderworkerset.x-k8s.io/v1",
        spec={
            "leaderWorkerTemplate": {
                "size": 1,
                "workerTemplate": {"spec": {"containers": [{"name": "main", "image": "a:1"}]}},
            }
        },
    ),
)
APPWRAPPER = Operator(
    part=parts.APPWRAPPER,
    namespace="appwrapper-system",
    flags=("--webhook-port={port}",),
    secret="appwrapper-webhook-server-cert",
    probe=_object(
        *("AppWrapper", "probe", "appwrapper-system"),
        version="workload.codeflare.dev/v1beta2",
        spec={
            "components": [
                {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, **_TEMPLATE}},
            ]
        },
    ),
)
KUBERAY = Operator(
    part=parts.KUBERAY,
    namespace="ray-system",
    flags=("--metrics-addr=0", "--health-probe-bind-address=127.0.0.1:{port}", "--enable-leader-election=false"),
)
MPI_OPERATOR = Operator(
    part=parts.MPI_OPERATOR,
    namespace="mpi-operator",
    flags=("--monitoring-port={port}", "--kube-api-qps=200", "--kube-api-burst=400"),
)

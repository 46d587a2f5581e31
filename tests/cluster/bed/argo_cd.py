"""The real Argo CD: repo server, application controller and ApplicationSet controller, with a Redis in memory."""

import base64
import json
import os
import secrets
from functools import partial
from pathlib import Path

import yaml

from tests.cluster import shared
from tests.cluster.bed.bed import Bed, Body, installed
from tests.cluster.server import free_port, install_crds, listens, wait_until

NAMESPACE = "argocd"
_PART_OF = {"app.kubernetes.io/part-of": "argocd"}


def start_argo_cd(bed: Bed, argocd: Path, redis: Path, builders: tuple[Path, ...], crds: Path) -> None:
    """Start Argo CD; it knows the cluster itself as `main`. `builders` are the programs kustomize and helm."""
    ports: dict[str, int] = {}

    def plan() -> tuple[shared.Program, ...]:
        folder = bed.part_folder("argo-cd")
        install_crds(bed.server.client, crds)
        bed.server.client.ensure_namespaces([NAMESPACE])
        installed(bed, _installation(bed.kubeconfig))
        ports.update({name: free_port() for name in ("redis", "repo", "repo-metrics", "metrics", "sets", "probe")})
        return (
            shared.Program(name="redis", argv=(str(redis), f"127.0.0.1:{ports['redis']}")),
            *_programs(bed, folder, argocd, builders, ports),
        )

    def ready(check: shared.Check) -> None:
        for name in ("redis", "repo", "metrics", "sets"):
            wait_until(partial(listens, ports[name]), f"Argo CD's {name}", check=check)

    bed.attach("argo-cd", plan, ready)


def _programs(
    bed: Bed, folder: Path, argocd: Path, builders: tuple[Path, ...], ports: dict[str, int]
) -> tuple[shared.Program, ...]:
    redis, repo = f"--redis=127.0.0.1:{ports['redis']}", f"127.0.0.1:{ports['repo']}"
    access = (f"--kubeconfig={bed.kubeconfig}", f"--namespace={NAMESPACE}")
    environment = (
        ("KUBECONFIG", str(bed.kubeconfig)),  # the ApplicationSet controller reads it beside its flags
        ("ARGOCD_GPG_ENABLED", "false"),
        ("ARGOCD_TLS_DATA_PATH", str(folder)),
        ("ARGOCD_SSH_DATA_PATH", str(folder)),
        ("ARGOCD_ASK_PASS_SOCK", "ask-pass.sock"),  # relative: folders of tests are too deep for a socket
        ("TMPDIR", str(folder)),
        ("PATH", os.pathsep.join((*(str(program.parent) for program in builders), os.environ["PATH"]))),
    )
    commands = {
        "argocd-repo-server": (
            "--address=127.0.0.1",
            f"--port={ports['repo']}",
            "--metrics-address=127.0.0.1",
            f"--metrics-port={ports['repo-metrics']}",
            "--disable-tls",
            redis,
        ),
        "argocd-application-controller": (
            *access,
            f"--metrics-port={ports['metrics']}",
            f"--repo-server={repo}",
            "--repo-server-plaintext",
            redis,
        ),
        "argocd-applicationset-controller": (
            *access,
            f"--metrics-addr=127.0.0.1:{ports['sets']}",
            f"--probe-addr=127.0.0.1:{ports['probe']}",
            "--webhook-addr=127.0.0.1:0",
            f"--argocd-repo-server={repo}",
            "--repo-server-plaintext",
        ),
    }
    programs = []
    for name, flags in commands.items():
        link = folder / name  # the one binary acts by the name it is called with
        link.unlink(missing_ok=True)
        link.symlink_to(argocd)
        programs.append(shared.Program(name=name, argv=(str(link), *flags), environment=environment))
    return tuple(programs)


def _installation(kubeconfig: Path) -> list[Body]:
    def body(kind: str, name: str, **rest: object) -> Body:
        api_version = "argoproj.io/v1alpha1" if kind == "AppProject" else "v1"
        metadata = {"name": name, "namespace": NAMESPACE, "labels": _PART_OF}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}

    everything = [{"group": "*", "kind": "*"}]
    project = {
        "sourceRepos": ["*"],
        "destinations": [{"namespace": "*", "server": "*", "name": "*"}],
        "clusterResourceWhitelist": everything,
    }
    return [
        body("ConfigMap", "argocd-cm", data={"timeout.reconciliation": "20s", "timeout.reconciliation.jitter": "0s"}),
        body("ConfigMap", "argocd-rbac-cm"),
        body("ConfigMap", "argocd-cmd-params-cm"),
        body("Secret", "argocd-secret", stringData={"server.secretkey": secrets.token_hex(16)}),
        body("AppProject", "default", spec=project),
        cluster_secret("main", kubeconfig),
    ]


def cluster_secret(name: str, kubeconfig: Path, *, host: str = "127.0.0.1") -> Body:
    """Return the Secret by which Argo CD knows a cluster; one server has several names by several hosts."""
    access = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = access["clusters"][0]["cluster"], access["users"][0]["user"]
    settings = {
        "bearerToken": user["token"],
        "tlsClientConfig": {"caData": cluster["certificate-authority-data"]},
    }
    data = {"name": name, "server": cluster["server"].replace("127.0.0.1", host), "config": json.dumps(settings)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"cluster-{name}",
            "namespace": NAMESPACE,
            "labels": {"argocd.argoproj.io/secret-type": "cluster"},
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }

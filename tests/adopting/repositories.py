"""Repositories as platform teams have them, each with 60 jobs and 12 queues, and none of them with a file of ours."""

from pathlib import Path

TEAMS = ("vision", "language", "speech", "robots")
CLUSTERS = ("alpha", "beta", "gamma")
URL = "https://git.example.com/fleet.git"
_FINALIZER = "resources-finalizer.argocd.argoproj.io"
_SYNC = "{automated: {prune: true}, syncOptions: [CreateNamespace=true, ServerSideApply=true]}"
_JOBS = 5  # of each team and cluster


def _write(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def _job(name: str, gpus: str, queue: str, namespace: str = "") -> str:
    where = f"  namespace: {namespace}\n" if namespace else ""
    return f"""\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
{where}  labels:
    kueue.x-k8s.io/queue-name: {queue}
    team: {queue}
spec:
  activeDeadlineSeconds: 86400
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: registry.example.com/train@sha256:{"a" * 64}
          resources:
            limits:
              nvidia.com/gpu: {gpus}
"""


def _queues(team: str, quota: str, namespace: str = "") -> str:
    where = f"  namespace: {namespace}\n" if namespace else ""
    return f"""\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: {team}
spec:
  namespaceSelector: {{}}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: h100
          resources:
            - name: nvidia.com/gpu
              nominalQuota: {quota}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata:
  name: {team}
{where}spec:
  clusterQueue: {team}
"""


_FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: h100
spec: {}
"""


def flux(root: Path) -> None:
    """Write a Flux repository with three clusters: one base, an overlay and variables for each."""
    resources = ["flavor.yaml"]
    _write(root, "apps/base/flavor.yaml", _FLAVOR)
    for team in TEAMS:
        _write(root, f"apps/base/{team}/queues.yaml", _queues(team, "${QUOTA:=64}"))
        _write(root, f"apps/base/{team}/jobs.yaml", "---\n".join(_job(f"{team}-{n}", "2", team) for n in range(_JOBS)))
        resources += [f"{team}/queues.yaml", f"{team}/jobs.yaml"]
    _write(root, "apps/base/kustomization.yaml", "resources:\n" + "".join(f"  - {name}\n" for name in resources))
    for number, cluster in enumerate(CLUSTERS):
        patch = f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: vision-0\nspec:\n  parallelism: {number + 1}\n"
        _write(root, f"apps/{cluster}/vision.yaml", patch)
        overlay = "namespace: training\nresources:\n  - ../base\npatches:\n  - path: vision.yaml\n"
        _write(root, f"apps/{cluster}/kustomization.yaml", overlay)
        _write(
            root,
            f"clusters/{cluster}/apps.yaml",
            f"""\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: apps
  namespace: flux-system
spec:
  interval: 10m
  prune: true
  path: ./apps/{cluster}
  sourceRef: {{kind: GitRepository, name: flux-system}}
  postBuild:
    substitute:
      QUOTA: "{100 + number}"
""",
        )
    _write(root, ".github/workflows/check.yaml", "on: [push]\njobs:\n  check:\n    runs-on: ubuntu-latest\n")


def argo(root: Path) -> None:
    """Write an app of apps with an ApplicationSet over folders."""
    _write(
        root,
        "argocd/teams.yaml",
        f"""\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata:
  name: teams
  namespace: argocd
spec:
  goTemplate: true
  generators:
    - git:
        repoURL: {URL}
        revision: main
        directories:
          - path: teams/*
  template:
    metadata:
      name: "team-{{{{.path.basename}}}}"
      finalizers: [{_FINALIZER}]
    spec:
      project: default
      source:
        repoURL: {URL}
        path: "{{{{.path.path}}}}"
      destination: {{name: alpha, namespace: "{{{{.path.basename}}}}"}}
      syncPolicy: {_SYNC}
""",
    )
    _write(root, "argocd/shared.yaml", application("shared", "path: shared"))
    _write(root, "argocd/gpu-operator.yaml", application("gpu-operator", "chart: gpu-operator"))
    _write(root, "shared/flavor.yaml", _FLAVOR)
    for team in TEAMS:
        jobs = [_job(f"{team}-{n}", "2", team) for n in range(3 * _JOBS)]
        _write(root, f"teams/{team}/jobs.yaml", "---\n".join(jobs))
        for part in range(3):
            _write(root, f"teams/{team}/queues-{part}.yaml", _queues(f"{team}{part or ''}", "64"))
        files = ["jobs.yaml", *(f"queues-{part}.yaml" for part in range(3))]
        _write(root, f"teams/{team}/kustomization.yaml", "resources:\n" + "".join(f"  - {name}\n" for name in files))


def application(name: str, source: str) -> str:
    """Return an Application of Argo CD with more fields of its source; its namespace has its name."""
    return f"""\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: {name}
  namespace: argocd
  finalizers: [{_FINALIZER}]
spec:
  project: default
  source:
    repoURL: {URL}
    {source}
  destination: {{name: alpha, namespace: {name}}}
  syncPolicy: {_SYNC}
"""


def helm(root: Path) -> None:
    """Write an umbrella chart with a subchart for each team, and a HelmRelease that installs it."""
    dependencies = "".join(f"  - name: {team}\n    version: 0.1.0\n" for team in TEAMS)
    _write(
        root, "charts/fleet/Chart.yaml", f"apiVersion: v2\nname: fleet\nversion: 0.1.0\ndependencies:\n{dependencies}"
    )
    _write(root, "charts/fleet/values.yaml", "".join(f"{team}:\n  gpus: 2\n  quota: 64\n" for team in TEAMS))
    _write(root, "charts/fleet/templates/flavor.yaml", _FLAVOR)
    for team in TEAMS:
        chart = f"charts/fleet/charts/{team}"
        _write(root, f"{chart}/Chart.yaml", f"apiVersion: v2\nname: {team}\nversion: 0.1.0\n")
        _write(root, f"{chart}/values.yaml", "gpus: 1\nquota: 8\n")
        jobs = [_job(f"{team}-{n}", "{{ .Values.gpus }}", team) for n in range(3 * _JOBS)]
        _write(root, f"{chart}/templates/jobs.yaml", "---\n".join(jobs))
        for part in range(3):
            queues = _queues(f"{team}{part or ''}", "{{ .Values.quota }}")
            _write(root, f"{chart}/templates/queues-{part}.yaml", queues)
    _write(
        root,
        "releases/fleet.yaml",
        """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: fleet
  namespace: flux-system
spec:
  interval: 10m
  targetNamespace: training
  chart:
    spec:
      chart: ./charts/fleet
      sourceRef: {kind: GitRepository, name: flux-system}
  values:
    speech:
      quota: 72
""",
    )


def plain(root: Path) -> None:
    """Write manifests in folders, with files between them that are none."""
    _write(root, "kueue/flavor.yaml", _FLAVOR)
    for team in TEAMS:
        for part in range(3):
            name = f"{team}{part or ''}"
            _write(root, f"kueue/{name}.yaml", _queues(name, "64", namespace="training"))
        for number in range(3 * _JOBS):
            _write(root, f"teams/{team}/job-{number}.yaml", _job(f"{team}-{number}", "2", team, namespace="training"))
    _write(root, "teams/vision/values.yaml", "replicas: 3\n")
    template = "AWSTemplateFormatVersion: '2010-09-09'\nResources:\n  Bucket:\n    Name: !Sub '${AWS::StackName}'\n"
    _write(root, "infrastructure/bucket.yaml", template)
    _write(root, "README.md", "# Fleet\n")

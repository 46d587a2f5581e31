"""What Flux and Argo CD deliver, as their objects say it."""

from typing import Any

from reconciler.kube.yaml import read
from reconciler.repo.builds.delivery import Delivery, deliveries, is_same_repository


def delivered(text: str, path: str = "clusters/alpha/apps.yaml", folders: tuple[str, ...] = ()) -> list[Delivery]:
    return [*deliveries(read(path, text.encode()).documents, folders)]


def facts(one: Delivery, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(one, name) for name in names)


def test_a_flux_kustomization() -> None:
    """F-150."""
    text = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps}
spec:
  path: ./apps/alpha/
  targetNamespace: training
  images: [{name: a, newTag: "2"}]
  sourceRef: {kind: GitRepository, name: fleet}
  postBuild: {substitute: {QUOTA: "64"}, substituteFrom: [{kind: ConfigMap, name: variables}]}
"""
    (one,) = delivered(text)
    assert facts(one, "path", "cluster") == ("apps/alpha", "alpha")
    assert one.overrides == {"namespace": "training", "images": [{"name": "a", "newTag": "2"}]}
    assert facts(one, "substitute", "substitute_from") == ({"QUOTA": "64"}, ("variables",))


def test_what_is_not_in_the_repository_is_left_out_with_its_reason() -> None:
    bucket = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\n"
    bucket += "spec: {sourceRef: {kind: Bucket}}\n"
    registry = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: b}
spec: {chart: {spec: {chart: gpu-operator, sourceRef: {kind: HelmRepository, name: nvidia}}}}
"""
    clusters = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: c}\n"
    clusters += "spec: {generators: [{clusters: {}}]}\n"
    reasons = [one.left_out for one in delivered(f"{bucket}---\n{registry}---\n{clusters}")]
    assert reasons[0] == "it is delivered from a Bucket, not from a Git repository"
    assert reasons[1] == "its chart gpu-operator is in a HelmRepository, not in this repository"
    assert "its generator `clusters` depends on more than the repository" in reasons[2]


def test_an_application_with_a_chart_and_values_of_another_source() -> None:
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: train}
spec:
  destination: {name: beta, namespace: ml}
  sources:
    - repoURL: https://git.example.com/fleet.git
      path: charts/train
      helm:
        releaseName: big
        valueFiles: [prod.yaml, $values/values/beta.yaml]
        valuesObject: {gpus: 4}
        parameters: [{name: image.tag, value: "3"}]
    - {repoURL: https://git.example.com/fleet.git, ref: values}
"""
    (one,) = delivered(text, "argocd/train.yaml")
    assert facts(one, "path", "cluster", "namespace", "release") == ("charts/train", "beta", "ml", "big")
    assert one.values == ("charts/train/prod.yaml", "values/beta.yaml")
    assert one.inline_values == {"gpus": 4, "image": {"tag": 3}}


def test_images_of_an_application() -> None:
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: a}
spec:
  source: {path: apps/a, kustomize: {namePrefix: x-, images: ["a=reg:5000/b:2", "c:3", "d@sha256:0", "e=f"]}}
"""
    (one,) = delivered(text, "argocd/a.yaml")
    assert one.overrides["images"] == [
        {"name": "a", "newTag": "2", "newName": "reg:5000/b"},
        {"name": "c", "newTag": "3"},
        {"name": "d", "digest": "sha256:0"},
        {"name": "e", "newName": "f"},
    ]


def test_sets_over_lists_and_folders() -> None:
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: teams}
spec:
  generators:
    - matrix:
        generators:
          - git: {directories: [{path: teams/*}, {path: teams/old, exclude: true}]}
          - list: {elements: [{cluster: alpha}, {cluster: beta}]}
  template:
    metadata: {name: "{{path.basename}}-{{ cluster }}"}
    spec: {source: {path: "{{path}}"}, destination: {name: "{{.cluster}}", namespace: "{{.path.basename}}"}}
"""
    found = delivered(text, "argocd/teams.yaml", ("teams", "teams/a", "teams/a/deep", "teams/b", "teams/old"))
    assert [facts(one, "name", "path", "cluster", "namespace") for one in found] == [
        ("a-alpha", "teams/a", "alpha", "a"),
        ("a-beta", "teams/a", "beta", "a"),
        ("b-alpha", "teams/b", "alpha", "b"),
        ("b-beta", "teams/b", "beta", "b"),
    ]


def test_objects_that_are_written_wrong_do_not_fail() -> None:
    for spec in ("{}", "[]", "null", "{sources: 3}", "{source: {path: [a]}}", "{generators: [3]}", "{template: 1}"):
        for group, kind in (("argoproj.io", "Application"), ("argoproj.io", "ApplicationSet")):
            delivered(f"apiVersion: {group}/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n")


def test_a_patch_of_a_release_delivers_nothing() -> None:
    patch = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: "
    assert delivered(f"{patch}{{values: {{replicas: 2}}}}\n") == []
    (one,) = delivered(f"{patch}{{chartRef: {{kind: OCIRepository, name: podinfo}}}}\n")
    assert one.left_out == "its chart podinfo is in a OCIRepository, not in this repository"


_FUNCTIONS = "its template uses functions, which are not followed"


def test_templates_with_functions_are_left_out() -> None:
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: teams}
spec:
  goTemplate: true
  generators: [{list: {elements: [{team: a}, {team: b}]}}]
  template:
    metadata: {name: '{{ .team | upper }}'}
    spec:
      source: {path: 'teams/{{ index .teams 0 }}'}
"""
    (one,) = {(one.name, one.left_out) for one in delivered(text)}
    assert one == ("teams", f"{_FUNCTIONS}: {{{{ .team | upper }}}}; name its folders yourself")


def test_functions_of_paths_are_named() -> None:
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: teams}
spec:
  goTemplate: true
  generators: [{git: {directories: [{path: teams/*}]}}]
  template:
    metadata: {name: a}
    spec: {source: {path: 'teams/{{ index .path.segments 1 | lower }}'}}
"""
    assert [one.left_out for one in delivered(text, folders=("teams/a",))] == [
        f"{_FUNCTIONS}: {{{{ index .path.segments 1 | lower }}}}; name its folders yourself"
    ]


def test_variables_that_may_be_missing() -> None:
    text = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps}
spec:
  path: apps
  sourceRef: {kind: GitRepository, name: fleet}
  postBuild: {substituteFrom: [{kind: ConfigMap, name: a}, {kind: ConfigMap, name: b, optional: true}]}
"""
    (one,) = delivered(text)
    assert (one.substitute_from, one.optional_from) == (("a", "b"), ("b",))


def test_sets_over_files_say_so() -> None:
    text = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: c}\n"
    text += "spec: {generators: [{git: {files: [{path: a.json}]}}]}\n"
    (one,) = delivered(text)
    assert one.left_out == "its generator `git` reads files, which is not followed: name its folders yourself"


def test_parameters_of_a_chart_are_read_as_helm_reads_them() -> None:
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: train}
spec:
  source:
    path: charts/train
    helm:
      ignoreMissingValueFiles: true
      parameters:
        - {name: worker.gpus, value: "2"}
        - {name: tag, value: "10", forceString: true}
        - {name: build, value: "0012"}
        - {name: debug, value: "true"}
        - {name: 'nodeSelector.nvidia\\.com/gpu', value: a100}
"""
    (one,) = delivered(text)
    assert one.inline_values == {
        "worker": {"gpus": 2},
        "tag": "10",
        "build": "0012",
        "debug": True,
        "nodeSelector": {"nvidia.com/gpu": "a100"},
    }
    assert one.skips_missing_values


def test_urls_of_one_repository() -> None:
    ours = "https://git.example.com/acme/fleet.git"
    for same in (
        "git@git.example.com:acme/fleet",
        "ssh://git@git.example.com:22/acme/fleet.git",
        "HTTPS://git.example.com/acme/Fleet/",
    ):
        assert is_same_repository(ours, same), same
    for other in ("https://git.example.com/acme/other", "https://other.example.com/acme/fleet", "fleet", ""):
        assert not is_same_repository(ours, other), other


def test_a_delivery_has_the_url_of_its_repository() -> None:
    repository = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: other}\n"
    repository += "spec: {url: https://git.example.com/acme/other}\n"
    apps = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\n"
    apps += "spec: {path: a, sourceRef: {kind: GitRepository, name: NAME}}\n"
    texts = (repository, apps.replace("NAME", "other"), apps.replace("NAME", "flux-system"))
    found = delivered("---\n".join(texts))
    assert [one.repository for one in found] == ["https://git.example.com/acme/other", "flux-system"]

"""The place of a value in an overlay is the line that sets it, also where names are alike and patches have targets."""

import re

from tests.cli.fleet import Fleet

FILES = {
    "base/kustomization.yaml": "resources: [deploy.yaml]\n",
    "base/deploy.yaml": "---\n".join(
        f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: 1
  minReadySeconds: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
        - name: main
          image: nginx:1.25
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
        - name: side
          image: side:1.25
"""
        for name in ("web", "web-batch")
    ),
    "a/values.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values}\ndata: {count: '5'}\n",
    "a/other.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: any}\nspec: {minReadySeconds: 9}\n",
    "a/kustomization.yaml": """\
nameSuffix: -a
namespace: serving
resources: [../base, values.yaml]
images:
  - {name: side, newTag: "2"}
  - {name: nginx, newTag: "2"}
replacements:
  - source: {kind: ConfigMap, name: values, fieldPath: data.count}
    targets:
      - select: {kind: Deployment, name: web}
        fieldPaths:
          - spec.replicas
patches:
  - path: other.yaml
    target: {labelSelector: app=other}
  - target: {kind: Deployment, name: web-batch}
    patch: |-
      - op: replace
        path: /spec/replicas
        value: 7
patchesStrategicMerge:
  - |-
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
    spec:
      template:
        spec:
          containers:
            - name: main
              resources:
                limits:
                  nvidia.com/gpu: 4
""",
    "reconciler.yaml": """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters: [{name: main, backend: none}]
  rendered: none
  sources: [{path: a, build: kustomize}]
""",
}
LIMIT = 'spec.template.spec.containers[0].resources.limits["nvidia.com/gpu"]'


def places(fleet: Fleet, name: str, *fields: str) -> list[str]:
    found = []
    for field in fields:
        out = fleet.run("explain", f"Deployment/serving/{name}", field).out
        shown = re.search(r"source +(\S+:\d+):\d+", out)
        found.append(shown[1] if shown else out)
    return found


def test_the_line_that_sets_a_value(adopted: Fleet) -> None:
    """F-152."""
    for path, content in FILES.items():
        (adopted.root / path).parent.mkdir(exist_ok=True)
        (adopted.root / path).write_text(content)
    adopted.commit("as it is")
    fields = ("spec.replicas", "spec.minReadySeconds", LIMIT, "spec.template.spec.containers[0].image")
    assert places(adopted, "web-a", *fields) == [
        "a/kustomization.yaml:12",
        "base/deploy.yaml:6",
        "a/kustomization.yaml:34",
        "a/kustomization.yaml:6",
    ]
    assert places(adopted, "web-batch-a", *fields[:3]) == [
        "a/kustomization.yaml:20",
        "base/deploy.yaml:23",
        "base/deploy.yaml:31",
    ]

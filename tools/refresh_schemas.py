"""Generate `schemas/kubernetes/` from the OpenAPI of an API server and the CRDs: `make schemas`.

`python -m tools.refresh_schemas [--openapi FOLDER]` reads a folder that `tests.cluster.openapi` wrote, or starts an
API server. The same input gives the same bytes.
"""

import argparse
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from reconciler.kube.schemas.schema import Schema
from reconciler.kube.schemas.sources import CustomKind, member_name, parse_definition
from tests.cluster.build import control_plane, crds, to_stderr
from tests.cluster.openapi import dump
from tests.cluster.parts import KUBERNETES, NAMED_MODULES, SHIPPED_MODULES, Module
from tests.cluster.server import api_server
from tools.schemas.builtin import strict_builtin
from tools.schemas.defaults import learn

TARGET = Path(__file__).parents[1] / "schemas" / "kubernetes"
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
_ONE_OBJECT = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+/(?P<namespaced>namespaces/\{namespace\}/)?(?P<plural>[^/{}]+)/\{name\}"
)


_WRITTEN = {
    # github.com/openkruise/kruise, config/crd/bases
    "apps.kruise.io": {
        "AdvancedCronJob": "advancedcronjobs",
        "BroadcastJob": "broadcastjobs",
        "CloneSet": "clonesets",
        "DaemonSet": "daemonsets",
        "StatefulSet": "statefulsets",
    },
    # github.com/NVIDIA/k8s-nim-operator, config/crd/bases
    "apps.nvidia.com": {"NIMPipeline": "nimpipelines", "NIMService": "nimservices"},
    # github.com/flux-framework/flux-operator, config/crd/bases
    "flux-framework.org": {"MiniCluster": "miniclusters"},
    # github.com/ai-dynamo/grove, operator/api/core/v1alpha1/crds
    "grove.io": {"PodClique": "podcliques", "PodCliqueSet": "podcliquesets"},
    # github.com/volcano-sh/volcano, config/crd/jobflow/bases
    "flow.volcano.sh": {"JobFlow": "jobflows", "JobTemplate": "jobtemplates"},
    # github.com/fluxcd/helm-controller, config/crd/bases
    "helm.toolkit.fluxcd.io": {"HelmRelease": "helmreleases"},
    # github.com/kaito-project/kaito, config/crd/bases
    "kaito.sh": {"InferenceSet": "inferencesets", "RAGEngine": "ragengines", "Workspace": "workspaces"},
    # github.com/substratusai/kubeai, manifests/crds
    "kubeai.org": {"Model": "models"},
    # github.com/kubeflow/katib, manifests/v1beta1/components/crd/experiment.yaml;
    # github.com/kubeflow/kubeflow, components/notebook-controller/config/crd/bases
    "kubeflow.org": {"Experiment": "experiments", "Notebook": "notebooks"},
    # github.com/kubevirt/kubevirt, pkg/virt-operator/resource/generate/components/crds.go
    "kubevirt.io": {
        "VirtualMachine": "virtualmachines",
        "VirtualMachineInstance": "virtualmachineinstances",
        "VirtualMachineInstanceReplicaSet": "virtualmachineinstancereplicasets",
    },
    # github.com/llamastack/llama-stack-k8s-operator, config/crd/bases
    "llamastack.io": {"LlamaStackDistribution": "llamastackdistributions"},
    # github.com/SeldonIO/seldon-core, operator/config/crd/bases
    "machinelearning.seldon.io": {"SeldonDeployment": "seldondeployments"},
    # github.com/ai-dynamo/dynamo, deploy/cloud/operator/config/crd/bases
    "nvidia.com": {
        "DynamoComponentDeployment": "dynamocomponentdeployments",
        "DynamoGraphDeployment": "dynamographdeployments",
    },
    # github.com/vllm-project/aibrix, config/crd/orchestration and config/crd/bases
    "orchestration.aibrix.ai": {
        "RayClusterFleet": "rayclusterfleets",
        "RayClusterReplicaSet": "rayclusterreplicasets",
        "RoleSet": "rolesets",
        "StormService": "stormservices",
    },
    # github.com/vllm-project/production-stack, operator/config/crd/bases
    "production-stack.vllm.ai": {"VLLMRuntime": "vllmruntimes"},
    # github.com/SlinkyProject/slurm-operator, config/crd/bases
    "slinky.slurm.net": {"NodeSet": "nodesets"},
    # github.com/sgl-project/rbg, config/crd/bases
    "workloads.x-k8s.io": {"RoleBasedGroup": "rolebasedgroups"},
}
"""Names in URLs of kinds with pods whose definitions are in no module that the Go proxy serves, each with the file of
its project that says so. All are namespaced. A kind whose definition is not published, as that of RunaiJob, has none.
"""


def names_in_urls(definitions: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the names of kinds by group and kind: those of namespaced definitions, and those that are written here."""
    found = {group: dict(kinds) for group, kinds in _WRITTEN.items()}
    for spec in (body["spec"] for body in definitions):
        if spec["scope"] == "Namespaced":
            found.setdefault(spec["group"], {})[spec["names"]["kind"]] = spec["names"]["plural"]
    return found


def refresh(
    documents: Iterable[Mapping[str, Any]],
    definitions: Iterable[dict[str, Any]],
    target: Path,
    named: Iterable[Mapping[str, Any]] = (),
) -> int:
    """Write `kinds.zip`, `resources.json` and `versions.json`; return the number of schemas.

    Of the definitions in `named` only the names of their kinds are kept.
    """
    schemas: dict[str, Schema] = {}
    plurals = names_in_urls(named)
    index: dict[str, dict[str, dict[str, Any]]] = {}
    bodies = list(definitions)
    crd_groups = {body["spec"]["group"] for body in bodies}
    for group, version, kind, plural, namespaced, schema in _builtin(documents):
        if group not in crd_groups:
            plurals.setdefault(group, {})[kind] = plural
            schemas[member_name(group, kind, version)] = schema
            _add_to_index(index, group, kind, version, namespaced=namespaced)
    for custom in _custom(bodies, schemas[member_name("", "ConfigMap", "v1")]):
        plurals.setdefault(custom.group, {})[custom.kind] = custom.served.plural
        for version, schema in custom.schemas.items():
            schemas[member_name(custom.group, custom.kind, version)] = schema
            _add_to_index(index, custom.group, custom.kind, version, namespaced=custom.served.namespaced)
        index[custom.group][custom.kind]["custom"] = True
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target / "kinds.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in [("index.json", index), *sorted(schemas.items())]:
            entry = zipfile.ZipInfo(name, _TIMESTAMP)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, json.dumps(content, sort_keys=True, separators=(",", ":")))
    (target / "resources.json").write_text(json.dumps(plurals, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    versions = {"kubernetes": KUBERNETES} | {module.path: module.version for module in SHIPPED_MODULES}
    (target / "versions.json").write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
    return len(schemas)


def _add_to_index(
    index: dict[str, dict[str, dict[str, Any]]], group: str, kind: str, version: str, *, namespaced: bool
) -> None:
    entry = index.setdefault(group, {}).setdefault(kind, {"versions": [], "namespaced": namespaced})
    entry["versions"] = sorted([*entry["versions"], version], key=_preference)


def _preference(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2 before v1 before v1beta2 before v1beta1 before v1alpha1."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (9, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), version)


def _builtin(documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str, bool, Schema]]:
    """Yield the kinds that can be applied: those with a PATCH operation on a single object."""
    for document in documents:
        components = document.get("components", {}).get("schemas", {})
        roots = {
            (entry["group"], entry["version"], entry["kind"]): name
            for name, component in components.items()
            for entry in component.get("x-kubernetes-group-version-kind", ())
        }
        for path, operations in sorted(document.get("paths", {}).items()):
            match = _ONE_OBJECT.fullmatch(path)
            if match is None or "patch" not in operations:
                continue
            gvk = operations["patch"]["x-kubernetes-group-version-kind"]
            group, version, kind = gvk["group"], gvk["version"], gvk["kind"]
            root = roots[(group, version, kind)]
            is_namespaced = match["namespaced"] is not None
            yield group, version, kind, match["plural"], is_namespaced, strict_builtin(root, components)


def _custom(bodies: Iterable[dict[str, Any]], configmap: Schema) -> Iterator[CustomKind]:
    for body in sorted(bodies, key=lambda body: str(body["metadata"]["name"])):
        kind = parse_definition(body, lambda: configmap)
        if kind is None:
            raise ValueError(f"{body['metadata']['name']} has no usable schema")
        yield kind


def definitions_of(modules: tuple[Module, ...] = SHIPPED_MODULES) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of modules: those that ship with the package."""
    folder = crds(modules=modules)
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def specimens() -> list[dict[str, Any]]:
    """Return the built-in kinds among the objects of the tests, from which defaults are learned."""
    paths = sorted((Path(__file__).parents[1] / "tests" / "cluster" / "specimens").glob("*.yaml"))
    bodies = [body for path in paths for body in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader)]
    return [body for body in bodies if _is_built_in(body["apiVersion"].partition("/")[0])]


def _is_built_in(group: str) -> bool:
    return "." not in group or (group.endswith(".k8s.io") and "x-k8s.io" not in group)


def write_forms(forms: dict[str, Any], target: Path) -> None:
    """Write what a server does to objects of built-in kinds."""
    (target / "defaults.json").write_text(json.dumps(forms, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> int:
    """Refresh the schemas in place; return the exit code."""
    parser = argparse.ArgumentParser(description="Write schemas/kubernetes from a server's OpenAPI and its CRDs.")
    parser.add_argument("--openapi", type=Path, help="a folder that tests.cluster.openapi wrote")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.openapi
        if folder is None:
            folder = Path(scratch) / "openapi"
            with api_server(Path(scratch) / "api-server", control_plane(), crds()) as server:
                dump(server, folder)
                write_forms(learn(server.client, specimens()), TARGET)
        documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    number = refresh(documents, definitions_of(), TARGET, definitions_of(NAMED_MODULES))
    to_stderr(f"{number} schemas in {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

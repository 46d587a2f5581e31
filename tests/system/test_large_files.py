"""Time and memory follow the size of a file, not its documents times its size, nor its documents times each other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests import sizes
from tests.cli.fleet import Fleet
from tests.ready import new_cache
from tests.system.child import ROOT

FEW, MANY = (500, 3000) if sizes.LARGE else (150, 900)
LIMIT = 3 << 20
"""Bytes of the largest file that is read."""
DOCUMENTS = 10_000
"""The most documents that a file may have."""
MEMORY = 400 << 20
"""Bytes that a command may hold in memory for one such file."""

QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: t%d}
spec:
  queue: {name: t%d, resources: {gpu: {quota: 1, limit: 2, overQuotaWeight: 1}}}
  image: registry.example.com/train:1
  nodeResources: {gpus: 8, cpus: 96, memory: 960Gi}
"""
CLUSTER_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: q%d}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
"""
POD = "{restartPolicy: Never, containers: [{name: a, image: 'registry.example.com/a:1'}]}"
KINDS = {
    "LocalQueue": "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {name: q%d, namespace: default}\n"
    "spec: {clusterQueue: c}\n",
    "ClusterQueue": CLUSTER_QUEUE,
    "ResourceFlavor": "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: f%d}\n",
    "Cohort, a chain": "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\nmetadata: {name: k%d}\nspec: {parentName: k%+}\n",
    "KAI Queue, a chain": "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: k%d}\n"
    "spec: {parentQueue: k%+, resources: {gpu: {quota: 1, limit: 2, overQuotaWeight: 1}}}\n",
    "TorchrunQueue": QUEUE,
    "TorchrunJob": "apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {name: j%d, labels: {team: x}}\n"
    "spec:\n  jobQueue: h100\n  numGPUs: 1\n  command: train.py\n"
    "  workspaceStorage: {source: git, url: 'https://git.example.com/a.git', ref: v1}\n",
    "Job": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j%d, namespace: default, labels: {team: x, "
    "kueue.x-k8s.io/queue-name: q%d}}\nspec: {template: {spec: " + POD + "}}\n",
    "PersistentVolumeClaim": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: p%d, namespace: default}\n"
    "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
    "Namespace": "apiVersion: v1\nkind: Namespace\nmetadata: {name: n%d}\n",
    "CustomResourceDefinition": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
    "metadata: {name: xs.g%d.io}\nspec: {group: g%d.io, names: {plural: xs, kind: X}, scope: Namespaced, versions: "
    "[{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n",
    "ConfigMap, each in a namespace": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n%d}\n",
    "PolicyException": "apiVersion: gpureconciler.io/v1alpha1\nkind: PolicyException\nmetadata: {name: e%d}\n"
    "spec: {rule: deadline-or-ttl, object: {kind: Job, namespace: default, name: j%d}, reason: r, owner: o, "
    "expires: '2099-01-01'}\n",
    "ValidatingAdmissionPolicy": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n"
    "metadata: {name: p%d}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [x], apiVersions: [v1], "
    "operations: [CREATE], resources: [jobs]}]}, validations: [{expression: 'true'}]}\n",
}
POLICIES = {"PolicyException", "ValidatingAdmissionPolicy"}


def _documents(kind: str, count: int, *, size: int = 0) -> str:
    """Return so many documents; an annotation fills them up to `size` bytes together."""
    texts = [KINDS[kind].replace("%d", str(number)).replace("%+", str(number + 1)) for number in range(count)]
    text = "---\n".join(texts)
    if size > len(text):
        filler = "metadata: {annotations: {a: " + "x" * ((size - len(text)) // count - 30) + "}, "
        text = text.replace("metadata: {", filler)
    return text


def _path(kind: str) -> str:
    return "policies/many.yaml" if kind in POLICIES else "jobs/many.yaml"


def _seconds(fleet: Fleet, kind: str, count: int) -> float:
    """Return the processor time of one `lint` with so many objects in one file."""
    fleet.write(_path(kind), _documents(kind, count))
    return _measured(fleet.root)


def _measured(root: Path) -> float:
    """Return the processor time of the first `lint` of a repository, where others were planned before."""
    command = [sys.executable, "-m", "reconciler", "lint", "--repo", str(root)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "RECONCILER_CACHE_DIR": new_cache(Path(mkdtemp(dir=root.parent)))}
    before = os.times()
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    after = os.times()
    assert done.returncode in {0, 3, 4}, done.stderr
    return after.children_user + after.children_system - before.children_user - before.children_system


@pytest.fixture(scope="module")
def start(new_repository: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """Return the processor time of one `lint` of the template: what every command takes."""
    return _measured(shutil.copytree(new_repository, tmp_path_factory.mktemp("start") / "fleet", symlinks=True))


@pytest.mark.parametrize("kind", KINDS)
def test_time_grows_with_the_number_of_objects_and_not_with_its_square(kind: str, start: float, fleet: Fleet) -> None:
    """Six times the objects take six times the time; the square would be 36 times."""
    few, many = (_seconds(fleet, kind, count) - start for count in (FEW, MANY))
    assert many < 12 * max(few, 0.2), (start, few, many)


def test_used_exceptions_are_looked_up(fleet: Fleet) -> None:
    """As many exceptions as denials."""

    def seconds(count: int) -> float:
        fleet.write("jobs/jobs.yaml", _documents("Job", count))
        return _seconds(fleet, "PolicyException", count)

    start = seconds(1)
    few, many = (seconds(count) - start for count in (FEW, MANY))
    assert many < 12 * max(few, 0.2), (start, few, many)


_CODE = """
import os, sys
from reconciler.cli.main import run
from tests.system.child import peak_memory
sys.stdout = open(os.devnull, "w")
code = run(sys.argv[1:])
print(code, peak_memory(), file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory there")
@pytest.mark.parametrize(
    "kind",
    ["TorchrunQueue", "CustomResourceDefinition"]
    + (["PolicyException", "Namespace", "LocalQueue"] if sizes.LARGE else []),
)
def test_memory_is_bounded_by_the_size_of_the_file(kind: str, fleet: Fleet) -> None:
    """A file of 3 MiB full of small documents, among them kinds that are kept whole because others look them up."""
    text = _documents(kind, DOCUMENTS, size=LIMIT)
    assert LIMIT * 0.95 < len(text) <= LIMIT
    fleet.write(_path(kind), text)
    done = subprocess.run(
        [sys.executable, "-c", _CODE, "lint", "--repo", str(fleet.root), "--processes", "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, peak = map(int, done.stderr.splitlines()[-1].split())
    assert code in {0, 3, 4}, done.stderr
    assert peak < MEMORY, f"{peak >> 20} MiB"

"""Training jobs of all kinds are read with their places; what cannot be sized is named."""

from typing import Any

import pytest
import yaml

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.training import is_selected, is_training_kind, training_job
from reconciler.kube.objects import format_path
from reconciler.kube.problems import Problem
from reconciler.repo.config import Labels, SizedJobs
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.training_jobs import is_done, is_watched, named_product, requested_gpus, word_place
from tests.index.sized.sized_cases import CATALOGUE, document, job_of, patch, source, starts

KINDS = ("pytorchjob", "appwrapper", "job", "jobset", "trainjob", "rayjob", "torchrunjob")


def changed(name: str, *edits: tuple[str, Any]) -> str:
    """Return a source with values at dotted paths set, or removed by `...`."""
    data = yaml.safe_load(source(name))
    for path, value in edits:
        node = data
        *parents, last = [int(part) if part.isdecimal() else part for part in path.split("/")]
        for part in parents:
            node = node[part]
        if value is ...:
            del node[last]
        elif isinstance(node, list) and last == len(node):
            node.append(value)
        else:
            node[last] = value
    return yaml.safe_dump(data)


def problems(text: str) -> tuple[Problem, ...]:
    parsed = training_job(BUILT_IN, document(text), starts)
    assert (parsed.intent is None) == bool(parsed.problems)
    return parsed.problems


def only_problem(text: str) -> Problem:
    (problem,) = problems(text)
    assert problem.place.line > 0
    assert problem.hint
    return problem


@pytest.mark.parametrize("name", KINDS)
def test_the_sources_are_valid(name: str) -> None:
    assert CATALOGUE.validate(document(source(name))) == ()


@pytest.mark.parametrize(
    ("name", "kind", "container", "pods", "gpus"),
    [
        ("pytorchjob", "PyTorchJob", "spec.pytorchReplicaSpecs.Master.template.spec.containers[0]", 1, 1),
        (
            "appwrapper",
            "PyTorchJob",
            "spec.components[0].template.spec.pytorchReplicaSpecs.Master.template.spec.containers[0]",
            1,
            4,
        ),
        ("job", "Job", "spec.template.spec.containers[1]", 2, 16),
        ("jobset", "JobSet", "spec.replicatedJobs[1].template.spec.template.spec.containers[0]", 1, 8),
        ("trainjob", "TrainJob", "spec.trainer", 1, 1),
        ("rayjob", "RayJob", "spec.rayClusterSpec.workerGroupSpecs[0].template.spec.containers[0]", 1, 1),
        ("torchrunjob", "TorchrunJob", "spec", 1, 1),
    ],
)
def test_each_kind_says_where_its_line_stands(name: str, kind: str, container: str, pods: int, gpus: int) -> None:
    """F-014: PyTorchJob and AppWrapper are read, and five kinds more."""
    job = job_of(source(name))
    assert job.kind is kind
    assert format_path(job.lead.container.path) == container
    assert job.replicas == pods
    assert requested_gpus(job) == gpus
    assert any("train" in word for word in (*job.command, *job.args))


def test_words_are_where_they_say() -> None:
    for name, field, index in (("pytorchjob", "args", 0), ("rayjob", "command", 2), ("torchrunjob", "command", 2)):
        job = job_of(source(name))
        found = job.get(*job.word_path(field, index))
        assert found == (job.args[0] if field == "args" else job.command[2])


def test_variables_are_known_or_not() -> None:
    text = changed(
        "pytorchjob",
        (
            "spec/pytorchReplicaSpecs/Master/template/spec/containers/0/env",
            [
                {"name": "A", "value": "1"},
                {"name": "B"},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        ),
    )
    assert job_of(text).env == (("A", "1"), ("B", ""), ("C", None))


def test_ray_sees_the_head_and_the_runtime_environment() -> None:
    text = changed(
        "rayjob",
        (
            "spec/rayClusterSpec/headGroupSpec/template/spec/containers/0/env",
            [{"name": "STAGE", "value": "head"}, {"name": "ROOT", "value": "/data"}],
        ),
    )
    assert dict(job_of(text).env) == {"STAGE": "test", "ROOT": "/data"}


WORKER = {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "a", "command": ["b"]}]}}}
SECOND = {"name": "second", "image": "registry.example/second:1"}
AT = "spec/pytorchReplicaSpecs"


@pytest.mark.parametrize(
    ("text", "rule", "field"),
    [
        (
            changed("pytorchjob", (f"{AT}/Worker", WORKER), (f"{AT}/Evaluator", WORKER)),
            "sizing.replica-specs",
            "spec.pytorchReplicaSpecs",
        ),
        (changed("pytorchjob", (f"{AT}/Evaluator", WORKER)), "sizing.replica-specs", "spec.pytorchReplicaSpecs.Evaluator"),
        (
            changed("pytorchjob", (f"{AT}/Worker", WORKER), (f"{AT}/Master", ...)),
            "sizing.master",
            "spec.pytorchReplicaSpecs",
        ),
        (
            changed("pytorchjob", (f"{AT}/Master/template/spec/containers/1", SECOND)),
            "sizing.containers",
            "spec.pytorchReplicaSpecs.Master.template.spec.containers",
        ),
        (
            changed("pytorchjob", (f"{AT}/Master/template/spec/containers", [])),
            "sizing.containers",
            "spec.pytorchReplicaSpecs.Master.template.spec.containers",
        ),
        (
            changed("pytorchjob", ("spec/elasticPolicy", {"minReplicas": 1})),
            "sizing.shape",
            "spec.elasticPolicy",
        ),
        (changed("appwrapper", ("spec/components/0", ...)), "sizing.wrapped", "spec.components"),
        (
            changed("jobset", ("spec/replicatedJobs/1/replicas", 2), ("spec/replicatedJobs/1/template/spec/parallelism", 2), ("spec/replicatedJobs/1/template/spec/completions", 2)),
            "sizing.shape",
            "spec.replicatedJobs[1].replicas",
        ),
        (changed("jobset", ("spec/replicatedJobs/1", ...), ("spec/replicatedJobs/1", yaml.safe_load(source("jobset"))["spec"]["replicatedJobs"][0] | {"name": "other"})), "sizing.containers", "spec.replicatedJobs"),
        (changed("job", ("spec/template/spec/containers/1/command", ["sleep"])), "sizing.containers", "spec.template.spec.containers"),
        (changed("trainjob", ("spec/trainer/command", ...), ("spec/trainer/args", ...)), "sizing.shape", "spec.trainer"),
        (changed("rayjob", ("spec/rayClusterSpec", ...)), "sizing.shape", "spec"),
        (changed("rayjob", ("spec/entrypoint", " ")), "sizing.shape", "spec.entrypoint"),
        (
            changed("rayjob", ("spec/rayClusterSpec/workerGroupSpecs/1", {"groupName": "b", "rayStartParams": {}, "template": {}})),
            "sizing.shape",
            "spec.rayClusterSpec.workerGroupSpecs[1]",
        ),
        (
            changed("rayjob", ("spec/rayClusterSpec/workerGroupSpecs/0/numOfHosts", 2)),
            "sizing.shape",
            "spec.rayClusterSpec.workerGroupSpecs[0].numOfHosts",
        ),
        (changed("torchrunjob", ("spec/distributed", {"maxNodes": 4})), "sizing.shape", "spec.distributed.maxNodes"),
        (changed("trainjob", ("spec/trainer/resourcesPerNode", {"claims": [{"name": "gpu"}]})), "sizing.shape", "spec.trainer"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "sizing.kind", "kind"),
    ],
)  # fmt: skip
def test_what_cannot_be_sized_is_named(text: str, rule: str, field: str) -> None:
    """F-014: three replica specs, no Master, two containers and shapes that nobody can size are named errors."""
    problem = only_problem(text)
    assert (problem.rule, problem.field) == (rule, field)


def test_two_wrapped_jobs_are_refused() -> None:
    """F-014: an AppWrapper holds one job; the second one is pointed at."""
    data = yaml.safe_load(source("appwrapper"))
    data["spec"]["components"].append(data["spec"]["components"][0])
    problem = only_problem(yaml.safe_dump(data))
    assert (problem.rule, problem.field) == ("sizing.wrapped", "spec.components[2].template")
    assert "wraps 2" in problem.message


def test_workers_run_what_the_master_runs() -> None:
    """F-014: a Worker with other words is an error at its words."""
    problem = problems(changed("pytorchjob", (f"{AT}/Worker", WORKER)))[0]
    assert problem.rule == "sizing.worker-differs"
    assert problem.field == "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command"
    master = yaml.safe_load(source("pytorchjob"))["spec"]["pytorchReplicaSpecs"]["Master"]
    job = job_of(changed("pytorchjob", (f"{AT}/Worker", master | {"replicas": 3})))
    assert [pods.role for pods in job.pods] == ["Master", "Worker"]
    assert (job.replicas, requested_gpus(job)) == (4, 4)


def test_a_sidecar_is_no_second_container() -> None:
    """Containers that stay beside the training do not count, wherever they stand."""
    text = changed("pytorchjob", (f"{AT}/Master/template/spec/containers/1", SECOND | {"restartPolicy": "Always"}))
    assert job_of(text).lead.container.name == "pytorch"


def test_the_card_is_found_in_selector_then_affinity() -> None:
    """F-005: the selector wins over the affinity; an affinity of two values, or of two alternatives, is ignored."""
    assert named_product(job_of(source("pytorchjob"))) is None
    at = "spec/template/spec/nodeSelector"
    found = named_product(job_of(source("job")))
    assert found is not None
    assert found[0] == "NVIDIA-A100-SXM4-80GB"

    def affinity(*terms: list[str]) -> Any:
        key = "nvidia.com/gpu.product"
        nodes = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(term)}]} for term in terms]
        selector = {"nodeSelectorTerms": nodes}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}

    def product(*terms: list[str]) -> str | None:
        text = changed("job", (at, ...), ("spec/template/spec/affinity", affinity(*terms)))
        named = named_product(job_of(text))
        return named[0] if named else None

    assert product(["L40S"]) == "L40S"
    assert product(["L40S"], ["L40S"]) == "L40S"
    assert product(["L40S", "H200"]) is None
    assert product(["L40S"], ["H200"]) is None
    both = changed("job", ("spec/template/spec/affinity", affinity(["L40S"])))
    assert named_product(job_of(both)) == found


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("trainjob", "spec/runtimePatches"),
        ("trainjob", "spec/podTemplateOverrides"),
        ("trainjob", "spec/podSpecOverrides"),
        ("torchrunjob", "spec/scheduling"),
    ],
)
def test_the_card_is_found_where_each_kind_has_it(name: str, path: str) -> None:
    selector: Any = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"}}
    if path == "spec/podTemplateOverrides":
        selector = {"spec": selector}
    value = [{"targetJobs": [{"name": "node"}], **selector}] if name == "trainjob" else selector
    if path == "spec/runtimePatches":
        value = [patch("node", selector)]
    found = named_product(job_of(changed(name, (path, value))))
    assert found is not None
    assert found[0] == "NVIDIA-H200"


def test_a_card_in_an_affinity_of_overridden_pods_is_found() -> None:
    expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L40S"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    pods = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    found = named_product(job_of(changed("trainjob", ("spec/runtimePatches", [patch("node", pods)]))))
    assert found is not None
    assert found[0] == "NVIDIA-L40S"


@pytest.mark.parametrize(("name", "meets"), [("pytorchjob", True), ("job", True), ("jobset", True), ("trainjob", True)])
def test_pods_that_meet(name: str, meets: bool) -> None:
    assert job_of(source(name)).has_rendezvous is meets


def test_a_plain_job_without_a_rendezvous_stays_on_one_node() -> None:
    at = "spec/template/spec/containers/1/command"
    assert not job_of(changed("job", (at, ["torchrun", "--standalone", "train.py"]))).has_rendezvous


def test_suspended_jobs_say_so() -> None:
    states = {name: job_of(source(name)).suspended for name in KINDS}
    assert {name for name, suspended in states.items() if suspended} == {"appwrapper", "jobset"}


SETTINGS = SizingSettings()


def test_the_watch_label_selects() -> None:
    """F-015: a source is selected by the watch label's key and value, whichever they are."""
    watched = document(source("pytorchjob"))
    assert is_selected(BUILT_IN, watched, SETTINGS)
    assert is_watched(watched, SETTINGS)
    assert not is_selected(BUILT_IN, document(changed("pytorchjob", ("metadata/labels", {}))), SETTINGS)
    assert not is_selected(
        BUILT_IN, document(changed("pytorchjob", ("metadata/labels/autoconf-plugin-name", "x"))), SETTINGS
    )
    own = SizingSettings(select=SizedJobs(label_key="size", label_value="me"))
    assert not is_selected(BUILT_IN, watched, own)
    assert is_selected(BUILT_IN, document(changed("pytorchjob", ("metadata/labels", {"size": "me"}))), own)


def test_what_is_done_is_not_sized_again() -> None:
    """F-015: the done label's value counts: with Kueue's queue name as the key, `fake` waits."""
    done = document(changed("pytorchjob", ("metadata/labels/autoconf-plugin-done", "yes")))
    assert is_done(done, SETTINGS)
    assert not is_selected(BUILT_IN, done, SETTINGS)
    kueue = SizingSettings(labels=Labels(done_key="kueue.x-k8s.io/queue-name", done_value="team"))
    assert is_selected(BUILT_IN, document(source("appwrapper")), kueue)
    real = document(source("appwrapper").replace("fake", "team"))
    assert not is_selected(BUILT_IN, real, kueue)


def test_namespaces_and_kinds_limit() -> None:
    """F-017: only named namespaces; a document without one counts as its cluster's. Only enabled kinds."""
    only = SizingSettings(select=SizedJobs(namespaces=("research",)))
    assert is_selected(BUILT_IN, document(source("pytorchjob")), only)
    assert not is_selected(BUILT_IN, document(changed("pytorchjob", ("metadata/namespace", "other"))), only)
    nowhere = document(changed("pytorchjob", ("metadata/namespace", ...)))
    assert not is_selected(BUILT_IN, nowhere, only)
    assert is_selected(BUILT_IN, nowhere, only, namespace="research")
    wrappers = SizingSettings(kinds=("appwrapper",))
    assert is_selected(BUILT_IN, document(source("appwrapper")), wrappers)
    assert not is_selected(BUILT_IN, document(source("pytorchjob")), wrappers)


def test_every_training_kind_without_a_label() -> None:
    """All jobs may be sized; a kind that trains nothing never is."""
    every = SizingSettings(select=SizedJobs(every=True))
    assert all(is_selected(BUILT_IN, document(source(name)), every) for name in KINDS)
    assert not is_watched(document(source("jobset")), every)
    pod = document("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    volcano = document("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: p}\n")
    assert not is_training_kind(BUILT_IN, pod)
    assert not is_selected(BUILT_IN, pod, every)
    assert not is_selected(BUILT_IN, volcano, every)


LINES = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: a}}
spec:
  trainer:
    command: {command}
    args:
{args}
"""


@pytest.mark.parametrize(
    ("args", "word", "place"),
    [
        ("    - |\n        set -e\n\n        torchrun --n 1 train.py\n", "--n", (11, 18)),
        ("    - |-\n      set -e\n        torchrun --n 1 train.py", "--n", (10, 18)),
        ("      - torchrun --n 1 train.py # x", "--n", (8, 18)),
        ("      - 'torchrun --n 1 train.py'", "--n", (8, 19)),
        ('      - "a\\nb torchrun --n 1 train.py"', "--n", (8, 9)),
        ("      - >\n        torchrun\n        --n 1 train.py", "--n", (8, 9)),
        ("      - |\r\n        torchrun\r\n        --n 1 train.py\r\n", "--n", (10, 9)),
    ],
)
def test_words_have_places(args: str, word: str, place: tuple[int, int]) -> None:
    """A reviewer is led to the very word where it can be told, else to where its text begins."""
    parsed = training_job(BUILT_IN, document(LINES.format(command="[sh, -c]", args=args)), starts)
    job = parsed.intent
    assert job is not None
    found = word_place(job, "args", 0, job.args[0].index(word))
    assert (found.line, found.column) == place


def test_words_are_texts() -> None:
    """A number among the words of a wrapped job, which no schema checks, is said: the server would refuse it."""
    at = "spec/components/0/template/spec/pytorchReplicaSpecs/Master/template/spec/containers/0/command/2"
    problem = only_problem(changed("appwrapper", (at, 4)))
    assert (problem.rule, problem.hint) == ("sizing.shape", "quote it")
    assert problem.field.endswith("containers[0].command[2]")
    assert only_problem(changed("trainjob", ("spec/trainer/args/1", 16))).field == "spec.trainer.args[1]"

"""A decision in its job: the autoconf controller's protocol, its options, and what is refused."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.index.sized import (
    SIZING,
    Sized,
    apply_decision,
    mark_refused,
    mark_waiting,
    sized_intent,
    sized_manifest,
    stamp,
)
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.manifests.ownership import own
from reconciler.kinds.manifests.plain import render_plain
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.torchrun.intent import queue_intent
from reconciler.kinds.torchrun.render import render_job
from reconciler.kinds.training import is_selected, training_job
from reconciler.kube.objects import format_path
from reconciler.kube.reasons import Origin
from reconciler.kube.yaml import Document, write
from reconciler.launch import parse_launch
from reconciler.repo.config import Backend, Cluster, Labels, SizedJobs
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decision import Decision
from reconciler.sizing.question import Goal, Question
from reconciler.sizing.training_jobs import named_product, requested_gpus
from tests.cluster.judges import Judge
from tests.index.sized.sized_cases import (
    decision,
    document,
    job_of,
    launch_of,
    no_decision,
    no_files,
    question,
    source,
    starts,
)
from tests.kinds.torchrun.torchrun_cases import documents

CLUSTER = Cluster(name="prod", backend=Backend.KUEUE)
SETTINGS = SizingSettings()
MASTER = ("spec", "pytorchReplicaSpecs", "Master")
KUEUE = "kueue.x-k8s.io/queue-name"
RECOMMENDATION = "ado-autoconf.ibm.com/recommendation"


def size(
    text: str, asked: Question, chosen: Decision, settings: SizingSettings = SETTINGS, evidence: tuple[Origin, ...] = ()
) -> Sized:
    job = job_of(text)
    return apply_decision(job, launch_of(job), asked, chosen, settings, evidence)


def value(data: Any, *path: str | int) -> Any:
    for part in path:
        data = data[part] if isinstance(part, int) else data.get(part) if data is not None else None
    return data


def container(found: Sized, role: str = "Master") -> Any:
    return value(found.data, "spec", "pytorchReplicaSpecs", role, "template", "spec", "containers", 0)


def variables(of: Any) -> dict[str, str]:
    return {item["name"]: item["value"] for item in of["env"]}


def with_values(name: str, *edits: tuple[str, Any]) -> str:
    data = yaml.safe_load(source(name))
    for path, new in edits:
        node = data
        *parents, last = path.split("/")
        for part in parents:
            node = node[int(part)] if part.isdecimal() else node.setdefault(part, {})
        node[last] = new
    return yaml.safe_dump(data)


def test_what_the_autoconf_controller_writes() -> None:
    """F-012: replicas, GPU and CPU requests equal limits, nprocPerNode, all variables, the three flags."""
    found = size(source("pytorchjob"), question(32), decision(8, 1, 4))
    data, trainer = found.data, container(found)
    assert found.problems == ()
    assert value(data, *MASTER, "replicas") == 1
    assert data["spec"]["nprocPerNode"] == "auto"
    for section in ("requests", "limits"):
        assert int(trainer["resources"][section]["nvidia.com/gpu"]) == 8
        assert int(trainer["resources"][section]["cpu"]) == 16
        assert trainer["resources"][section]["memory"] == "200Gi"
    assert variables(trainer) == {
        "OUTPUT": "/checkpoints",
        "AUTOCONF_NUM_GPUS": "8",
        "AUTOCONF_TOTAL_GPUS": "8",
        "AUTOCONF_NUM_PROCESSES": "8",
        "AUTOCONF_NUM_MACHINES": "1",
        "AUTOCONF_PER_DEVICE_BATCH_SIZE": "4",
        "AUTOCONF_TOKENS_PER_SAMPLE": "2048",
        "AUTOCONF_MODEL_NAME": "llama3.1-8b",
        "AUTOCONF_METHOD": "full",
        "AUTOCONF_GPU_MODEL": "NVIDIA-A100-SXM4-80GB",
        "AUTOCONF_BATCH_SIZE": "32",
    }
    (script,) = trainer["args"]
    before = value(yaml.safe_load(source("pytorchjob")), *MASTER, "template", "spec", "containers", 0, "args", 0)
    flags = "--num_machines $AUTOCONF_NUM_MACHINES --num_processes $AUTOCONF_NUM_PROCESSES"
    after = before.replace("--num_processes 1", flags)
    assert script == after.replace("train_batch_size 32", "train_batch_size $AUTOCONF_PER_DEVICE_BATCH_SIZE")


def test_argument_lists_get_numbers() -> None:
    """F-012: no shell expands an argument list, so it gets digits, never a variable's name."""
    found = size(source("appwrapper"), question(8, 4), decision(8, 2, 4))
    at = ("spec", "components", 0, "template", "spec", "pytorchReplicaSpecs")
    for role in ("Master", "Worker"):
        words = value(found.data, *at, role, "template", "spec", "containers", 0, "command")
        assert [word for word in words if word.startswith(("--num", "--per"))] == [
            "--num_machines=2",
            "--num_processes=8",
            "--per_device_train_batch_size=4",
        ]
        assert "$" not in "".join(words)


@pytest.mark.parametrize(("workers", "replicas"), [(1, None), (2, 1), (3, 2)])
@pytest.mark.parametrize("described", [False, True])
def test_workers_come_and_go(workers: int, replicas: int | None, described: bool) -> None:
    """F-013: one node drops the Worker, three make two Workers; one that is described keeps what it says."""
    text = source("pytorchjob")
    if described:
        worker = value(yaml.safe_load(text), *MASTER) | {"replicas": 7, "restartPolicy": "OnFailure"}
        text = with_values("pytorchjob", ("spec/pytorchReplicaSpecs/Worker", worker))
    found = size(text, question(48), decision(8 * workers, workers, 48 // 8 // workers))
    specs = found.data["spec"]["pytorchReplicaSpecs"]
    assert specs["Master"]["replicas"] == 1
    if replicas is None:
        assert list(specs) == ["Master"]
        return
    assert specs["Worker"]["replicas"] == replicas
    assert specs["Worker"]["restartPolicy"] == ("OnFailure" if described else "Never")
    assert specs["Worker"]["template"] == specs["Master"]["template"]


def test_a_new_worker_says_that_it_is_the_master() -> None:
    """F-013: what is copied is followed back to where the user wrote it; what sizing changed in it says why."""
    text = source("pytorchjob")
    manifest = sized_manifest(size(text, question(16), decision(16, 2, 1)), CLUSTER, namespaced=True)
    at = ("spec", "pytorchReplicaSpecs", "Worker")
    policy = manifest.why((*at, "restartPolicy"))
    assert policy.rule == "sizing.worker"
    assert policy.fields == ("spec.pytorchReplicaSpecs.Master.restartPolicy",)
    assert text.splitlines()[policy.places[0].line - 1].strip() == "restartPolicy: Never"
    gpus = manifest.why((*at, "template", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"))
    assert gpus.rule == "sizing.gpus"
    assert "16 GPUs on 2 nodes, 8 per node; predicted peak 62.3 of 80.0 GiB" in gpus.text


def test_reasons_point_at_words_and_evidence() -> None:
    """Every number is followed back to the launch line and to the evidence."""
    text = source("pytorchjob")
    answers = document("kind: SizingAnswers\nmetadata: {name: a}\nanswers: []\n", "evidence/prod/sizing.yaml")
    found = size(text, question(32), decision(8, 1, 4), evidence=(Origin(document=answers, field=("answers",)),))
    why = sized_manifest(found, CLUSTER, namespaced=True).why(("spec", "nprocPerNode"))
    assert [place.path for place in why.places] == ["jobs/test.yaml", "evidence/prod/sizing.yaml"]
    assert why.fields[0].endswith("containers[0].args[0]")
    kept = sized_manifest(found, CLUSTER, namespaced=True).why((*MASTER, "template", "spec", "containers", 0, "image"))
    assert (kept.rule, kept.places[0].line) == ("source", 23)


def test_old_values_of_the_variables_go() -> None:
    """F-012: what an earlier run left is replaced where it stands, whatever gave it."""
    env = [
        {"name": "AUTOCONF_NUM_GPUS", "value": "2"},
        {"name": "A", "value": "$(AUTOCONF_NUM_GPUS)"},
        {"name": "AUTOCONF_NUM_GPUS", "value": "3"},
        {"name": "AUTOCONF_GRADIENT_ACCUMULATION_STEPS", "value": "3"},
        {"name": "AUTOCONF_METHOD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "AUTOCONF_OTHER", "value": "mine"},
    ]
    at = "spec/pytorchReplicaSpecs/Master/template/spec/containers/0/env"
    found = size(with_values("pytorchjob", (at, env)), question(16), decision(8, 1, 2))
    items = container(found)["env"]
    assert [item["name"] for item in items][:5] == [
        "AUTOCONF_NUM_GPUS",
        "A",
        "AUTOCONF_GRADIENT_ACCUMULATION_STEPS",
        "AUTOCONF_METHOD",
        "AUTOCONF_OTHER",
    ]
    assert variables(container(found))["AUTOCONF_NUM_GPUS"] == "8"
    assert variables(container(found))["AUTOCONF_GRADIENT_ACCUMULATION_STEPS"] == "1"
    assert {"name": "AUTOCONF_METHOD", "value": "full"} in items
    assert len({item["name"] for item in items}) == len(items)
    manifest = sized_manifest(found, CLUSTER, namespaced=True)
    moved = manifest.why((*MASTER, "template", "spec", "containers", 0, "env", 4, "value"))
    assert moved.fields[0].endswith("env[5].value")


@given(batch=st.integers(1, 64), accumulation=st.integers(1, 8), gpus=st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_the_effective_batch_is_kept_exactly(batch: int, accumulation: int, gpus: int) -> None:
    """F-012: per device x processes x accumulation is the same before and after, or nothing is written."""
    whole = batch * accumulation
    assume(whole % gpus == 0)
    steps = next(steps for steps in range(accumulation, 0, -1) if (whole // gpus) % steps == 0)
    text = with_values("trainjob", ("spec/trainer/args", ["--per_device_train_batch_size", str(batch)]))
    if accumulation > 1:
        args = ["--per_device_train_batch_size", str(batch), "--gradient_accumulation_steps", str(accumulation)]
        text = with_values("trainjob", ("spec/trainer/args", args))
    workers = -(-gpus // 8)
    found = size(text, question(batch, 1, accumulation), decision(gpus, workers, whole // gpus // steps, steps))
    assert found.problems == ()
    words = " ".join(found.data["spec"]["trainer"]["args"])
    written = {name: int(number) for name, number in re.findall(r"--(\w+) (\d+)", words)}
    after = written["per_device_train_batch_size"] * gpus * written.get("gradient_accumulation_steps", 1)
    assert after == whole
    env = variables(found.data["spec"]["trainer"])
    assert int(env["AUTOCONF_PER_DEVICE_BATCH_SIZE"]) == written["per_device_train_batch_size"]
    goal = Goal.AVOID_OOM if batch % 2 else Goal.MIN_GPU
    asked = question(batch, 1, accumulation, goal)
    lossy = size(text, asked, decision(gpus, workers, whole // gpus // steps + 1, steps, goal=goal))
    assert [problem.rule for problem in lossy.problems] == ["sizing.effective-batch"]
    assert lossy.data is lossy.document.data


def test_accumulation_is_written_when_it_changes() -> None:
    found = size(source("jobset"), question(4, 8), decision(16, 2, 1, 2))
    trainer = value(found.data, "spec", "replicatedJobs", 1, "template", "spec", "template", "spec", "containers", 0)
    assert "--gradient_accumulation_steps=$AUTOCONF_GRADIENT_ACCUMULATION_STEPS" in trainer["command"][2].replace(
        "steps $", "steps=$"
    )
    assert variables(trainer)["AUTOCONF_GRADIENT_ACCUMULATION_STEPS"] == "2"


@pytest.mark.parametrize("name", ["pytorchjob", "appwrapper", "job", "jobset", "trainjob", "rayjob"])
@pytest.mark.parametrize("patch", [True, False])
def test_the_cpu_option(name: str, patch: bool) -> None:
    """F-017: CPU request and limit are patched, or stay as they are."""
    asked, chosen = question(16), decision(8, 1, 2)
    settings = SizingSettings(patch_cpu_request=patch)
    text = source(name)
    found = size(text, asked, chosen, settings)
    assert found.problems == ()
    assert ("cpu: 16" in write(found.data).decode()) is patch


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("pytorchjob", "spec/runPolicy/suspend"),
        ("appwrapper", "spec/suspend"),
        ("job", "spec/suspend"),
        ("jobset", "spec/suspend"),
        ("trainjob", "spec/suspend"),
        ("rayjob", "spec/suspend"),
        ("torchrunjob", "spec/suspend"),
    ],
)
@pytest.mark.parametrize("unsuspend", [True, False])
def test_the_unsuspend_option(name: str, path: str, unsuspend: bool) -> None:
    """F-017: a suspended job that was sized may run, if that is asked for; one that was not stays as it is."""
    text = with_values(name, (path, True))
    settings = SizingSettings(unsuspend=unsuspend)
    found = size(text, question(16), decision(8, 1, 2), settings)
    assert value(found.data, *path.split("/")) is (not unsuspend)
    assert value(mark_refused(document(text), no_decision(), settings).data, *path.split("/")) is True
    running = size(with_values(name, (path, False)), question(16), decision(8, 1, 2), settings)
    assert value(running.data, *path.split("/")) is False


def test_the_annotations_say_what_was_found() -> None:
    """F-012: the recommendation as the autoconf controller writes it; ours holds what stands behind it."""
    annotations = size(source("pytorchjob"), question(16), decision(16, 2, 1)).data["metadata"]["annotations"]
    assert annotations[RECOMMENDATION] == '{"recommendation":{"workers":2,"gpus":8}}'
    told = json.loads(annotations[SIZING])
    assert told["engines"] == {"analytic": "1"}
    assert (told["low_gib"], told["high_gib"], told["memory_gib"], told["confidence"]) == (59.0, 66.5, 80.0, "high")
    assert (told["gpus"], told["workers"], told["batch"], told["accumulation"]) == (16, 2, 1, 1)


OWN = SizingSettings(
    select=SizedJobs(label_key="size", label_value="me"),
    labels=Labels(done_key="sized", done_value="done", waiting_key="asked", annotation_key="example.com/answer"),
)


@pytest.mark.parametrize("answer", [decision(8, 1, 2), no_decision()])
def test_own_keys_and_no_others(answer: Decision) -> None:
    """F-015: with other keys configured only those appear; the watch label stays, the waiting label goes."""
    labels = {"size": "me", "asked": "4711", "team": "nlp"}
    found = size(with_values("pytorchjob", ("metadata/labels", labels)), question(16), answer, OWN)
    metadata = found.data["metadata"]
    assert metadata["labels"] == {"size": "me", "team": "nlp", "sized": "done"}
    assert set(metadata["annotations"]) == {"example.com/answer", SIZING}


def test_waiting_is_marked_in_the_source_and_taken_away_again() -> None:
    """F-015: a job that waits carries its request's id where people see it; the answer takes it away."""
    raw = source("pytorchjob").encode()
    marked = mark_waiting(document(raw), "f6db88", SETTINGS)
    edited = edit_source(raw, [(marked.document, marked.data)])
    assert edited.content.decode().count("waiting-for-ado-request-id: f6db88") == 1
    assert is_selected(BUILT_IN, document(edited.content), SETTINGS)
    found = size(edited.content.decode(), question(32), decision(8, 1, 4))
    again = edit_source(edited.content, [(found.document, found.data)])
    assert b"waiting" not in again.content
    assert not is_selected(BUILT_IN, document(again.content), SETTINGS)
    direct = size(source("pytorchjob"), question(32), decision(8, 1, 4))
    assert again.content == edit_source(raw, [(direct.document, direct.data)]).content


@pytest.mark.parametrize("answer", [decision(4, 1, 8), no_decision()])
def test_the_queue_name_trick(answer: Decision, judged: Judge) -> None:
    """F-016: `queue-name: fake` becomes the real queue after sizing, and after no recommendation as well."""
    settings = SizingSettings(labels=Labels(done_key=KUEUE, done_value="team-queue"))
    text = source("appwrapper")
    assert document(text).metadata["labels"][KUEUE] == "fake"
    assert is_selected(BUILT_IN, document(text), settings)
    found = size(text, question(8, 4), answer, settings)
    manifest = own(sized_manifest(found, CLUSTER, namespaced=True), found.document)
    assert manifest.body["metadata"]["labels"][KUEUE] == "team-queue"
    assert not is_selected(BUILT_IN, document(write(manifest.body)), settings)
    judged([manifest])


def test_no_recommendation_passes_as_it_is() -> None:
    """F-011: nothing but labels and annotations differs; the reason is told; two runs give the same bytes."""
    found = document(source("pytorchjob"))
    passed = mark_refused(found, no_decision(), SETTINGS)
    plain = render_plain(found, CLUSTER, namespaced=True)
    manifest = sized_manifest(passed, CLUSTER, namespaced=True)
    assert {**manifest.body, "metadata": None} == {**plain.body, "metadata": None}
    annotations = manifest.body["metadata"]["annotations"]
    assert annotations[RECOMMENDATION] == '{"error":"No recommendation"}'
    assert json.loads(annotations[SIZING])["reason"] == "does-not-fit"
    why = manifest.why(("metadata", "annotations", RECOMMENDATION))
    assert why.text == "64 GPUs are not enough"
    again = sized_manifest(
        mark_refused(document(source("pytorchjob")), no_decision(), SETTINGS), CLUSTER, namespaced=True
    )
    assert write(again.body) == write(manifest.body)
    assert not is_selected(BUILT_IN, document(write(manifest.body)), SETTINGS)


@pytest.mark.parametrize("name", ["pytorchjob", "appwrapper", "job", "jobset", "trainjob", "rayjob", "torchrunjob"])
def test_the_same_source_gives_the_same_bytes(name: str) -> None:
    """F-011: no loop: a source is sized the same each time, and what was sized or passed is not sized again."""
    asked, chosen = question(16), decision(8, 1, 2)
    first, second = (size(source(name), asked, chosen) for _ in range(2))
    assert first.problems == ()
    assert write(first.data) == write(second.data)
    assert not is_selected(BUILT_IN, document(write(first.data)), SizingSettings(select=SizedJobs(every=True)))
    # Sized once more by force, nothing but the line's flags is written again: the numbers are there already.
    third = size(write(first.data).decode(), asked, chosen)
    assert third.problems == ()
    assert write(third.data) == write(first.data)


def test_the_document_itself_is_never_changed() -> None:
    text = source("pytorchjob")
    job = job_of(text)
    before = write(job.document.data)
    apply_decision(job, launch_of(job), question(16), decision(16, 2, 1), SETTINGS)
    assert write(job.document.data) == before


def test_pods_that_cannot_meet_stay_on_one_node() -> None:
    """More nodes for a Job whose line names no rendezvous would be trainings that know nothing of each other."""
    at = "spec/template/spec/containers/1/command"
    text = with_values("job", (at, ["torchrun", "--nproc_per_node=8", "train.py"]))
    (problem,) = size(text, question(4, 8), decision(16, 2, 2)).problems
    assert problem.rule == "sizing.rendezvous"
    assert problem.place.line > 0
    assert size(text, question(4, 8), decision(8, 1, 4)).problems == ()


@pytest.mark.parametrize("name", ["job", "trainjob"])
def test_one_process_uses_one_gpu(name: str) -> None:
    """A line that starts one process cannot use more GPUs; kinds that start the processes can."""
    path = "spec/trainer/command" if name == "trainjob" else "spec/template/spec/containers/1/command"
    text = with_values(name, (path, ["python", "train.py"]))
    (problem,) = size(text, question(16), decision(8, 1, 2)).problems
    assert problem.rule == "sizing.one-process"
    assert size(text, question(16), decision(1, 1, 16)).problems == ()
    assert size(source("torchrunjob"), question(16), decision(8, 1, 2)).problems == ()


def test_what_torchrun_is_told_already_stays_unsaid() -> None:
    """`auto` and an operator's own variables are right whatever the number; nothing is added beside them."""
    auto = ["torchrun", "--nproc_per_node=auto", "--nnodes=1", "train.py"]
    found = size(with_values("trainjob", ("spec/trainer/command", auto)), question(16), decision(16, 2, 1))
    assert found.data["spec"]["trainer"]["command"] == ["torchrun", "--nproc_per_node=auto", "--nnodes=2", "train.py"]
    plain = size(source("trainjob"), question(16), decision(16, 2, 1))
    assert plain.data["spec"]["trainer"]["command"] == ["torchrun", "train.py"]
    assert plain.data["spec"]["trainer"]["numProcPerNode"] == 8


def test_a_line_that_cannot_be_edited_is_said() -> None:
    """A line in a script of the image, which is not written here, leaves the job alone."""
    at = "spec/pytorchReplicaSpecs/Master/template/spec/containers/0"
    text = with_values(
        "pytorchjob",
        (f"{at}/command", ["/bin/bash", "-c"]),
        (f"{at}/args", ["bash -c 'accelerate launch -m tuning.sft_trainer --model_name_or_path a/b'"]),
    )
    job = job_of(text)
    launch = launch_of(job)
    found = apply_decision(job, launch, question(8), decision(8, 1, 1), SETTINGS)
    if launch.not_editable:
        assert [problem.rule for problem in found.problems] == ["sizing.line"]
        assert found.data is found.document.data
    else:
        assert "--num_processes" in container(found)["args"][0]


def test_nodes_of_a_job_set_are_counted_where_the_user_counts_them() -> None:
    at = "spec/replicatedJobs/1"
    text = with_values("jobset", (f"{at}/replicas", 4), (f"{at}/template/spec/parallelism", 1))
    found = size(text, question(4, 8), decision(16, 2, 2))
    workers = found.data["spec"]["replicatedJobs"][1]
    assert (workers["replicas"], workers["template"]["spec"]["parallelism"]) == (2, 1)
    assert found.data["spec"]["replicatedJobs"][0] == yaml.safe_load(text)["spec"]["replicatedJobs"][0]


def test_a_wrapper_counts_the_same_pods() -> None:
    """The wrapper's podSets agree with the Worker that came, and lose the one that went."""
    master, worker = (f"template.spec.pytorchReplicaSpecs.{role}.template" for role in ("Master", "Worker"))
    two = size(source("appwrapper"), question(8, 4), decision(24, 3, 2, goal=Goal.AVOID_OOM))
    assert two.problems[0].rule == "sizing.effective-batch"
    two = size(source("appwrapper"), question(8, 6), decision(24, 3, 2))
    component = two.data["spec"]["components"][0]
    assert component["podSets"] == [{"path": master, "replicas": 1}, {"path": worker, "replicas": 2}]
    assert component["template"]["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == 3
    both = [{"path": worker, "replicas": 3}, {"path": master}]
    text = with_values("appwrapper", ("spec/components/0/podSets", both))
    assert size(text, question(8, 4), decision(4, 1, 8)).data["spec"]["components"][0]["podSets"] == [{"path": master}]


def test_ray_without_workers_trains_on_its_head() -> None:
    text = with_values("rayjob", ("spec/rayClusterSpec/workerGroupSpecs", []))
    found = size(text, question(16), decision(4, 1, 4))
    head = found.data["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert head["resources"]["limits"] == {"nvidia.com/gpu": 4, "cpu": 8}
    (problem,) = size(text, question(16), decision(16, 2, 1)).problems
    assert problem.rule == "sizing.rendezvous"


QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: h100, namespace: research}
spec:
  kaiQueue: team
  nodeResources: {gpus: 8, cpus: 96, memory: 512Gi}
  image: registry.example/train:3
"""


@pytest.mark.parametrize(("gpus", "nodes"), [(8, 1), (16, 2)])
def test_a_torchrun_job_goes_through_its_queue(gpus: int, nodes: int, judged: Judge) -> None:
    """F-012: the GPUs of a TorchrunJob are spread by its queue; the workload carries label and annotations."""
    found = size(source("torchrunjob"), question(16), decision(gpus, nodes, 16 // gpus))
    parsed = sized_intent(BUILT_IN["torchrun.ai", "TorchrunJob"], found)
    assert parsed.problems == ()
    assert parsed.intent is not None
    (queue_document,) = documents(QUEUE, "queues/h100.yaml")
    queue = queue_intent(queue_document).intent
    rendered = render_job(parsed.intent, queue, CLUSTER, None)
    assert [problem.rule for problem in rendered.problems] == ["torchrun.no-gang"] * (nodes > 1)  # without a quota
    manifests = [own(stamp(BUILT_IN, manifest, found), found.document) for manifest in rendered.manifests]
    (job,) = (manifest for manifest in manifests if manifest.key.kind == "Job")
    assert job.body["spec"]["parallelism"] == nodes
    trainer = job.body["spec"]["template"]["spec"]["containers"][0]
    assert trainer["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert f"--per_device_train_batch_size {16 // gpus}" in trainer["command"][2]
    assert variables({"env": [item for item in trainer["env"] if "value" in item]})["AUTOCONF_TOTAL_GPUS"] == str(gpus)
    metadata = job.body["metadata"]
    assert metadata["annotations"][RECOMMENDATION] == f'{{"recommendation":{{"workers":{nodes},"gpus":8}}}}'
    assert (metadata["labels"]["autoconf-plugin-done"], metadata["labels"][KUEUE]) == ("yes", "h100")
    why = job.why(("spec", "template", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"))
    assert why.places[0].path == "jobs/test.yaml"
    others = [manifest for manifest in manifests if manifest.key.kind != "Job"]
    assert all(RECOMMENDATION not in manifest.body["metadata"].get("annotations", {}) for manifest in others)
    judged(manifests)


def test_problems_name_their_field() -> None:
    """Places are those of the file, fields those of the document."""
    (problem,) = size(source("trainjob").replace("torchrun", "python"), question(16), decision(8, 1, 2)).problems
    assert problem.field == format_path(("spec", "trainer"))
    assert isinstance(document(source("trainjob")), Document)


@pytest.mark.parametrize("field", ["podSpecOverrides", "podTemplateOverrides"])
def test_a_training_job_of_an_older_trainer_keeps_its_form_of_overrides(field: str) -> None:
    def override(pods: dict[str, Any]) -> dict[str, Any]:
        return {"targetJobs": [{"name": "node"}], **({"spec": pods} if field == "podTemplateOverrides" else pods)}

    own = override({"tolerations": [{"operator": "Exists"}]})
    job = job_of(with_values("trainjob", (f"spec/{field}", [own])))
    found = apply_decision(job, launch_of(job), question(16), decision(16, 2, 1), SETTINGS, pin_gpu=True)
    bound = override({"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}})
    assert found.data["spec"][field] == [own, bound]
    assert "runtimePatches" not in found.data["spec"]


@pytest.mark.parametrize("name", ["pytorchjob", "appwrapper", "jobset", "trainjob", "rayjob", "torchrunjob"])
def test_pods_are_bound_to_the_card_they_were_sized_for(name: str, judged: Judge) -> None:
    """F-005: where the job names no card, the one that was chosen is named, so that it gets no smaller one."""
    job = job_of(source(name))
    assert named_product(job) is None
    chosen = decision(16, 2, 1)
    found = apply_decision(job, launch_of(job), question(16), chosen, SETTINGS, pin_gpu=True)
    assert found.problems == () or found.problems[0].rule == "sizing.machine-rank"
    again = job_of(write(found.data))
    assert (named_product(again) or [""])[0] == "NVIDIA-A100-SXM4-80GB"
    text = write(found.data).decode()
    assert text.count("nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB") == (
        2 if name in {"pytorchjob", "appwrapper"} else 1
    )
    if name != "torchrunjob":
        judged([sized_manifest(found, CLUSTER, namespaced=True)])


def test_schedulers_wait_for_all_pods_and_their_gpus() -> None:
    policy = {"minAvailable": 4, "minResources": {"nvidia.com/gpu": "4", "cpu": "8"}}
    text = with_values("pytorchjob", ("spec/runPolicy/schedulingPolicy", policy))
    found = size(text, question(16), decision(16, 2, 1))
    policy = found.data["spec"]["runPolicy"]["schedulingPolicy"]
    assert policy == {"minAvailable": 2, "minResources": {"nvidia.com/gpu": "16", "cpu": "8"}}
    partial = with_values("job", ("metadata/annotations", {"kueue.x-k8s.io/job-min-parallelism": "1"}))
    annotations = size(partial, question(4, 16), decision(16, 2, 4)).data["metadata"]["annotations"]
    assert "kueue.x-k8s.io/job-min-parallelism" not in annotations


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 3, -1, 0.5, "x", "", [], {}, ["x"], [None], {"x": None}, [{"name": 1}], [[]]]
)
KINDS = ("pytorchjob", "appwrapper", "job", "jobset", "trainjob", "rayjob", "torchrunjob")


def paths_of(node: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all values of a document, except its kind."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    found = [(*at, key) for key, _ in items if key not in {"kind", "apiVersion"}]
    return found + [below for key, value in items for below in paths_of(value, (*at, key))]


@given(name=st.sampled_from(KINDS), junk=st.lists(st.tuples(st.integers(0, 10**6), JUNK), min_size=1, max_size=3))
def test_junk_is_never_a_crash(name: str, junk: list[tuple[int, Any]]) -> None:
    """What an AppWrapper wraps is checked by nobody before us: any value anywhere is read, or refused in words."""
    data = yaml.safe_load(source(name))
    for number, new in junk:
        paths = paths_of(data)
        *parents, last = paths[number % len(paths)]
        node = data
        for part in parents:
            node = node[part]
        node[last] = json.loads(json.dumps(new))
    text = json.dumps(data)
    found = document(text)
    is_selected(BUILT_IN, found, SETTINGS)
    mark_refused(found, no_decision(), SETTINGS)
    parsed = training_job(BUILT_IN, found, starts)
    assert (parsed.intent is None) == bool(parsed.problems)
    job = parsed.intent
    launch = None if job is None else parse_launch(job.command, job.args, dict(job.env), no_files).launch
    if job is None or launch is None:
        return
    requested_gpus(job)
    named_product(job)
    for workers in (1, 2):
        result = apply_decision(
            job, launch, question(16), decision(8 * workers, workers, 2 // workers), SETTINGS, pin_gpu=True
        )
        assert all(problem.message for problem in result.problems)
        if not result.problems:
            edited = edit_source(text.encode(), [(found, result.data)])
            assert edited.problems == ()


def run_script(script: str, env: dict[str, str], folder: Path) -> list[str]:
    """Run a script in a real bash where `accelerate` and `torchrun` write down their words; return those."""
    for program in ("accelerate", "torchrun"):
        path = folder / program
        path.write_text(f'#!/bin/bash\nprintf "%s\\0" {program} "$@" > "{folder}/words"\n')
        path.chmod(0o755)
    script = script.replace("cd /app ", f"cd {folder} ")
    path_variable = f"{folder}:/usr/bin:/bin"
    subprocess.run(["/bin/bash", "-c", script], env={**env, "PATH": path_variable}, check=True, timeout=30)
    return (folder / "words").read_text().rstrip("\0").split("\0")


@pytest.mark.parametrize(
    ("name", "asked", "chosen", "words"),
    [
        (
            "pytorchjob",
            question(32),
            decision(16, 2, 2),
            ["--num_machines 2", "--num_processes 16", "--per_device_train_batch_size 2", "--output_dir /checkpoints"],
        ),
        (
            "jobset",
            question(4, 8),
            decision(16, 2, 1, 2),
            ["--nnodes=2", "--nproc_per_node=8", "--gradient_accumulation_steps 2", "--per_device_train_batch_size 1"],
        ),
    ],
)
def test_a_real_shell_gets_the_numbers(
    name: str, asked: Question, chosen: Decision, words: list[str], tmp_path: Path
) -> None:
    """F-012: what bash hands to the launcher are the numbers, and their product is the effective batch of before."""
    found = size(source(name), asked, chosen)
    job = job_of(write(found.data))
    script = (*job.command, *job.args)[-1]
    line = " ".join(run_script(script, {key: text or "" for key, text in job.env}, tmp_path))
    assert all(word in line for word in words)
    counts = {flag: int(number) for flag, number in re.findall(r"--(\w+)[ =](\d+)", line)}
    processes = counts.get("num_processes") or counts["nnodes"] * counts["nproc_per_node"]
    steps = counts.get("gradient_accumulation_steps", 1)
    assert counts["per_device_train_batch_size"] * processes * steps == asked.effective_batch


@pytest.mark.parametrize(
    ("name", "path", "pods"),
    [
        ("pytorchjob", "template.spec.pytorchReplicaSpecs.Master.template", 1),
        ("job", "template.spec.template", 2),
        ("jobset", "template.spec.replicatedJobs[1].template.spec.template", 2),
        ("rayjob", "template.spec.rayClusterSpec.workerGroupSpecs[0].template", 2),
        ("trainjob", "", 0),
    ],
)
def test_every_kind_may_be_wrapped(name: str, path: str, pods: int, judged: Judge) -> None:
    """F-014: an AppWrapper of any kind is sized as the kind is, and counts the same pods."""
    inner = yaml.safe_load(source(name))
    component: dict[str, Any] = {"template": inner}
    if path:
        component["podSets"] = [{"path": "template.spec.other.template", "replicas": 1}, {"path": path, "replicas": 7}]
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": name, "namespace": "research"},
        "spec": {"components": [component]},
    }
    asked, chosen = question(16, 2), decision(16, 2, 2)
    found = size(yaml.safe_dump(wrapper), asked, chosen)
    alone = size(source(name), asked, chosen)
    result = found.data["spec"]["components"][0]
    assert result["template"]["spec"] == alone.data["spec"]
    assert result["template"]["metadata"] == inner["metadata"]
    if path:
        assert [entry for entry in result["podSets"] if entry["path"] in {path, "template.spec.other.template"}] == [
            {"path": "template.spec.other.template", "replicas": 1},
            {"path": path, "replicas": pods},
        ]
    judged([sized_manifest(found, CLUSTER, namespaced=True)])


def test_a_script_that_divides_gpus_itself_gets_no_other_number() -> None:
    """Ray starts what the flags of verl and OpenRLHF say, whatever the cluster has."""
    line = "python -m verl.trainer.main_ppo actor_rollout_ref.model.path=m trainer.n_gpus_per_node=8 trainer.nnodes=2"
    text = with_values("rayjob", ("spec/entrypoint", line))
    (problem,) = size(text, question(1, 16), decision(8, 1, 2)).problems
    assert problem.rule == "sizing.line"
    assert "starts 16 processes, and 8 GPUs were chosen" in problem.message
    assert size(text, question(1, 16), decision(16, 2, 1)).problems == ()

"""Changes of immutable fields, as a user sees them: refused, replaced by a new generation, or kept as they are."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reconciler.index.compile import _STAGES
from reconciler.index.context import Context
from tests.cli.fleet import Fleet

QUEUE = "queues/h100.yaml"
OLD_IMAGE, NEW_IMAGE = "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime", "pytorch/pytorch:2.8.0-cuda12.9-cudnn9-runtime"
PLAIN = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{{annotations}}}
  labels: {{kai.scheduler/queue: h100}}
spec:
  template:
    spec:
      restartPolicy: Never
      schedulerName: kai-scheduler
      containers:
        - name: a
          image: registry.example.com/a:1.0
          command: [{command}]
"""
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: fast
  volumeName: volume-1
  resources: {requests: {storage: 20Gi}}
"""


def job(number: int) -> str:
    return (
        "apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\n"
        f"metadata: {{name: eval-{number}}}\nspec:\n  jobQueue: h100\n  numGPUs: 1\n  command: python eval.py\n"
    )


def plan(fleet: Fleet, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.run("plan", "-o", "json", *arguments).out)
    return found


def settle(fleet: Fleet, message: str = "edit") -> None:
    """Commit the sources and what they render to."""
    fleet.commit(message)
    ran = fleet.run("commit")
    assert ran.code == 0, ran.out + ran.err
    assert fleet.run("verify").code == 0
    assert plan(fleet)["changes"] == []


def choose(fleet: Fleet, choice: str) -> None:
    """Set `onImmutableChange` of the queue, where all jobs may stop."""
    config = fleet.root / "reconciler.yaml"
    if "disruption: {share: 0.25}" in config.read_text():
        fleet.edit("reconciler.yaml", "disruption: {share: 0.25}", "disruption: {share: 1.0}")
        fleet.git("commit", "--quiet", "--message", "All jobs may stop", "reconciler.yaml")
    fleet.edit(QUEUE, "spec:\n", f"spec:\n  onImmutableChange: {choice}\n")


@pytest.fixture
def evals(fleet: Fleet, kept: Path) -> Fleet:
    """Add 30 jobs of one pod to the queue of the template, whose own jobs are one Job and one PyTorchJob."""

    def make() -> None:
        for number in range(30):
            fleet.write(f"jobs/eval/{number}.yaml", job(number))
        settle(fleet)

    fleet.make_once(kept, make)
    return fleet


def test_a_refusal_names_the_edited_line_where_a_value_has_several_origins(fleet: Fleet) -> None:
    """The command of a job follows from its own command and from its number of GPUs: only the latter was edited."""
    fleet.edit("jobs/language/probe.yaml", "numGPUs: 1", "numGPUs: 4")
    (problem,) = (one for one in plan(fleet)["problems"] if one["severity"] == "error")
    assert (problem["rule"], problem["field"]) == ("immutable.refused", "spec.numGPUs")
    line = (fleet.root / problem["place"]["path"]).read_text().splitlines()[problem["place"]["line"] - 1]
    assert line == "  numGPUs: 4"


def test_an_image_bump_of_a_queue_is_refused(evals: Fleet) -> None:
    """The API server refuses 31 updates: nothing is committed, and one problem names the line that must change."""
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    made = plan(evals)
    assert Counter(change["operation"] for change in made["changes"]) == {"replace": 31, "update": 1}
    (problem,) = (problem for problem in made["problems"] if problem["severity"] == "error")
    assert problem["rule"] == "immutable.refused"
    assert (problem["place"]["path"], problem["field"]) == (QUEUE, "spec.image")
    assert problem["message"].startswith("31 jobs must be replaced, because the API server accepts spec.template only")
    assert "onImmutableChange" in problem["hint"]
    assert {job["word"] for job in made["jobs"]} == {"refused"}
    text = evals.run("plan")
    assert text.code == 5
    assert text.out.startswith("31 objects must be replaced")
    assert "31 must be replaced" in evals.run("plan", "-o", "markdown").out
    assert f"file={QUEUE}" in evals.run("plan", "-o", "github").out
    evals.commit()
    head = evals.git("rev-parse", "HEAD")
    assert evals.run("commit").code == 5
    assert evals.git("rev-parse", "HEAD") == head
    assert evals.run("verify").code == 5


def test_a_new_generation_has_the_same_claims(evals: Fleet) -> None:
    """F-062: `replace` renders every job under a new name, and each keeps its checkpoints."""
    choose(evals, "replace")
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    made = plan(evals)
    assert {change["operation"] for change in made["changes"]} == {"replace"}
    names = {change["key"]["name"]: change for change in made["changes"]}
    assert all(change["movedFrom"] for change in names.values())
    assert evals.run("plan").out.startswith("32 jobs replaced by a new generation; pods on 47 GPUs stop")
    claims = {path for path in evals.files() if "persistentvolumeclaim" in path}
    settle(evals)
    assert {path for path in evals.files() if "persistentvolumeclaim" in path} == claims
    assert "Render: 32 replaced" in evals.git("log", "-1", "--format=%s")
    (probe,) = (path for path in evals.files() if "job-probe-g" in path)
    text = evals.files()[probe].decode()
    assert "claimName: probe-checkpoints" in text
    assert NEW_IMAGE in text
    (vit,) = (text.decode() for path, text in evals.files().items() if "pytorchjob-vit-g" in path)
    name = vit.split("name: ", 1)[1].split("\n", 1)[0]
    assert f"--rdzv-endpoint={name}-worker-0:29500" in vit


def test_the_sources_of_replaced_jobs_are_compiled_few_times(evals: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without their new names, to be compared, and those of the base; none of them is kept for long."""
    choose(evals, "replace")
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    compiled: Counter[str] = Counter()

    def parse(context: Context, unit: Any) -> None:
        compiled[unit.path] += 1
        _STAGES[0](context, unit)

    monkeypatch.setattr("reconciler.index.compile._STAGES", (parse, *_STAGES[1:]))
    monkeypatch.setenv("RECONCILER_CACHE", "off")
    assert len(plan(evals)["changes"]) == 32
    assert {compiled[f"jobs/eval/{number}.yaml"] for number in range(30)} == {4}


def test_explain_finds_a_job_under_every_name(fleet: Fleet) -> None:
    """By the name in its source and by that of its generation, before and after the commit."""
    choose(fleet, "replace")
    fleet.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    new = next(one["key"]["name"] for one in plan(fleet)["changes"] if one["key"]["name"].startswith("probe-g"))
    before = fleet.run("explain", f"Job/default/{new}", "spec.completions")
    assert (before.code, f"{new} is a generation of probe" in before.out) == (0, True)
    settle(fleet)
    for name in ("Job/default/probe", "Job/probe", "rendered/main/default/job-probe.yaml"):
        ran = fleet.run("explain", name, "spec.completions")
        assert ran.code == 0, ran.err
        assert f"probe runs as {new}, its current generation" in ran.out
    for name in (f"Job/default/{new}", f"rendered/main/default/job-{new}.yaml"):
        assert "generation" not in fleet.run("explain", name, "spec.completions").out
    unknown = fleet.run("explain", "Job/default/prob")
    assert (unknown.code, "did you mean" in unknown.err) == (2, True)


def test_a_generation_lasts_until_the_next_replacement(evals: Fleet) -> None:
    """What changes in place keeps the name, whatever `onImmutableChange` says by then; a rollback finds its name."""
    choose(evals, "replace")
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    settle(evals)
    first = [path for path in evals.files() if "job-eval-3-g" in path]
    evals.edit(QUEUE, "  onImmutableChange: replace\n", "")
    settle(evals)
    evals.edit("jobs/eval/3.yaml", "  numGPUs: 1\n", "  numGPUs: 1\n  reliability: {activeDeadlineSeconds: 60}\n")
    assert [change["operation"] for change in plan(evals)["changes"]] == ["update"]
    settle(evals)
    assert [path for path in evals.files() if "job-eval-3-" in path] == first
    evals.edit("jobs/eval/3.yaml", "  reliability: {activeDeadlineSeconds: 60}\n", "")
    choose(evals, "replace")
    settle(evals)
    evals.edit(QUEUE, NEW_IMAGE, OLD_IMAGE)
    settle(evals)
    assert not [path for path in evals.files() if path in first]
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    settle(evals)
    assert [path for path in evals.files() if path in first] == first


def test_a_pull_request_plans_what_it_commits(evals: Fleet) -> None:
    """The plan against the base names the generations that the branch holds, before and after `commit`."""
    evals.git("checkout", "--quiet", "-b", "bump")
    choose(evals, "replace")
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    evals.commit()
    before = plan(evals, "--base", "main")["changes"]
    assert evals.run("commit").code == 0
    assert plan(evals, "--base", "main")["changes"] == before
    evals.edit(QUEUE, NEW_IMAGE, "pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime")
    settle_on_branch = evals.commit()
    uncommitted = plan(evals, "--base", "main")["changes"]
    assert evals.run("commit").code == 0
    assert evals.git("rev-parse", "HEAD~1") == settle_on_branch
    assert plan(evals, "--base", "main")["changes"] == uncommitted
    assert {change["operation"] for change in uncommitted} == {"replace"}
    assert len(uncommitted) == 32


def test_warm_and_cold_runs_name_alike(evals: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache never decides on a name: switching between branches gives what an empty cache gives."""
    evals.git("checkout", "--quiet", "-b", "bump")
    choose(evals, "replace")
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    settle(evals)
    for branch in ("main", "bump", "main", "bump"):
        evals.git("checkout", "--quiet", branch)
        warm = evals.run("plan", "--base", "main", "-o", "json").out
        with monkeypatch.context() as patched:
            patched.setenv("RECONCILER_CACHE", "off")
            assert evals.run("plan", "--base", "main", "-o", "json").out == warm
        assert evals.run("verify").code == 0


def test_kept_jobs_stay_and_new_ones_change(evals: Fleet) -> None:
    """F-062: `keep` leaves 32 manifests byte for byte, and says so in every plan."""
    before = evals.files()
    choose(evals, "keep")
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    evals.write("jobs/eval/new.yaml", job(99))
    made = plan(evals)
    assert [change["operation"] for change in made["changes"]] == ["create", "create", "create"]
    assert len(made["keptSpecs"]) == 32
    text = evals.run("plan")
    assert text.code == 0
    assert "32 objects keep their current spec until deleted" in text.out
    settle(evals)
    after = evals.files()
    assert {path: after[path] for path in before} == before
    (new,) = (text.decode() for path, text in after.items() if "job-eval-99" in path)
    assert NEW_IMAGE in new
    (evals.root / "jobs/eval/3.yaml").unlink()
    settle(evals)
    assert "main/default/job-eval-3.yaml" not in evals.files()


def test_the_most_specific_choice_wins(evals: Fleet) -> None:
    """Settings, then the queue, then the annotation of a job."""
    evals.edit("reconciler.yaml", "spec:\n", "spec:\n  onImmutableChange: replace\n")
    choose(evals, "keep")
    for number, choice in ((1, "replace"), (2, "refuse")):
        evals.edit(
            f"jobs/eval/{number}.yaml",
            f"{{name: eval-{number}}}",
            f'{{name: eval-{number}, annotations: {{gpureconciler.io/on-immutable-change: "{choice}"}}}}',
        )
    evals.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    made = plan(evals)
    replaced = {change["key"]["name"]: bool(change["movedFrom"]) for change in made["changes"]}
    assert {name.partition("-g")[0]: is_new for name, is_new in replaced.items()} == {"eval-1": True, "eval-2": False}
    assert len(made["keptSpecs"]) == 30
    assert [problem["rule"] for problem in made["problems"] if problem["severity"] == "error"] == ["immutable.refused"]


def test_an_unknown_choice_is_an_error(fleet: Fleet) -> None:
    text = PLAIN.format(name="a", annotations="gpureconciler.io/on-immutable-change: recreate", command="train")
    fleet.write("jobs/a.yaml", text)
    ran = fleet.run("lint")
    assert ran.code == 3
    assert "jobs/a.yaml:5:" in ran.out
    assert "'recreate' is not one of refuse, replace, keep" in " ".join(ran.out.split())


def test_jobs_of_any_kind_are_replaced(fleet: Fleet) -> None:
    """A plain Job gets a new name only; one that names its own pods must be renamed by hand."""
    choice = "gpureconciler.io/on-immutable-change: replace"
    fleet.write("jobs/a.yaml", PLAIN.format(name="a", annotations=choice, command="train"))
    fleet.write("jobs/b.yaml", PLAIN.format(name="b", annotations=choice, command="train, --master, b-0.b"))
    fleet.write("jobs/c.yaml", PLAIN.format(name=f"c{'x' * 60}", annotations=choice, command="train"))
    settle(fleet)
    for name in ("a", "b", "c"):
        fleet.edit(f"jobs/{name}.yaml", "a:1.0", "a:2.0")
    made = plan(fleet)
    assert [(change["operation"], change["key"]["name"][:3]) for change in made["changes"]] == [("replace", "a-g")]
    problems = {problem["place"]["path"]: problem for problem in made["problems"] if problem["severity"] == "error"}
    assert set(problems) == {"jobs/b.yaml", "jobs/c.yaml"}
    assert problems["jobs/b.yaml"]["message"].startswith("names the pod b-0 of the job")
    assert "the limit is 63" in problems["jobs/c.yaml"]["message"]
    assert fleet.run("plan").code == 3


@pytest.mark.parametrize(
    ("old", "new", "field", "words"),
    [
        (
            "20Gi",
            "10Gi",
            "spec.resources.requests.storage",
            "a volume cannot shrink: PersistentVolumeClaim/default/data from 20Gi to 10Gi",
        ),
        ("ReadWriteOnce", "ReadWriteMany", "spec.accessModes[0]", "spec.accessModes of a claim cannot be changed"),
        ("fast", "slow", "spec.storageClassName", "spec.storageClassName of a claim cannot be changed"),
        ("volume-1", "volume-2", "spec.volumeName", "spec.volumeName of a claim cannot be changed"),
    ],
)
def test_a_claim_keeps_what_it_is(fleet: Fleet, old: str, new: str, field: str, words: str) -> None:
    """F-062: the API server refuses these changes; the hint says what a new claim would lose."""
    fleet.write("jobs/data.yaml", CLAIM)
    settle(fleet)
    fleet.edit("jobs/data.yaml", old, new)
    (problem,) = (problem for problem in plan(fleet)["problems"] if problem["severity"] == "error")
    assert (problem["rule"], problem["place"]["path"], problem["field"]) == ("immutable.claim", "jobs/data.yaml", field)
    assert words in problem["message"]
    assert "deleting the old one may destroy its data" in problem["hint"]
    assert fleet.run("plan").code == 3


def test_a_claim_grows_in_place(fleet: Fleet) -> None:
    fleet.write("jobs/data.yaml", CLAIM)
    settle(fleet)
    fleet.edit("jobs/data.yaml", "20Gi", "30Gi")
    assert [change["operation"] for change in plan(fleet)["changes"]] == ["update"]
    settle(fleet)


def test_fewer_gpus_keep_the_larger_claims(fleet: Fleet) -> None:
    """From two nodes to one: sizes per GPU and access modes are computed, and claims keep what they have."""
    choose(fleet, "replace")
    settle(fleet)
    before = {path: text for path, text in fleet.files().items() if "claim-vit-" in path}
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 8")
    ran = fleet.run("plan")
    assert ran.code == 0, ran.err
    assert "a claim can neither shrink nor change its access modes" in " ".join(ran.out.split())
    assert "keep their current spec" not in ran.out
    kept = plan(fleet)["keptSpecs"]
    assert [(one["key"]["name"], one["hasSpare"]) for one in kept] == [
        ("vit-checkpoints", True),
        ("vit-workspace", True),
    ]
    settle(fleet)
    assert {path: text for path, text in fleet.files().items() if "claim-vit-" in path} == before
    assert fleet.run("plan", "--exit-code").code == 0
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 8", "numGPUs: 24")
    assert "update PersistentVolumeClaim vit-checkpoints" in [
        f"{one['operation']} {one['key']['kind']} {one['key']['name']}" for one in plan(fleet)["changes"]
    ]


def test_more_nodes_need_a_shared_claim_and_the_hint_says_how(fleet: Fleet) -> None:
    choose(fleet, "replace")
    settle(fleet)
    fleet.edit("jobs/language/probe.yaml", "numGPUs: 1", "numGPUs: 16")
    (problem,) = (problem for problem in plan(fleet)["problems"] if problem["severity"] == "error")
    assert problem["message"].startswith("pods on several nodes need ReadWriteMany, but spec.accessModes of a claim")
    assert "move the data of probe-checkpoints, probe-workspace: add a PersistentVolumeClaim" in problem["hint"]
    for name in ("checkpoints", "workspace"):
        claim = CLAIM.replace("name: data", f"name: probe-{name}-shared").replace("ReadWriteOnce", "ReadWriteMany")
        fleet.write(f"jobs/{name}.yaml", claim)
    storage = "  storage: {checkpoints: {claimName: probe-checkpoints-shared}, "
    storage += "workspace: {claimName: probe-workspace-shared}}\n"
    fleet.edit("jobs/language/probe.yaml", "  command:", f"{storage}  command:")
    ran = fleet.run("plan")
    assert "immutable.claim" not in ran.out
    assert ran.code == 0, ran.err


def test_claims_of_a_queue_keep_what_they_have(fleet: Fleet) -> None:
    """The checkpoints of every job of a queue would shrink with one line of the queue."""
    choose(fleet, "refuse")
    settle(fleet)
    fleet.edit(QUEUE, "checkpoints: {enabled: true, sizePerGPU: 50Gi}", "checkpoints: {enabled: true, sizePerGPU: 5Gi}")
    assert fleet.run("plan").code == 0
    assert {kept["key"]["name"] for kept in plan(fleet)["keptSpecs"]} == {"vit-checkpoints", "probe-checkpoints"}


def test_what_others_refer_to_is_never_renamed(fleet: Fleet) -> None:
    """`replace` starts new generations of jobs; a ConfigMap that is marked immutable is refused."""
    fleet.edit("reconciler.yaml", "spec:\n", "spec:\n  onImmutableChange: replace\n")
    fleet.write("jobs/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nimmutable: true\ndata: {a: b}\n")
    settle(fleet)
    fleet.edit("jobs/c.yaml", "a: b", "a: c")
    (problem,) = (problem for problem in plan(fleet)["problems"] if problem["severity"] == "error")
    assert (str(problem["place"]["path"]), problem["field"]) == ("jobs/c.yaml", "data.a")
    assert "give the object another name and change what refers to it" in problem["hint"]
    assert fleet.run("plan").code == 5


def test_a_multi_node_job_under_kueue_moves_with_its_service(fleet: Fleet) -> None:
    """The Service and the rendezvous follow the name of the job, and the old Service goes with the old pods."""
    fleet.edit("reconciler.yaml", "  clusters:\n", "  clusters:\n    - {name: east, backend: kueue}\n")
    fleet.edit("reconciler.yaml", "gpuQuotaChange: {share: 0.5}", "gpuQuotaChange: {share: 1.0}")
    (fleet.root / "jobs/language/llama-lora.yaml").unlink()
    choose(fleet, "replace")
    settle(fleet)
    fleet.edit(QUEUE, OLD_IMAGE, NEW_IMAGE)
    changes = [change for change in plan(fleet)["changes"] if change["cluster"] == "east"]
    found = {(change["operation"], change["key"]["kind"]) for change in changes}
    assert found == {("replace", "Job"), ("move", "Service")}
    settle(fleet)
    files = fleet.files()
    (service,) = (text.decode() for path, text in files.items() if path.startswith("east/default/service-vit"))
    (vit,) = (text.decode() for path, text in files.items() if path.startswith("east/default/job-vit"))
    name = vit.split("name: ", 1)[1].split("\n", 1)[0]
    assert f"batch.kubernetes.io/job-name: {name}" in service
    assert f"subdomain: {name}" in vit
    assert f"--rdzv-endpoint={name}-0.{name}:29500" in vit


@pytest.mark.parametrize("mode", ["ReadWriteMany", "ReadOnlyMany"])
def test_a_mode_that_someone_removes_is_refused(fleet: Fleet, mode: str) -> None:
    """Only computed access modes stay as they are: this one was written."""
    claim = CLAIM.replace("[ReadWriteOnce]", f"[ReadWriteOnce, {mode}]")
    fleet.write("jobs/data.yaml", claim)
    settle(fleet)
    fleet.edit("jobs/data.yaml", f", {mode}]", "]")
    assert plan(fleet)["keptSpecs"] == []
    assert fleet.run("plan").code == 3


WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                size:
                  type: integer
                  x-kubernetes-validations:
                    - {rule: self >= oldSelf, message: the size cannot shrink}
                    - {rule: "oldSelf.hasValue() || self < 10", message: start small, optionalOldSelf: true}
"""
WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  size: 3\n"


def test_rules_of_a_definition_decide_about_changes(fleet: Fleet) -> None:
    """What a rule refuses beside the old value is a replacement, told with the words of the rule."""
    fleet.write("jobs/widgets.yaml", WIDGETS)
    fleet.write("jobs/widget.yaml", WIDGET.replace("size: 3", "size: 20"))
    created = fleet.run("plan", "-o", "json")
    assert created.code == 3
    (problem,) = (one for one in json.loads(created.out)["problems"] if one["severity"] == "error")
    assert (problem["rule"], problem["message"]) == ("schema.rule", "Widget spec.size: start small")
    assert (problem["place"]["path"], problem["place"]["line"]) == ("jobs/widget.yaml", 5)
    fleet.write("jobs/widget.yaml", WIDGET)
    settle(fleet)
    fleet.edit("jobs/widget.yaml", "size: 3", "size: 20")
    assert plan(fleet)["changes"][0]["operation"] == "update"
    settle(fleet)
    fleet.edit("jobs/widget.yaml", "size: 20", "size: 19")
    ran = fleet.run("plan", "-o", "json")
    assert ran.code == 5
    (problem,) = (one for one in json.loads(ran.out)["problems"] if one["rule"] == "immutable.refused")
    assert (problem["place"]["path"], problem["place"]["line"], problem["field"]) == (
        "jobs/widget.yaml",
        5,
        "spec.size",
    )
    assert "spec.size only on a new object (the size cannot shrink): Widget/" in problem["message"]
    fleet.edit("jobs/widget.yaml", "{name: a}", "{name: a, annotations: {gpureconciler.io/on-immutable-change: keep}}")
    assert "1 object keeps its current spec" in fleet.run("plan").out

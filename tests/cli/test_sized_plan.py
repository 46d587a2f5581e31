"""The autoconf controller's workflow, from files to a reviewed diff: labels, answers, refusals, Kueue's queue name."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.fleet import Fleet
from tests.sizing.predictors.server import answer, serving

JOB = """\
# Trains the assistant. Owner: team vision.
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: llama-lora
  namespace: vision
  labels:
    team: vision
    autoconf-plugin-name: resource-requirements-appwrapper
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          nodeSelector:
            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
          containers:
            - name: pytorch
              image: registry.example.com/tuning:2.8
              command: [bash, -c]
              args:
                - |
                  set -e  # fail early
                  cd /app && accelerate launch \\
                    --num_processes 8 -m tuning.sft_trainer \\
                    --model_name_or_path 'ibm-granite/granite-3.1-8b-instruct' \\
                    --peft_method lora --gradient_checkpointing true \\
                    --max_seq_length 4096 --per_device_train_batch_size=4
              resources:
                limits: {nvidia.com/gpu: 8}
                requests: {nvidia.com/gpu: 8}
"""
RENDERED = "rendered/main/vision/pytorchjob-llama-lora.yaml"
OWN_MODEL = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}
"""The `config.json` of a model that no table knows, in the shape of Llama 7B."""

SIZING = """\
  sizing:
    engine: {engine}
{more}"""


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    """Return a repository without the template's own sized job: each test brings what it sizes."""
    (fleet.root / "jobs/language/llama-lora.yaml").unlink()
    (fleet.root / "rendered/main/default/pytorchjob-llama-lora.yaml").unlink()
    fleet.commit("no sized job")
    return fleet


def wrapped(job: str) -> str:
    """Put a job into an AppWrapper, which carries its labels."""
    inner = "\n".join(f"        {line}".rstrip() for line in job.splitlines()[1:])
    inner = inner.replace("            autoconf-plugin-name: resource-requirements-appwrapper\n", "")
    return f"""\
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: wrapped
  namespace: vision
  labels:
    team: vision
    autoconf-plugin-name: resource-requirements-appwrapper
spec:
  components:
    - template:
{inner}
"""


def configure(fleet: Fleet, engine: str, more: str = "") -> None:
    """Add sizing to reconciler.yaml."""
    path = fleet.root / "reconciler.yaml"
    path.write_text(path.read_text().rstrip("\n") + "\n" + SIZING.format(engine=engine, more=more))


def plan(fleet: Fleet, *flags: str) -> dict[str, Any]:
    ran = fleet.run("plan", "-o", "json", *flags)
    assert ran.code in {0, 4}, ran.err
    result: dict[str, Any] = json.loads(ran.out)
    return result


def rendered(fleet: Fleet, path: str = RENDERED) -> dict[str, Any]:
    """Return an object as `render` writes it."""
    ran = fleet.run("render")
    assert ran.code == 0, ran.err
    for document in yaml.safe_load_all(ran.out):
        name = f"{document['kind'].lower()}-{document['metadata']['name']}.yaml"
        if path.endswith(name):
            found: dict[str, Any] = document
            return found
    raise AssertionError(f"{path} is not rendered")


def test_a_labelled_job_is_sized(fleet: Fleet) -> None:
    """F-006, F-012, F-013, F-015: the plan says what was read, chosen and rejected; the numbers are in the object."""
    fleet.write("jobs/llama.yaml", JOB)
    made = plan(fleet)
    change = next(change for change in made["changes"] if change["path"] == RENDERED)
    note = change["sizing"]
    assert note["read"].startswith("granite-3.1-8b (8.17 B), lora")
    assert "batch 4 x 8 = 32" in note["read"]
    assert {place["path"] for place in note["places"]} == {"jobs/llama.yaml"}
    chosen = [one for one in note["candidates"] if one["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["peakGib"] < chosen[0]["memoryGib"]
    assert all(one["gpus"] < chosen[0]["gpus"] for one in note["candidates"] if not one["fits"])
    body = rendered(fleet)
    pod = body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    each = chosen[0]["gpus"] // chosen[0]["workers"]
    assert pod["resources"]["limits"]["nvidia.com/gpu"] == pod["resources"]["requests"]["nvidia.com/gpu"] == each
    assert pod["resources"]["limits"]["cpu"] == 2 * each
    env = {one["name"]: one["value"] for one in pod["env"]}
    assert int(env["AUTOCONF_NUM_PROCESSES"]) * int(env["AUTOCONF_PER_DEVICE_BATCH_SIZE"]) == 32
    assert "--per_device_train_batch_size=$AUTOCONF_PER_DEVICE_BATCH_SIZE" in pod["args"][0]
    assert "set -e  # fail early\n" in pod["args"][0]
    annotations = body["metadata"]["annotations"]
    told = json.loads(annotations["ado-autoconf.ibm.com/recommendation"])
    assert told == {"recommendation": {"workers": chosen[0]["workers"], "gpus": each}}
    assert json.loads(annotations["gpureconciler.io/sizing"])["engines"] == {"analytic": "1"}
    assert body["metadata"]["labels"]["autoconf-plugin-done"] == "yes"


def test_text_and_markdown_tell_it_in_three_lines(fleet: Fleet) -> None:
    fleet.write("jobs/llama.yaml", JOB)
    text = fleet.run("plan", "--width", "110").out
    assert all(f"\n    {word} " in text for word in ("read", "chosen", "rejected")), text
    assert "jobs/llama.yaml:27:" in text
    comment = fleet.run("plan", "-o", "markdown").out
    assert "#### Sizing" in comment
    assert "- chosen: " in comment
    assert "Candidates" in comment


def test_what_is_committed_is_a_fixed_point(fleet: Fleet) -> None:
    """F-011: two runs give the same output; verify agrees."""
    fleet.write("jobs/llama.yaml", JOB)
    fleet.commit()
    assert fleet.run("commit").code == 0
    assert fleet.run("verify").code == 0
    assert fleet.run("plan", "--exit-code", "--base", "HEAD").code == 0


def test_explain_shows_the_table(fleet: Fleet) -> None:
    fleet.write("jobs/llama.yaml", JOB)
    ran = fleet.run("explain", "PyTorchJob/llama-lora")
    assert ran.code == 0, ran.err
    assert "Sizing" in ran.out
    assert "sizing." in ran.out


def test_an_appwrapper_is_sized(fleet: Fleet) -> None:
    """F-014: an AppWrapper that holds one PyTorchJob."""
    fleet.write("jobs/wrapped.yaml", wrapped(JOB))
    body = rendered(fleet, "appwrapper-wrapped.yaml")
    inner = body["spec"]["components"][0]["template"]
    assert "AUTOCONF_TOTAL_GPUS" in str(inner)
    assert "recommendation" in body["metadata"]["annotations"]["ado-autoconf.ibm.com/recommendation"]


def test_no_recommendation_passes_through_marked(fleet: Fleet) -> None:
    """F-011: the error annotation, the done label, otherwise as written; a warning, no loop."""
    fleet.write("jobs/llama.yaml", JOB.replace("4096", "4000000").replace("size=4", "size=64"))
    made = plan(fleet)
    assert any(problem["rule"] == "sizing.no-recommendation" for problem in made["problems"])
    body = rendered(fleet)
    assert json.loads(body["metadata"]["annotations"]["ado-autoconf.ibm.com/recommendation"]) == {
        "error": "No recommendation"
    }
    assert body["metadata"]["labels"]["autoconf-plugin-done"] == "yes"
    pod = body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    assert pod["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert "env" not in pod
    assert rendered(fleet) == body


@pytest.mark.parametrize("sequence", ["4096", "4000000"])
def test_kueue_queue_name_is_released_either_way(fleet: Fleet, sequence: str) -> None:
    """F-016: `queue-name: fake` becomes the real queue after a recommendation and after none."""
    label = "    kueue.x-k8s.io/queue-name: fake\n    autoconf"
    fleet.write("jobs/llama.yaml", JOB.replace("    autoconf", label, 1).replace("4096", sequence))
    configure(fleet, "analytic", "    labels: {done: {key: kueue.x-k8s.io/queue-name, value: vision}}\n")
    assert rendered(fleet)["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "vision"


WRAPPER = """\
import json, sys
out, model, method, gpu, tokens, batch, version = sys.argv[1:]
assert (model, method, gpu, tokens, batch) == ("granite-3.1-8b-instruct", "lora", GPU, "4096", "32"), sys.argv
json.dump(REPLY, open(out, "w"))
"""


def with_wrapper(fleet: Fleet, reply: str, gpu: str = "NVIDIA-H100-80GB-HBM3") -> None:
    fleet.write("jobs/llama.yaml", JOB)
    configure(fleet, "wrapper", "    wrapper: {script: tools/wrapper.py}\n")
    fleet.write("tools/wrapper.py", WRAPPER.replace("REPLY", reply).replace("GPU", repr(gpu)))


def test_a_wrapper_answers_as_evidence(fleet: Fleet) -> None:
    """F-009: held back until it is asked; then its answer is a file that plans replay."""
    with_wrapper(fleet, '{"workers": 1, "gpus": 4, "error": None}')
    pending = plan(fleet)
    assert [problem["rule"] for problem in pending["problems"] if "sizing" in problem["rule"]] == ["sizing.pending"]
    assert not any(change["path"] == RENDERED for change in pending["changes"])
    ran = fleet.run("size", "record")
    assert (ran.code, ran.out) == (0, "evidence/main/sizing.yaml: asked 1 question\n"), ran.err
    (fleet.root / "tools/wrapper.py").unlink()
    change = next(change for change in plan(fleet)["changes"] if change["path"] == RENDERED)
    assert change["gpusAfter"] == 4
    told = rendered(fleet)["metadata"]["annotations"]
    assert json.loads(told["ado-autoconf.ibm.com/recommendation"]) == {"recommendation": {"workers": 1, "gpus": 4}}
    assert fleet.run("size", "record").out == "evidence/main/sizing.yaml: no new questions\n"
    assert fleet.run("size", "prune", "--exit-code").out == "every recorded answer is needed\n"
    (fleet.root / "jobs/llama.yaml").unlink()
    shown = fleet.run("size", "prune", "--exit-code")
    assert shown.code == 1
    assert shown.out.startswith("--- evidence/main/sizing.yaml\n+++ evidence/main/sizing.yaml\n")
    assert fleet.run("size", "prune", "--write").out == "wrote evidence/main/sizing.yaml: removed 1 answer, kept 0\n"
    assert fleet.run("size", "prune").out == "every recorded answer is needed\n"


def test_a_job_that_waits_keeps_what_is_rendered(fleet: Fleet) -> None:
    """An edit makes a new question: until it is answered the old object stays, and everything else goes on."""
    with_wrapper(fleet, '{"workers": 1, "gpus": 4}')
    assert fleet.run("size", "record").code == 0
    fleet.commit()
    assert fleet.run("commit").code == 0
    fleet.edit("jobs/llama.yaml", "4096", "2048")
    fleet.write("jobs/config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: vision}\n")
    made = plan(fleet)
    assert RENDERED in made["heldBack"]
    assert [change["key"]["kind"] for change in made["changes"]] == ["ConfigMap"]


def test_a_wrapper_that_fails_is_said(fleet: Fleet) -> None:
    """F-009: the script's error is the reason; a failure is no refusal, so the job waits, and is asked for again."""
    with_wrapper(fleet, '{"workers": None, "gpus": None, "error": "no such model"}')
    ran = fleet.run("size", "record")
    assert ran.code == 6
    assert ran.out.endswith("asked 1 question, 1 failed: the wrapper script failed: no such model\n")
    made = plan(fleet)
    (problem,) = [problem for problem in made["problems"] if problem["rule"].startswith("sizing.")]
    assert problem["rule"] == "sizing.engine-error"
    assert "no such model" in problem["message"]
    assert not any(change["path"] == RENDERED for change in made["changes"])
    fleet.write("tools/wrapper.py", "import sys\nopen(sys.argv[1], 'w').write('{\"workers\": 1, \"gpus\": 4}')\n")
    assert fleet.run("size", "record").code == 0
    assert any(change["path"] == RENDERED for change in plan(fleet)["changes"])


def test_a_failure_replaces_no_answer_and_leaks_no_secret(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that fails when it is asked again: the earlier answer stays; it gets no credentials and leaks none."""
    monkeypatch.setenv("ADO_TOKEN", "hunter2hunter2")
    with_wrapper(fleet, '{"workers": 1, "gpus": 4}')
    assert fleet.run("size", "record").code == 0
    before = (fleet.root / "evidence/main/sizing.yaml").read_text()
    script = 'import os; raise SystemExit(f\'denied: token={os.environ.get("ADO_TOKEN", "absent")}\')\n'
    fleet.write("tools/wrapper.py", script)
    ran = fleet.run("size", "record", "--again")
    assert ran.code == 6
    assert "denied: " in ran.out
    assert "hunter" not in ran.out + ran.err
    assert (fleet.root / "evidence/main/sizing.yaml").read_text() == before


def test_a_larger_recommendation_is_seen_beside_physics(fleet: Fleet) -> None:
    """Disagreement is shown, also where the recommendation fits."""
    with_wrapper(fleet, '{"workers": 2, "gpus": 8}')
    assert fleet.run("size", "record").code == 0
    change = next(change for change in plan(fleet)["changes"] if change["path"] == RENDERED)
    assert "the memory model alone chooses 2 GPUs" in change["sizing"]["chosen"]


MEASURED = {
    "entities": [
        {
            "identifier": "",
            "measurement_results": [
                {
                    "measurements": [
                        {"value": value, "property": {"targetProperty": {"identifier": name}}}
                        for name, value in (("can_recommend", 1), ("gpus", 2), ("workers", 2))
                    ]
                }
            ],
        }
    ]
}


def test_rest_is_submitted_now_and_read_later(fleet: Fleet) -> None:
    """F-010, F-015: pending is recorded with its id, and resumed by a later run; never asked twice."""
    fleet.write("jobs/llama.yaml", JOB)
    with serving(answer(200, ["f6db88"]), answer(404), answer(404), answer(404), answer(404)) as server:
        configure(fleet, "rest", f"    rest: {{url: '{server.url}', deadlineSeconds: 1}}\n")
        assert fleet.run("size", "record").code == 0
        assert "f6db88" in (fleet.root / "evidence/main/sizing.yaml").read_text()
        assert [one.method for one in server.said].count("POST") == 1
        url = server.url
    assert any(problem["rule"] == "sizing.pending" for problem in plan(fleet)["problems"])
    with serving(answer(200, MEASURED)) as server:
        fleet.edit("reconciler.yaml", url, server.url)
        assert fleet.run("size", "record").code == 0
        assert [one.method for one in server.said] == ["GET"]
    change = next(change for change in plan(fleet)["changes"] if change["path"] == RENDERED)
    assert change["gpusAfter"] == 4


def test_a_source_shows_what_it_waits_for(fleet: Fleet) -> None:
    """F-015: in place, a job whose question was sent carries the request's id; the answer takes it away."""
    path = fleet.write("jobs/llama.yaml", JOB)
    with serving(answer(200, ["f6db88"]), answer(404), answer(404), answer(404), answer(404)) as server:
        configure(fleet, "rest", f"    write: source\n    rest: {{url: '{server.url}', deadlineSeconds: 1}}\n")
        assert fleet.run("size", "write").out == "no changes\n"  # nobody was asked
        assert fleet.run("size", "record").code == 0
        url = server.url
    assert fleet.run("size", "write").out == "wrote jobs/llama.yaml\n"
    added = set(path.read_text().splitlines()) - set(JOB.splitlines())
    assert added == {"    waiting-for-ado-request-id: f6db88"}
    assert fleet.run("size", "write").out == "no changes\n"
    with serving(answer(200, MEASURED)) as server:
        fleet.edit("reconciler.yaml", url, server.url)
        assert fleet.run("size", "record").code == 0
        assert [one.method for one in server.said] == ["GET"]  # the label is no part of the question
    assert fleet.run("size", "write").out == "wrote jobs/llama.yaml\n"
    assert "waiting-for" not in path.read_text()
    assert 'autoconf-plugin-done: "yes"' in path.read_text()


@pytest.mark.parametrize(
    "more",
    ["", "    wrapper: {script: a.py}\n    rest: {url: 'http://127.0.0.1:1'}\n"],
    ids=["neither", "both"],
)
def test_exactly_one_source_of_answers(fleet: Fleet, more: str) -> None:
    """F-018: none or two is exit 3 with the place."""
    configure(fleet, "wrapper", more)
    ran = fleet.run("plan")
    assert ran.code in {2, 3}
    assert "reconciler.yaml:" in ran.err + ran.out


def test_a_models_config_beside_the_job(fleet: Fleet) -> None:
    """F-004: a model that nobody knows is sized by its config.json, which is no manifest."""
    job = JOB.replace("ibm-granite/granite-3.1-8b-instruct", "/models/our-own-7b")
    fleet.write("jobs/own/llama.yaml", job)
    ran = fleet.run("plan")
    assert ran.code == 3
    assert "sizing.model" in ran.out
    fleet.write("jobs/own/config.json", json.dumps(OWN_MODEL))
    change = next(change for change in plan(fleet)["changes"] if change["path"] == RENDERED)
    assert change["sizing"]["read"].startswith("our-own-7b (6.74 B)")


def test_cards_of_the_queue_are_compared(fleet: Fleet) -> None:
    """F-005: without a product, the cards that the nodes have; the cheapest that fits is taken."""
    selector = "          nodeSelector:\n            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3\n"
    fleet.write("jobs/llama.yaml", JOB.replace(selector, ""))
    change = next(change for change in plan(fleet)["changes"] if change["path"] == RENDERED)
    assert {one["product"] for one in change["sizing"]["candidates"]} == {"NVIDIA-H100-80GB-HBM3"}


def test_a_torchrun_job_is_sized(fleet: Fleet) -> None:
    """F-012: nodes and processes come from the queue's distribution; the batch is on the line."""
    fleet.write(
        "jobs/sized.yaml",
        """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: sized
  labels: {team: vision, autoconf-plugin-name: resource-requirements-appwrapper}
spec:
  jobQueue: h100
  numGPUs: 1
  command: >-
    python train.py --fsdp full_shard --model_name_or_path meta-llama/Llama-3.1-8B --max_seq_length 4096
    --per_device_train_batch_size 8 --gradient_checkpointing true --bf16 true
""",
    )
    made = plan(fleet)
    sized = [change for change in made["changes"] if change.get("sizing")]
    assert len(sized) == 1, made["problems"]
    chosen = next(one for one in sized[0]["sizing"]["candidates"] if one["chosen"])
    assert sized[0]["gpusAfter"] == chosen["gpus"]
    assert "--per_device_train_batch_size" in json.dumps(sized[0]["fields"])


def test_write_puts_the_numbers_into_the_source(fleet: Fleet) -> None:
    """F-012: the source itself is the review; comments and the rest of the script stay; a second run changes nothing."""
    path = fleet.write("jobs/llama.yaml", JOB)
    configure(fleet, "analytic", "    write: source\n")
    held = plan(fleet)
    assert any(problem["rule"] == "sizing.unwritten" for problem in held["problems"])
    ran = fleet.run("size", "write")
    assert (ran.code, ran.out) == (0, "wrote jobs/llama.yaml\n"), ran.err
    text = path.read_text()
    assert text.startswith("# Trains the assistant. Owner: team vision.\n")
    assert "set -e  # fail early\n" in text
    assert "--model_name_or_path 'ibm-granite/granite-3.1-8b-instruct' \\" in text
    assert yaml.safe_load(text)["metadata"]["labels"]["autoconf-plugin-done"] == "yes"
    assert fleet.run("size", "write").out.startswith("no changes")
    assert path.read_text() == text
    assert not any("sizing" in problem["rule"] for problem in plan(fleet)["problems"])
    assert rendered(fleet)["spec"] == yaml.safe_load(text)["spec"]


def test_broken_lines_are_said_with_their_place(fleet: Fleet) -> None:
    """F-003: what a framework has no default for is named with its place, exit 3; a default is told as such."""
    fleet.write("jobs/llama.yaml", JOB.replace("--max_seq_length 4096 ", ""))
    change = next(change for change in plan(fleet)["changes"] if change["path"] == RENDERED)
    assert "sequence" in change["sizing"]["read"].partition(" by default of fms-hf-tuning")[0]
    fleet.write("jobs/llama.yaml", JOB.replace("--per_device_train_batch_size=4", "--per_device_train_batch_size=many"))
    ran = fleet.run("plan")
    assert ran.code == 3
    assert "jobs/llama.yaml:29" in ran.out
    assert "many" in ran.out


def test_no_file_outside_is_read(fleet: Fleet, tmp_path: Path) -> None:
    """A launch line names files of the container: nothing outside of the sources is ever opened."""
    secret = tmp_path / "config.yaml"
    secret.write_text("distributed_type: FSDP\n")
    line = f"accelerate launch --config_file {secret} \\"
    fleet.write("jobs/llama.yaml", JOB.replace("accelerate launch \\", line))
    made = fleet.run("plan", "-o", "json").out
    assert "FSDP" not in made

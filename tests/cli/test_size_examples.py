"""Every example in the help of `size` runs in a new repository, and its answer does not contradict itself."""

import json
import re
import shlex
from pathlib import Path

import pytest

from reconciler.cli.main import run
from reconciler.size import commands
from tests.cli.fleet import Fleet, run_verb

COMMANDS = ("", *commands.command.commands)
NOT_RUN = {
    "--python": "needs an interpreter with ado-autoconf",
    "kubectl": "needs a cluster",
    "< train.sh": "reads standard input, as tests/cli/test_size_questions.py does",
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000,
}  # fmt: skip

SERVER = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args: [--model, meta-llama/Llama-3.1-8B-Instruct, --max-model-len, "8192"]
          resources: {limits: {nvidia.com/gpu: 1}}
"""


def examples(capture: pytest.CaptureFixture[str]) -> set[str]:
    pages = [run_verb(capture, ["size", *name.split(), "--help"]).out for name in COMMANDS]
    lines = [line.strip() for page in pages for line in page.partition("Examples:")[2].splitlines()]
    return {re.split(r" {3,}", line)[0] for line in lines if "reconciler size" in line}


def test_every_example_runs(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fleet.root)
    fleet.write("my-model/config.json", json.dumps(LLAMA))
    fleet.write("deployment.yaml", SERVER)
    ran = 0
    for example in sorted(examples(fleet.capture)):
        if any(part in example for part in NOT_RUN):
            continue
        fleet.capture.readouterr()
        assert run(shlex.split(example)[1:]) == 0, example
        answer = fleet.capture.readouterr().out
        chosen = re.search(r"^chosen +(\d+) GPU", answer, re.MULTILINE)
        rejected = re.search(r"^Requested: (\d+) GPUs? (?:is|are) rejected", answer, re.MULTILINE)
        assert not (chosen and rejected and chosen[1] == rejected[1]), answer
        ran += 1
    assert ran >= 8


def test_the_requested_number_is_the_chosen_one(fleet: Fleet) -> None:
    """`do 2 GPUs fit?`: with the effective batch of the job, as in the chosen layout; 3 GPUs cannot divide it."""
    path = str(fleet.root / "jobs/language/llama-lora.yaml")
    answer = run_verb(fleet.capture, ["size", path, "--gpus", "2", "--width", "300"]).out
    assert "chosen    2 GPUs: peak 76.3" in answer
    assert "Requested: 2 GPUs fit, batch 8 x 1 per GPU: peak 76.3" in answer
    others = {count: run_verb(fleet.capture, ["size", path, "--gpus", count]).out for count in ("1", "3", "8")}
    assert "Requested: 1 GPU is rejected (does-not-fit), batch 16 x 1 per GPU" in others["1"]
    assert "Requested: 3 GPUs are rejected (does-not-fit), batch 16 x 1 per GPU" in others["3"]
    assert "Requested: 8 GPUs fit, batch 2 x 1 per GPU" in others["8"]


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("lama3.1-8b", "did you mean llama3.1-8b?"),
        ("mistal-7b-v0.3", "did you mean mistral-7b-v0.3?"),
        ("meta-llama/Llama-3.2-8B", "name a folder with its config.json"),
        ("meta-llama/Llama-4-70B", "name a folder with its config.json"),
        ("mistralai/Mistral-Large-3", "name a folder with its config.json"),
        ("gpt-4o", "name a folder with its config.json"),
        ("deepseek-ai/DeepSeek-V4", "name a folder with its config.json"),
        ("Qwen/Qwen9-7B", "name a folder with its config.json"),
    ],
)
def test_no_hint_names_another_model(capsys: pytest.CaptureFixture[str], model: str, hint: str) -> None:
    ran = run_verb(capsys, ["size", "ask", "--model", model, "--gpu", "NVIDIA-L40S"])
    assert (ran.code, ran.err) == (2, f"error: --model: unknown value '{model}'; {hint}\n")


def test_no_hint_names_another_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    def hint(product: str) -> str:
        return run_verb(capsys, ["size", "ask", "--model", "llama3.1-8b", "--gpu", product]).err.partition("; ")[2]

    assert hint("NVIDA-L40S").startswith("did you mean NVIDIA-L40S")
    assert hint("NVIDIA-B999") == "use the value of the node label nvidia.com/gpu.product\n"


def test_a_missing_folder_is_not_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_verb(capsys, ["size", "ask", "--model", str(tmp_path / "nothing"), "--gpu", "NVIDIA-L40S"])
    assert ran.code == 2
    assert "nothing has no config.json" in ran.err


def test_a_refused_sizing_never_renders_a_job_without_gpus(fleet: Fleet) -> None:
    """The job of the template requests no GPUs itself: without a size it is an error, and what it had stays."""
    path = "jobs/language/llama-lora.yaml"
    rendered = fleet.root / "rendered/main/default/pytorchjob-llama-lora.yaml"
    before = rendered.read_bytes()
    fleet.edit(path, "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-405B")
    planned = fleet.run("plan")
    assert planned.code == 3
    assert planned.out.startswith("Incomplete plan: 1 file with errors, 1 rendered file left unchanged\n")
    assert "2 → 0" not in planned.out
    assert "sizing.no-recommendation" in planned.out
    assert "the job itself requests no GPUs" in " ".join(planned.out.split())
    fleet.commit()
    assert fleet.run("commit").code == 3
    assert rendered.read_bytes() == before
    fleet.edit(path, "              command: [bash, -c]", "              resources: {limits: {nvidia.com/gpu: 8}}\n              command: [bash, -c]")  # fmt: skip
    own = fleet.run("plan")
    assert own.code == 0, own.out
    assert "2 → 8" in own.out  # its own number, with a warning
    assert "sizing.no-recommendation" in own.out

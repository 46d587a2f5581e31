"""The use case of `size serve` without the command line."""

import pytest

from reconciler.errors import ConfigError, InvalidInput
from reconciler.plan.outputs.sections.servers import render_server, server_json
from reconciler.size.files import InputFile
from reconciler.size.serve import check_servers
from tests.sizing.tables import TABLES

SERVER = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: qwen}
spec:
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: PRODUCT}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args: [--model=Qwen/Qwen2.5-72B-Instruct, --tensor-parallel-size=4, --max-model-len=LENGTH]
          resources: {limits: {nvidia.com/gpu: 4}}
"""


def file(product: str = "NVIDIA-A100-SXM4-80GB", length: str = "32768", text: str = SERVER) -> InputFile:
    return InputFile(path="a.yaml", content=text.replace("PRODUCT", product).replace("LENGTH", length).encode())


def test_a_server_that_fits() -> None:
    (answer,) = check_servers([file()], TABLES)
    data = server_json(answer)
    assert (data["fits"], data["gpus"], data["smallest_tensor"], data["length"]) == (True, 4, 4, 32768)
    assert data["concurrency"] > 10
    text = render_server(answer)
    assert text.splitlines()[0] == "Deployment/qwen  a.yaml:9:11"
    assert text.rstrip().endswith("fits")


def test_a_server_that_does_not_fit_says_what_would() -> None:
    (answer,) = check_servers([file("NVIDIA-L40S", "131072")], TABLES)
    assert not server_json(answer)["fits"]
    assert "tensor parallelism over 8 GPUs fits" in render_server(answer, width=200)


def test_without_a_length_the_longest_request_is_said() -> None:
    (answer,) = check_servers([file(length="auto")], TABLES)
    assert "fits with requests of up to" in render_server(answer)


def test_too_few_gpus_and_bad_lines_are_errors_of_the_file() -> None:
    with pytest.raises(InvalidInput) as raised:
        check_servers([file(text=SERVER.replace("gpu: 4", "gpu: 2")), file(length="no")], TABLES)
    assert [(problem.rule, problem.place.line) for problem in raised.value.problems] == [
        ("serving.gpus", 11),
        ("serving.line", 11),
    ]


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(ConfigError, match="no container starts vLLM or SGLang"):
        check_servers([file(text="apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")], TABLES)
    with pytest.raises(ConfigError, match="unknown GPU product 'toaster'"):
        check_servers([file("toaster")], TABLES)
    with pytest.raises(ConfigError, match="nothing names it"):
        check_servers([file(text=SERVER.replace("nodeSelector: {nvidia.com/gpu.product: PRODUCT}", ""))], TABLES)


_NODES = "--tensor-parallel-size=16, --max-model-len=8192"
_SGLANG = "python3, -m, sglang.launch_server, --model-path, Qwen/Qwen2.5-72B-Instruct"
_RAY = "sh, -c, 'ray start --head; vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 16 --max-model-len 8192'"


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("vllm/vllm-openai:v0.11.0", f"args: [--model=Qwen/Qwen2.5-72B-Instruct, {_NODES}, --nnodes=2, --node-rank=0]"),
        (
            "vllm/vllm-openai:v0.11.0",
            f"args: [--model=Qwen/Qwen2.5-72B-Instruct, {_NODES}, --distributed-executor-backend=ray]",
        ),
        ("vllm/vllm-openai:v0.11.0", f"command: [{_RAY}]"),
        (
            "lmsysorg/sglang:v0.5.2",
            f"command: [{_SGLANG}, --tp, '16', --nnodes, $(LWS_GROUP_SIZE), --node-rank, $(LWS_WORKER_INDEX)]",
        ),
    ],
)
def test_a_server_on_several_nodes_requests_only_the_gpus_of_one(image: str, words: str) -> None:
    """The pods of a LeaderWorkerSet or of a Ray cluster hold the others."""
    lines = SERVER.replace("vllm/vllm-openai:v0.11.0", image).splitlines(keepends=True)
    text = "".join(f"          {words}\n" if "args:" in line else line for line in lines).replace("gpu: 4", "gpu: 8")
    (answer,) = check_servers([file(text=text)], TABLES)
    assert answer.server.gpus == 16


@pytest.mark.parametrize("flag", ["--nnodes=1", "--distributed-executor-backend=mp"])
def test_a_server_on_one_node_requests_all_its_gpus(flag: str) -> None:
    text = SERVER.replace("gpu: 4", "gpu: 2").replace("LENGTH", f"8192, {flag}")
    with pytest.raises(InvalidInput) as raised:
        check_servers([file(text=text)], TABLES)
    assert [problem.rule for problem in raised.value.problems] == ["serving.gpus"]


def test_variables_from_config_maps_of_the_file_are_read() -> None:
    """Whole ConfigMaps and single keys, as for training jobs."""
    maps = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {TP: '4', TOKENS: '32768'}\n"
    flags = "--tensor-parallel-size=$(TP), --max-model-len=$(MAX)"
    text = SERVER.replace("--tensor-parallel-size=4, --max-model-len=LENGTH", flags)
    env = """\
          envFrom: [{configMapRef: {name: m}}]
          env: [{name: MAX, valueFrom: {configMapKeyRef: {name: m, key: TOKENS}}}]
"""
    (answer,) = check_servers([file(text=text + env + maps)], TABLES)
    assert (answer.server.tensor, answer.server.length) == (4, 32768)

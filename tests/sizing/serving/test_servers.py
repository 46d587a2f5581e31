"""Servers: what their lines say, and their memory beside what vLLM and SGLang printed.

The printed figures are from the engines' logs in public issues; none of them was used to choose a constant for weights
or caches, which are arithmetic. Activations and overhead were chosen with the Llama 3 rows in view.
"""

import pytest
from msgspec.structs import replace

from reconciler.kube.yaml import read
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.serving import (
    ServerEstimate,
    ServerVerdict,
    ServingEngine,
    WeightType,
    estimate_server,
    find_servers,
    parse_server,
)
from reconciler.sizing.serving.line import ParsedServer
from reconciler.sizing.serving.memory import smallest_layout
from reconciler.sizing.serving.server import Server
from tests.sizing.tables import GPU_TABLE, TABLES

H100, L40S, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S", "NVIDIA-A100-SXM4-80GB"
SMALL = "NVIDIA-GeForce-RTX-4090"


def gpu(product: str) -> Gpu:
    found = GPU_TABLE.find(product)
    assert found is not None
    return found


def parsed(line: str, files: dict[str, bytes] | None = None) -> ParsedServer:
    found = parse_server(["bash", "-c"], [line], {}, (files or {}).get, TABLES)
    assert found is not None
    return found


def server(line: str) -> Server:
    found = parsed(line)
    assert found.server is not None, found.errors
    return found.server


def estimated(line: str, product: str) -> ServerEstimate:
    return estimate_server(server(line), gpu(product))


@pytest.mark.parametrize(
    ("line", "gib"),
    [
        ("vllm serve meta-llama/Meta-Llama-3-8B", 14.96),  # vllm-project/vllm#10511
        ("vllm serve meta-llama/Meta-Llama-3-8B -tp 2", 7.48),
        ("vllm serve deepseek-ai/DeepSeek-R1-Distill-Qwen-14B --tensor_parallel_size 2", 13.95),  # #13061
        # The sizes of the files that the vendors publish: 1.03 TB in FP8, 594 GB with experts in INT4
        ("vllm serve moonshotai/Kimi-K2-Instruct -tp 16", 1029e9 / 16 / 2**30),
        ("vllm serve moonshotai/Kimi-K2-Thinking -tp 8", 594e9 / 8 / 2**30),
    ],
)
def test_weights_are_as_vllm_loads_them(line: str, gib: float) -> None:
    assert estimated(line, H100).weights_gib == pytest.approx(gib, rel=0.02)


def test_all_matrices_of_a_dense_model_are_in_mxfp4() -> None:
    """Only a mixture of experts has experts to which the format is limited."""
    dense, four_bits = (f"vllm serve amd/Llama-3.3-70B-Instruct-{name}" for name in ("MXFP4", "AWQ"))
    assert estimated(dense, H100).weights_gib == pytest.approx(estimated(four_bits, H100).weights_gib)


@pytest.mark.parametrize(
    ("line", "gib"),
    [
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 131072", 16.0),  # vllm-project/tpu-inference#223
        ("vllm serve Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8 --max-model-len 262144", 24.0),  # vllm-project/vllm#34076
        ("vllm serve openai/gpt-oss-120b --max-model-len 131072", 4.54),  # vllm-project/vllm#27508
    ],
)
def test_the_cache_of_one_request_is_what_vllm_asks_for(line: str, gib: float) -> None:
    """The figure of "To serve at least one request with the model's max seq len, ... is needed"."""
    assert estimated(line, H100).need_gib == pytest.approx(gib, rel=0.01)


@pytest.mark.parametrize(
    ("line", "product", "tokens"),
    [
        # vllm-project/vllm#10511: 53.29 GiB of 128 KiB
        ("vllm serve meta-llama/Meta-Llama-3-8B --max-num-batched-tokens 8192 --max-num-seqs 256", H100, 436_551),
        # vllm-project/vllm#13061
        (
            "vllm serve DeepSeek-R1-Distill-Qwen-14B -tp 2 --gpu_memory_utilization 0.98 --max-model-len 131072",
            SMALL,
            81_536,
        ),
        # vllm-project/vllm#21348
        (
            "python3 -m sglang.launch_server --model Qwen3-235B-A22B-FP8 --tp 4 --mem-fraction-static 0.93",
            H100,
            367_404,
        ),
    ],
)
def test_the_cache_holds_as_many_tokens_as_the_engine_printed(line: str, product: str, tokens: int) -> None:
    assert estimated(line, product).tokens == pytest.approx(tokens, rel=0.1)


def test_what_vllm_refused_to_start_does_not_fit() -> None:
    """vllm-project/vllm#13061: 131,072 tokens do not fit two cards with 24 GB; 40,000 do with a smaller fraction."""
    line = "vllm serve DeepSeek-R1-Distill-Qwen-14B -tp 2 --gpu_memory_utilization {} --max-model-len {}"
    assert estimated(line.format(0.98, 131_072), SMALL).verdict is ServerVerdict.DOES_NOT_FIT
    assert estimated(line.format(0.9, 40_000), SMALL).verdict is ServerVerdict.FITS


def test_a_server_that_leaves_nothing_for_graphs_may_not_start() -> None:
    line = "vllm serve meta-llama/Meta-Llama-3-8B --max-model-len 2048 --gpu-memory-utilization 0.99"
    assert estimated(line, L40S).verdict is ServerVerdict.TIGHT
    assert estimated(f"{line} --enforce-eager", L40S).verdict is ServerVerdict.FITS


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vllm serve Qwen/Qwen2.5-7B --max-model-len=32k", {"length": 32_000, "engine": ServingEngine.VLLM}),
        ("vllm serve Qwen/Qwen2.5-7B --max-model-len 32K --kv-cache-dtype fp8", {"length": 32_768, "cache_width": 1.0}),
        ("vllm serve Qwen/Qwen2.5-7B --max-model-len auto", {"length": 0}),
        ("vllm serve Qwen/Qwen2.5-7B-Instruct-AWQ", {"weights": WeightType.INT4}),
        ("vllm serve Qwen/Qwen2.5-7B --quantization fp8", {"weights": WeightType.INT8}),
        ("vllm serve Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8 --quantization gptq_marlin", {"weights": WeightType.INT8}),
        ("vllm serve Qwen/Qwen2.5-7B --dtype float32", {"weights": WeightType.FP32}),
        ("vllm serve deepseek-ai/DeepSeek-V3 -tp 8", {"weights": WeightType.INT8, "tensor": 8}),
        ("vllm serve openai/gpt-oss-20b", {"weights": WeightType.MXFP4}),
        ("vllm serve unsloth/gpt-oss-20b-BF16", {"weights": WeightType.BF16}),
        ("vllm serve unsloth/DeepSeek-V3-bf16 -tp 8", {"weights": WeightType.BF16}),
        ("vllm serve deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", {"weights": WeightType.BF16}),
        ("vllm serve deepseek-ai/DeepSeek-R1-0528-Qwen3-8B --dtype float32", {"weights": WeightType.FP32}),
        (
            "vllm serve RedHatAI/Qwen2.5-7B-quantized.w8a8 --quantization compressed-tensors",
            {"weights": WeightType.INT8},
        ),
        (
            "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen2.5-7B -pp 2 --data-parallel-size 2",
            {"pipeline": 2, "data": 2, "gpus": 4},
        ),
        (
            "sglang serve --model Qwen/Qwen3-30B-A3B --tp 4 --ep 4 --context-length 8192 --mem-fraction-static 0.8 -x",
            {"tensor": 4, "divides_experts": True, "length": 8192, "fraction": 0.8},
        ),
    ],
)
def test_lines_are_read(line: str, expected: dict[str, object]) -> None:
    found = server(line)
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.is_uncertain is line.endswith(" -x")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--speculative-config '{}'", "not modelled"),
        ("--cpu-offload-gb 10", "not modelled"),
        ("--quantization gguf", "GGUF"),
        ("--quantization aqlm", "the format is not modelled"),
        ("--quantization compressed-tensors", "the format is not modelled"),
        ("--kv-cache-dtype int4", "the format of the cache"),
        ("--max-model-len many", "expected a number of tokens"),
        ("--gpu-memory-utilization 90", "expected a fraction"),
        ("--tensor-parallel-size $TP", "unknown"),
        ("--model acme/unknown", "unknown model"),
    ],
)
def test_what_is_not_known_is_an_error(flags: str, said: str) -> None:
    found = parsed(f"vllm serve Qwen/Qwen2.5-7B {flags}" if "--model " not in flags else f"vllm serve {flags}")
    assert found.server is None
    assert any(said in error.message for error in found.errors), found.errors


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            "vllm serve Qwen/Qwen2.5-7B -tp 8",
            "28 attention heads cannot be divided among 8 GPUs, so vLLM does not start",
            "set --tensor-parallel-size to 1, 2, 4",
        ),
        (
            "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --tp 3",
            "32 attention heads cannot be divided among 3 GPUs, so SGLang does not start",
            "set --tensor-parallel-size to 1, 2",
        ),
        (
            "vllm serve microsoft/Phi-3-medium-128k-instruct -tp 4",
            "10 heads of keys and values cannot be divided among 4 GPUs, so vLLM does not start",
            "set --tensor-parallel-size to 1, 2",
        ),
    ],
)
def test_heads_that_do_not_divide_are_an_error(line: str, message: str, hint: str) -> None:
    """`ModelConfig.verify_with_parallel_config` of vLLM; `divide` of the heads in both engines' attention layers."""
    (error,) = parsed(line).errors
    assert (error.rule, error.message, error.hint) == ("serving.heads", message, hint)


def test_heads_of_keys_and_values_are_repeated_and_latent_attention_has_none() -> None:
    assert server("vllm serve Qwen/Qwen2.5-72B-Instruct -tp 16").tensor == 16  # 8 heads of keys and values
    assert server("vllm serve deepseek-ai/DeepSeek-V3 -tp 16").tensor == 16


def test_the_smallest_layout_divides_the_heads() -> None:
    line = "vllm serve microsoft/Phi-3-medium-128k-instruct --max-model-len 131072"
    assert smallest_layout(server(line), gpu("NVIDIA-L4")) is None  # 2 GPUs are too few, 4 cannot divide 10 heads


def test_a_flag_of_unknown_effect_widens_the_estimate() -> None:
    plain, other = (server(f"vllm serve Qwen/Qwen2.5-7B {flags}") for flags in ("", "--port 80 --max-loras 4"))
    assert [warning.message for warning in parsed("vllm serve Qwen/Qwen2.5-7B --max-loras 4").warnings] == [
        "`--max-loras`: the effect on memory is unknown; the range of the estimate is wider"
    ]
    first, second = (estimate_server(one, gpu(L40S)) for one in (plain, other))
    assert second.cache_gib == first.cache_gib
    assert second.low_gib < first.low_gib


def test_a_script_may_count_the_gpus_of_its_container() -> None:
    words = ["bash", "-c", 'TP=$(nvidia-smi -L | wc -l); exec vllm serve Qwen/Qwen2.5-7B --tensor-parallel-size "$TP"']
    found = parse_server(words, [], {}, lambda _: None, TABLES, gpus=4)
    assert found is not None
    assert found.server is not None
    assert found.server.tensor == 4
    unknown = parse_server(words, [], {}, lambda _: None, TABLES)
    assert unknown is not None
    assert [error.rule for error in unknown.errors] == ["launch.decided-later"]


def test_files_name_the_flags_of_vllm() -> None:
    found = parsed("vllm serve --config c.yaml", {"c.yaml": b"model: Qwen/Qwen2.5-7B\nmax-model-len: 4096\n"})
    assert found.server is not None
    assert found.server.length == 4096


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ('{"quant_method": "fp8", "activation_scheme": "dynamic"}', WeightType.INT8),
        ('{"quant_method": "awq", "bits": 4}', WeightType.INT4),
        ('{"quant_method": "gptq", "bits": 8}', WeightType.INT8),
        ('{"quant_method": "bitsandbytes", "load_in_8bit": true}', WeightType.INT8),
        ('{"quant_method": "bitsandbytes", "load_in_4bit": true}', WeightType.INT4),
        ('{"quant_method": "modelopt", "quant_algo": "NVFP4"}', WeightType.INT4),
        (
            '{"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8}}}}',
            WeightType.INT8,
        ),
        (
            """{"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*"],
                "config_groups": {"a": {"weights": {"num_bits": 4}}}}""",
            WeightType.INT4_EXPERTS,
        ),
        ("null", WeightType.BF16),
    ],
)
def test_the_type_of_weights_is_what_config_json_states(quantization: str, expected: WeightType) -> None:
    """Whatever the name of the folder; the flag counts more."""
    files = {"models/mine/config.json": _CONFIG.replace(b"null", quantization.encode())}
    found = parsed("vllm serve /data/mine", files)
    assert found.server is not None, found.errors
    assert found.server.weights is expected
    with_flag = parsed("vllm serve /data/mine --quantization fp8", files)
    assert with_flag.server is not None
    assert with_flag.server.weights is WeightType.INT8


def test_weights_of_an_unknown_format_are_an_error() -> None:
    config = _CONFIG.replace(b"null", b'{"quant_method": "aqlm"}')
    found = parsed("vllm serve /data/mine", {"models/mine/config.json": config})
    assert [error.message for error in found.errors] == [
        "config.json: the format of the weights, 'aqlm', is not modelled"
    ]
    named = parsed("vllm serve /data/mine-awq", {"models/mine-awq/config.json": config})
    assert named.server is not None
    assert named.server.weights is WeightType.INT4


_CONFIG = b"""
{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
 "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "quantization_config": null}
"""


def test_other_lines_are_no_servers() -> None:
    for line in ("trl sft --model_name_or_path m", "python app.py --model m", "sleep 1"):
        assert parse_server(["bash", "-c"], [line], {}, lambda _: None, TABLES) is None


@pytest.mark.parametrize("line", ["vllm serve Qwen/Qwen2.5-72B-Instruct --max-model-len 32768"])
def test_the_smallest_layout_is_the_first_that_fits(line: str) -> None:
    found = smallest_layout(server(line), gpu(A100))
    assert found is not None
    assert found.tensor == 4
    assert estimate_server(replace(found, tensor=2), gpu(A100)).verdict is not ServerVerdict.FITS


def test_more_gpus_and_shorter_requests_never_hurt() -> None:
    base = server("vllm serve Qwen/Qwen3-30B-A3B --max-model-len 32768")
    caches = [estimate_server(replace(base, tensor=ways), gpu(A100)).cache_gib for ways in (1, 2, 4, 8)]
    assert caches == sorted(caches)
    needs = [estimate_server(replace(base, length=length), gpu(A100)).need_gib for length in (1, 4096, 32768)]
    assert needs == sorted(needs)


MANIFEST = b"""
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoService
metadata: {name: qwen, namespace: serving}
spec:
  deployment:
    spec:
      template:
        spec:
          nodeSelector: {amd.com/gpu.product-name: AMD-Instinct-MI300X}
          containers:
            - {name: proxy, image: envoy, args: [--port, "80"]}
            - name: server
              image: rocm/vllm:latest
              args: [serve, Qwen/Qwen2.5-7B]
              command: [vllm]
              resources: {limits: {amd.com/gpu: 1}}
            - name: image
              image: docker.io/vllm/vllm-openai:v0.11.0
              args: ["--model", "Qwen/Qwen2.5-7B"]
              resources: {limits: {nvidia.com/gpu: "2"}}
"""


def test_servers_are_found_in_pods_of_any_kind() -> None:
    """Also in an image whose entry point is the server."""
    documents = read("a.yaml", MANIFEST).documents
    found = find_servers(documents[0], TABLES, lambda _: None)
    assert [(one.container.name, one.gpus, one.product) for one in found] == [
        ("server", 1, "AMD-Instinct-MI300X"),
        ("image", 2, "AMD-Instinct-MI300X"),
    ]
    assert all(one.parsed.server is not None for one in found)


POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  nodeSelector: SELECTOR
  affinity: AFFINITY
  containers:
    - name: server
      image: vllm/vllm-openai:v0.11.0
      args: ["--model", "Qwen/Qwen2.5-7B"]
      resources: {limits: LIMITS}
"""


def _required(*terms: str) -> str:
    joined = ", ".join(f"{{matchExpressions: [{term}]}}" for term in terms)
    return f"{{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{joined}]}}}}}}"


_IN = "{{key: nvidia.com/gpu.product, operator: In, values: [{}]}}"


@pytest.mark.parametrize(
    ("selector", "affinity", "limits", "expected"),
    [
        ("{nvidia.com/gpu.product: NVIDIA-L40S}", "{}", "{nvidia.com/gpu: 1}", (1, "NVIDIA-L40S")),
        ("{}", _required(_IN.format("NVIDIA-L40S")), "{nvidia.com/gpu: 1}", (1, "NVIDIA-L40S")),
        ("{}", _required(*[_IN.format("NVIDIA-L40S")] * 2), "{nvidia.com/gpu: 1}", (1, "NVIDIA-L40S")),
        ("{}", _required(_IN.format("NVIDIA-L40S, NVIDIA-L4")), "{nvidia.com/gpu: 1}", (1, "")),
        ("{}", _required(_IN.format("NVIDIA-L40S"), _IN.format("NVIDIA-L4")), "{nvidia.com/gpu: 1}", (1, "")),
        (f"{{nvidia.com/gpu.product: {A100}}}", "{}", "{nvidia.com/mig-3g.40gb: 1}", (1, f"{A100}-MIG-3g.40gb")),
        (
            f"{{nvidia.com/gpu.product: {A100}-MIG-3g.40gb}}",
            "{}",
            "{nvidia.com/gpu: 1}",
            (1, f"{A100}-MIG-3g.40gb"),
        ),
        ("{}", "{}", "{nvidia.com/mig-1g.10gb: '2'}", (2, "nvidia.com/mig-1g.10gb")),
    ],
)
def test_the_product_is_what_the_pod_gets(selector: str, affinity: str, limits: str, expected: tuple[int, str]) -> None:
    """A slice of a GPU has its own memory, whatever the product of the node."""
    text = POD.replace("SELECTOR", selector).replace("AFFINITY", affinity).replace("LIMITS", limits)
    (found,) = find_servers(read("a.yaml", text.encode()).documents[0], TABLES, lambda _: None)
    assert (found.gpus, found.product) == expected
    assert not found.product or GPU_TABLE.find(found.product) is not None


_ENVIRONMENT = "envFrom: [{configMapRef: {name: settings}}]\n              args: "


@pytest.mark.parametrize(
    ("model", "names"),
    [("Qwen/Qwen2.5-7B", []), ("$(MODEL)", ["settings"])],
)
def test_a_config_map_is_only_looked_up_for_variables(model: str, names: list[str]) -> None:
    """Each lookup makes a plan read the ConfigMaps of the repository."""
    asked: list[str] = []

    def find(name: str) -> dict[str, object]:
        asked.append(name)
        return {"data": {"MODEL": "Qwen/Qwen2.5-7B"}}

    text = MANIFEST.decode().replace('args: ["--model", "Qwen/Qwen2.5-7B"]', f'{_ENVIRONMENT}["--model", "{model}"]')
    _, image = find_servers(read("a.yaml", text.encode()).documents[0], TABLES, lambda _: None, find)
    assert image.parsed.server is not None
    assert asked == names

"""Servers of committed manifests: a warning only where it is sure that one does not fit, with a change that helps."""

import re
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.kube.problems import Problem, Severity
from reconciler.kube.yaml import read
from reconciler.sizing.serving import judge_servers
from tests.sizing.tables import GPU_TABLE, TABLES

A100, L40S = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"
_TEMPLATES = {
    "Deployment": ("apps/v1", ("template", "spec")),
    "KaiwoService": ("kaiwo.silogen.ai/v1alpha1", ("deployment", "spec", "template", "spec")),
    "InferenceService": ("serving.kserve.io/v1beta1", ("predictor",)),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", ("leaderWorkerTemplate", "leaderTemplate", "spec")),
    "RayService": ("ray.io/v1", ("rayClusterConfig", "headGroupSpec", "template", "spec")),
}


def manifest(*args: str, kind: str = "Deployment", product: str = A100, image: str = "vllm/vllm-openai:v0.11.0") -> str:
    pod: dict[str, Any] = {"containers": [{"name": "vllm", "image": image, "args": [*args]}]}
    if product:
        pod["nodeSelector"] = {"nvidia.com/gpu.product": product}
    version, path = _TEMPLATES[kind]
    for key in reversed(path):
        pod = {key: pod}
    if kind == "Deployment":
        labels = {"app": "qwen"}
        pod = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, **pod["template"]}}
    return yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": {"name": "qwen"}, "spec": pod})


def judged(text: str, *measured: str) -> list[Problem]:
    gpus = [found for name in measured if (found := GPU_TABLE.find(name)) is not None]
    (document,) = read("serve.yaml", text.encode()).documents
    return list(judge_servers(document, TABLES, lambda _: None, lambda: gpus))


_LARGE = ("--model=Qwen/Qwen2.5-72B-Instruct", "--tensor-parallel-size=2", "--max-model-len=32768")


@pytest.mark.parametrize("kind", _TEMPLATES)
def test_a_server_without_room_for_its_cache(kind: str) -> None:
    """F-005: vLLM would refuse to start; the warning names the word of the model and what helps."""
    (problem,) = judged(manifest(*_LARGE, kind=kind))
    assert (problem.rule, problem.severity) == ("serving.memory", Severity.WARNING)
    assert problem.field.endswith(".containers[0].args[0]")
    assert problem.message == (
        "qwen2.5-72b does not fit 2 GPUs (NVIDIA-A100-SXM4-80GB): of 72.0 GiB, weights 67.7, activations 0.5, "
        "overhead 1.5, the cache of a request of 32,768 tokens 5.0"
    )
    assert problem.hint == "set --tensor-parallel-size 4 and request 4 GPUs"


def test_what_is_not_sure_is_not_told() -> None:
    assert not judged(manifest(*_LARGE, product=""))
    assert not judged(manifest(*_LARGE, product=""), A100, L40S), "nothing says which of them the pods get"
    assert judged(manifest(*_LARGE, product=""), A100)
    assert not judged(manifest("--model=somebody/unknown"))
    assert not judged(manifest(*_LARGE[:1], "--tensor-parallel-size=8"))
    assert not judged(manifest(*_LARGE, image="example.com/web:1"))


def test_heads_that_do_not_divide_are_told_whatever_the_memory() -> None:
    """The engine does not start on any GPU, so that the product need not be known."""
    words = ("--model=Qwen/Qwen2.5-7B-Instruct", "--tensor-parallel-size=8")
    (problem,) = judged(manifest(*words, product=""))
    assert (problem.rule, problem.severity) == ("serving.heads", Severity.WARNING)
    assert problem.field.endswith(".containers[0].args[1]")
    assert problem.message == "28 attention heads cannot be divided among 8 GPUs, so vLLM does not start"


def test_a_slice_of_a_gpu_has_less_memory_than_the_product_of_its_node() -> None:
    words = ("--model=meta-llama/Llama-3.1-8B-Instruct", "--max-model-len=131072")
    text = manifest(*words).replace(
        "name: vllm\n", "name: vllm\n        resources: {limits: {nvidia.com/mig-2g.20gb: 1}}\n"
    )
    assert not judged(manifest(*words))
    (problem,) = judged(text, A100)
    assert problem.message.startswith(f"llama3.1-8b does not fit 1 GPU ({A100}-MIG-2g.20gb): of 17.")


_MODELS = ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-72B-Instruct", "meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1")
_SGLANG = "lmsysorg/sglang:v0.5.2"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.sampled_from(_MODELS),
    product=st.sampled_from((A100, L40S, "NVIDIA-A10")),
    ways=st.sampled_from((1, 2, 4)),
    length=st.sampled_from((2048, 8192, 32768, 131072)),
    image=st.sampled_from(("vllm/vllm-openai:v0.11.0", _SGLANG)),
)
def test_every_hint_is_enough(model: str, product: str, ways: int, length: int, image: str) -> None:
    """F-005: the reader of the lines reads what the warning proposes, and then has nothing to say."""
    names = (
        ("--model-path", "--tp-size", "--context-length")
        if image == _SGLANG
        else ("--model", "--tp", "--max-model-len")
    )
    flags = {names[0]: model, names[1]: str(ways), names[2]: str(length)}

    def judge(flags: dict[str, str]) -> list[Problem]:
        words = [word for pair in flags.items() for word in pair]
        return judged(manifest(*words, product=product, image=image))

    for problem in judge(flags):
        for flag, value in re.findall(r"set (--[\w-]+) (\d+)", problem.hint):
            name = names[2] if flag in {"--max-model-len", "--context-length"} else names[1]
            changed = {key: kept for key, kept in flags.items() if key != name}
            assert judge({**changed, flag: value}) == []

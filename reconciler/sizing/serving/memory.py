"""The memory of one GPU of a server: weights, a step's activations, and what is left for the cache of keys and values.

vLLM reserves a fraction of the GPU for all of them, and refuses to start if the cache cannot hold one request of full
length (`vllm/v1/core/kv_cache_utils.py`). SGLang's fraction is for weights and cache alone; activations use the rest.
"""

from enum import StrEnum
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.gpus import Gpu
from reconciler.sizing.models.lora import EMBEDDINGS
from reconciler.sizing.serving.server import Server, ServingEngine, WeightType
from reconciler.sizing.training import Linear, undivided_heads

GIB = float(1 << 30)
FRACTION = {ServingEngine.VLLM: 0.9, ServingEngine.SGLANG: 0.88}
"""Defaults of `--gpu-memory-utilization`, and the usual one of `--mem-fraction-static`, which SGLang derives."""
BLOCK = 16
"""Tokens of a block of vLLM's cache."""
CONTEXT = 0.7
"""GiB of CUDA, of libraries and of the difference between NVML's total and PyTorch's, of one GPU (observed)."""
LINKS = 0.8
"""GiB of NCCL's and custom all-reduce's buffers, if several GPUs share a model (observed)."""
GRAPHS = 0.7
"""GiB of CUDA graphs, which vLLM does not count in its fraction (observed: 0.3 to 1.5)."""
SAMPLED = 16.0
"""Bytes per request and vocabulary entry while tokens are drawn: logits in fp32, a copy, probabilities and order."""
_LARGE_GPU_GIB = 70
_LATENT = "kv_a_proj_with_mqa"
"""Matrix of multi-head latent attention whose output is cached instead of keys and values (DeepSeek-V2, 2405.04434)."""
_UNCERTAINTY, _UNCERTAINTY_OF_EXPERTS = 0.02, 0.08
"""Uncertainty as a fraction of the weights; kernels for experts repack weights and keep more in a step."""
_UNCERTAIN = 0.15
"""What flags of unknown effect add to it."""


class ServerVerdict(StrEnum):
    """The answer whether a server starts with the longest request that its line allows."""

    FITS = "fits"
    TIGHT = "tight"  # within the uncertainty of the estimate
    DOES_NOT_FIT = "does-not-fit"


class ServerEstimate(Struct, frozen=True, kw_only=True):
    """GiB of one GPU. `cache_gib` is what is left for the cache, between `low_gib` and `high_gib`.

    `need_gib` is the cache of one request of full length (0 if the line does not say), `tokens` all that the cache
    holds, `concurrency` how many requests of full length, and `longest` the longest request that surely fits.
    """

    verdict: ServerVerdict
    weights_gib: float
    activations_gib: float
    overhead_gib: float
    limit_gib: float
    cache_gib: float
    low_gib: float
    high_gib: float
    need_gib: float
    bytes_per_token: float
    tokens: int
    concurrency: float
    longest: int


def estimate_server(server: Server, gpu: Gpu) -> ServerEstimate:
    """Predict the memory of one GPU of a server, and how much its cache holds. Pure."""
    fraction = server.fraction or FRACTION[server.engine]
    weights = weight_bytes(server)
    activations = _activations(server, gpu)
    overhead = (CONTEXT + (LINKS if server.tensor * server.pipeline > 1 else 0.0)) * GIB
    limit = fraction * gpu.memory_gib * GIB
    inside = activations if server.engine is ServingEngine.VLLM else 0.0
    cache = limit - weights - inside - overhead
    uncertainty = _UNCERTAINTY_OF_EXPERTS if server.architecture.experts else _UNCERTAINTY
    spread = 0.5 * (inside + overhead) + weights * (uncertainty + (_UNCERTAIN if server.is_uncertain else 0.0))
    low, high = cache - spread, cache + spread
    if activations + GRAPHS * GIB * server.captures > (1 - fraction) * gpu.memory_gib * GIB + inside:
        low = min(low, 0.0)  # graphs, or SGLang's activations, are outside of the fraction
    need = cached_bytes(server, server.length) if server.length else cached_bytes(server, BLOCK)
    verdict = ServerVerdict.FITS if low >= need else ServerVerdict.TIGHT if high >= need else ServerVerdict.DOES_NOT_FIT
    tokens = _tokens(server, max(0.0, cache))
    return ServerEstimate(
        verdict=verdict,
        weights_gib=weights / GIB,
        activations_gib=activations / GIB,
        overhead_gib=overhead / GIB,
        limit_gib=limit / GIB,
        cache_gib=cache / GIB,
        low_gib=low / GIB,
        high_gib=high / GIB,
        need_gib=need / GIB if server.length else 0.0,
        bytes_per_token=cached_bytes(server, 1 << 20) / (1 << 20),
        tokens=tokens,
        concurrency=max(0.0, cache) / need if server.length else 0.0,
        longest=_longest(server, max(0.0, low)),
    )


def smallest_layout(server: Server, gpu: Gpu) -> Server | None:
    """Return the server with the fewest GPUs of one node, at most 8, that fits; None if none does. Replicas stay."""
    ways = [size for size in (1, 2, 4, 8) if not undivided_heads(server.architecture, size)]
    layouts = (replace(server, tensor=tensor, pipeline=1) for tensor in ways)
    return next((one for one in layouts if estimate_server(one, gpu).verdict is ServerVerdict.FITS), None)


def weight_bytes(server: Server) -> float:
    """Return the bytes of weights on one GPU.

    Tensor parallelism divides matrices and embeddings, but not the heads of keys and values below one for each GPU; a
    stage of a pipeline has its share of the layers. Experts are also divided among replicas, if the line says so.
    """
    model, ways = server.architecture, server.tensor * server.pipeline
    full = 4.0 if server.weights is WeightType.FP32 else 2.0
    ends = model.embedding * full / server.tensor
    if server.pipeline > 1:
        ends /= 1 if model.tied else 2  # the first stage has the embedding, the last one the head
    experts_alone = server.weights.is_of_experts and model.experts > 0
    layers = 0.0
    for linear in model.linears:
        if linear.name in EMBEDDINGS:
            continue
        is_expert = linear.active < linear.count
        each = full if experts_alone and not is_expert else server.weights.each
        split = ways * (server.data if is_expert and server.divides_experts else 1)
        layers += linear.size * linear.count * each / split * _copies(server, linear)
    return ends + layers + (model.norms + model.vision) * full / server.pipeline


def _copies(server: Server, linear: Linear) -> float:
    """Return the number of copies of the heads of keys and values: at least one on each GPU."""
    kv = linear.name in {"k_proj", "v_proj"}
    return max(1.0, server.tensor / server.architecture.kv_heads) if kv else 1.0


def cached_bytes(server: Server, length: int) -> float:
    """Return the bytes that one request of `length` tokens has in the cache of one GPU.

    Keys and values of each head, of which a GPU has at least one; or the latent vector of a layer, which every GPU
    has. Layers with a sliding window keep the window and the tokens of a step.
    """
    model, width = server.architecture, server.cache_width
    tokens = BLOCK * ceil(length / BLOCK)
    layers = model.attention_layers or model.layers
    latent = next((linear.outputs for linear in model.linears if linear.name == _LATENT), 0)
    per_layer = latent * width if latent else 2 * ceil(model.kv_heads / server.tensor) * model.head_dim * width
    windowed = min(model.windowed_layers, layers)
    kept = min(tokens, model.window + (server.batched or 2048)) if windowed else 0
    return per_layer * ((layers - windowed) * tokens + windowed * kept) / server.pipeline


def _activations(server: Server, gpu: Gpu) -> float:
    """Return the bytes of the largest step: the tensors of one layer, and the sampling of all requests.

    A layer holds gate, up and their product, and two vectors of the hidden width; with experts, those of each of them.
    Defaults are those of vLLM's API server, larger on GPUs from 70 GiB on, except for the A100
    (`EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`).
    """
    model = server.architecture
    is_large = gpu.memory_gib >= _LARGE_GPU_GIB and "A100" not in gpu.product.upper()
    batched = server.batched or (8192 if is_large else 2048)
    sequences = min(server.sequences or (1024 if is_large else 256), batched)
    chosen = max(1, model.active_experts)
    width = 3 * model.intermediate * chosen / server.tensor + (1 + chosen) * model.hidden
    return 2.0 * batched * width + SAMPLED * sequences * model.vocabulary / server.tensor


def _tokens(server: Server, cache: float) -> int:
    """Return the number of tokens of requests of full length that a cache holds."""
    length = server.length or 1 << 14
    return int(cache / cached_bytes(server, length) * length)


def _longest(server: Server, cache: float) -> int:
    """Return the longest request that a cache holds, in whole blocks."""
    low, high = 0, 1 << 24
    while high - low > BLOCK:
        middle = (low + high) // 2 // BLOCK * BLOCK
        if middle <= low:
            break
        low, high = (middle, high) if cached_bytes(server, middle) <= cache else (low, middle)
    return low

"""The table of models: every row against what its maker publishes."""

import pytest

from reconciler.sizing.training import Architecture, parameter_parts
from tests.sizing.tables import MODEL_TABLE

COUNTED = {
    "llama-7b": 6_738_415_616,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "llama4-scout-17b-16e": 108_641_793_536,
    "llama4-maverick-17b-128e": 401_583_781_376,
    "tinyllama-1.1b": 1_100_048_384,
    "granite-3.1-8b": 8_170_848_256,
    "granite-3.1-2b": 2_533_531_648,
    "granite-20b-code": 20_066_993_152,
    "mistral-7b-v0.1": 7_241_732_096,
    "mistral-7b-v0.3": 7_248_023_552,
    "mixtral-8x7b-v0.1": 46_702_792_704,
    "mixtral-8x22b-v0.1": 140_620_634_112,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma2-2b": 2_614_341_888,
    "gemma2-9b": 9_241_705_984,
    "gemma2-27b": 27_227_128_320,
    "gemma3-1b": 999_885_952,
    "gemma3-4b": 4_300_079_472,
    "gemma3-12b": 12_187_325_040,
    "gemma3-27b": 27_432_406_640,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "phi-3-medium": 13_960_238_080,
    "phi-4": 14_659_507_200,
    "smollm2-135m": 134_515_008,
    "gpt2": 124_439_808,
    "gpt-oss-20b": 20_914_757_184,
    "pythia-70m": 70_426_624,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1b": 1_011_781_632,
    "pythia-1.4b": 1_414_647_808,
    "pythia-2.8b": 2_775_208_960,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "bloom-560m": 559_214_592,
    "bloom-1b1": 1_065_314_304,
    "bloom-1b7": 1_722_408_960,
    "bloom-3b": 3_002_557_440,
    "bloom-7b1": 7_069_016_064,
    "bloom-176b": 176_247_271_424,
    "jamba-v0.1": 51_570_323_328,
}
"""Parameters of checkpoints, as model cards, papers (Pythia, BLOOM) and the hub's safetensors metadata count them."""

PUBLISHED = {
    "olmo3-7b": 7.3,
    "olmo3-32b": 32.2,
    "apertus-8b": 8.05,
    "open-llama-3b": 3.43,
    "orca-2-7b": 6.74,
    "redpajama-incite-3b-v1": 2.8,
    "cerebras-gpt-1.3b": 1.316,
    "apertus-70b": 70.6,
    "qwen3-next-80b-a3b": 79.7,
    "qwen3-vl-2b": 2.13,
    "qwen3-vl-4b": 4.44,
    "qwen3-vl-8b": 8.77,
    "qwen3-vl-32b": 33.4,
    "qwen3-vl-30b-a3b": 31.1,
    "qwen3-vl-235b-a22b": 235.7,
    "llama3.2-vision-11b": 10.67,
    "llama3.2-vision-90b": 88.6,
    "qwen-vl-9.6b": 9.66,
    "powerlm-3b": 3.51,
    "santacoder-1.1b": 1.12,
    "chatglm2-6b": 6.24,
    "chatglm3-6b": 6.24,
    "baichuan2-7b": 7.51,
    "baichuan2-13b": 13.9,
    "llama-13b": 13.0,
    "llama-30b": 32.5,
    "llama-65b": 65.2,
    "llama3-8b": 8.03,
    "llama3-70b": 70.6,
    "llama3.3-70b": 70.6,
    "codellama-7b": 6.74,
    "codellama-13b": 13.0,
    "codellama-34b": 33.7,
    "codellama-70b": 69.0,
    "vicuna-7b-v1.5": 6.74,
    "vicuna-13b-v1.5": 13.0,
    "llama3.1-nemotron-70b": 70.6,
    "granite-3.0-8b": 8.17,
    "granite-3.2-8b": 8.17,
    "granite-3.3-8b": 8.17,
    "granite-3.0-2b": 2.53,
    "granite-3.2-2b": 2.53,
    "granite-3.3-2b": 2.53,
    "granite-3.0-1b-a400m": 1.33,
    "granite-3.1-1b-a400m": 1.33,
    "granite-3.0-3b-a800m": 3.30,
    "granite-3.1-3b-a800m": 3.30,
    "granite-3b-code": 3.48,
    "granite-8b-code": 8.05,
    "granite-34b-code": 33.7,
    "granite-7b": 6.74,
    "granite-4.0-micro": 3.40,
    "granite-4.0-h-micro": 3.19,
    "granite-4.0-350m": 0.352,
    "granite-4.0-1b": 1.63,
    "granite-4.0-h-1b": 1.46,
    "granite-4.0-h-tiny": 6.94,
    "granite-4.0-h-small": 32.2,
    "granite-vision-3.2-2b": 2.98,
    "qwen-1.8b": 1.84,
    "qwen-7b": 7.72,
    "qwen-14b": 14.2,
    "qwen-72b": 72.3,
    "qwen1.5-0.5b": 0.464,
    "qwen1.5-1.8b": 1.84,
    "qwen1.5-4b": 3.95,
    "qwen1.5-7b": 7.72,
    "qwen1.5-14b": 14.2,
    "qwen1.5-32b": 32.5,
    "qwen1.5-72b": 72.3,
    "qwen1.5-moe-a2.7b": 14.3,
    "qwen2-0.5b": 0.494,
    "qwen2-1.5b": 1.54,
    "qwen2-7b": 7.62,
    "qwen2-72b": 72.7,
    "qwen2-57b-a14b": 57.4,
    "granite-4.0-h-350m": 0.340,
    "glm-4-9b": 9.40,
    "seed-oss-36b": 36.2,
    "qwq-32b": 32.8,
    "qwen2-vl-2b": 2.21,
    "qwen2-vl-7b": 8.29,
    "qwen2-vl-72b": 73.4,
    "qwen2.5-vl-3b": 3.75,
    "qwen2.5-vl-7b": 8.29,
    "qwen2.5-vl-32b": 33.5,
    "qwen2.5-vl-72b": 73.4,
    "qwen3-0.6b": 0.596,
    "qwen3-1.7b": 1.72,
    "qwen3-4b": 4.02,
    "qwen3-14b": 14.8,
    "qwen3-32b": 32.8,
    "qwen3-coder-480b-a35b": 480,
    "mistral-7b-v0.2": 7.24,
    "mistral-123b-v2": 123,
    "mistral-large-2411": 123,
    "mistral-nemo-12b": 12.2,
    "mistral-small-22b": 22.2,
    "mistral-small-24b": 23.6,
    "ministral-8b": 8.02,
    "mathstral-7b": 7.25,
    "mixtral-8x22b-instruct-v0.1": 141,
    "codestral-22b": 22.2,
    "devstral-small-2505": 23.6,
    "zephyr-7b": 7.24,
    "mistral-small-3.1-24b": 24.0,
    "gemma3-270m": 0.268,
    "phi-1.5": 1.42,
    "phi-3.5-mini": 3.82,
    "phi-3.5-moe": 41.9,
    "phi-4-mini": 3.84,
    "deepseek-llm-7b": 6.91,
    "deepseek-llm-67b": 67.4,
    "deepseek-coder-1.3b": 1.35,
    "deepseek-coder-6.7b": 6.74,
    "deepseek-coder-33b": 33.3,
    "deepseek-v2-lite": 15.7,
    "deepseek-v2": 236,
    "deepseek-v3": 671,
    "deepseek-r1": 671,
    "deepseek-r1-distill-qwen-1.5b": 1.78,
    "deepseek-r1-distill-qwen-7b": 7.62,
    "deepseek-r1-distill-qwen-14b": 14.8,
    "deepseek-r1-distill-qwen-32b": 32.8,
    "deepseek-r1-distill-llama-8b": 8.03,
    "deepseek-r1-distill-llama-70b": 70.6,
    "deepseek-r1-0528-qwen3-8b": 8.19,
    "moonlight-16b-a3b": 16.0,
    "kimi-k2": 1030,
    "gpt-oss-120b": 117,
    "glm-4-9b-0414": 9.40,
    "glm-4-32b-0414": 32.6,
    "glm-4.5": 355,
    "glm-4.5-air": 106,
    "falcon-7b": 6.92,
    "falcon-40b": 41.3,
    "falcon-180b": 180,
    "falcon3-1b": 1.67,
    "falcon3-3b": 3.23,
    "falcon3-7b": 7.46,
    "falcon3-10b": 10.3,
    "yi-6b": 6.06,
    "yi-9b": 8.83,
    "yi-34b": 34.4,
    "olmo-1b": 1.18,
    "olmo-7b": 6.89,
    "olmo2-1b": 1.48,
    "olmo2-7b": 7.30,
    "olmo2-13b": 13.7,
    "olmo2-32b": 32.2,
    "olmoe-1b-7b": 6.92,
    "smollm-135m": 0.135,
    "smollm-360m": 0.362,
    "smollm-1.7b": 1.71,
    "smollm2-360m": 0.362,
    "smollm2-1.7b": 1.71,
    "smollm3-3b": 3.08,
    "stablelm-3b-4e1t": 2.80,
    "stablelm-2-1.6b": 1.64,
    "stablelm-2-12b": 12.1,
    "command-r-35b": 35.0,
    "command-r-08-2024": 32.3,
    "command-r-plus": 104,
    "command-r7b": 8.03,
    "command-a-111b": 111,
    "starcoder2-3b": 3.03,
    "starcoder2-7b": 7.17,
    "starcoder2-15b": 16.0,
    "solar-10.7b": 10.7,
    "bamba-9b": 9.78,
    "distilgpt2": 0.082,
    "gpt2-medium": 0.355,
    "gpt2-large": 0.774,
    "gpt2-xl": 1.56,
    "gpt-neox-20b": 20.6,
    "stablelm-base-alpha-3b": 3.64,
    "stablelm-base-alpha-7b": 7.87,
    "gpt-j-6b": 6.05,
    "mpt-7b": 6.65,
    "starcoder-15b": 15.5,
    "opt-125m": 0.125,
    "opt-350m": 0.331,
    "opt-1.3b": 1.32,
    "opt-2.7b": 2.65,
    "opt-6.7b": 6.66,
    "opt-13b": 12.9,
    "opt-30b": 30.0,
    "opt-66b": 65.7,
}
"""Billions, as model cards and the hub round them."""

NAMED = {"allam-1-13b": 13, "granite-13b-v2": 13, "granite-8b-japanese": 8}
"""Billions of models whose makers publish no more than that."""

ACTIVE = {
    "mixtral-8x7b-v0.1": 12.9,
    "deepseek-v3": 37.0,
    "deepseek-v2": 21.0,
    "qwen3-30b-a3b": 3.3,
    "qwen3-235b-a22b": 22.0,
    "kimi-k2": 32.0,
    "granite-4.0-h-small": 9.0,
    "glm-4.5": 32.0,
    "phi-3.5-moe": 6.6,
    "olmoe-1b-7b": 1.3,
    "jamba-v0.1": 12.0,
}
"""Billions that one token passes, as model cards round them."""

MODELS = {model.name: model for model in tuple(MODEL_TABLE)}


def test_there_are_models_enough() -> None:
    """Every row is there by its name, and those whose number of parameters is known elsewhere are compared with it."""
    assert len(MODELS) >= 200
    assert len(MODELS) == len(MODEL_TABLE.rows)
    assert {*COUNTED, *PUBLISHED, *NAMED} <= set(MODELS)


@pytest.mark.parametrize(("name", "counted"), COUNTED.items())
def test_the_formula_counts_every_parameter(name: str, counted: int) -> None:
    assert MODELS[name].parameters == counted


@pytest.mark.parametrize(("name", "billions"), PUBLISHED.items())
def test_the_formula_agrees_with_what_is_published(name: str, billions: float) -> None:
    assert MODELS[name].parameters / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(("name", "billions"), NAMED.items())
def test_unpublished_shapes_are_marked(name: str, billions: float) -> None:
    assert MODELS[name].parameters / 1e9 == pytest.approx(billions, rel=0.03)
    assert MODELS[name].approximate


@pytest.mark.parametrize(("name", "billions"), ACTIVE.items())
def test_active_parameters_of_mixtures(name: str, billions: float) -> None:
    assert MODELS[name].active_parameters / 1e9 == pytest.approx(billions, rel=0.06)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_every_row_is_sane(model: Architecture) -> None:
    parts = parameter_parts(model)
    assert parts.total == model.parameters
    assert 0 < model.active_parameters <= model.parameters
    assert (model.active_parameters < model.parameters) is (model.experts > 0)
    assert model.heads % model.kv_heads == 0
    assert 0 < model.head_dim <= 256
    assert model.layers > 0
    assert 0 <= model.attention_layers < model.layers
    assert 32000 <= model.vocabulary <= 262208
    assert parts.attention > 0
    assert parts.feed_forward > 0
    assert (parts.state_space > 0) is (model.attention_layers > 0)
    assert model.embedding >= (1 if model.tied else 2) * model.vocabulary * 512
    assert model.source
    assert model.active_experts <= model.experts or not model.experts


def test_names_are_unique() -> None:
    repositories = [name for row in MODEL_TABLE.rows for name in " ".join(row.repositories).lower().split()]
    assert len(repositories) == len(set(repositories))
    assert len({row.name for row in MODEL_TABLE.rows}) == len(MODEL_TABLE.rows)

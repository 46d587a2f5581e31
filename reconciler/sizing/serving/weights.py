"""The storage of a model's weights: by the flag, its `config.json`, its name, and what its vendor publishes."""

import re
from collections.abc import Mapping
from typing import Any

from reconciler.kube.values import mapping, sequence, text
from reconciler.sizing.serving.server import WeightType

_NAMES = (
    (re.compile(r".*(?:fp8|int8|w8a8|w8a16|8bit|8-bit)(?:[-_.].*)?", re.IGNORECASE), WeightType.INT8),
    (re.compile(r".*(?:mxfp4)(?:[-_.].*)?", re.IGNORECASE), WeightType.MXFP4),
    (re.compile(r".*(?:awq|gptq|int4|w4a16|4bit|4-bit|nvfp4|fp4)(?:[-_.].*)?", re.IGNORECASE), WeightType.INT4),
    (re.compile(r"(?:.*[-_.])?(?:bf16|fp16)(?:[-_.].*)?", re.IGNORECASE), WeightType.BF16),
)
"""Names of repositories by the type of their weights; the first that matches counts."""
_NATIVE = {
    "deepseek-v3": WeightType.INT8,
    "deepseek-r1": WeightType.INT8,
    "kimi-k2": WeightType.INT8,
    "gpt-oss-20b": WeightType.MXFP4,
    "gpt-oss-120b": WeightType.MXFP4,
}
"""Models that are published in fewer bits (`quantization_config` of their files)."""
_KIMI_THINKING = re.compile(r"kimi-k2-thinking(?:[-_.].*)?", re.IGNORECASE)
"""Published with experts in 4 bits, in contrast to the other repositories of its architecture."""
_FLAGS = {
    WeightType.INT8: "fp8 w8a8_int8 w8a8_fp8 fbgemm_fp8 modelopt modelopt_fp8 ptpc_fp8 experts_int8 int8",
    WeightType.INT4: "awq awq_marlin gptq_marlin_24 bitsandbytes modelopt_fp4 nvfp4 marlin moe_wna16 petit_nvfp4",
    WeightType.MXFP4: "mxfp4",
}
_OF_FLAG = {word: kind for kind, words in _FLAGS.items() for word in words.split()}
_FOUR_BITS = frozenset({"gptq", "gptq_marlin", "auto-round"})
_BY_FILES = frozenset({"compressed-tensors", "quark"})
_OF_BITS = {4: WeightType.INT4, 8: WeightType.INT8}


def type_of_flag(flag: str, stored: WeightType | None) -> WeightType | None:
    """Return the type that `--quantization` selects, for a model whose files or name say `stored`; None if unknown.

    Some methods have 4 or 8 bits, which the files tell.
    """
    if flag in _OF_FLAG:
        return _OF_FLAG[flag]
    if flag in _FOUR_BITS:
        return stored or WeightType.INT4
    return stored if flag in _BY_FILES else None


def type_of_name(name: str) -> WeightType | None:
    """Return the type that the name of a repository or folder tells."""
    return next((kind for pattern, kind in _NAMES if pattern.fullmatch(name)), None)


def published_type(name: str, known: str) -> WeightType | None:
    """Return the type in which the vendor publishes a model of the table; None for 16 bits."""
    if known == "kimi-k2" and _KIMI_THINKING.fullmatch(name):
        return WeightType.INT4_EXPERTS
    return _NATIVE.get(known)


def type_of_config(config: Mapping[str, Any]) -> WeightType | str | None:
    """Return the type that a `config.json` states, the name of one that is not modelled, or None if it states none."""
    stated = mapping(config.get("quantization_config"))
    method = text(stated.get("quant_method")).lower()
    if not method:
        return None
    if method in {"bitsandbytes", "bitsandbytes_4bit", "bitsandbytes_8bit"}:
        return WeightType.INT8 if stated.get("load_in_8bit") is True else WeightType.INT4
    if method == "compressed-tensors":
        found = _OF_BITS.get(_widest_group(stated))
        is_partial = found is WeightType.INT4 and any("self_attn" in str(one) for one in sequence(stated.get("ignore")))
        return WeightType.INT4_EXPERTS if is_partial else found or method
    if method == "modelopt":
        algorithm = text(stated.get("quant_algo")).upper()
        return {"FP8": WeightType.INT8, "NVFP4": WeightType.INT4}.get(algorithm, method)
    if method in {"gptq", "awq", "auto-round", "intel/auto-round"}:
        bits = stated.get("bits", stated.get("w_bit", 4))
        return _OF_BITS.get(bits if isinstance(bits, int) else 0, method)
    return _OF_FLAG.get(method, method)


def _widest_group(stated: Mapping[str, Any]) -> int:
    """Return the bits of the widest group of weights that compressed-tensors lists."""
    groups = [mapping(mapping(group).get("weights")) for group in mapping(stated.get("config_groups")).values()]
    return max((bits for group in groups if isinstance(bits := group.get("num_bits"), int)), default=0)

"""How GPUs share samples and shards: tensor and context parallelism, HSDP, by flags and accelerate's configuration.

What cannot be read is judged by the table of flags.
"""

from msgspec.structs import replace

from reconciler.core.launch.framework import Extraction
from reconciler.core.launch.settings import Setting

_ACCELERATE = "parallelism_config_"
_FILE = "parallelism_config."
_CONTEXT = ("cp_size", "sp_size")
_TENSOR = ("tp_size",)
_MODIFIERS = (
    *("heads_k_stride", "ring_attn_func", "context_parallel", "sequence_parallel"),
    *("sp_backend", "sp_attn_implementation", "cp_rotate_method"),
)
"""How parts are exchanged, which keeps no other tensors."""
_ACCELERATE_MODIFIERS = ("cp_comm_strategy", "dp_shard_size", "sp_backend", "sp_seq_length_is_variable")


_REPLICAS, _SHARDS = "dp_replicate_size", "dp_shard_size"
_GROUPS = (
    ("replica_group_size", "fsdp_config.replica_group_size"),
    ("sharding_group_size", "fsdp_config.sharding_group_size"),
)
"""Flags of llama-recipes for the replicas of shards, and for the shards of each."""


def read_parallelism(extraction: Extraction) -> None:
    """Read `tensor`, `context` and HSDP: flags of the framework, then those of accelerate's `ParallelismConfig`.

    Context parallelism, and sequence parallelism among GPUs that hold the same weights (Ulysses, arXiv 2309.14509; ring
    attention, arXiv 2310.01889), divide each sample.
    """
    for fact, own in (("context", _CONTEXT), ("tensor", _TENSOR)):
        extraction.add_number(fact, extraction.find(fact))
        setting = _accelerate(extraction, own)
        if setting is not None and setting.text not in {"", "1"}:
            extraction.add_number(fact, setting)
    if "context" in extraction.facts:
        extraction.script.find(_MODIFIERS)
    _read_replicas(extraction)
    if "context" in extraction.facts or "tensor" in extraction.facts:
        _accelerate(extraction, _ACCELERATE_MODIFIERS)
        extraction.launcher.find(("use_parallelism_config",))


def _read_replicas(extraction: Extraction) -> None:
    """Read the replicas of shards and the shards of each (HSDP): only both together say how weights are divided."""
    strategy = extraction.facts.get("strategy") or extraction.defaults.get("strategy")
    if strategy is None or not strategy.value.startswith("fsdp-"):
        return
    if extraction.launcher.holds(_spelled(_REPLICAS), _spelled(_SHARDS)):
        replicas, shards = (extraction.launcher.find(_spelled(name)) for name in (_REPLICAS, _SHARDS))
        extraction.launcher.find(("use_parallelism_config",))
    elif extraction.script.holds(*_GROUPS):
        replicas, shards = (extraction.script.find(names) for names in _GROUPS)
    else:
        return
    if (extraction.add_number("replicas", replicas) or 0) > 1 and extraction.add_number("shards", shards) is not None:
        extraction.facts["strategy"] = replace(strategy, value="fsdp-hybrid")


def _spelled(name: str) -> tuple[str, ...]:
    """Return how a setting of accelerate's `ParallelismConfig` is spelled: as a flag, and in its file."""
    return f"{_ACCELERATE}{name}", f"{_FILE}{_ACCELERATE}{name}", f"{_FILE}{name}"


def _accelerate(extraction: Extraction, names: tuple[str, ...]) -> Setting | None:
    """Return the first of accelerate's settings that is not 1; all count as read."""
    found = None
    for name in names:
        setting = extraction.launcher.find(_spelled(name))
        if setting is not None and found is None and setting.text != "1":
            found = setting
    return found

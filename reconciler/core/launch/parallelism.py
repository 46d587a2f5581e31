"""How GPUs share samples and layers: tensor and context parallelism, by flags and accelerate's configuration.

Pipelines and replicas of shards (`dp_replicate_size`) are judged by the table of flags.
"""

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


def read_parallelism(extraction: Extraction) -> None:
    """Read `tensor` and `context`: flags of the framework, then those of accelerate's `ParallelismConfig`.

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
    if "context" in extraction.facts or "tensor" in extraction.facts:
        _accelerate(extraction, _ACCELERATE_MODIFIERS)
        extraction.launcher.find(("use_parallelism_config",))


def _accelerate(extraction: Extraction, names: tuple[str, ...]) -> Setting | None:
    """Return the first of accelerate's settings that is not 1; all count as read."""
    found = None
    for name in names:
        setting = extraction.launcher.find((f"{_ACCELERATE}{name}", f"{_FILE}{_ACCELERATE}{name}", f"{_FILE}{name}"))
        if setting is not None and found is None and setting.text != "1":
            found = setting
    return found

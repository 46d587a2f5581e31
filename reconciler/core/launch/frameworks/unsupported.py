"""Frameworks whose lines are recognized in order to be refused: their memory is not modelled."""

from reconciler.core.launch.framework import Command, Framework
from reconciler.core.launch.launchers import read_script_processes
from reconciler.core.patterns import later

_SETTINGS = {"model": ("model", "model_name"), "batch": ("batch_size",), "sequence": ("max_seq_length",)}

UNSLOTH_SCRIPT = Framework(
    name="unsloth script",
    source="",
    unsupported="trains with Unsloth by flags of its own",
    matches=lambda script, _flags: "unsloth" in script.lower(),
    settings=_SETTINGS,
    defaults={},
)
MEGATRON_OTHERS = Framework(
    name="megatron",
    source="",
    unsupported="trains with Megatron-LM, of which only decoders and supervised training are modelled",
    programs=later(
        r"(?:.*/)?(?:pretrain_(?:mamba|hybrid|t5|bert|vlm|ict|vision\w*)\w*|train_rl|megatron_\w+)\.py|megatron\..*"
        r"|swift\.cli\._megatron\.\w+|(?:.*/)?swift/cli/_megatron/\w+\.py"
    ),
    matches=lambda _script, flags: {"tensor_model_parallel_size", "micro_batch_size"} <= flags,
    settings=_SETTINGS,
    defaults={},
)
NEMO = Framework(
    name="nemo",
    source="",
    unsupported="trains with NeMo, whose parallelism and memory are not modelled",
    commands=(Command(program="nemo", verbs=later("llm"), read_processes=read_script_processes),),
    programs=later(r"nemo_automodel\..*|nemo\..*|(?:.*/)?megatron_gpt_\w+\.py"),
    matches=lambda _script, flags: any(flag.startswith("trainer.devices") for flag in flags),
    settings=_SETTINGS,
    defaults={},
)

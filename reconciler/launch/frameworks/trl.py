"""TRL: https://huggingface.co/docs/trl.

PPO: `PPOConfig` and `PPOTrainer` of trl 0.12 to 1.9, with `examples/scripts/ppo/*.py`.
"""

from msgspec.structs import replace

from reconciler.launch.facts import Diagnostic
from reconciler.launch.framework import Extraction
from reconciler.launch.frameworks.rollout import read_rollout_flags
from reconciler.launch.settings import is_true, parse_boolean


def read_rollout(extraction: Extraction) -> None:
    """Read the rollout. RLOO's `beta` is 0.05 by default (RLOOConfig), so that it has a reference model."""
    if extraction.facts["objective"].value == "ppo":
        read_ppo(extraction)
        return
    is_rloo = "rloo" in extraction.invocation.name.rpartition("/")[2]
    if (flags := extraction.framework.rollout) is not None:
        read_rollout_flags(extraction, replace(flags, has_reference=is_rloo))


def read_sharding(extraction: Extraction) -> None:
    """Read `--accelerate_config`: one of its own configurations by name, or a file."""
    named = extraction.resolve("strategy", extraction.script.find(("accelerate_config",)))
    if named is not None and (strategy := extraction.framework.words["accelerate"].get(named.text)):
        extraction.add("strategy", named, strategy)
        if not extraction.script.has("num_processes"):
            extraction.add("processes", named, "1" if named.text == "single_gpu" else "8")


def read_words(extraction: Extraction) -> None:
    """Read the file of `--accelerate_config` as accelerate does."""
    named = extraction.script.find(("accelerate_config",))
    if named is not None and named.text not in extraction.framework.words["accelerate"]:
        diagnostic = extraction.load(extraction.launcher, named, "accelerate configuration")
        if diagnostic is not None:
            extraction.unresolved |= dict.fromkeys(("strategy", "offload", "processes", "machines"), diagnostic)


_TRAINER = "TRL's PPOTrainer"
_LENGTH = Diagnostic(
    rule="launch.missing",
    message="the line does not set the tokens of a prompt: the dataset does",
    hint="set AUTOCONF_TOKENS_PER_SAMPLE to the tokens of a prompt and its answer in the container's env",
    missing="sequence",
)
_FIXED = {
    "generates": "true",
    "keeps_scores": "true",
    "joint_value_model": "true",
    "reward_bits": "32",
    "reference_bits": "32",
    "reference_model": "base",
    "checkpointing": "false",
    "fused_loss": "false",
}
"""What its flags do not change: the script loads all models in fp32, and the trainer neither enables checkpointing nor
applies Liger."""


def read_ppo(extraction: Extraction) -> None:
    """Read the policy, the reward model, which the value model is a copy of, and how answers are generated."""
    script = extraction.script
    for name in ("sft_model_path", "reward_model_path"):
        if not script.has(name):
            message = f"`{extraction.invocation.name}` without --{name} takes its default, pythia-160m"
            extraction.reject("method", message, None, f"set --{name}")
    extraction.discard("model")
    extraction.add_text("model", script.find(("sft_model_path", "model_name_or_path")))
    for fact in ("reward_model", "value_model"):
        extraction.add_text(fact, script.find(("reward_model_path",)))
    for name in ("sequence", "checkpointing", "fused_loss"):
        extraction.discard(name)
    extraction.unresolved["sequence"] = _LENGTH
    extraction.add_number("answer", script.find(("response_length",)))
    extraction.add_number("rollout_batch", script.find(("local_rollout_forward_batch_size",)))
    script.find(("num_mini_batches",))  # of the same batches per device
    extraction.set_framework_default("answer", "53")
    extraction.set_framework_default("rollout_batch", "64")
    for name, value in _FIXED.items():
        extraction.set_default(name, value, _TRAINER)
    _judge_loading(extraction)


def _judge_loading(extraction: Extraction) -> None:
    """Judge what the script does not pass to the models, or only in some versions, and what the trainer does not do."""
    script = extraction.script
    for name in ("context", "tensor"):
        if (divided := extraction.facts.get(name)) is not None:
            message = f"`{divided.snippet}`: TRL's PPOTrainer does not divide samples or layers"
            extraction.reject("method", message, divided.span, "remove the flag")
    quantized = script.find(("load_in_4bit", "load_in_8bit"))
    if is_true(quantized) and quantized is not None:
        message = f"`{quantized.fact.snippet}`: the script loads its models without it"
        extraction.reject("method", message, quantized.fact.span, "remove the flag")
    dtype = script.find(("dtype", "torch_dtype"))
    if dtype is not None:
        extraction.discard("precision")
        extraction.mark_uncertain(
            dtype, "is not used by all versions of the script, and the models are taken to be in fp32"
        )
    gathers = script.find(("ds3_gather_for_generation",))
    if gathers is not None and parse_boolean(gathers.text) is False:
        extraction.mark_uncertain(gathers, "generates with sharded weights, which are counted as whole")

"""TRL: https://huggingface.co/docs/trl."""

from msgspec.structs import replace

from reconciler.core.launch.framework import Extraction
from reconciler.core.launch.frameworks.rollout import read_rollout_flags
from reconciler.core.launch.frameworks.trl_ppo import read_trl_ppo


def read_rollout(extraction: Extraction) -> None:
    """Read the rollout. RLOO's `beta` is 0.05 by default (RLOOConfig), so that it has a reference model."""
    if extraction.facts["objective"].value == "ppo":
        read_trl_ppo(extraction)
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

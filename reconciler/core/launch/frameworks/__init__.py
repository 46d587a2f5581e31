"""The registry of training frameworks: one module and one row each."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from reconciler.core.launch.framework import Framework, Invocation
from reconciler.core.launch.frameworks.axolotl import AXOLOTL
from reconciler.core.launch.frameworks.fms import FMS
from reconciler.core.launch.frameworks.litgpt import LITGPT
from reconciler.core.launch.frameworks.llama_factory import LLAMA_FACTORY
from reconciler.core.launch.frameworks.llama_recipes import LLAMA_RECIPES
from reconciler.core.launch.frameworks.ms_swift import MS_SWIFT
from reconciler.core.launch.frameworks.pretraining.megatron import MEGATRON, MEGATRON_SWIFT
from reconciler.core.launch.frameworks.pretraining.torchtitan import TORCHTITAN
from reconciler.core.launch.frameworks.reinforcement.openrlhf import OPENRLHF
from reconciler.core.launch.frameworks.reinforcement.openrlhf_ppo import OPENRLHF_PPO
from reconciler.core.launch.frameworks.reinforcement.verl import VERL, VERL_SFT
from reconciler.core.launch.frameworks.script import SCRIPT, TRAINER_SCRIPT
from reconciler.core.launch.frameworks.torchtune import TORCHTUNE
from reconciler.core.launch.frameworks.transformers import TRANSFORMERS
from reconciler.core.launch.frameworks.trl import TRL
from reconciler.core.launch.frameworks.unsloth import UNSLOTH
from reconciler.core.launch.frameworks.unsupported import MEGATRON_OTHERS, NEMO, UNSLOTH_SCRIPT
from reconciler.core.launch.settings import script_arguments

FRAMEWORKS: tuple[Framework, ...] = (
    FMS,
    LLAMA_FACTORY,
    AXOLOTL,
    TORCHTUNE,
    LITGPT,
    TRL,
    MS_SWIFT,
    MEGATRON_SWIFT,
    UNSLOTH,
    UNSLOTH_SCRIPT,
    MEGATRON,
    MEGATRON_OTHERS,
    TORCHTITAN,
    NEMO,
    OPENRLHF_PPO,
    OPENRLHF,
    VERL,
    VERL_SFT,
    TRANSFORMERS,
    LLAMA_RECIPES,
    TRAINER_SCRIPT,
    SCRIPT,
)
"""In the order in which they are tried. The last one matches every script."""

_OTHER_CONFIG_KEYS = frozenset(
    (
        *("model_type", "architectures"),  # config.json of a model
        *("distributed_type", "compute_environment"),  # accelerate
        "zero_optimization",  # DeepSpeed
    )
)


def find_framework(invocation: Invocation, frameworks: tuple[Framework, ...] = FRAMEWORKS) -> Framework:
    """Return the framework of an invocation: by its command or program, else by its script and flags."""
    if invocation.framework is not None:
        return invocation.framework
    name = invocation.name
    for framework in frameworks:
        if framework.programs is not None and framework.programs.fullmatch(name):
            return framework
    flags = {option.name for option in script_arguments(invocation.fields, invocation.program + 1).options}
    return next(row for row in (*frameworks, SCRIPT) if row.matches is not None and row.matches(name, flags))


def is_configuration(data: Mapping[str, Any], frameworks: tuple[Framework, ...] = FRAMEWORKS) -> bool:
    """Whether a document is a configuration file that launch lines name.

    Such files are not Kubernetes objects: they have no kind, and are read for sizing but never rendered.
    """
    return "apiVersion" not in data and "kind" not in data and not _config_keys(frameworks).isdisjoint(data)


@cache
def _config_keys(frameworks: tuple[Framework, ...]) -> frozenset[str]:
    return _OTHER_CONFIG_KEYS.union(*(framework.config_keys for framework in frameworks))

"""What a line trains for. Only supervised fine-tuning and pre-training of one model are sized.

Preference and reinforcement learning hold a reference, a reward model or sampled answers besides the model, and pairs
of samples for each one of a batch: sized as if they were supervised, they would run out of memory.
"""

import re

from reconciler.core.launch.dialects import Dialect
from reconciler.core.launch.gathering import Gathering
from reconciler.core.launch.launchers import Invocation
from reconciler.core.launch.settings import Settings

_OTHERS = "(?:dpo|kto|grpo|rloo|reward|rm|orpo|cpo|simpo|ppo|online_dpo|nash_md|xpo|gkd|prm|bco|rlhf)"
_PROGRAM = re.compile(
    rf"(?:trl|swift) {_OTHERS}|trl\.scripts\.{_OTHERS}|swift\.cli\.{_OTHERS}|(?:.*/)?(?:run_)?{_OTHERS}\.py"
)
_RECIPE = re.compile(r"(?:.*[_/])?(?:dpo|ppo|grpo)(?:[_.].*)?")
_SUPERVISED = frozenset({"sft", "pt", "", "none", "null", "false"})
_SETTINGS = {"llama-factory": ("stage",), "axolotl": ("rl",), "ms-swift": ("rlhf_type",)}
_HINT = "leave the job out of sizing, and give its GPUs yourself"


def refuse_other_objectives(invocation: Invocation, dialect: Dialect, settings: Settings, gathering: Gathering) -> bool:
    """Note a line that trains for something else, by its program or by the setting that its framework has for that."""
    program = invocation.name
    is_other = _RECIPE.fullmatch(invocation.fields[invocation.program].text) if dialect.name == "torchtune" else None
    if is_other is not None or _PROGRAM.fullmatch(program):
        gathering.refuse("method", f"`{program}` {_TELLS}", None, _HINT)
        return True
    named = settings.find(_SETTINGS.get(dialect.name, ()))
    found = gathering.known("method", named) if named is not None else None
    if found is not None and found.text.strip().lower() not in _SUPERVISED:
        gathering.refuse("method", f"`{found.fact.snippet}` {_TELLS}", found.fact.span, _HINT)
    return "method" in gathering.unsure


_TELLS = "is no supervised fine-tuning: what it holds besides the model is not modelled"

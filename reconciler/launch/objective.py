"""The objective of a launch line: supervised fine-tuning, or preferences between answers.

Preference training compares answers, and may hold a reference model. Other objectives (distillation, process rewards)
also hold models or samples that are not in the memory model: their lines are rejected.
"""

import re

from msgspec.structs import replace

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.settings import Setting, is_true, parse_boolean, setting_from_env

_OTHER_SCRIPTS = re.compile(
    r"(?:.*[/._-])?(?:dpo|kto|grpo|rloo|reward|orpo|cpo|simpo|ppo|xpo|gkd|rlhf|reinforce|distill\w*|online_dpo|nash_md"
    r"|bco|prm|train_rm|run_rm|rm|reward_model\w*)\d*(?:[._-].*)?"
)
"""Scripts and modules that name another objective as a word of their own (`train_dpo.py`, `verl.trainer.main_ppo`)."""
_SUPERVISED = frozenset({"sft", "pt", "", "none", "null", "false"})
_REINFORCEMENT = frozenset({"grpo", "ppo"})
_VARIABLE = "AUTOCONF_OBJECTIVE"
_STATED = frozenset({"sft", "dpo", "kto", "orpo", "reward"})
"""Values of the variable by which a job states the objective that its script only names."""
_WITHOUT_REFERENCE = ("precompute_ref_log_probs", "reference_free", "precompute_ref_logps")
_REFERENCE_FREE_LOSSES = frozenset({"orpo", "simpo", "cpo"})
_PROBLEM = "is not supervised fine-tuning: its other models and samples are not in the memory model"
_HINT = "exclude the job from sizing, and set its number of GPUs"


def read_objective(extraction: Extraction) -> bool:
    """Read `objective` and `reference`; return whether the line can be sized."""
    name, framework = extraction.invocation.name, extraction.framework
    if framework.unsupported:
        extraction.reject("method", f"`{name}` {framework.unsupported}", None, "exclude the job from sizing")
        return False
    word, setting = _named_objective(extraction)
    if not word:
        return "method" not in extraction.unresolved
    objective = framework.objectives.get(word, "")
    if not objective and (stated := setting_from_env(extraction.line.env, _VARIABLE)) and stated.text in _STATED:
        objective, setting = stated.text, stated
    if not objective:
        named = setting.fact if setting is not None else Fact(value="", snippet=name, origin="the program")
        extraction.reject("method", f"`{named.snippet}` {_PROBLEM}", named.span, _HINT, missing="objective")
        return False
    fact = setting.fact if setting is not None else Fact(value="", snippet=name, origin="the program")
    if objective in _REINFORCEMENT and framework.read_rollout is not None:
        extraction.facts["objective"] = replace(fact, value=objective)
        framework.read_rollout(extraction)
        return "method" not in extraction.unresolved
    loss = extraction.script.find(("pref_loss", "loss_type")) if objective == "dpo" else None
    if loss is not None and loss.text.lower() in _REFERENCE_FREE_LOSSES:
        objective, fact = "orpo", loss.fact
    extraction.facts["objective"] = replace(fact, value=objective)
    for flag in _WITHOUT_REFERENCE:
        setting = extraction.script.find((flag,))
        if setting is not None and is_true(setting):
            extraction.add("reference", setting, "false")
    return True


def _named_objective(extraction: Extraction) -> tuple[str, Setting | None]:
    """Return the word for an objective other than supervised fine-tuning, and the setting that names it.

    A setting wins over the program. A switch (`reward_model: true`) is named by itself.
    """
    for name in extraction.framework.objective_settings:
        setting = extraction.resolve("method", extraction.script.find((name,)))
        word = "" if setting is None else setting.text.strip().lower()
        if setting is not None and word not in _SUPERVISED:
            return name if parse_boolean(word) else word, setting
        if setting is not None and word:
            return "", None  # it says so
    return _program_word(extraction), None


def _program_word(extraction: Extraction) -> str:
    """Return the word of a program or recipe for another objective."""
    name, own = extraction.invocation.name, extraction.framework.other_objectives
    match = own.fullmatch(name) if own is not None else None
    if match is not None:
        return match.groupdict().get("word") or name.rpartition(" ")[2]
    script = _script_name(extraction)
    return script.removesuffix(".py").rpartition(".")[2] if _OTHER_SCRIPTS.fullmatch(script) else ""


def _script_name(extraction: Extraction) -> str:
    """Return the script without its folders (they name the model or the author), or the module."""
    name = extraction.invocation.name
    return name.rpartition("/")[2] if extraction.invocation.command is None else ""

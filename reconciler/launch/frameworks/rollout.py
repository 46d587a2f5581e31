"""Reinforcement learning of one model with rewards that programs compute (GRPO, RLOO): answers, and what makes them.

A policy writes answers to prompts, and trains on them. An engine beside it (vLLM, SGLang) reserves a fraction of the
GPU for its own weights and cache, unless it runs elsewhere; without one, the policy itself generates.
"""

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction, RolloutFlags
from reconciler.launch.settings import Setting, is_true, parse_boolean


def read_rollout(extraction: Extraction) -> None:
    """Read the rollout by the flags of the framework's file."""
    if (flags := extraction.framework.rollout) is not None:
        read_rollout_flags(extraction, flags)


def read_rollout_flags(extraction: Extraction, flags: RolloutFlags) -> None:
    """Read `sequence` (prompt and answer), `prompt`, `rollout` and how it shares the GPU, `reference`."""
    _read_lengths(extraction, flags)
    script = extraction.script
    beta = extraction.resolve("reference", script.find(flags.beta))
    is_zero = beta is not None and not beta.text.strip("0.")
    fact = Fact(value="true" if flags.has_reference else "false", snippet="") if beta is None else beta.fact
    holds = flags.has_reference if beta is None else not is_zero
    extraction.facts["reference"] = Fact(value="true" if holds else "false", snippet=fact.snippet, span=fact.span)
    mode, engine = script.find(flags.mode), script.find(flags.engine)
    fraction = extraction.resolve("rollout", script.find(flags.fraction))
    sleeps, alone = script.find(flags.sleep), [script.find((name,)) for name in flags.alone]
    if not _is_on(engine):
        extraction.set_framework_default("generates", "true")
    elif mode is None or mode.text.lower() != "server":
        add_fraction(extraction, fraction, flags.default_fraction)
        if sleeps is not None and parse_boolean(sleeps.text) is not False:
            extraction.add("rollout_sleeps", sleeps, "true")
        if alone and all(is_true(setting) for setting in alone) and alone[0] is not None:
            extraction.add("rollout_alone", alone[0], "true")


def _is_on(setting: Setting | None) -> bool:
    return setting is not None and parse_boolean(setting.text) is not False


def _read_lengths(extraction: Extraction, flags: RolloutFlags) -> None:
    extraction.add_number("prompt", extraction.script.find(flags.prompt))
    extraction.add_number("answer", extraction.script.find(flags.answer))
    extraction.set_framework_default("prompt", flags.prompt_tokens)
    extraction.set_framework_default("answer", flags.answer_tokens)
    prompt, answer = extraction.number("prompt"), extraction.number("answer")
    if prompt is None or answer is None:
        return
    stated = extraction.facts.get("answer") or extraction.facts.get("prompt")
    total = Fact(value=str(prompt + answer), snippet="" if stated is None else stated.snippet)
    extraction.discard("sequence")
    extraction.facts["sequence"] = total


def add_fraction(extraction: Extraction, setting: Setting | None, default: str) -> None:
    """Add the fraction of the GPU's memory that an engine reserves."""
    if setting is None:
        extraction.set_framework_default("rollout", default)
        return
    try:
        value = float(setting.text)
    except ValueError:
        value = 0.0
    if 0 < value < 1:
        extraction.add("rollout", setting, str(value))
    else:
        extraction.reject("rollout", f"`{setting.fact.snippet}`: expected a fraction below 1", setting.fact.span)

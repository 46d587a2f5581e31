"""Validate `spec.rules` of `reconciler.yaml`: a setting without effect is an error."""

from collections.abc import Collection, Iterator, Mapping

from reconciler.core.config import RuleSetting
from reconciler.core.policy.exceptions import suggest_rule
from reconciler.core.policy.references import ALWAYS, RULES
from reconciler.core.problems import Problem


def rule_setting_problems(settings: Mapping[str, RuleSetting], policies: Collection[str]) -> Iterator[Problem]:
    """Yield problems for settings of unknown rules and for unknown settings of reference rules.

    `policies` are the names of all admission policies, enabled or not; the settings of those are validated when they
    are loaded.
    """
    for rule, setting in settings.items():
        if rule in RULES:
            yield from _reference_rule_problems(rule, setting)
        elif rule not in policies:
            hint = suggest_rule(rule, (*RULES, *policies))
            yield _problem(rule, setting, "", f"unknown rule {rule!r}", hint)


def _reference_rule_problems(rule: str, setting: RuleSetting) -> Iterator[Problem]:
    known = RULES[rule].parameters
    for name in setting.parameters:
        if name not in known:
            hint = f"known parameters: {', '.join(known)}" if known else "remove it; the rule has no parameters"
            yield _problem(rule, setting, f".parameters.{name}", f"rule {rule!r} has no parameter {name!r}", hint)
    if rule in ALWAYS and (not setting.enabled or setting.action):
        hint = "remove the setting; two objects cannot be written to the same file"
        yield _problem(rule, setting, "", f"rule {rule!r} cannot be disabled or changed", hint)


def _problem(rule: str, setting: RuleSetting, below: str, message: str, hint: str) -> Problem:
    field = f"spec.rules.{rule}{below}"
    return Problem(rule="policy.setting", place=setting.place, field=field, message=message, hint=hint)

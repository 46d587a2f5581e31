"""`spec.rules` of `reconciler.yaml` against the rules there are: a switch that turns nothing is an error."""

from collections.abc import Collection, Iterator, Mapping

from reconciler.core.config import RuleSetting
from reconciler.core.policy.references import ALWAYS, RULES
from reconciler.core.problems import Problem


def switch_problems(settings: Mapping[str, RuleSetting], policies: Collection[str]) -> Iterator[Problem]:
    """Name the switches of unknown rules, and what the rules over all objects do not take.

    `policies` names the admission policies, whether switched on or not; their parameters are judged where they are set.
    """
    for rule, setting in settings.items():
        if rule in RULES:
            yield from _of_reference(rule, setting)
        elif rule not in policies:
            from difflib import get_close_matches  # noqa: PLC0415 - only on the way to a problem

            near = get_close_matches(rule, (*RULES, *policies), n=1)
            hint = f"did you mean {near[0]}?" if near else "the shipped rules are listed in docs/reference/rules.md"
            yield _problem(rule, setting, "", "there is no such rule, so this switches nothing", hint)


def _of_reference(rule: str, setting: RuleSetting) -> Iterator[Problem]:
    known = RULES[rule].parameters
    for name in setting.parameters:
        if name not in known:
            hint = f"its parameters are: {', '.join(known)}" if known else "it takes none"
            yield _problem(rule, setting, f".parameters.{name}", f"rule {rule!r} has no parameter {name!r}", hint)
    if rule in ALWAYS and (not setting.enabled or setting.action):
        hint = "two objects cannot share a file: rename one of them"
        yield _problem(rule, setting, "", f"rule {rule!r} can neither be switched off nor softened", hint)


def _problem(rule: str, setting: RuleSetting, below: str, message: str, hint: str) -> Problem:
    field = f"spec.rules.{rule}{below}"
    return Problem(rule="policy.setting", place=setting.place, field=field, message=message, hint=hint)

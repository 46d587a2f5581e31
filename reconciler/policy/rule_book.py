"""`RuleBook`: the rules of one revision: settings, admission policies and exceptions."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.kube.problems import Problem
from reconciler.kube.yaml import Document
from reconciler.policy.admission import PolicyCheck, PolicySet, ServerView, check_policies, is_policy, load, rules_of
from reconciler.policy.exceptions import PolicyException, load_exceptions, suggest_rule
from reconciler.policy.references import ALWAYS, RULES
from reconciler.repo.config import RuleSetting

# Validate `spec.rules` of `reconciler.yaml`: a setting without effect is an error.


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


class RuleBook(Struct, frozen=True, kw_only=True, eq=False):
    """The rules of one revision, and what is wrong with them."""

    settings: Mapping[str, RuleSetting]
    policies: PolicySet
    exceptions: tuple[PolicyException, ...]
    problems: tuple[Problem, ...] = ()


def load_rules(
    documents: Sequence[Document],
    settings: Mapping[str, RuleSetting],
    *,
    shipped: Sequence[Document],
    check: PolicyCheck = check_policies,
    server: ServerView | None = None,
) -> RuleBook:
    """Load the policies and exceptions of a repository beside the `shipped` policies, under `spec.rules`."""
    policies, policy_problems = load(documents, settings, shipped=shipped, check=check, server=server)
    known = {one.key.name for one in (*documents, *shipped) if is_policy(one)} | rules_of(documents)
    exceptions, exception_problems = load_exceptions(documents, {*RULES, *known})
    return RuleBook(
        settings=settings,
        policies=policies,
        exceptions=exceptions,
        problems=(*rule_setting_problems(settings, known), *policy_problems, *exception_problems),
    )

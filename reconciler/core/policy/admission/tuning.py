"""Settings of `reconciler.yaml` applied to policies: another action, other parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.core.config import RuleSetting
from reconciler.core.policy.admission.policy import Binding, Parameters, Policy
from reconciler.core.problems import Problem

_ACTIONS = ("deny", "warn", "audit")


def tune(
    policies: Mapping[str, Policy],
    bindings: Sequence[Binding],
    parameters: Sequence[Parameters],
    settings: Mapping[str, RuleSetting],
) -> tuple[list[Binding], list[Parameters], list[Problem]]:
    """Return bindings and parameter objects as the settings want them; a parameter no rule has is a problem."""
    problems: list[Problem] = []
    tuned = []
    bodies = list(parameters)
    for binding in bindings:
        setting = settings.get(binding.policy)
        if setting is None or binding.policy not in policies:
            tuned.append(binding)
            continue
        tuned.append(_with_action(binding, setting, problems))
        if setting.parameters:
            _set_parameters(policies[binding.policy], binding, setting, bodies, problems)
    return tuned, bodies, problems


def _with_action(binding: Binding, setting: RuleSetting, problems: list[Problem]) -> Binding:
    if not setting.action:
        return binding
    if setting.action not in _ACTIONS:
        message = f"action {setting.action!r} is not known"
        problems.append(_problem(binding.policy, setting, "action", message, f"use {', '.join(_ACTIONS)}"))
        return binding
    return replace(binding, actions=(setting.action,))


def _set_parameters(
    policy: Policy, binding: Binding, setting: RuleSetting, bodies: list[Parameters], problems: list[Problem]
) -> None:
    """Override `data` of the ConfigMap that the binding names."""
    for index, one in enumerate(bodies):
        if policy.params is None or binding.ref is None or one.kind != policy.params.kind:
            continue
        if (one.name, one.namespace) != (binding.ref.name, binding.ref.namespace):
            continue
        data = dict(one.body.get("data") or {})
        for name, value in setting.parameters.items():
            if name in data:
                data[name] = _written(value)
            else:
                known = ", ".join(sorted(data)) or "none"
                message = f"rule {policy.rule!r} has no parameter {name!r}"
                hint = f"its parameters are: {known}"
                problems.append(_problem(policy.rule, setting, f"parameters.{name}", message, hint))
        bodies[index] = replace(one, body={**one.body, "data": data})
        return
    message = f"rule {policy.rule!r} takes no parameters"
    problems.append(_problem(policy.rule, setting, "parameters", message, "remove them"))


def _written(value: Any) -> str:
    """Write a value as a ConfigMap holds it, as a string: lists are joined by commas."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(_written(item) for item in value) if isinstance(value, list | tuple) else str(value)


def _problem(rule: str, setting: RuleSetting, below: str, message: str, hint: str) -> Problem:
    field = f"spec.rules.{rule}.{below}"
    return Problem(rule="policy.setting", place=setting.place, field=field, message=message, hint=hint)

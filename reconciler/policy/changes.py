"""The changes of rules (actions, parameters, policy files, exceptions), and the stricter of two verdicts."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from reconciler.kube.objects import SourceRef
from reconciler.policy.admission import PolicySet
from reconciler.policy.admission.policies import Binding, Policy
from reconciler.policy.exceptions import PolicyException
from reconciler.policy.references import RULES
from reconciler.policy.rule_book import RuleBook
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import RuleSetting
from reconciler.repo.config.changes import SettingChange, flatten, shown

OFF = "off"
_STRICTNESS = (OFF, "audit", "warn", "deny")
_MAX_FIELDS = 5  # of one policy file that are listed
_MAX_TEXT = 200  # characters of an expression
_UNKNOWN = "objects may pass that the rule refused"
_RESULTS = (Result.EXCEPTED, Result.AUDIT, Result.WARN, Result.ERROR, Result.DENY)


def stricter_verdicts(head: Iterable[Verdict], base: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts by the rules of the head, and those by the rules of the base where these are stricter."""
    verdicts = {_identity(verdict): verdict for verdict in head}
    for verdict in base:
        own = verdicts.get(_identity(verdict))
        if own is None or _RESULTS.index(own.result) < _RESULTS.index(verdict.result):
            hint = "the rule applies as in the base; change it in a pull request of its own"
            verdicts[_identity(verdict)] = replace(verdict, hint=f"{verdict.hint}; {hint}" if verdict.hint else hint)
    return list(verdicts.values())


def _identity(verdict: Verdict) -> tuple[Any, ...]:
    return (verdict.rule, verdict.cluster, verdict.key, verdict.field, verdict.message)


def rule_changes(base: RuleBook, head: RuleBook) -> Iterator[SettingChange]:
    """Yield the differences between the rules of two revisions."""
    yield from _reference_rule_changes(base.settings, head.settings)
    yield from _policy_changes(base, head)
    yield from _exception_changes(base.exceptions, head.exceptions)


# --- built-in rules over all objects ------------------------------------------------------------------------------


def _reference_rule_changes(
    base: Mapping[str, RuleSetting], head: Mapping[str, RuleSetting]
) -> Iterator[SettingChange]:
    for rule in sorted({*base, *head} & {*RULES}):
        before, after = base.get(rule, RuleSetting()), head.get(rule, RuleSetting())
        yield from _action_change(rule, _action(rule, before), _action(rule, after), after.place)
        yield from _limit_changes(rule, before, after)


def _action(rule: str, setting: RuleSetting) -> str:
    return (setting.action or RULES[rule].action.value) if setting.enabled else OFF


def _action_change(rule: str, before: str, after: str, place: SourceRef) -> Iterator[SettingChange]:
    if before == after:
        return
    weakens = _STRICTNESS.index(after) < _STRICTNESS.index(before)
    effects = {OFF: "no longer evaluated", "deny": "refuses a commit"}
    effect = effects.get(after, "reported, but no longer refuses a commit" if weakens else "reported")
    yield SettingChange(
        setting=f"rules.{rule}", before=before, after=after, weakens=weakens, effect=effect, place=place
    )


def _limit_changes(rule: str, before: RuleSetting, after: RuleSetting) -> Iterator[SettingChange]:
    """Yield the parameters of a built-in rule that differ. All are upper limits; a missing one means no limit."""
    old, new = flatten(before.parameters), flatten(after.parameters)
    for path in sorted({*old, *new}):
        if old.get(path) != new.get(path):
            # Without an override of its own, a queue or namespace has the common limit.
            low, high = old.get(path, old.get("max")), new.get(path, new.get("max"))
            weakens = low is not None and not (_is_number(low) and _is_number(high) and high <= low)
            yield SettingChange(
                setting=f"rules.{rule}.parameters.{path}",
                before=shown(old.get(path)),
                after=shown(new.get(path)),
                weakens=weakens,
                place=after.place,
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- admission policies -------------------------------------------------------------------------------------------


def _policy_changes(base: RuleBook, head: RuleBook) -> Iterator[SettingChange]:
    if base.policies.digest == head.policies.digest:
        return
    before, after = _described(base.policies), _described(head.policies)
    for rule in sorted({*before, *after}):
        old, new = before.get(rule), after.get(rule)
        place = head.settings[rule].place if rule in head.settings else (new or old or _Described()).place
        actions = (old.action if old else OFF, new.action if new else OFF)
        yield from _action_change(rule, *actions, place)
        if old and new:
            yield from _binding_changes(rule, old, new, place)
            yield from _field_changes(rule, old.fields, new.fields, place)


class _Described(NamedTuple):
    """A rule: its place, the strictest action of each binding, and all other fields that decide, by path."""

    place: SourceRef = SourceRef(path="reconciler.yaml")
    bindings: Mapping[str, str] = MappingProxyType({})
    fields: Mapping[str, Any] = MappingProxyType({})

    @property
    def action(self) -> str:
        """The strictest action of all bindings."""
        return max(self.bindings.values(), key=_STRICTNESS.index, default=OFF)


def _described(policies: PolicySet) -> dict[str, _Described]:
    found: dict[str, _Described] = {}
    for policy, binding in policies.bound:
        earlier = found.get(policy.rule, _Described())
        own = next((one for one in reversed(_STRICTNESS) if one in binding.actions), OFF)
        spec = {**(binding.document.data.get("spec") or {}), "validationActions": None}
        fields = {
            **earlier.fields,
            **flatten(policy.document.data.get("spec"), "spec"),
            **flatten(spec, f"binding {binding.name}"),
            **_parameter_fields(policies, policy, binding),
        }
        found[policy.rule] = _Described(policy.document.source, {**earlier.bindings, binding.name: own}, fields)
    return found


def _parameter_fields(policies: PolicySet, policy: Policy, binding: Binding) -> dict[str, Any]:
    """Return the fields of the parameters of a binding. Those of several namespaces can have the same name."""
    kind, ref = policy.params and (policy.params.group, policy.params.kind), binding.ref
    fields: dict[str, Any] = {}
    for one in policies.parameters:
        if (one.group, one.kind) != kind or (ref is not None and ref.name not in ("", one.name)):
            continue
        if ref is not None and ref.namespace not in ("", one.namespace):
            continue
        is_named = ref is not None and ref.namespace
        name = one.name if is_named or not one.namespace else f"{one.namespace}/{one.name}"
        short = "parameters" if name == policy.rule else f"parameters {name}"
        fields |= flatten({**one.body, "data": None}, f"parameters {name}")
        fields |= flatten(one.body.get("data"), short)
    return fields


def _binding_changes(rule: str, before: _Described, after: _Described, place: SourceRef) -> Iterator[SettingChange]:
    """Yield the actions of bindings that the strictest one of all does not show."""
    whole = (before.action, after.action)
    for name in sorted({*before.bindings} & {*after.bindings}):
        actions = (before.bindings[name], after.bindings[name])
        if actions != whole:
            yield from _action_change(f"{rule}.bindings.{name}", *actions, place)


def _field_changes(
    rule: str, before: Mapping[str, Any], after: Mapping[str, Any], place: SourceRef
) -> Iterator[SettingChange]:
    """Yield the fields of a policy that differ. What they mean is not known, so each may weaken the rule."""
    paths = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    if len(paths) > _MAX_FIELDS:
        text = f"{len(paths)} fields differ"
        yield SettingChange(setting=f"policy {rule}", before="", after=text, weakens=True, effect=_UNKNOWN, place=place)
        return
    for path in paths:
        yield SettingChange(
            setting=f"rules.{rule}.{path}" if path.startswith("parameters.") else f"policy {rule} {path}",
            before=_clip(shown(before.get(path))),
            after=_clip(shown(after.get(path))),
            weakens=True,
            effect=_UNKNOWN,
            place=place,
        )


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"


# --- exceptions ---------------------------------------------------------------------------------------------------


def _exception_changes(base: Iterable[PolicyException], head: Iterable[PolicyException]) -> Iterator[SettingChange]:
    before, after = _longest(base), _longest(head)
    for rule, target in sorted({*before, *after}):
        old, new = before.get((rule, target)), after.get((rule, target))
        either = new or old
        until = [f"until {one.expires}" if one else "none" for one in (old, new)]
        if either is None or until[0] == until[1]:
            continue
        weakens = new is not None and (old is None or old.expires < new.expires)
        yield SettingChange(
            setting=f"exception {rule} for {target}",
            before=until[0],
            after=until[1],
            weakens=weakens,
            is_exception=True,
            effect=f"{target} may break {rule}: {new.reason} ({new.owner})" if new and weakens else "",
            place=either.place,
        )


def _longest(exceptions: Iterable[PolicyException]) -> dict[tuple[str, str], PolicyException]:
    """Return the exceptions by what they permit; of several files for the same, the one that expires last."""
    return {(one.rule, one.target): one for one in sorted(exceptions, key=lambda one: one.expires)}

"""Load policies from documents and adapt them to the settings in `reconciler.yaml`."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from reconciler.kube.problems import Problem, Severity
from reconciler.kube.yaml import Document
from reconciler.policy.admission.checking import check_policies
from reconciler.policy.admission.evaluation import PolicySet
from reconciler.policy.admission.matching import labels
from reconciler.policy.admission.mutating import load_mutations
from reconciler.policy.admission.policies import (
    BINDING,
    GROUP,
    MUTATION,
    MUTATION_BINDING,
    POLICY,
    Binding,
    Parameters,
    Policy,
    read_binding,
    read_policy,
)
from reconciler.policy.admission.server import ServerView
from reconciler.repo.config import RuleSetting
from reconciler.version import __version__

_ACTIONS = ("deny", "warn", "audit")
_MAX_PARAMETER = 4096  # characters; shipped rules are evaluated without the limits of the repository's own
_EXCEPTION = ("gpureconciler.io", "PolicyException")  # see policy/exceptions.py
_KNOWN = frozenset((GROUP, kind) for kind in (POLICY, BINDING, MUTATION, MUTATION_BINDING))


PolicyCheck = Callable[[Sequence[Policy]], Iterable[Sequence[Problem]]]
"""Returns problems for the expressions of each policy."""


class Policies(NamedTuple):
    """The result of `load`."""

    policies: PolicySet
    problems: tuple[Problem, ...]


def load(
    documents: Sequence[Document],
    settings: Mapping[str, RuleSetting],
    *,
    shipped: Sequence[Document] = (),
    check: PolicyCheck = check_policies,
    server: ServerView | None = None,
) -> Policies:
    """Load the repository's policies and the `shipped` ones, with `settings` by rule.

    A policy of the repository replaces the shipped one of the same name, with its bindings and parameters. Documents
    of other kinds can be parameters. A policy with problems is not part of the set; its problems are errors, so that
    nothing passes by mistake. `check` type-checks the policies of the repository; `server` is that of the set.
    """
    problems: list[Problem] = []
    own = _names(documents)
    kept = [one for one in shipped if _rule_of(one) not in own]
    sources = [*documents, *kept]
    policies = _policies(sources, settings, problems, check, trusted=len(documents))
    bindings = [binding for one in documents if _is(one, BINDING) for binding in _binding(one, problems)]
    bindings += [
        replace(binding, is_shipped=True) for one in kept if _is(one, BINDING) for binding in _binding(one, problems)
    ]
    mutations = load_mutations(documents, settings)
    problems.extend(mutations.problems)
    parameters = [_parameters(one) for one in sources if (one.key.group, one.kind) not in _KNOWN]
    bindings, parameters, tuned = _apply_settings(policies, bindings, parameters, settings)
    problems.extend((*tuned, *_unmatched(policies, bindings, _names(sources))))
    problems.extend(_unused_documents(documents, sources, mutations.policies))
    bound = [(policies[one.policy], one) for one in bindings if one.policy in policies]
    bound += [(policy, _with_action(one, settings.get(policy.rule), problems)) for policy, one in mutations.bound]
    digest = _digest(bound, parameters, settings)
    problems.sort(key=lambda problem: problem.sort_key)
    return Policies(PolicySet(bound=bound, parameters=parameters, digest=digest, server=server), tuple(problems))


def written_problems(document: Document, check: PolicyCheck = check_policies) -> list[Problem]:
    """Return what an API server refuses in a ValidatingAdmissionPolicy that a repository renders; none for others."""
    if not is_policy(document):
        return []
    policy, wrong = read_policy(document)
    return [*wrong, *(problem for found in check([policy]) for problem in found)]


def is_policy(document: Document) -> bool:
    """Return whether a document is a ValidatingAdmissionPolicy."""
    return _is(document, POLICY)


def _is(document: Document, kind: str) -> bool:
    return document.kind == kind and document.key.group == GROUP


def _names(documents: Sequence[Document]) -> set[str]:
    return {one.key.name for one in documents if _is(one, POLICY)}


def _rule_of(document: Document) -> str:
    """Return the rule of a shipped document: the name of its folder."""
    return document.source.path.split("/")[-2] if "/" in document.source.path else ""


def _policies(
    documents: Sequence[Document],
    settings: Mapping[str, RuleSetting],
    problems: list[Problem],
    check: PolicyCheck,
    *,
    trusted: int,
) -> dict[str, Policy]:
    """Read and check policies. Those from position `trusted` on are shipped: the tests check them."""
    found: dict[str, Policy] = {}
    for position, document in enumerate(documents):
        if not _is(document, POLICY):
            continue
        policy, wrong = read_policy(document)
        if policy.rule in found:
            first = found[policy.rule].document.source
            message = f"policy {policy.rule!r} is already defined at {first}"
            wrong.append(
                Problem(rule="policy.duplicate", place=document.source, message=message, hint="remove or rename one")
            )
        problems.extend(wrong)
        if not wrong:
            found[policy.rule] = replace(policy, is_shipped=position >= trusted)
    own = [policy for policy in found.values() if not policy.is_shipped]
    for policy, errors in zip(own, check(own), strict=True):
        problems.extend(errors)
        if errors:
            del found[policy.rule]
    return {rule: policy for rule, policy in found.items() if _is_enabled(policy, settings.get(rule))}


def _is_enabled(policy: Policy, setting: RuleSetting | None) -> bool:
    return setting.enabled if setting is not None else not (policy.is_shipped and policy.is_optional)


def _binding(document: Document, problems: list[Problem]) -> tuple[Binding, ...]:
    binding, wrong = read_binding(document)
    problems.extend(wrong)
    return () if wrong else (binding,)


def _parameters(document: Document) -> Parameters:
    key = document.key
    return Parameters(
        group=key.group,
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        labels=labels(document.data),
        body=document.data,
    )


def _unmatched(policies: Mapping[str, Policy], bindings: Sequence[Binding], known: set[str]) -> list[Problem]:
    """Return problems for policies without a binding and bindings without a policy, which have no effect."""
    found = [
        one.document.problem(
            "policy.unknown-policy",
            ("spec", "policyName"),
            f"policy {one.policy!r} not found",
            "add the policy, or remove the binding",
        )
        for one in bindings
        if one.policy not in known
    ]
    bound = {one.policy for one in bindings}
    found += [
        Problem(
            rule="policy.unbound",
            place=one.document.source,
            message=f"policy {one.rule!r} has no binding, so it has no effect",
            hint="add a ValidatingAdmissionPolicyBinding",
            severity=Severity.WARNING,
        )
        for one in policies.values()
        if one.rule not in bound
    ]
    return found


def _unused_documents(
    documents: Sequence[Document], sources: Sequence[Document], mutations: Sequence[Policy]
) -> list[Problem]:
    """Return problems for documents that are not policies, exceptions or parameters of a policy."""
    others = [one for one in documents if (one.key.group, one.kind) not in (*_KNOWN, _EXCEPTION)]
    if not others:
        return []
    policies = [*(read_policy(one)[0] for one in sources if _is(one, POLICY)), *mutations]
    asked = {(one.params.group, one.params.kind) for one in policies if one.params}
    return [
        Problem(
            rule="policy.idle",
            place=one.source,
            field="kind",
            message=f"no policy has parameters of kind {one.kind}, so this document is not used",
            hint="move it to a source folder if it should be rendered; rules are ValidatingAdmissionPolicies",
        )
        for one in others
        if (one.key.group, one.kind) not in asked
    ]


def _digest(
    bound: Sequence[tuple[Policy, Binding]], parameters: Sequence[Parameters], settings: Mapping[str, RuleSetting]
) -> str:
    """Return a digest of everything that verdicts depend on, whatever the order of the files."""
    pieces: list[Any] = [(policy.document.data, binding.document.data, binding.actions) for policy, binding in bound]
    pieces += [one.body for one in parameters]
    pieces += [(rule, one.enabled, one.action, dict(one.parameters)) for rule, one in settings.items()]
    written = sorted(json.dumps(piece, sort_keys=True, ensure_ascii=True) for piece in pieces)
    return hashlib.sha256("\n".join([f"engine {__version__}", *written]).encode()).hexdigest()


# --- settings ---------------------------------------------------------------------------------------------------------


def _apply_settings(
    policies: Mapping[str, Policy],
    bindings: Sequence[Binding],
    parameters: Sequence[Parameters],
    settings: Mapping[str, RuleSetting],
) -> tuple[list[Binding], list[Parameters], list[Problem]]:
    """Apply actions and parameters from `reconciler.yaml` to bindings and parameter objects."""
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


def _with_action(binding: Binding, setting: RuleSetting | None, problems: list[Problem]) -> Binding:
    if setting is None or not setting.action:
        return binding
    if setting.action not in _ACTIONS:
        message = f"unknown action {setting.action!r}"
        hint = f"allowed values: {', '.join(_ACTIONS)}"
        problems.append(_setting_problem(binding.policy, setting, "action", message, hint))
        return binding
    return replace(binding, actions=(setting.action,))


def _set_parameters(
    policy: Policy, binding: Binding, setting: RuleSetting, bodies: list[Parameters], problems: list[Problem]
) -> None:
    """Override `data` of the ConfigMap of the binding."""
    for index, one in enumerate(bodies):
        if policy.params is None or binding.ref is None or one.kind != policy.params.kind:
            continue
        if (one.name, one.namespace) != (binding.ref.name, binding.ref.namespace):
            continue
        data = dict(one.body.get("data") or {})
        for name, value in setting.parameters.items():
            if name in data:
                data[name] = _as_text(value)
                if policy.is_shipped and len(data[name]) > _MAX_PARAMETER:
                    data[name] = str((one.body.get("data") or {})[name])
                    message = f"the value is too long (limit {_MAX_PARAMETER:,} characters)"
                    problems.append(_setting_problem(policy.rule, setting, f"parameters.{name}", message, "shorten it"))
            else:
                known = ", ".join(sorted(data)) or "none"
                message = f"rule {policy.rule!r} has no parameter {name!r}"
                hint = f"known parameters: {known}"
                problems.append(_setting_problem(policy.rule, setting, f"parameters.{name}", message, hint))
        bodies[index] = replace(one, body={**one.body, "data": data})
        return
    message = f"rule {policy.rule!r} has no parameters"
    problems.append(_setting_problem(policy.rule, setting, "parameters", message, "remove them"))


def _as_text(value: Any) -> str:
    """Return a value as a string for a ConfigMap; lists are joined with commas."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(_as_text(item) for item in value) if isinstance(value, list | tuple) else str(value)


def _setting_problem(rule: str, setting: RuleSetting, below: str, message: str, hint: str) -> Problem:
    field = f"spec.rules.{rule}.{below}"
    return Problem(rule="policy.setting", place=setting.place, field=field, message=message, hint=hint)

"""MutatingAdmissionPolicies: which objects a server may change when it admits them, not what it makes of them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reconciler.kube.problems import Problem
from reconciler.kube.yaml import Document
from reconciler.policy.admission.checking import check_policy
from reconciler.policy.admission.policies import (
    GROUP,
    MUTATION,
    MUTATION_BINDING,
    Binding,
    Policy,
    read_mutation,
    read_mutation_binding,
)
from reconciler.repo.config import RuleSetting

HINT = "write the change into the source, so that the plan shows it"


class Mutations(NamedTuple):
    """Policies that may change objects: all of them, those that are bound and enabled, and what is wrong."""

    policies: tuple[Policy, ...]
    bound: tuple[tuple[Policy, Binding], ...]
    problems: tuple[Problem, ...]


def may_change(policy: Policy) -> str:
    """Return what is said of an object that a policy matches."""
    name = policy.document.key.name
    return f"MutatingAdmissionPolicy {name} may change this object when it is applied, which the plan does not show"


def is_mutation(document: Document) -> bool:
    """Return whether a document is a MutatingAdmissionPolicy or a binding of one."""
    return document.key.group == GROUP and document.kind in (MUTATION, MUTATION_BINDING)


def load_mutations(documents: Iterable[Document], settings: Mapping[str, RuleSetting]) -> Mutations:
    """Read the policies and bindings among documents. One with problems still counts: it may be in force."""
    found = [one for one in documents if is_mutation(one)]
    policies: dict[str, Policy] = {}
    bindings: list[Binding] = []
    problems: list[Problem] = []
    for document in found:
        if document.kind == MUTATION:
            policy, wrong = read_mutation(document)
            policies.setdefault(policy.rule, policy)
            problems += wrong or check_policy(policy)
        else:
            binding, wrong = read_mutation_binding(document)
            bindings.append(binding)
            problems += wrong
    enabled = {rule for rule in policies if rule not in settings or settings[rule].enabled}
    bound = ((policies[one.policy], one) for one in bindings if one.policy in enabled)
    return Mutations(tuple(policies.values()), tuple(bound), tuple(problems))


def rules_of(documents: Iterable[Document]) -> set[str]:
    """Return the rules of all policies among documents, by which settings and exceptions name them."""
    return {read_mutation(one)[0].rule for one in documents if is_mutation(one) and one.kind == MUTATION}

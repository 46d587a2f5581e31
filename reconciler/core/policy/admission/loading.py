"""Documents and settings in, a `PolicySet` and all problems of all policies out."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.core.config import RuleSetting
from reconciler.core.documents import Document
from reconciler.core.policy.admission.checking import check_policy
from reconciler.core.policy.admission.matching import labels
from reconciler.core.policy.admission.policies import PolicySet
from reconciler.core.policy.admission.policy import BINDING, GROUP, POLICY, Binding, Parameters, Policy
from reconciler.core.policy.admission.reading import read_binding, read_policy
from reconciler.core.policy.admission.tuning import tune
from reconciler.core.problems import Problem, Severity
from reconciler.version import __version__

_EXCEPTION = ("gpureconciler.io", "PolicyException")  # read elsewhere


class Policies(NamedTuple):
    """What `load` returns."""

    policies: PolicySet
    problems: tuple[Problem, ...]


def load(
    documents: Sequence[Document], settings: Mapping[str, RuleSetting], *, shipped: Sequence[Document] = ()
) -> Policies:
    """Read the repository's policies and the `shipped` ones, adapted by `settings` (by rule).

    A policy of the repository replaces a shipped one of the same name, together with its bindings and parameters.
    Documents of other kinds are what policies may take their parameters from. A policy with problems is left out:
    its problems are errors, and nothing is taken for a pass.
    """
    problems: list[Problem] = []
    own = _names(documents)
    kept = [one for one in shipped if _rule_of(one) not in own]
    sources = [*documents, *kept]
    policies = _policies(sources, settings, problems, trusted=len(documents))
    bindings = [binding for one in sources if _is(one, BINDING) for binding in _binding(one, problems)]
    parameters = [_parameters(one) for one in sources if not _is(one, POLICY) and not _is(one, BINDING)]
    bindings, parameters, tuned = tune(policies, bindings, parameters, settings)
    problems.extend((*tuned, *_unmatched(policies, bindings, _names(sources)), *_idle(documents, sources)))
    bound = [(policies[one.policy], one) for one in bindings if one.policy in policies]
    digest = _digest(bound, parameters, settings)
    found = tuple(sorted(problems, key=lambda problem: problem.sort_key))
    return Policies(PolicySet(bound=bound, parameters=parameters, digest=digest), found)


def _is(document: Document, kind: str) -> bool:
    return document.kind == kind and document.key.group == GROUP


def _names(documents: Sequence[Document]) -> set[str]:
    return {one.key.name for one in documents if _is(one, POLICY)}


def _rule_of(document: Document) -> str:
    """Name the rule that a shipped document belongs to: each rule is a folder."""
    return document.source.path.split("/")[-2] if "/" in document.source.path else ""


def _policies(
    documents: Sequence[Document], settings: Mapping[str, RuleSetting], problems: list[Problem], *, trusted: int
) -> dict[str, Policy]:
    """Read and check policies; from position `trusted` on they are shipped, and were checked by our own tests."""
    found: dict[str, Policy] = {}
    for position, document in enumerate(documents):
        if not _is(document, POLICY):
            continue
        policy, wrong = read_policy(document)
        if policy.rule in found:
            first = found[policy.rule].document.source
            message = f"policy {policy.rule!r} is written twice, first in {first}"
            wrong.append(Problem(rule="policy.duplicate", place=document.source, message=message))
        if position < trusted:
            wrong = wrong or check_policy(policy)
        problems.extend(wrong)
        if not wrong and settings.get(policy.rule, RuleSetting()).enabled:
            found[policy.rule] = policy
    return found


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
    """Policies nobody binds and bindings to policies nobody wrote: both would silently do nothing."""
    found = [
        Problem(
            rule="policy.unknown-policy",
            place=one.document.at(("spec", "policyName")),
            field="spec.policyName",
            message=f"there is no policy {one.policy!r}",
            hint="write the policy, or remove the binding",
        )
        for one in bindings
        if one.policy not in known
    ]
    bound = {one.policy for one in bindings}
    found += [
        Problem(
            rule="policy.unbound",
            place=one.document.source,
            message=f"policy {one.rule!r} has no binding, so it judges nothing",
            hint="add a ValidatingAdmissionPolicyBinding",
            severity=Severity.WARNING,
        )
        for one in policies.values()
        if one.rule not in bound
    ]
    return found


def _idle(documents: Sequence[Document], sources: Sequence[Document]) -> list[Problem]:
    """Documents beside the policies that are neither policy nor exception, nor of a kind that any policy asks for."""
    known = ((GROUP, POLICY), (GROUP, BINDING), _EXCEPTION)
    others = [one for one in documents if (one.key.group, one.kind) not in known]
    if not others:
        return []
    policies = [read_policy(one)[0] for one in sources if _is(one, POLICY)]
    asked = {(one.params.group, one.params.kind) for one in policies if one.params}
    return [
        Problem(
            rule="policy.idle",
            place=one.source,
            field="kind",
            message=f"no policy takes its parameters from a {one.kind}, so nothing reads this document",
            hint="move it among the sources if it is to be rendered; rules here are ValidatingAdmissionPolicies",
        )
        for one in others
        if (one.key.group, one.kind) not in asked
    ]


def _digest(
    bound: Sequence[tuple[Policy, Binding]], parameters: Sequence[Parameters], settings: Mapping[str, RuleSetting]
) -> str:
    """Everything that a verdict may depend on, in an order of its own: whatever the files' order was."""
    pieces: list[Any] = [(policy.document.data, binding.document.data, binding.actions) for policy, binding in bound]
    pieces += [one.body for one in parameters]
    pieces += [(rule, one.enabled, one.action, dict(one.parameters)) for rule, one in settings.items()]
    written = sorted(json.dumps(piece, sort_keys=True, ensure_ascii=True) for piece in pieces)
    return hashlib.sha256("\n".join([f"engine {__version__}", *written]).encode()).hexdigest()

"""Evaluate one policy with one binding and one parameter object: `BoundPolicy`."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from reconciler.core.cel import Activation, CelError, Program
from reconciler.core.policy.admission.mutating import HINT, may_change
from reconciler.core.policy.admission.policies import Binding, Parameters, Policy, Validation
from reconciler.core.policy.admission.programs import PolicyPrograms, Programs
from reconciler.core.policy.verdict import Result

_MAX_MESSAGE_BYTES = 5 * 1024
"""An API server ignores a longer result of a messageExpression (k8s.io/apiserver/pkg/apis/cel)."""
_MAX_AUDIT_BYTES = 10 * 1024
"""An API server cuts off the rest of a longer audit annotation."""


_BUDGET, _CONDITIONS_BUDGET = 10_000_000, 2_500_000
"""The most steps of the validations of a policy, of its annotations, and of its match conditions."""
_OUT_OF_BUDGET = CelError("the expressions of the policy take too many steps together")


class PolicyOutcome(NamedTuple):
    """What one expression of a policy reports; `evaluated` is False if it could not be evaluated."""

    result: Result
    message: str
    hint: str = ""
    evaluated: bool = True


class BoundPolicy:
    """A policy with one binding and one parameter object; `params` is None if the policy gets null."""

    def __init__(
        self, *, number: int, policy: Policy, binding: Binding, params: Parameters | None, programs: Programs
    ) -> None:
        self.number = number
        self.policy = policy
        self.binding = binding
        self.params = params
        self._all = programs

    @cached_property
    def _programs(self) -> PolicyPrograms:
        return self._all.of(self.policy)

    def outcomes(self, values: Activation) -> list[PolicyOutcome]:
        """Evaluate match conditions, validations and audit annotations: an outcome for each that does not pass."""
        values.bind(self.number, self.params.body if self.params else None)
        applies = self._applies(values)
        if applies is False:
            return []
        if self.policy.mutates:
            return [PolicyOutcome(self._denial, may_change(self.policy), HINT, evaluated=False)]
        if applies is not True:
            return [applies]
        found = self._validations(values)
        return [*found, *self._audits(values)] if self.policy.annotations else found

    def _validations(self, activation: Activation) -> list[PolicyOutcome]:
        """Evaluate validations. Where they take too many steps together, that is all that is said."""
        activation.spent = 0
        found = []
        parts = zip(self.policy.validations, self._programs.validations, self._programs.messages, strict=True)
        for validation, program, message in parts:
            try:
                if _evaluate(program, activation) is not True:
                    found.append(PolicyOutcome(self._denial, _message(validation, message, activation)))
            except CelError as error:
                found.append(self._failure(error, validation.expression))
            if activation.spent > _BUDGET:
                return [self._failure(_OUT_OF_BUDGET, validation.expression)]
        return found

    @property
    def _denial(self) -> Result:
        return next(result for result in Result if result.value in (*self.binding.actions, "audit"))

    def _applies(self, activation: Activation) -> bool | PolicyOutcome:
        """Whether all match conditions are true. A false one decides even if another one fails."""
        failure: PolicyOutcome | None = None
        for condition, program in zip(self.policy.conditions, self._programs.conditions, strict=True):
            try:
                if _evaluate(program, activation, shared=True) is not True:
                    return False
            except CelError as error:
                failure = failure or self._failure(error, condition.text)
            if activation.spent > _CONDITIONS_BUDGET:
                return self._failure(_OUT_OF_BUDGET, condition.text)
        return failure or True

    def _audits(self, activation: Activation) -> Iterator[PolicyOutcome]:
        activation.spent = 0
        for annotation, program in zip(self.policy.annotations, self._programs.annotations, strict=True):
            if activation.spent > _BUDGET:
                yield self._failure(_OUT_OF_BUDGET, annotation.text)
                return
            try:
                value = _evaluate(program, activation)
            except CelError as error:
                yield self._failure(error, annotation.text)
                continue
            if isinstance(value, str) and value.strip():
                text = value.strip().encode()[:_MAX_AUDIT_BYTES].decode(errors="ignore")
                yield PolicyOutcome(Result.AUDIT, f"{annotation.name}: {text}")

    def _failure(self, error: CelError, expression: str) -> PolicyOutcome:
        shown = " ".join(expression.split())
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."  # noqa: PLR2004 - one line of output
        hint = "check optional fields with has() or .?field before reading them"
        if error.unanswerable == "namespaceObject":
            hint = "add the Namespace object to the repository"
        elif error.unanswerable == "request.userInfo":
            hint = "name the user who applies the objects: spec.clusters[].appliedBy in reconciler.yaml"
        elif error.unanswerable.startswith("authorizer"):
            hint = "only the API server knows permissions: bind this rule there, or compare request.userInfo instead"
        elif error.unanswerable:
            hint = "only the API server can evaluate this rule: bind it there, or do not use that value"
        # With `failurePolicy: Ignore` the API server admits the object, so the failure does not block a commit. A value
        # that only the server knows might still deny it.
        result = Result.WARN if self.policy.ignores_failure and not error.unanswerable else Result.ERROR
        return PolicyOutcome(result, f"not evaluated: {error} in `{shown}`", hint, evaluated=False)


def _evaluate(program: Program | CelError, activation: Activation, *, shared: bool = False) -> Any:
    """Return a value; of a `shared` expression, which policies have in common, it is remembered."""
    if isinstance(program, CelError):
        raise program
    return program.value(activation) if shared else program.evaluate(activation)


def _message(validation: Validation, program: Program | None, activation: Activation) -> str:
    """Return the result of the messageExpression, or like the API server what stands in for it."""
    text = ""
    if program is not None:
        try:
            value = program.evaluate(activation)
        except CelError:
            value = ""
        text = value.strip() if isinstance(value, str) else ""
        if "\n" in text or len(text.encode()) > _MAX_MESSAGE_BYTES:
            text = ""
    return text or validation.message.strip() or f"failed expression: {' '.join(validation.expression.split())}"

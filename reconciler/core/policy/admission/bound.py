"""Evaluate one policy with one binding and one parameter object: `BoundPolicy`."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from reconciler.core.policy.admission.policies import Binding, Parameters, Policy
from reconciler.core.policy.cel import CelProgram, Clause, EvaluationError, ProgramCache, activation
from reconciler.core.policy.verdict import Result

_MAX_MESSAGE_BYTES = 5 * 1024
"""An API server ignores a longer result of a messageExpression (k8s.io/apiserver/pkg/apis/cel)."""
_MAX_AUDIT_BYTES = 10 * 1024
"""An API server cuts off the rest of a longer audit annotation."""


class PolicyOutcome(NamedTuple):
    """What one expression of a policy reports; `evaluated` is False if it could not be evaluated."""

    result: Result
    message: str
    hint: str = ""
    evaluated: bool = True


class BoundPolicy:
    """A policy with one binding and one parameter object; `params` is None if the policy gets null."""

    def __init__(
        self, *, number: int, policy: Policy, binding: Binding, params: Parameters | None, programs: ProgramCache
    ) -> None:
        self.number = number
        self._compose = programs.compose
        self.policy = policy
        self.binding = binding
        self.params = params
        self.variables = tuple((one.name, one.text) for one in policy.variables)
        self.renamed: tuple[tuple[str, str], ...] = (("params", f"params_{number}"),) if policy.params else ()

    @property
    def combinable(self) -> bool:
        """Whether `passes` is the whole answer if it is true."""
        return not self.policy.annotations

    @cached_property
    def passes(self) -> Clause:
        """One expression that is true only if the policy reports nothing, not even an error."""
        conditions = " && ".join(f"({one.text}\n)" for one in self.policy.conditions)
        validations = " && ".join(f"({one.expression}\n)" for one in self.policy.validations) or "true"
        text = f"({conditions}) ? ({validations}) : true" if conditions else validations
        return Clause(expression=text, variables=self.variables, renamed=self.renamed)

    @cached_property
    def _programs(self) -> dict[str, CelProgram | str]:
        return {}

    def _evaluate(self, expression: str, variables: Any) -> Any:
        program = self._programs.get(expression)
        if program is None:
            try:
                program = self._compose([Clause(expression=expression, variables=self.variables, renamed=self.renamed)])
            except RuntimeError as error:
                program = " ".join(str(error).split())
            self._programs[expression] = program
        if isinstance(program, str):
            raise EvaluationError(f"the CEL engine rejects the expression: {program}")
        return program.evaluate(variables)

    def outcomes(self, values: Mapping[str, Any]) -> Iterator[PolicyOutcome]:
        """Evaluate match conditions, validations and audit annotations separately.

        Yields an outcome for each that does not pass.
        """
        variables = activation(values)
        applies = self._applies(variables)
        if applies is False:
            return
        if applies is not True:
            yield applies
            return
        for validation in self.policy.validations:
            try:
                if self._evaluate(validation.expression, variables) is True:
                    continue
                message = self._message(validation.message_expression, variables) or validation.message
                yield PolicyOutcome(
                    self._denial, message or f"failed expression: {' '.join(validation.expression.split())}"
                )
            except EvaluationError as error:
                yield self._failure(error, validation.expression)
        yield from self._audits(variables)

    @property
    def _denial(self) -> Result:
        return next(result for result in Result if result.value in (*self.binding.actions, "audit"))

    def _applies(self, variables: Any) -> bool | PolicyOutcome:
        """Whether all match conditions are true. A false one decides even if another one fails."""
        failure: PolicyOutcome | None = None
        for condition in self.policy.conditions:
            try:
                if self._evaluate(condition.text, variables) is not True:
                    return False
            except EvaluationError as error:
                failure = failure or self._failure(error, condition.text)
        return failure or True

    def _message(self, expression: str, variables: Any) -> str:
        if not expression:
            return ""
        try:
            value = self._evaluate(expression, variables)
        except EvaluationError:
            return ""  # like the API server, use the policy's `message`
        text = value.strip() if isinstance(value, str) else ""
        return "" if "\n" in text or len(text.encode()) > _MAX_MESSAGE_BYTES else text

    def _audits(self, variables: Any) -> Iterator[PolicyOutcome]:
        for annotation in self.policy.annotations:
            try:
                value = self._evaluate(annotation.text, variables)
            except EvaluationError as error:
                yield self._failure(error, annotation.text)
                continue
            if isinstance(value, str) and value.strip():
                text = value.strip().encode()[:_MAX_AUDIT_BYTES].decode(errors="ignore")
                yield PolicyOutcome(Result.AUDIT, f"{annotation.name}: {text}")

    def _failure(self, error: EvaluationError, expression: str) -> PolicyOutcome:
        shown = " ".join(expression.split())
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."  # noqa: PLR2004 - one line of output
        hint = "check optional fields with has() or .?field before reading them"
        if error.unanswerable == "namespaceObject":
            hint = "add the Namespace object to the repository"
        elif error.unanswerable:
            hint = "only the API server can evaluate this rule: bind it there, or do not use that value"
        # With `failurePolicy: Ignore` the API server admits the object, so the failure does not block a commit. A value
        # that only the server knows might still deny it.
        result = Result.WARN if self.policy.ignores_failure and not error.unanswerable else Result.ERROR
        return PolicyOutcome(result, f"not evaluated: {error} in `{shown}`", hint, evaluated=False)

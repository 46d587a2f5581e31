"""One policy under one binding with one parameter object: what it says of a request."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from reconciler.core.policy.admission.policy import Binding, Parameters, Policy
from reconciler.core.policy.cel import EvaluationError, Part, Program, Programs, runtime

LONGEST_MESSAGE = 5 * 1024
"""A longer result of a messageExpression is dropped (k8s.io/apiserver/pkg/apis/cel)."""


class Finding(Struct, frozen=True, kw_only=True):
    """A denial, an audit annotation, or, with `error`, the absence of an answer.

    `live` says that an API server might have one: what is missing is known to it alone.
    """

    message: str
    error: bool = False
    live: bool = False
    audit: bool = False
    hint: str = ""


class Unit:
    """A policy, a binding and the parameters they meet with; `params` is None where the policy gets a null."""

    def __init__(
        self, *, number: int, policy: Policy, binding: Binding, params: Parameters | None, programs: Programs
    ) -> None:
        self.number = number
        self._compose = programs.compose
        self.policy = policy
        self.binding = binding
        self.params = params
        self.variables = tuple((one.name, one.text) for one in policy.variables)
        self.renamed: Mapping[str, str] = {"params": f"params_{number}"} if policy.params else {}

    @property
    def combinable(self) -> bool:
        """Whether `passes` tells the whole answer when it is true."""
        return not self.policy.annotations

    @cached_property
    def passes(self) -> Part:
        """One expression that is true only where the policy has nothing to say, not even an error."""
        true = "true"
        conditions = " && ".join(f"({one.text}\n)" for one in self.policy.conditions)
        validations = " && ".join(f"({one.expression}\n)" for one in self.policy.validations) or true
        text = f"({conditions}) ? ({validations}) : true" if conditions else validations
        return Part(expression=text, variables=self.variables, renamed=self.renamed)

    @cached_property
    def _programs(self) -> dict[str, Program | str]:
        return {}

    def _evaluate(self, expression: str, activation: Any) -> Any:
        program = self._programs.get(expression)
        if program is None:
            try:
                program = self._compose([Part(expression=expression, variables=self.variables, renamed=self.renamed)])
            except RuntimeError as error:
                program = " ".join(str(error).split())
            self._programs[expression] = program
        if isinstance(program, str):
            raise EvaluationError(f"the engine refuses the expression: {program}")
        return program.evaluate(activation)

    def findings(self, values: Mapping[str, Any]) -> Iterator[Finding]:
        """Evaluate conditions, then validations, then audit annotations, each on its own."""
        activation = runtime.activation(values)
        applies = self._applies(activation)
        if applies is False:
            return
        if isinstance(applies, Finding):
            yield applies
            return
        for validation in self.policy.validations:
            try:
                if self._evaluate(validation.expression, activation) is True:
                    continue
                yield Finding(message=self._message(validation.message_expression, activation) or validation.message
                              or f"failed expression: {' '.join(validation.expression.split())}")  # fmt: skip
            except EvaluationError as error:
                yield self._failure(error, validation.expression)
        yield from self._audits(activation)

    def _applies(self, activation: Any) -> bool | Finding:
        """All conditions true; one that is false decides even where another fails."""
        failure: Finding | None = None
        for condition in self.policy.conditions:
            try:
                if self._evaluate(condition.text, activation) is not True:
                    return False
            except EvaluationError as error:
                failure = failure or self._failure(error, condition.text)
        return failure or True

    def _message(self, expression: str, activation: Any) -> str:
        if not expression:
            return ""
        try:
            found = self._evaluate(expression, activation)
        except EvaluationError:
            return ""  # as the API server: the policy's `message` stands in
        text = found.strip() if isinstance(found, str) else ""
        return "" if "\n" in text or len(text.encode()) > LONGEST_MESSAGE else text

    def _audits(self, activation: Any) -> Iterator[Finding]:
        for annotation in self.policy.annotations:
            try:
                found = self._evaluate(annotation.text, activation)
            except EvaluationError as error:
                yield self._failure(error, annotation.text)
                continue
            if isinstance(found, str) and found.strip():
                yield Finding(message=f"{annotation.name}: {found.strip()}", audit=True)

    def _failure(self, error: EvaluationError, expression: str) -> Finding:
        shown = " ".join(expression.split())
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."  # noqa: PLR2004 - a line of a report
        hint = "test with has() or .?field before reading a field that may be absent"
        if error.unanswerable == "namespaceObject":
            hint = "add the Namespace object to the repository"
        elif error.unanswerable:
            hint = "only the API server can decide this rule; bind it there, or write it without that value"
        return Finding(
            message=f"not evaluated: {error} in `{shown}`", error=True, live=bool(error.unanswerable), hint=hint
        )

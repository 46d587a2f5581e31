"""`Program`: a checked expression that can be evaluated, and `Activation`: what it is evaluated on."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.kube.cel.values import MISSING, CelError

_PARAMS = "params"


class Activation:
    """The variables of one or several programs. Variables of policies are evaluated once, on first use.

    `unknown` says why a variable without a value has none. `spent` are the steps of what was evaluated.
    """

    __slots__ = ("memo", "number", "params", "spent", "unknown", "values")

    def __init__(self, values: Mapping[str, Any], unknown: Mapping[str, str] | None = None) -> None:
        self.values = values
        self.unknown = unknown or {}
        self.memo: dict[tuple[int, int], Any] = {}
        self.params: Any = None
        self.number = 0
        self.spent = 0

    def bind(self, number: int, params: Any) -> None:
        """Set the parameters of what is evaluated next; equal numbers stand for equal parameters."""
        self.number, self.params, self.spent = number, params, 0

    def missing(self, name: str) -> CelError:
        """Return the error of a variable that has no value."""
        message = self.unknown.get(name, f"only a live API server knows `{name}`")
        return CelError(message, unanswerable=name)


Run = Callable[[list[Any]], Any]
"""Evaluates an expression: the first item is the activation, the second are the steps of its macros."""


class CostExceededError(Exception):
    """An expression takes too many steps. Unlike other errors, this one ends the expression wherever it occurs."""


class Program:
    """An expression that can be evaluated. `reads` are the variables that it reads, directly or not.

    constant: its value, if it is the same always; otherwise MISSING.
    """

    __slots__ = ("_depends", "_run", "constant", "reads")

    def __init__(self, run: Run, reads: frozenset[str], constant: Any = MISSING) -> None:
        self._run, self.reads, self.constant = run, reads, constant
        self._depends = _PARAMS in reads

    def use(self, run: Run) -> None:
        """Evaluate the expression by another function from now on."""
        self._run = run

    def evaluate(self, activation: Activation) -> Any:
        """Return the value. Raises CelError."""
        env: list[Any] = [activation, 0]
        try:
            return self._run(env)
        except CostExceededError:
            raise CelError("operation cancelled: actual cost limit exceeded") from None
        except RecursionError:
            raise CelError("the values are nested too deeply") from None
        finally:
            activation.spent += env[1]

    def value(self, activation: Activation) -> Any:
        """Return the value and remember it. Raises CelError."""
        key = (id(self), activation.number if self._depends else 0)
        memo = activation.memo
        found = memo.get(key, memo)
        if found is memo:
            try:
                found = self.evaluate(activation)
            except CelError as error:  # an error is remembered, too
                found = error
            memo[key] = found
        if isinstance(found, CelError):
            raise found
        return found

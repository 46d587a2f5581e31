"""The programs of policies, built on first use. Equal variables of different policies are one program."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import ClassVar

from msgspec import Struct

from reconciler.kube.cel import CelError, Checked, CompileError, Declarations, Program, build, check, stored
from reconciler.policy.admission.expressions import expressions
from reconciler.policy.admission.policies import Policy


class PolicyPrograms(Struct, frozen=True, kw_only=True):
    """The programs of one policy. An expression that does not compile has the error instead."""

    conditions: tuple[Program | CelError, ...]
    validations: tuple[Program | CelError, ...]
    messages: tuple[Program | None, ...]
    annotations: tuple[Program | CelError, ...]


_MAX_KEPT = 256
_Built = tuple[PolicyPrograms, Mapping[str, bytes]]


class Programs:
    """Builds the programs of each policy once in a process, whatever the number of its revisions and copies.

    `made` are the newly checked expressions, encoded for a later run.
    """

    _built: ClassVar[dict[tuple[object, ...], _Built]] = {}
    _known: ClassVar[dict[tuple[object, ...], Program]] = {}
    _checked: ClassVar[dict[str, Checked | tuple[CompileError, ...]]] = {}

    def __init__(self) -> None:
        self.made: dict[str, bytes] = {}
        self._stored: Mapping[str, bytes] = {}

    def recall(self, known: Mapping[str, bytes]) -> None:
        """Use the `made` of an earlier run of the same engine."""
        self._stored = known

    def add(self, made: Mapping[str, bytes]) -> None:
        """Use what another process has made."""
        self.made.update(made)
        self._stored = {**self._stored, **made}

    def of(self, policy: Policy) -> PolicyPrograms:
        """Return the programs of a policy."""
        key = (policy.conditions, policy.variables, policy.validations, policy.annotations, bool(policy.params))
        found = self._built.get(key)
        if found is None:
            if len(self._built) >= _MAX_KEPT:
                self._built.clear()
                self._known.clear()
                self._checked.clear()
            found = self._built[key] = self._build(policy)
        programs, encoded = found
        self.made.update((name, raw) for name, raw in encoded.items() if self._stored.get(name) != raw)
        return programs

    def _build(self, policy: Policy) -> _Built:
        encoded: dict[str, bytes] = {}
        variables: dict[str, Program] = {}
        parts: dict[str, list[Program | CelError]] = {"condition": [], "validation": [], "annotation": []}
        messages: dict[int, Program] = {}
        for one in expressions(policy, partial(self._check, encoded)):
            program = self._program(one.text, one.result, variables)
            if one.part == "variable":
                if isinstance(program, Program):
                    variables = {**variables, one.name: program}
            elif one.part == "message":
                if isinstance(program, Program):
                    messages[int(one.path[1])] = program
            else:
                parts[one.part].append(program)
        programs = PolicyPrograms(
            conditions=tuple(parts["condition"]),
            validations=tuple(parts["validation"]),
            messages=tuple(messages.get(index) for index in range(len(policy.validations))),
            annotations=tuple(parts["annotation"]),
        )
        return programs, encoded

    def _check(
        self, encoded: dict[str, bytes], expression: str, declared: Declarations
    ) -> Checked | tuple[CompileError, ...]:
        key = sha256(repr((expression, declared)).encode("utf-8", "surrogatepass")).hexdigest()
        raw = self._stored.get(key)
        if raw is not None:
            with suppress(ValueError, LookupError):  # it is checked again
                checked = stored.decode(raw)
                encoded[key] = raw
                return checked
        result = self._checked.get(key)
        if result is None:  # shipped rules share variables
            result = self._checked[key] = check(expression, declared)
        if isinstance(result, Checked):
            encoded[key] = stored.encode(result)
        return result

    def _program(self, text: str, result: object, variables: Mapping[str, Program]) -> Program | CelError:
        if not isinstance(result, Checked):
            return CelError("the expression does not compile")
        # An expression that does not have a name does not use the variable, however it is written.
        key = (text, *((name, variable) for name, variable in sorted(variables.items()) if name in text))
        program = self._known.get(key)
        if program is None:
            program = self._known[key] = build(result, variables)
        return program

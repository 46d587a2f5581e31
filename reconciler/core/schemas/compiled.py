"""`CompiledKind`: the schema of one kind with everything that is made of it."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.core.schemas.schema import KeyedLists, RuleAllowance, Schema, has_rules, keyed_lists
from reconciler.core.schemas.stored import Defaults

if TYPE_CHECKING:
    from reconciler.core.schemas.rules import KindRules


class KindName(Struct, frozen=True, kw_only=True):
    """A kind at a version."""

    group: str
    version: str
    kind: str


class Unusable(Struct, frozen=True):
    """Why the engine refuses a schema, which happens only for a definition from the repository."""

    reason: str


class CompiledKind:
    """The schema of one kind, compiled on first use. `allowance` is what the rules of a repository share."""

    def __init__(
        self, name: KindName, schema: Schema, *, namespaced: bool | None, allowance: RuleAllowance | None = None
    ) -> None:
        self.name, self.schema, self.namespaced = name, schema, namespaced
        self._allowance = allowance

    @cached_property
    def engine(self) -> Any:
        """What validates objects; Unusable if the schema is wrong."""
        import jsonschema_rs  # noqa: PLC0415 - 24 ms that a run over cached results saves

        options = jsonschema_rs.RegexOptions()  # linear in time: a pattern may come from the repository
        try:
            return jsonschema_rs.Draft202012Validator(self.schema, pattern_options=options, validate_formats=True)
        except ValueError as error:
            return Unusable(str(error).partition("\n")[0])

    @cached_property
    def rules(self) -> "KindRules | None":
        """The rules in CEL; None without any."""
        if not has_rules(self.schema):
            return None
        from reconciler.core.schemas.rules import KindRules  # noqa: PLC0415 - many runs need no engine for them

        return KindRules(self.schema, allowance=self._allowance)

    @cached_property
    def lists(self) -> KeyedLists:
        """Its lists with keys."""
        return keyed_lists(self.schema)

    @cached_property
    def defaults(self) -> Defaults:
        """The defaults that a server adds to objects."""
        return Defaults(self.schema, self.schema)

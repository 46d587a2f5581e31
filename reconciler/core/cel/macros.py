"""The macros of CEL as Kubernetes enables them: calls that become folds."""

from reconciler.core.cel.lexer import CelSyntaxError
from reconciler.core.cel.syntax import Call, Fold, Identifier, Node, Select

_FOLDS = {
    ("all", 2): 1,
    ("exists", 2): 1,
    ("exists_one", 2): 1,
    ("map", 2): 1,
    ("map", 3): 1,
    ("filter", 2): 1,
    ("sortBy", 2): 1,
    ("optMap", 2): 1,
    ("optFlatMap", 2): 1,
    ("all", 3): 2,
    ("exists", 3): 2,
    ("exists_one", 3): 2,
    ("existsOne", 3): 2,
    ("transformList", 3): 2,
    ("transformList", 4): 2,
    ("transformMap", 3): 2,
    ("transformMap", 4): 2,
    ("transformMapEntry", 3): 2,
    ("transformMapEntry", 4): 2,
}
"""Names and numbers of arguments of the member macros, with the number of variables that they declare."""
_ACCUMULATOR = "__result__"
_WITHOUT_ACCUMULATOR = ("optMap", "optFlatMap")


def expand(call: Call) -> Node:
    """Return the fold, or the test, that a call stands for, or the call itself. Raises CelSyntaxError."""
    if call.target is None:
        return _has(call) if (call.function, len(call.arguments)) == ("has", 1) else call
    names = _FOLDS.get((call.function, len(call.arguments)))
    if names is None:
        return call
    macro = "exists_one" if call.function == "existsOne" else call.function
    variables = tuple(_variable(node, macro) for node in call.arguments[:names])
    if len(set(variables)) < names:
        raise CelSyntaxError("duplicate variable name", call.arguments[1].at)
    return Fold(call.at, macro, call.target, variables, call.arguments[names:])


def _has(call: Call) -> Node:
    (tested,) = call.arguments
    if not isinstance(tested, Select) or tested.is_optional:
        raise CelSyntaxError("invalid argument to has() macro", call.at)
    return Select(call.at, tested.operand, tested.field, is_test=True)


def _variable(node: Node, macro: str) -> str:
    """Return the name of a variable; nothing can read one with a leading dot."""
    if not isinstance(node, Identifier):
        raise CelSyntaxError("argument must be a simple name", node.at)
    if node.name == _ACCUMULATOR and macro not in _WITHOUT_ACCUMULATOR:
        raise CelSyntaxError("iteration variable overwrites accumulator variable", node.at)
    return node.name

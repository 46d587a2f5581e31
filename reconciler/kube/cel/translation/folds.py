"""Macros: loops that evaluate a body for each item of a list, or each key of a map."""

from reconciler.kube.cel.library.regexes import first_within
from reconciler.kube.cel.syntax import Call, Fold, Identifier, ListLiteral, Node, walk
from reconciler.kube.cel.translation.code import TranslatedValue, Translator
from reconciler.kube.cel.translation.operators import decide, unwrapped

_MAX_STEPS = 1_000_000
"""The most steps of one expression: of an item of a macro one, and one for each node of its bodies."""
_SMALL = 40
"""Nodes of the body of a loop that is no function of its own."""


def translate(translation: Translator, node: Fold) -> TranslatedValue:
    """Translate a macro."""
    return _MacroTranslation(translation, node).result()


class _MacroTranslation:
    """One macro on its way to Python."""

    def __init__(self, translation: Translator, node: Fold) -> None:
        self._translation, self._node = translation, node
        self._code = translation.code
        self._variables = [self._code.new("v") for _ in node.names]
        self._item_kind = ""

    def result(self) -> TranslatedValue:
        """Add the lines of the macro and return its value."""
        match self._node:
            case Fold(macro="optMap" | "optFlatMap"):
                return self._optional()
            case Fold(
                macro="all" | "exists" | "filter" | "map", target=ListLiteral(items=(item,), optional=()), names=(_,)
            ):
                return self._of_one(item)
            case Fold(
                macro="exists",
                names=(name,),
                bodies=(Call(function="contains", target=Identifier(name=text), arguments=(Identifier(name=word),)),),
            ) if word == name != text and self._is_text(text):
                return self._contains_any(text)
            case Fold(macro="all" | "exists" as macro):
                return self._quantifier(self._visited(), decisive=macro == "exists")
        target = self._visited()
        self._charge(f" * len({target.text})")
        return self._sorted(target) if self._node.macro == "sortBy" else self._collected(target)

    def _charge(self, times: str) -> None:
        """Count the steps of the macro: for each item one, and one for each node of the bodies."""
        steps = 1 + sum(1 for body in self._node.bodies for _ in walk(body))
        self._code.line(f"env[1] += {steps}{times}", can_fail=False)
        self._code.line(f"if env[1] > {_MAX_STEPS}: raise CostExceededError", can_fail=False)

    def _body(self, node: Node, *, is_branch: bool = True) -> TranslatedValue:
        """Translate a body, which can read the variables of the macro."""
        outer = self._translation.scope
        variables = {
            name: TranslatedValue(variable, self._item_kind)
            for name, variable in zip(self._node.names, self._variables, strict=True)
        }
        self._translation.scope = {**outer, **variables}
        found = self._translation.branch(node, _SMALL) if is_branch else self._translation.operand(node)
        self._translation.scope = outer
        return found

    def _of_one(self, item: Node) -> TranslatedValue:
        """Translate a macro about a list of one item, by which policies give a value a name."""
        code, macro, bodies = self._code, self._node.macro, self._node.bodies
        value = self._translation.operand(item)
        self._charge("")
        self._item_kind = value.kind
        code.line(f"{self._variables[0]} = {value.value}", can_fail=False)
        chosen = None
        if macro != "map" or len(bodies) > 1:
            chosen = self._body(bodies[0], is_branch=False)
            if chosen.kind != "bool":
                code.line(f"if {chosen.value} is not True and {chosen.value} is not False: raise no_overload()")
        if chosen is None:
            return code.assigned(f"[{self._body(bodies[-1], is_branch=False).value}]", "list", can_fail=False)
        if macro in ("all", "exists"):
            return TranslatedValue(chosen.value, "bool")
        result = code.assigned("[]", "list", can_fail=False)
        with code.block(f"if {chosen.value}:"):
            kept = self._variables[0] if macro == "filter" else self._body(bodies[-1]).value
            code.line(f"{result.text}.append({kept})", can_fail=False)
        return result

    def _visited(self) -> TranslatedValue:
        """Return the list or the map that is visited, as a variable."""
        target = self._translation.operand(self._node.target)
        if target.is_constant and type(target.constant) is list and {*map(type, target.constant)} == {str}:
            self._item_kind = "string"
        if target.is_optional:
            target = self._code.assigned(target.value, can_fail=False)
        if target.kind not in ("list", "map"):
            self._code.line(f"if type({target.text}) is not list: check_items({target.text})")
        return target

    def _is_text(self, name: str) -> bool:
        known = self._translation.scope.get(name)
        return known is not None and known.kind == "string"

    def _contains_any(self, name: str) -> TranslatedValue:
        """Translate `words.exists(w, text.contains(w))` of a text that is a variable of a macro."""
        code, target = self._code, self._visited()
        if self._item_kind != "string":
            return self._quantifier(target, decisive=True)
        text, words = self._translation.scope[name].text, tuple(target.constant)
        first = code.assigned(f"{code.name(first_within, 'call')}({text}, {words!r})", "int", can_fail=False)
        self._charge(f" * min({first.text} + 1, {len(words)})")
        return code.assigned(f"{first.text} < {len(words)}", "bool", can_fail=False)

    def _each(self, target: TranslatedValue) -> str:
        if len(self._variables) == 1:
            return f"for {self._variables[0]} in {target.text}:"
        return f"for {', '.join(self._variables)} in pairs({target.text}):"

    def _quantifier(self, target: TranslatedValue, *, decisive: bool) -> TranslatedValue:
        """Translate `all` and `exists`: an item that decides outweighs errors of others."""
        code = self._code
        visited, failure = code.assigned("0", can_fail=False), code.assigned("None", can_fail=False)
        result = code.assigned(repr(decisive), "bool", can_fail=False)
        with code.block(self._each(target)):
            code.line(f"{visited.text} += 1", can_fail=False)
            fails = code.attempt(failure, lambda: self._decide(failure, decisive=decisive))
        with code.block("else:"):
            code.line(f"{result.text} = {not decisive}", can_fail=False)
        self._charge(f" * {visited.text}")
        if fails:
            code.line(f"if {failure.text} is not None and {result.text} is {not decisive}: raise {failure.text}")
        return result

    def _decide(self, failure: TranslatedValue, *, decisive: bool) -> None:
        decide(self._code, self._body(self._node.bodies[0]), failure, decisive=decisive)

    def _collected(self, target: TranslatedValue) -> TranslatedValue:
        """Translate the macros that make a list or a map of all items, or of those for which a body is true."""
        macro, bodies, code = self._node.macro, self._node.bodies, self._code
        kind = "map" if macro in ("transformMap", "transformMapEntry") else "list"
        result = code.assigned("{}" if kind == "map" else "[]", kind, can_fail=False)
        is_filter = macro in ("exists_one", "filter")
        with code.block(self._each(target)):
            if is_filter or len(bodies) > 1:
                chosen = self._body(bodies[0])
                code.line(f"if {chosen.value} is False: continue", can_fail=False)
                if chosen.kind != "bool":
                    code.line(f"if {chosen.value} is not True: raise no_overload()")
            value = self._variables[0] if is_filter else self._body(bodies[-1]).value
            if macro == "transformMap":
                code.line(f"{result.text}[{self._variables[0]}] = {value}", can_fail=False)
            elif macro == "transformMapEntry":
                code.line(f"merge({result.text}, {value})")
            else:
                code.line(f"{result.text}.append({value})", can_fail=False)
        return code.assigned(f"len({result.text}) == 1", "bool", can_fail=False) if macro == "exists_one" else result

    def _sorted(self, target: TranslatedValue) -> TranslatedValue:
        code = self._code
        code.line(f"if kind_of({target.text}) != 'list': raise no_overload('sortBy')")
        keys = code.assigned("[]", "list", can_fail=False)
        with code.block(self._each(target)):
            code.line(f"{keys.text}.append({self._body(self._node.bodies[0]).value})")
        return code.assigned(f"sort_by(list({target.text}), {keys.text})", "list")

    def _optional(self) -> TranslatedValue:
        """Translate `optMap` and `optFlatMap`."""
        code = self._code
        target = unwrapped(code, self._translation.operand(self._node.target), "hasValue")
        flattens = self._node.macro == "optFlatMap"
        result = code.assigned("NONE" if flattens else "MISSING", is_optional=not flattens, can_fail=False)
        with code.block(f"if {target.text} is not MISSING:"):
            code.line(f"{self._variables[0]} = {target.text}", can_fail=False)
            code.line(f"{result.text} = {self._body(self._node.bodies[0]).value}", can_fail=False)
        return result

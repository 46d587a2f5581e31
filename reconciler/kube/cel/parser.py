"""`parse`: a CEL expression as a syntax tree, with its macros expanded.

The grammar is that of cel-go 0.26; limits are its defaults, which an API server keeps.
"""

from collections.abc import Iterator
from functools import lru_cache

from reconciler.kube.cel import lexer
from reconciler.kube.cel.lexer import CelSyntaxError, Token
from reconciler.kube.cel.syntax import Call, Constant, Fold, Identifier, ListLiteral, MapLiteral, Message, Node, Select

_MAX_LENGTH, _MAX_DEPTH = 100_000, 250  # the limits of cel-go, which an API server uses
RESERVED = frozenset(
    ("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
     "namespace", "return", "var", "void", "while")
)  # fmt: skip
_CONSTANTS = {"true": ("bool", True), "false": ("bool", False), "null": ("null_type", None)}
_LEVELS = {
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 0),
    **dict.fromkeys(("+", "-"), 1),
    **dict.fromkeys(("*", "/", "%"), 2),
}
"""Binary operators that group from the left, with their precedence."""
TOO_DEEP = f"expression recursion limit exceeded: {_MAX_DEPTH}"
"""What is wrong with an expression that is nested more deeply than a server, or the frames of this process, allow."""
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


@lru_cache(maxsize=1024)
def parse(expression: str) -> Node:
    """Parse an expression. Raises CelSyntaxError."""
    if len(expression) > _MAX_LENGTH:
        message = f"expression code point size exceeds limit: size: {len(expression)}, limit {_MAX_LENGTH}"
        raise CelSyntaxError(message, 0)
    parser = _ExpressionParser(lexer.tokens(expression))
    try:
        tree = parser.expression()
    except RecursionError:
        raise CelSyntaxError(TOO_DEEP, 0) from None
    parser.expect("<EOF>")
    if parser.height > _MAX_DEPTH:
        raise CelSyntaxError("max recursion depth exceeded", 0)
    return tree


class _ExpressionParser:
    """Reads an expression.

    height: how deep operators, conditions, selections and calls of members are in what was read last. A server limits
    it, and by themselves how deep its rules for expressions, comparisons and calculations are in each other.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens, self._position = tokens, 0
        self._open = dict.fromkeys(("expression", "comparison", "calculation"), 0)
        self.height = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _accept(self, *texts: str) -> Token | None:
        token = self._next
        if token.text in texts and token.kind in ("sign", "name"):
            self._position += 1
            return token
        return None

    def expect(self, text: str) -> Token:
        """Take the next token, which must be `text`."""
        token = self._next
        if token.text != text or token.kind not in ("sign", "end"):
            raise CelSyntaxError(f"Syntax error: mismatched input '{token.text}' expecting '{text}'", token.at)
        return self._take()

    # --- operators ------------------------------------------------------------------------------------------

    def _enter(self, rule: str) -> None:
        self._open[rule] += 1
        if self._open[rule] > _MAX_DEPTH:
            raise CelSyntaxError(TOO_DEEP, 0)

    def expression(self) -> Node:
        self._enter("expression")
        condition = self._logical("||")
        mark = self._accept("?")
        if mark:
            height = self.height
            chosen = self._logical("||")
            height = max(height, self.height)
            self.expect(":")
            condition = Call(mark.at, "_?_:_", None, (condition, chosen, self.expression()))
            self.height = 1 + max(height, self.height)
        self._open["expression"] -= 1
        return condition

    def _logical(self, sign: str) -> Node:
        """Read a chain of `||`, or of `&&` within it, as a balanced tree."""
        is_or = sign == "||"
        terms, places = [self._logical("&&") if is_or else self._binary(0)], []
        height = self.height
        while mark := self._accept(sign):
            places.append(mark.at)
            terms.append(self._logical("&&") if is_or else self._binary(0))
            height = max(height, self.height)
        self.height = height
        return _balanced(f"_{sign}_", terms, places)

    def _binary(self, lowest: int) -> Node:
        """Read operators of a precedence of at least `lowest`: comparisons, whose operands are calculations."""
        rule = "calculation" if lowest else "comparison"
        self._enter(rule)
        left = self._unary() if lowest else self._binary(1)
        height = self.height
        while (operator := self._operator(lowest)) is not None:
            mark, level = operator
            name = "@in" if mark.text == "in" else f"_{mark.text}_"
            left = Call(mark.at, name, None, (left, self._right_operand(level)))
            height = 1 + max(height, self.height)
        self.height = height
        self._open[rule] -= 1
        return left

    def _operator(self, lowest: int) -> tuple[Token, int] | None:
        """Take an operator of a precedence of at least `lowest`, if it is next; comparisons are not calculations."""
        mark = self._next
        level = _LEVELS.get(mark.text, -1) if mark.kind in ("sign", "name") else -1
        if level < lowest or (lowest == 0) != (level == 0):
            return None
        self._position += 1
        return mark, level

    def _right_operand(self, level: int) -> Node:
        if level:
            return self._binary(level + 1)
        self._enter("comparison")
        right = self._binary(1)
        self._open["comparison"] -= 1
        return right

    def _unary(self) -> Node:
        sign = self._next.text if self._next.kind == "sign" else ""
        if sign not in ("!", "-"):
            return self._member()
        first = self._next.at
        count = 0
        while self._accept(sign):
            count += 1
        if sign == "-" and count == 1 and self._next.kind in ("int", "double"):
            return self._member(negative=True)  # the sign belongs to the number
        operand = self._member()
        return Call(first, f"{sign}_", None, (operand,)) if count % 2 else operand

    # --- members --------------------------------------------------------------------------------------------

    def _member(self, *, negative: bool = False) -> Node:
        node = self._primary(negative=negative)
        height = self.height
        while mark := self._accept(".", "["):
            self.height = 0
            optional = self._accept("?") is not None
            if mark.text == "[":
                index = self.expression()
                self.expect("]")
                node = Call(mark.at, "_[?_]" if optional else "_[_]", None, (node, index))
            else:
                name = self._field()
                opener = None if optional or name.kind == "quoted" else self._accept("(")
                if opener:
                    node = _expanded(Call(opener.at, name.text, node, self._arguments()))
                else:
                    node = Select(mark.at, node, name.text.strip("`"), optional)
            height = 1 + max(height, self.height)
        self.height = height
        return node

    def _field(self) -> Token:
        """Take the name of a field, which may stand in backquotes."""
        token = self._tokens[self._position]
        if token.kind != "quoted":
            return self._identifier()
        self._position += 1
        return token

    def _identifier(self) -> Token:
        token = self._take()
        if token.kind != "name" or token.text == "in" or token.text in _CONSTANTS:
            raise CelSyntaxError(f"Syntax error: mismatched input '{token.text}' expecting IDENTIFIER", token.at)
        return token

    def _arguments(self) -> tuple[Node, ...]:
        self.height = 0
        if self._accept(")"):
            return ()
        found = [self.expression()]
        height = self.height
        while self._accept(","):
            found.append(self.expression())
            height = max(height, self.height)
        self.expect(")")
        self.height = height
        return tuple(found)

    # --- primaries ------------------------------------------------------------------------------------------

    def _primary(self, *, negative: bool) -> Node:
        self.height = 0
        token = self._take()
        if token.kind in ("int", "uint", "double"):
            return Constant(token.at, token.kind, lexer.number(token, negative=negative))
        if token.kind == "string":
            value = lexer.text(token)
            return Constant(token.at, "string" if isinstance(value, str) else "bytes", value)
        if token.kind == "name" and token.text in _CONSTANTS:
            return Constant(token.at, *_CONSTANTS[token.text])
        if token.kind == "name" and token.text != "in":
            return self._named(token, token.text)
        if token.kind == "sign" and token.text in ("(", "[", "{", "."):
            return self._enclosed(token)
        raise CelSyntaxError(f"Syntax error: mismatched input '{token.text}'", token.at)

    def _enclosed(self, token: Token) -> Node:
        if token.text == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if token.text == "[":
            return self._list(token)
        if token.text == "{":
            return self._map(token)
        name = self._identifier()
        return self._named(name, f".{name.text}")

    def _named(self, token: Token, name: str) -> Node:
        if end := self._message_start():
            parts = [part.text for part in self._tokens[self._position - 1 : end] if part.kind == "name"]
            self._position = end + 1
            return self._message(token, ".".join(parts))
        if token.text in RESERVED:
            raise CelSyntaxError(f"reserved identifier: {token.text}", token.at)
        opener = self._accept("(")
        if opener:
            return _expanded(Call(opener.at, name, None, self._arguments()))
        return Identifier(token.at, name)

    def _message_start(self) -> int:
        """Return the position of the `{` after a dotted name, or 0."""
        position = self._position
        while self._tokens[position].text == "." and self._tokens[position + 1].kind == "name":
            position += 2
        token = self._tokens[position]
        return position if token.kind == "sign" and token.text == "{" else 0

    def _entries(self, closer: str) -> Iterator[bool]:
        """Yield for each entry of a literal whether it is optional; the caller reads the entry."""
        height = 0
        if self._accept(","):
            self.expect(closer)
            return
        while not self._accept(closer):
            yield self._accept("?") is not None
            height = max(height, self.height)
            if not self._accept(","):
                self.expect(closer)
                break
        self.height = height

    def _list(self, opener: Token) -> Node:
        items: list[Node] = []
        optional: list[int] = []
        for is_optional in self._entries("]"):
            if is_optional:
                optional.append(len(items))
            items.append(self.expression())
        return ListLiteral(opener.at, tuple(items), tuple(optional))

    def _map(self, opener: Token) -> Node:
        keys: list[Node] = []
        values: list[Node] = []
        optional: list[int] = []
        for is_optional in self._entries("}"):
            if is_optional:
                optional.append(len(keys))
            keys.append(self.expression())
            height = self.height
            self.expect(":")
            values.append(self.expression())
            self.height = max(height, self.height)
        return MapLiteral(opener.at, tuple(keys), tuple(values), tuple(optional))

    def _message(self, first: Token, name: str) -> Node:
        fields: list[str] = []
        values: list[Node] = []
        optional: list[int] = []
        for is_optional in self._entries("}"):
            if is_optional:
                optional.append(len(fields))
            fields.append(self._identifier().text)
            self.expect(":")
            values.append(self.expression())
        return Message(first.at, name, tuple(fields), tuple(values), tuple(optional))


def _balanced(function: str, terms: list[Node], places: list[int]) -> Node:
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    left = _balanced(function, terms[:middle], places[: middle - 1])
    right = _balanced(function, terms[middle:], places[middle:])
    return Call(places[middle - 1], function, None, (left, right))


# --- macros ----------------------------------------------------------------------------------------------------------


def _expanded(call: Call) -> Node:
    """Return the fold, or the test, that a call stands for, or the call itself. Raises CelSyntaxError."""
    if call.target is None:
        return _tested(call) if (call.function, len(call.arguments)) == ("has", 1) else call
    names = _FOLDS.get((call.function, len(call.arguments)))
    if names is None:
        return call
    macro = "exists_one" if call.function == "existsOne" else call.function
    variables = tuple(_variable(node, macro) for node in call.arguments[:names])
    if len(set(variables)) < names:
        raise CelSyntaxError("duplicate variable name", call.arguments[1].at)
    return Fold(call.at, macro, call.target, variables, call.arguments[names:])


def _tested(call: Call) -> Node:
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

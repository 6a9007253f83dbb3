"""Parser: expression to syntax tree.

Of several syntax errors it reports the first, and all unreadable tokens.

Source: cel-go parser/parser.go, parser/gen/CEL.g4.
"""

from __future__ import annotations

from kcm.runtime.cel import macros
from kcm.runtime.cel.effort import OF_NODE, pass_time
from kcm.runtime.cel.errors import NOWHERE, CompileError, Issue
from kcm.runtime.cel.lexer import Token, tokens, unescaped
from kcm.runtime.cel.recursion import DEEPEST
from kcm.runtime.cel.syntax import (
    CallNode,
    FieldEntry,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
    Tree,
)
from kcm.runtime.cel.traversal import written
from kcm.runtime.cel.values import LARGEST, LARGEST_UINT, SMALLEST, Uint, Value

LONGEST_EXPRESSION = 100_000  # code points
RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
RELATIONS = {"==": "_==_", "!=": "_!=_", "<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "in": "@in"}
ADDITIVE = {"+": "_+_", "-": "_-_"}
MULTIPLICATIVE = {"*": "_*_", "/": "_/_", "%": "_%_"}
CLOSING = frozenset(")]}")
NUMBERS = frozenset({"int", "float"})
STARTS = frozenset({"[", "{", "(", ".", "-", "!", "true", "false", "null", "float", "int", "uint", "string", "ident"})
LEVELS = (RELATIONS, ADDITIVE, MULTIPLICATIVE)
EXPECTED = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(expression: str, *, binds: bool = False) -> Tree:
    """Parse an expression. Raises CompileError.

    binds: cel.bind is a macro.
    """
    if len(expression) > LONGEST_EXPRESSION:
        text = f"expression code point size exceeds limit: size: {len(expression)}, limit {LONGEST_EXPRESSION}"
        raise CompileError(expression, [Issue(NOWHERE, text)])
    found, unreadable = tokens(expression)
    try:
        root = _Parser(expression, found, binds=binds).whole()
    except CompileError as error:
        raise CompileError(expression, unreadable + error.issues) from None
    if unreadable:
        raise CompileError(expression, unreadable)
    depth = _depth(root)
    if depth > DEEPEST:
        raise CompileError(expression, [Issue(NOWHERE, "max recursion depth exceeded")])
    return Tree(expression, root, depth)


def _whole(digits: str) -> int:
    """Parse an integer.

    For more than 20 digits return a number above the limit, because int() rejects very long texts.
    """
    base = 16 if "x" in digits else 10
    digits = digits.removeprefix("0x").lstrip("0") or "0"
    return int(digits, base) if len(digits) <= 20 else LARGEST_UINT + 1


def _depth(root: Node) -> int:
    deepest, pending = 0, [(root, 0)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [(each, depth + 1) for each in written(node)]
    return deepest


class _Parser:
    def __init__(self, expression: str, found: list[Token], *, binds: bool) -> None:
        self._expression = expression
        self._binds = binds
        self._tokens = found
        self._next = 0
        self._open = 0  # brackets
        self._depths = [0] * (
            2 + len(LEVELS)
        )  # nesting of whole expressions, and of the operands of operators by level

    def whole(self) -> Node:
        node = self._conditional()
        token = self._peek()
        if token.kind != "end":
            kind = "extraneous input" if self._tokens[self._next + 1].kind == "end" else "mismatched input"
            raise self._error(token, f"{kind} '{token.shown}' expecting <EOF>")
        return node

    def _error(self, token: Token, text: str) -> CompileError:
        return self._refused(token.at, f"Syntax error: {text}")

    def _refused(self, at: int, text: str) -> CompileError:
        return CompileError(self._expression, [Issue(at, text)])

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _taken(self, kind: str) -> Token | None:
        return self._take() if self._peek().kind == kind else None

    def _expect(self, kind: str, expecting: str = "") -> Token:
        token = self._peek()
        if token.kind != kind:
            raise self._error(token, self._mistaken(token, kind, expecting or repr(kind)))
        return self._take()

    def _mistaken(self, token: Token, kind: str, expecting: str) -> str:
        """Return the error for an unexpected token.

        A superfluous or missing token is reported as such if the following token fits.
        """
        if token.kind != "end" and self._tokens[self._next + 1].kind == kind:
            return f"extraneous input '{token.shown}' expecting {expecting}"
        closed = token.kind == "end" and expecting == repr(kind) and kind in CLOSING and self._open == 1
        if closed or (kind == ":" and token.kind in STARTS):
            return f"missing '{kind}' at '{token.shown}'"
        return f"mismatched input '{token.shown}' expecting {expecting}"

    def _conditional(self) -> Node:
        self._enter(-1)
        condition = self._logical("||", "_||_")
        mark = self._taken("?")
        if mark is not None:
            then = self._logical("||", "_||_")
            self._expect(":")
            condition = CallNode(
                at=mark.at, function="_?_:_", target=None, arguments=[condition, then, self._conditional()]
            )
        self._depths[-1] -= 1
        return condition

    def _enter(self, level: int) -> None:
        self._depths[level] += 1
        if self._depths[level] > DEEPEST:
            raise self._refused(NOWHERE, f"expression recursion limit exceeded: {DEEPEST}")

    def _logical(self, operator: str, function: str) -> Node:
        def operand() -> Node:
            return self._logical("&&", "_&&_") if operator == "||" else self._binary(0)

        first = operand()
        terms, at = [first], 0
        while (token := self._taken(operator)) is not None:
            at = token.at if len(terms) == 1 else at
            terms.append(operand())
        return CallNode(at=at, function=function, target=None, arguments=terms) if len(terms) > 1 else first

    def _binary(self, level: int) -> Node:
        if level == len(LEVELS):
            return self._unary()
        rule = min(level, 1)  # sums and products are one rule upstream
        if level < 2:
            self._enter(rule)
        left = self._binary(level + 1)
        while (token := self._peek()).kind in LEVELS[level]:
            self._take()
            function = LEVELS[level][token.kind]
            self._enter(rule)
            left = CallNode(at=token.at, function=function, target=None, arguments=[left, self._binary(level + 1)])
            self._depths[rule] -= 1
        if level < 2:
            self._depths[rule] -= 1
        return left

    def _unary(self) -> Node:
        token = self._peek()
        if token.kind not in ("!", "-"):
            return self._member()
        signs, sign = 0, token
        while self._peek().kind == token.kind:
            following = self._tokens[self._next + 1].kind
            if token.kind == "-" and signs == 0 and following in NUMBERS:
                return self._member()
            sign = self._take()
            signs += 1
        if token.kind == "!" and self._peek().kind == "-" and self._tokens[self._next + 1].kind not in NUMBERS:
            sign = self._take()
        if sign.kind != token.kind or (sign.kind == "-" and self._peek().kind not in STARTS - {"-", "!"}):
            raise self._unsigned(sign)
        operand = self._member()
        if signs % 2 == 0:
            return operand
        return CallNode(at=token.at, function="!_" if token.kind == "!" else "-_", target=None, arguments=[operand])

    def _unsigned(self, minus: Token) -> CompileError:
        """Return the error for an operand that cannot follow a minus sign."""
        token = self._peek()
        if token.kind in ("true", "false", "null"):
            return self._error(token, f"mismatched input '{token.text}' expecting IDENTIFIER")
        through = self._expression[minus.at : token.at + len(token.text)].rstrip()
        error = self._error(token, f"no viable alternative at input '{through}'")
        if token.kind == "end":
            mismatch = Issue(token.at, f"Syntax error: mismatched input '<EOF>' expecting {EXPECTED}")
            return CompileError(self._expression, [*error.issues, mismatch])
        return error

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if (dot := self._taken(".")) is not None:
                optional = self._taken("?") is not None
                name = self._field_name(optional=optional)
                opening = self._taken("(") if not optional else None
                if opening is None:
                    node = Select(at=dot.at, operand=node, field=name, optional=optional)
                else:
                    node = self._call(opening.at, name, node, self._list_of(")"))
            elif (bracket := self._taken("[")) is not None:
                function = "_[?_]" if self._taken("?") is not None else "_[_]"
                self._open += 1
                key = self._conditional()
                self._expect("]")
                self._open -= 1
                node = CallNode(at=bracket.at, function=function, target=None, arguments=[node, key])
            elif self._peek().kind == "{" and (type_name := qualified(node)) is not None:
                node = self._struct(type_name)
            else:
                return node

    def _field_name(self, *, optional: bool) -> str:
        token = self._peek()
        if token.kind == "escaped":
            raise self._refused(token.at, "unsupported syntax: '`'")
        if token.kind == "ident":
            return self._take().text
        if optional:
            mismatch = f"Syntax error: mismatched input '{token.shown}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}"
            issues = [Issue(token.at, mismatch), Issue(token.at, "unsupported ident kind")]
            raise CompileError(self._expression, issues)
        if token.kind in ("true", "false", "null"):
            raise self._error(token, f"mismatched input '{token.text}' expecting IDENTIFIER")
        raise self._error(token, f"no viable alternative at input '.{token.text}'")

    def _list_of(self, closing: str) -> list[Node]:
        elements: list[Node] = []
        if self._taken(closing) is not None:
            return elements
        self._open += 1
        while True:
            elements.append(self._conditional())
            if self._taken(",") is None:
                self._expect(closing)
                self._open -= 1
                return elements

    def _call(self, at: int, name: str, target: Node | None, arguments: list[Node]) -> Node:
        try:
            expanded = macros.expand(at, name, target, arguments, binds=self._binds)
        except macros.MacroError as error:
            raise self._refused(error.at, str(error)) from None
        return expanded or CallNode(at=at, function=name, target=target, arguments=arguments)

    def _primary(self) -> Node:
        pass_time(OF_NODE)
        token = self._take()
        match token.kind:
            case "int" | "float" | "uint" | "string" | "-" | "true" | "false" | "null":
                return Literal(at=token.at, value=self._literal(token))
            case "ident":
                return self._named(token, token.text)
            case "." if self._peek().kind == "ident":
                return self._named(self._peek(), "." + self._take().text)
            case "(":
                self._open += 1
                node = self._conditional()
                self._expect(")")
                self._open -= 1
                return node
            case "[":
                return self._list(token.at)
            case "{":
                return MapLiteral(at=token.at, entries=self._entries())
        too_many = token.kind != "end" and self._peek().kind in STARTS
        raise self._error(
            token, f"{'extraneous' if too_many else 'mismatched'} input '{token.shown}' expecting {EXPECTED}"
        )

    def _named(self, token: Token, name: str) -> Node:
        if token.text in RESERVED:
            raise self._refused(token.at, f"reserved identifier: {token.text}")
        if (opening := self._taken("(")) is not None:
            return self._call(opening.at, name, None, self._list_of(")"))
        return Ident(at=token.at, name=name)

    def _literal(self, token: Token) -> Value:
        match token.kind:
            case "true" | "false":
                return token.kind == "true"
            case "null":
                return None
            case "string":
                try:
                    return unescaped(token.text)
                except ValueError as error:
                    raise self._refused(token.at, str(error)) from None
            case "uint":
                value = _whole(token.text[:-1])
                if value > LARGEST_UINT:
                    raise self._refused(token.at, "invalid uint literal")
                return Uint(value)
        sign = -1 if token.kind == "-" else 1
        number = self._take() if token.kind == "-" else token
        if number.kind == "float":
            real = sign * float(number.text)
            if real in (float("inf"), float("-inf")):
                raise self._refused(token.at, "invalid double literal")
            return real
        whole = sign * _whole(number.text)
        if not SMALLEST <= whole <= LARGEST:
            raise self._refused(token.at, "invalid int literal")
        return whole

    def _list(self, at: int) -> Node:
        elements: list[Node] = []
        optionals: set[int] = set()
        self._lone_comma("]")
        self._open += 1
        while self._peek().kind != "]":
            if self._taken("?") is not None:
                optionals.add(len(elements))
            elements.append(self._conditional())
            if self._taken(",") is None or self._peek().kind in ("end", ","):
                break
        self._close("]")
        return ListLiteral(at=at, elements=elements, optionals=frozenset(optionals))

    def _close(self, closing: str) -> None:
        after_comma = self._tokens[self._next - 1].kind == ","
        lacking = after_comma or self._peek().kind == ","
        self._expect(closing, repr(closing) if lacking else f"{{'{closing}', ','}}")
        self._open -= 1

    def _lone_comma(self, closing: str) -> None:
        """Skip the comma in [,] and {,}, which are an empty list and an empty map."""
        if self._peek().kind == "," and self._tokens[self._next + 1].kind == closing:
            self._take()

    def _entries(self) -> list[MapEntry]:
        entries: list[MapEntry] = []
        self._lone_comma("}")
        self._open += 1
        while self._peek().kind != "}":
            optional = self._taken("?") is not None
            key = self._conditional()
            self._expect(":")
            entries.append(MapEntry(key=key, value=self._conditional(), optional=optional))
            if self._taken(",") is None or self._peek().kind in ("end", ","):
                break
        self._close("}")
        return entries

    def _struct(self, name: str) -> Node:
        at = self._take().at
        fields: list[FieldEntry] = []
        self._lone_comma("}")
        self._open += 1
        while self._peek().kind != "}":
            optional = self._taken("?") is not None
            field = self._expect("ident", "IDENTIFIER")
            colon = self._expect(":")
            fields.append(FieldEntry(at=colon.at, name=field.text, value=self._conditional(), optional=optional))
            if self._taken(",") is None or self._peek().kind in ("end", ","):
                break
        self._close("}")
        return StructLiteral(at=at, type_name=name, fields=fields)


def qualified(node: Node) -> str | None:
    """Return the dotted name of a chain of selections, or None for another node."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test and not node.optional:
        prefix = qualified(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None

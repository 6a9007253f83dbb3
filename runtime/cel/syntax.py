"""Syntax tree of an expression. The checker annotates each node with its type, and each call with possible overloads.

Source: cel-go common/ast/expr.go.
"""

from __future__ import annotations

from msgspec import Struct, field

from kcm.runtime.cel.types import DYN, Type
from kcm.runtime.cel.values import Value

ACCUMULATOR = "@result"


class Node(Struct, kw_only=True, eq=False):
    """Node of a syntax tree. at: offset of the token at which an error is reported."""

    at: int
    type: Type = DYN


class Literal(Node, kw_only=True, eq=False):
    value: Value


class Ident(Node, kw_only=True, eq=False):
    name: str


class Select(Node, kw_only=True, eq=False):
    """Selection: operand.field, operand.?field (optional), or has(operand.field) (test)."""

    operand: Node
    field: str
    test: bool = False
    optional: bool = False
    resolved: str | None = None  # name of the variable that the selection refers to, such as a variable "a.b"


class CallNode(Node, kw_only=True, eq=False):
    """Call of a function or operator. Logical operators have two or more arguments. target: of a member call."""

    function: str
    target: Node | None
    arguments: list[Node]
    overloads: tuple[str, ...] = ()


class ListLiteral(Node, kw_only=True, eq=False):
    elements: list[Node]
    optionals: frozenset[int] = frozenset()  # indices of optional elements, ?e


class MapEntry(Struct, kw_only=True, eq=False):
    key: Node
    value: Node
    optional: bool


class MapLiteral(Node, kw_only=True, eq=False):
    entries: list[MapEntry]


class FieldEntry(Struct, kw_only=True, eq=False):
    at: int
    name: str
    value: Node
    optional: bool


class StructLiteral(Node, kw_only=True, eq=False):
    type_name: str
    fields: list[FieldEntry]


class Comprehension(Node, kw_only=True, eq=False):
    """Macro over a list or map, as written and as cel-go's fold, from which types and costs are derived.

    macro: all, exists, exists_one, map, transform_map, transform_map_entry, or bind, which only names a value:
        `initial`, as accumulator.
    predicate: the condition that filters or tests elements.
    transform: the new value of an element.
    """

    macro: str
    range: Node
    variable: str
    variable2: str | None
    predicate: Node | None
    transform: Node | None
    initial: Node
    condition: Node
    step: Node
    result: Node
    accumulator: str = ACCUMULATOR


class Tree(Struct, eq=False):
    """Parsed expression. depth: maximum nesting of the nodes, as written."""

    expression: str
    root: Node
    depth: int
    references: set[str] = field(default_factory=set)  # variables that the expression reads

"""Syntax tree of an expression. The checker annotates each node with its type, and each call with possible overloads.

Source: cel-go common/ast/expr.go.
"""

from __future__ import annotations

from dataclasses import field

from kcm.protocols.late_methods import dataclass
from kcm.runtime.cel.types import DYN, Type
from kcm.runtime.cel.values import Value

ACCUMULATOR = "@result"


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """Node of a syntax tree. at: offset of the token at which an error is reported."""

    at: int
    type: Type = DYN


@dataclass(slots=True, eq=False, kw_only=True)
class Literal(Node):
    value: Value


@dataclass(slots=True, eq=False, kw_only=True)
class Ident(Node):
    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class Select(Node):
    """Selection: operand.field, operand.?field (optional), or has(operand.field) (test)."""

    operand: Node
    field: str
    test: bool = False
    optional: bool = False
    resolved: str | None = None  # name of the variable that the selection refers to, such as a variable "a.b"


@dataclass(slots=True, eq=False, kw_only=True)
class CallNode(Node):
    """Call of a function or operator. Logical operators have two or more arguments. target: of a member call."""

    function: str
    target: Node | None
    arguments: list[Node]
    overloads: tuple[str, ...] = ()


@dataclass(slots=True, eq=False, kw_only=True)
class ListLiteral(Node):
    elements: list[Node]
    optionals: frozenset[int] = frozenset()  # indices of optional elements, ?e


@dataclass(slots=True, eq=False, kw_only=True)
class MapEntry:
    key: Node
    value: Node
    optional: bool


@dataclass(slots=True, eq=False, kw_only=True)
class MapLiteral(Node):
    entries: list[MapEntry]


@dataclass(slots=True, eq=False, kw_only=True)
class FieldEntry:
    at: int
    name: str
    value: Node
    optional: bool


@dataclass(slots=True, eq=False, kw_only=True)
class StructLiteral(Node):
    type_name: str
    fields: list[FieldEntry]


@dataclass(slots=True, eq=False, kw_only=True)
class Comprehension(Node):
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


@dataclass(slots=True, eq=False)
class Tree:
    """Parsed expression. depth: maximum nesting of the nodes, as written."""

    expression: str
    root: Node
    depth: int
    references: set[str] = field(default_factory=set)  # variables that the expression reads

"""The tree of an expression. The checker notes on each node its type and the overloads that a call may mean.

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
    resolved: str | None = None  # the whole is a variable of this name, as `a.b` of one that is called "a.b"


@dataclass(slots=True, eq=False, kw_only=True)
class CallNode(Node):
    """Logical operators have two or more arguments; target is that of a call in member style."""

    function: str
    target: Node | None
    arguments: list[Node]
    overloads: tuple[str, ...] = ()


@dataclass(slots=True, eq=False, kw_only=True)
class ListLiteral(Node):
    elements: list[Node]
    optionals: frozenset[int] = frozenset()  # indices of those that are written ?e


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
    """A macro over a list or map, both as it was written and as cel-go's fold, of which types and costs follow.

    macro: all, exists, exists_one, map, transform_map, transform_map_entry, or bind, which names one value
    (initial, as accumulator) for the result. predicate: what filters or is
    tested; transform: what an element becomes.
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
    """A parsed expression. depth: nesting of nodes, as written."""

    expression: str
    root: Node
    depth: int
    references: set[str] = field(default_factory=set)  # variables that it reads

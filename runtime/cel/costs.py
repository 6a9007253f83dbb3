"""Estimator of the minimum and maximum cost of an expression, from the sizes that a schema allows.

A change here changes which rules of CustomResourceDefinitions are accepted.

Source: cel-go checker/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from kcm.runtime.cel.effort import OF_NODE, pass_time
from kcm.runtime.cel.syntax import (
    ACCUMULATOR,
    CallNode,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
    Tree,
)
from kcm.runtime.cel.types import Type, is_optional

MOST = 2**64 - 1
TRAVERSAL, PATTERN = 0.1, 0.25


class Range(Struct, frozen=True):
    """Range of a size or a cost. Sums and products are capped at MOST."""

    least: int
    most: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> Range:
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))


def _scaled(number: int, factor: float) -> int:
    product = float(number) * factor
    return MOST if product >= 2.0**64 else math.ceil(product)


UNKNOWN = Range(0, MOST)
FREE, ONE = Range(0, 0), Range(1, 1)


def fixed(number: int) -> Range:
    return Range(number, number)


class Sized(Struct, frozen=True):
    """Argument or target of a call, for cost estimates. path: its path from a variable, or empty."""

    node: Node | None
    type: Type
    path: tuple[str, ...]
    size: Range | None


class Estimate(Struct, frozen=True):
    cost: Range
    size: Range | None = None


SizeOf = Callable[[tuple[str, ...]], Range | None]
"""The size of what stands at a path (variable, then fields, @items, @keys or @values); None where it is not known."""
CallEstimator = Callable[[str, str, Sized | None, list[Sized], Callable[[Sized], Range]], Estimate | None]
"""Function, overload, target, arguments, and sizes of them: what a library's call costs without its arguments."""


class _Entries(Struct, frozen=True):
    """Sizes of a container's keys and values. kind: list or map."""

    kind: str
    key: Range
    value: Range

    def union(self, other: _Entries | None) -> _Entries | None:
        if other is None:
            return None
        return _Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(Struct, frozen=True):
    path: tuple[str, ...]
    size: Range | None
    entries: _Entries | None


def estimated(tree: Tree, size_of: SizeOf, calls: CallEstimator) -> Range:
    return _Coster(size_of, calls).cost(tree.root)


class _Coster:
    def __init__(self, size_of: SizeOf, calls: CallEstimator) -> None:
        self._size_of = size_of
        self._calls = calls
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        pass_time(OF_NODE)
        match node:
            case Literal():
                return FREE
            case Ident(name=name):
                local = self._local(name)
                self._paths[id(node)] = local.path if local is not None else (name,)
                return ONE
            case Select():
                return self._select(node)
            case CallNode():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case StructLiteral():
                return sum((self.cost(each.value) for each in node.fields), fixed(40))
            case Comprehension():
                return self._bind(node) if node.macro == "bind" else self._comprehension(node)
        raise AssertionError(node)

    def _local(self, name: str) -> _Local | None:
        known = self._locals.get(name)
        return known[-1] if known else None

    def _select(self, node: Select) -> Range:
        if node.resolved is not None:
            self._paths[id(node)] = (node.resolved,)
            return ONE
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if node.optional or node.operand.type.kind in ("map", "struct", "param"):
            cost += ONE
        if not node.optional:
            self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _call(self, node: CallNode) -> Range:
        if node.function == "dyn" and node.target is None:
            cost = self.cost(node.arguments[0])
            self._copy(node, node.arguments[0])
            return cost + ONE
        costs = [self.cost(each) for each in node.arguments]
        arguments = [self._sized(each) for each in node.arguments]
        target_cost, target = FREE, None
        if node.target is not None:
            target_cost = self.cost(node.target)
            target = self._sized(node.target)
        total, size = Range(MOST, 0), None
        for overload in node.overloads:
            estimate = self._function(node, overload, target, arguments, costs)
            total = total.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if overload in ("index_list", "index_map"):
                entries = self._entries_of(node.arguments[0])
                size = entries.value if entries is not None else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.arguments[0]), step)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return target_cost + total

    def _list(self, node: ListLiteral) -> Range:
        cost, size = FREE, Range(MOST if node.elements else 0, 0)
        for each in node.elements:
            cost += self.cost(each)
            size = size.union(self._known_size(each))
        self._entries[id(node)] = _Entries("list", ONE, size)
        return cost + fixed(10)

    def _map(self, node: MapLiteral) -> Range:
        least = MOST if node.entries else 0
        cost, keys, values = FREE, Range(least, 0), Range(least, 0)
        for entry in node.entries:
            cost += self.cost(entry.key) + self.cost(entry.value)
            keys = keys.union(self._known_size(entry.key))
            values = values.union(self._known_size(entry.value))
        self._entries[id(node)] = _Entries("map", keys, values)
        return cost + fixed(30)

    def _bind(self, node: Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.initial)
        self._push(node.accumulator, self._bound(node.initial))
        cost += self.cost(node.result)
        self._locals[node.accumulator].pop()
        self._copy(node, node.result)
        return cost

    def _bound(self, node: Node) -> _Local:
        return _Local(self._path(node), self._size(node), self._entries_of(node))

    def _comprehension(self, node: Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.initial)
        self._push(node.accumulator, self._bound(node.initial))
        entries, path = self._entries_of(node.range), self._path(node.range)
        is_list = (entries.kind if entries is not None else node.range.type.kind) == "list"
        key, value = (entries.key, entries.value) if entries is not None else (None, None)
        if node.variable2 is not None:
            self._push(node.variable, _Local((*path, "@indices" if is_list else "@keys"), key, None))
            self._push(node.variable2, _Local((*path, "@items" if is_list else "@values"), value, None))
        else:
            step = "@items" if is_list else "@keys"
            self._push(node.variable, _Local((*path, step), value if is_list else key, None))
        loop = self.cost(node.condition)
        loop += self.cost(node.step)
        self._locals[node.variable].pop()
        if node.variable2 is not None:
            self._locals[node.variable2].pop()
        cost += self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self._known_size(node.range)
        if isinstance(node.initial, Literal):
            size = self._size(node.initial)
            if size is not None:
                self._sizes[id(node)] = size
        else:
            self._sizes[id(node)] = count
            stepped = self._entries_of(node.step)
            if stepped is not None:
                self._entries[id(node)] = stepped
        return cost + count * loop

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _function(
        self, node: CallNode, overload: str, target: Sized | None, arguments: list[Sized], costs: list[Range]
    ) -> Estimate:
        given = sum(costs, FREE)
        known = self._calls(node.function, overload, target, arguments, self.size_or_unknown)
        if known is not None:
            return Estimate(known.cost + given, known.size)
        sizes = [each.size if each.size is not None else UNKNOWN for each in arguments]
        match overload:
            case "string_format" if target is not None:
                return Estimate((target.size or UNKNOWN).scaled(TRAVERSAL) + given)
            case "string_to_bytes":
                return Estimate(sizes[0].scaled(TRAVERSAL) + given, Range(sizes[0].least, min(sizes[0].most * 4, MOST)))
            case "bytes_to_string":
                return Estimate(sizes[0].scaled(TRAVERSAL) + given, Range(sizes[0].least // 4, sizes[0].most))
            case "strings_quote":
                size = Range(sizes[0].least + 2, min(sizes[0].most * 2 + 2, MOST))
                return Estimate(sizes[0].scaled(TRAVERSAL) + given, size)
            case "starts_with_string" | "ends_with_string":
                return Estimate(sizes[0].scaled(TRAVERSAL) + given)
            case "in_list":
                return Estimate(sizes[1] + given)
            case "matches_string" if target is not None:
                text = ((target.size or UNKNOWN) + ONE).scaled(TRAVERSAL)
                return Estimate(text * sizes[0].scaled(PATTERN) + given)
            case "contains_string" if target is not None:
                return Estimate((target.size or UNKNOWN).scaled(TRAVERSAL) * sizes[0].scaled(TRAVERSAL) + given)
            case "logical_and" | "logical_or":
                return Estimate(Range(costs[0].least, given.most))
            case "conditional":
                then, otherwise = self._entries_of(node.arguments[1]), self._entries_of(node.arguments[2])
                both = then.union(otherwise) if then is not None else None
                if both is not None:
                    self._entries[id(node)] = both
                return Estimate(costs[0] + costs[1].union(costs[2]), sizes[1].union(sizes[2]))
            case "add_string" | "add_bytes" | "add_list":
                return self._sum(node, overload, sizes, given)
        if overload in COMPARED:
            most = min(sizes[0].most, sizes[1].most)
            return Estimate(Range(1 if most > 0 else 0, most).scaled(TRAVERSAL) + given)
        return Estimate(ONE + given)

    def _sum(self, node: CallNode, overload: str, sizes: list[Range], given: Range) -> Estimate:
        left, right = self._entries_of(node.arguments[0]), self._entries_of(node.arguments[1])
        both = left.union(right) if left is not None else None
        if both is not None:
            self._entries[id(node)] = both
        size = sizes[0] + sizes[1]
        return Estimate((ONE if overload == "add_list" else size.scaled(TRAVERSAL)) + given, size)

    def _path(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.path
        return self._paths.get(id(node), ())

    def _sized(self, node: Node) -> Sized:
        path = self._path(node)
        if path and path[0] == ACCUMULATOR:
            path = ()
        return Sized(node, node.type, path, self._size(node))

    def _known_size(self, node: Node) -> Range:
        size = self._size(node)
        return UNKNOWN if size is None else size

    def size_or_unknown(self, sized: Sized) -> Range:
        if sized.size is not None:
            return sized.size
        known = self._size_of(sized.path) if sized.path else None
        return UNKNOWN if known is None else known

    def _size(self, node: Node) -> Range | None:
        known = self._sizes.get(id(node)) or _literal_size(node)
        if known is not None:
            return known
        path = self._path(node)
        size = self._size_of(path) if path else None
        if size is not None:
            self._sizes[id(node)] = size
            return size
        if _is_scalar(node.type):
            return ONE
        local = self._local(node.name) if isinstance(node, Ident) else None
        return local.size if local is not None else None

    def _entries_of(self, node: Node) -> _Entries | None:
        known = self._entries.get(id(node))
        if known is not None:
            return known
        local = self._local(node.name) if isinstance(node, Ident) else None
        return local.entries if local is not None else None

    def _copy(self, to: Node, source: Node) -> None:
        size, entries = self._size(source), self._entries_of(source)
        if size is not None:
            self._sizes[id(to)] = size
        if entries is not None:
            self._entries[id(to)] = entries


COMPARED = {"equals", "not_equals"} | {
    f"{relation}_{kind}"
    for relation in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
}


def _literal_size(node: Node) -> Range | None:
    match node:
        case Literal(value=value):
            return fixed(len(value)) if isinstance(value, (str, bytes)) else ONE
        case ListLiteral(elements=elements):
            return fixed(len(elements))
        case MapLiteral(entries=entries):
            return fixed(len(entries))
    return None


def _is_scalar(kind: Type) -> bool:
    return kind.kind in ("bool", "double", "duration", "int", "timestamp", "uint") or (
        is_optional(kind) and _is_scalar(kind.params[0])
    )

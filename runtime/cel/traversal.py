"""Traversal of the nodes of a tree."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.runtime.cel.syntax import CallNode, Comprehension, ListLiteral, MapLiteral, Node, Select, StructLiteral


def nodes(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)


def children(node: Node) -> list[Node]:
    match node:
        case Select():
            return [node.operand]
        case CallNode():
            return node.arguments if node.target is None else [*node.arguments, node.target]
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [each for entry in node.entries for each in (entry.key, entry.value)]
        case StructLiteral():
            return [entry.value for entry in node.fields]
        case Comprehension():
            return [node.range, node.initial, node.step, node.result]
    return []


def written(node: Node) -> list[Node]:
    """Return the children as written in the expression, without those that a macro's expansion adds."""
    if not isinstance(node, Comprehension) or node.macro == "bind":
        return children(node)
    return [each for each in (node.range, node.predicate, node.transform) if each is not None]

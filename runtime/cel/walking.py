"""All nodes of a tree."""

from __future__ import annotations

from collections.abc import Iterator

from runtime.cel.syntax import Call, Comprehension, ListLiteral, MapLiteral, Node, Select, StructLiteral


def nodes(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        match node:
            case Select():
                pending.append(node.operand)
            case Call():
                pending += node.arguments
                if node.target is not None:
                    pending.append(node.target)
            case ListLiteral():
                pending += node.elements
            case MapLiteral():
                pending += [each for entry in node.entries for each in (entry.key, entry.value)]
            case StructLiteral():
                pending += [entry.value for entry in node.fields]
            case Comprehension():
                pending += [node.range, node.initial, node.step, node.result]

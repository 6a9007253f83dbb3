"""Checks of well-typed expressions for invalid literals.

Source: cel-go cel/validator.go, ext/formatting.go (stringFormatValidator).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from kcm.protocols.patterns import PatternError, compiled
from kcm.runtime.cel.declarations import RUNTIME_NAMES
from kcm.runtime.cel.errors import EvaluationError, Issue
from kcm.runtime.cel.libraries import times
from kcm.runtime.cel.libraries.format import CLAUSES, DURING, misfit, written
from kcm.runtime.cel.syntax import CallNode, ListLiteral, Literal, MapLiteral, Node, Tree
from kcm.runtime.cel.traversal import children, nodes
from kcm.runtime.cel.types import Type, unwrapped
from kcm.runtime.cel.values import Value


def _literals(tree: Tree) -> Iterator[Issue]:
    for node in nodes(tree.root):
        if isinstance(node, CallNode) and node.arguments and isinstance(node.arguments[0], Literal):
            yield from _literal_argument(node.function, node.arguments[0])


def _literal_argument(function: str, literal: Literal) -> Iterator[Issue]:
    if not _VALID.get(function, _any)(literal.value):
        yield Issue(literal.at, f"invalid {function} argument")


def _any(_value: Value) -> bool:
    return True


def _is_duration(value: Value) -> bool:
    return type(value) is str and times.parse_duration(value) is not None


def _is_timestamp(value: Value) -> bool:
    if type(value) is int:
        return times.EARLIEST <= value <= times.LATEST
    return type(value) is str and times.parse_timestamp(value) is not None


def _is_pattern(value: Value) -> bool:
    """Report whether the text is a valid regular expression."""
    try:
        compiled(str(value))
    except PatternError:
        return False
    return True


_VALID: dict[str, Callable[[Value], bool]] = {
    "duration": _is_duration,
    "timestamp": _is_timestamp,
    "matches": _is_pattern,
}


def _mixed_literals(tree: Tree) -> Iterator[Issue]:
    """Yield an issue for each list or map literal that mixes types, including dyn, among its elements, keys or values.

    Arguments of format() may have different types.
    """
    pending: list[Node] = [tree.root]
    while pending:
        node = pending.pop()
        if isinstance(node, CallNode) and node.function == "format":
            continue
        pending += children(node)
        if isinstance(node, ListLiteral):
            held = [(each, _held(each, place in node.optionals)) for place, each in enumerate(node.elements)]
            yield from itertools.islice(_mixed(held), 1)
        elif isinstance(node, MapLiteral):
            yield from _mixed([(each.key, each.key.type) for each in node.entries])
            yield from _mixed([(each.value, _held(each.value, each.optional)) for each in node.entries])


def _held(node: Node, optional: bool) -> Type:
    return unwrapped(node.type)[0] if optional else node.type


def _mixed(held: list[tuple[Node, Type]]) -> Iterator[Issue]:
    for node, kind in held[1:]:
        if kind != held[0][1]:
            yield Issue(node.at, f"expected type '{held[0][1]}' but found '{kind}'")


def _formats(tree: Tree) -> Iterator[Issue]:
    """Check the arguments of constant format strings, if the arguments are a list literal."""
    for node in nodes(tree.root):
        match node:
            case CallNode(
                function="format", target=Literal(value=str(text)), arguments=[ListLiteral(elements=elements)]
            ):
                yield from _format_issues(node, text, elements)


def _format_issues(call: CallNode, text: str, elements: list[Node]) -> Iterator[Issue]:
    seen: set[int] = set()
    misfits: list[Issue] = []

    def check(place: int, letter: str, _precision: int | None) -> str:
        seen.add(place)
        wrong = _misfit(letter, elements[place])
        if wrong is not None:
            misfits.append(Issue(wrong.at, DURING + misfit(letter, _runtime_name(wrong.type))))
            raise EvaluationError(misfits[0].message)
        return ""

    try:
        written(text, len(elements), check)
    except EvaluationError as error:
        yield misfits[0] if misfits else Issue(call.at, str(error))
        return
    if len(elements) > len(seen):
        problem = f"too many arguments supplied to string.format (expected {len(seen)}, got {len(elements)})"
        yield Issue(call.at, problem)


def _misfit(letter: str, node: Node) -> Node | None:
    """Return the node that the clause cannot format: the node itself, or for %s an element of a list or map literal."""
    if node.type.kind not in ("dyn", "any") and _runtime_name(node.type) not in CLAUSES[letter][0]:
        return node
    if letter == "s" and isinstance(node, (ListLiteral, MapLiteral)):
        return next((wrong for each in children(node) if (wrong := _misfit(letter, each)) is not None), None)
    return None


def _runtime_name(kind: Type) -> str:
    return kind.name or RUNTIME_NAMES.get(kind.kind, kind.kind)


CHECKS = (_literals, _mixed_literals, _formats)

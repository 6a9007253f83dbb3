"""Macros: calls that the parser expands into a fold over a list or map; has() is expanded into a test.

Source: cel-go parser/macro.go, ext/comprehensions.go (two variables); sortBy of ext/lists.go; ext/bindings.go.
"""

from __future__ import annotations

from collections.abc import Callable

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
)

ACCUMULATORS = (ACCUMULATOR, "__result__")


class MacroError(Exception):
    def __init__(self, at: int, text: str) -> None:
        self.at = at
        super().__init__(text)


Expander = Callable[[int, Node, list[Node]], Node]


def expand(at: int, name: str, target: Node | None, arguments: list[Node], *, binds: bool = False) -> Node | None:
    """Return the expansion of a macro call; None if the call is not a macro. Raises MacroError.

    binds: cel.bind is a macro.
    """
    if target is None:
        if name == "has" and len(arguments) == 1:
            return _has(at, arguments[0])
        return None
    if binds and name == "bind" and len(arguments) == 3 and isinstance(target, Ident) and target.name == "cel":
        return _bind(at, arguments)
    expander = _MACROS.get((name, len(arguments)))
    return None if expander is None else expander(at, target, arguments)


def _has(at: int, argument: Node) -> Node:
    if not isinstance(argument, Select) or argument.optional:
        raise MacroError(argument.at, "invalid argument to has() macro")
    return Select(at=at, operand=argument.operand, field=argument.field, test=True)


def _variable(node: Node, text: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.at, text)
    if node.name in ACCUMULATORS:
        raise MacroError(node.at, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(
    arguments: list[Node], count: int, text: str = "argument must be a simple name"
) -> tuple[str, str | None]:
    first = _variable(arguments[0], text)
    if count == 1:
        return first, None
    second = _variable(arguments[1], text)
    if first == second:
        raise MacroError(arguments[1].at, f"duplicate variable name: {first}")
    return first, second


def _quantifier(macro: str, count: int) -> Expander:
    def expander(at: int, target: Node, arguments: list[Node]) -> Node:
        predicate = arguments[count]
        variable, variable2 = _variables(arguments, count)
        accumulator, initial, condition, step, result = _parts(at, macro, predicate)
        return Comprehension(
            at=at, macro=macro, range=target, variable=variable, variable2=variable2, predicate=predicate,
            transform=None, initial=initial, condition=condition, step=step, result=result or accumulator(),
        )  # fmt: skip

    return expander


def _parts(at: int, macro: str, predicate: Node) -> tuple[Callable[[], Node], Node, Node, Node, Node | None]:
    def accumulator() -> Node:
        return Ident(at=at, name=ACCUMULATOR)

    def call(function: str, *arguments: Node) -> Node:
        return CallNode(at=at, function=function, target=None, arguments=list(arguments))

    def literal(value: int) -> Node:
        return Literal(at=at, value=value)

    if macro == "all":
        condition = call("@not_strictly_false", accumulator())
        return accumulator, literal(True), condition, call("_&&_", accumulator(), predicate), None
    if macro == "exists":
        condition = call("@not_strictly_false", call("!_", accumulator()))
        return accumulator, literal(False), condition, call("_||_", accumulator(), predicate), None
    step = call("_?_:_", predicate, call("_+_", accumulator(), literal(1)), accumulator())
    return accumulator, literal(0), literal(True), step, call("_==_", accumulator(), literal(1))


def _transformer(macro: str, count: int, *, filters: bool, only_filters: bool = False) -> Expander:
    def expander(at: int, target: Node, arguments: list[Node]) -> Node:
        text = "argument is not an identifier" if count == 1 else "argument must be a simple name"
        variable, variable2 = _variables(arguments, count, text)
        predicate = arguments[count] if filters else None
        transform = arguments[0] if only_filters else arguments[count + filters]

        def accumulator() -> Node:
            return Ident(at=at, name=ACCUMULATOR)

        if macro == "map":
            grown = [accumulator(), ListLiteral(at=at, elements=[transform])]
            step: Node = CallNode(at=at, function="_+_", target=None, arguments=grown)
        else:
            keyed = [Ident(at=at, name=variable)] if macro == "transform_map" else []
            grown = [accumulator(), *keyed, transform]
            step = CallNode(at=at, function="cel.@mapInsert", target=None, arguments=grown)
        if predicate is not None:
            step = CallNode(at=at, function="_?_:_", target=None, arguments=[predicate, step, accumulator()])
        initial: Node = ListLiteral(at=at, elements=[]) if macro == "map" else MapLiteral(at=at, entries=[])
        return Comprehension(
            at=at, macro=macro, range=target, variable=variable, variable2=variable2, predicate=predicate,
            transform=transform, initial=initial, condition=Literal(at=at, value=True), step=step,
            result=accumulator(),
        )  # fmt: skip

    return expander


def _sort_by(at: int, target: Node, arguments: list[Node]) -> Node:
    """Expand elements.sortBy(e, key): bind the elements to a name, and sort them by the results of e.map(e, key)."""
    if not isinstance(target, (ListLiteral, Ident, Comprehension, CallNode, Select)):
        allowed = "a list, identifier, comprehension, call or select expression"
        raise MacroError(target.at, f"sortBy can only be applied to {allowed}")
    bound = "@__sortBy_input__"

    def elements() -> Node:
        return Ident(at=at, name=bound)

    keys = _transformer("map", 1, filters=False)(at, elements(), arguments)
    return Comprehension(
        at=at, macro="bind", range=ListLiteral(at=at, elements=[]), variable="#unused", variable2=None,
        predicate=None, transform=None, initial=target, condition=Literal(at=at, value=False), step=elements(),
        result=CallNode(at=at, function="@sortByAssociatedKeys", target=elements(), arguments=[keys]),
        accumulator=bound,
    )  # fmt: skip


def _bind(at: int, arguments: list[Node]) -> Node:
    """Expand cel.bind(v, value, e): evaluate e with v bound to the value."""
    variable = arguments[0]
    if not isinstance(variable, Ident):
        raise MacroError(variable.at, "cel.bind() variable names must be simple identifiers")
    return Comprehension(
        at=at, macro="bind", range=ListLiteral(at=at, elements=[]), variable="#unused", variable2=None,
        predicate=None, transform=None, initial=arguments[1], condition=Literal(at=at, value=False),
        step=Ident(at=at, name=variable.name), result=arguments[2], accumulator=variable.name,
    )  # fmt: skip


def _option(*, flat: bool) -> Expander:
    """Expand optional.optMap(v, e): evaluate e with v bound to the optional's value. In optFlatMap e is optional."""

    def expander(at: int, target: Node, arguments: list[Node]) -> Node:
        variable = _variable(arguments[0], "optMap() variable name must be a simple identifier")

        def call(function: str, on: Node | None, *given: Node) -> Node:
            return CallNode(at=at, function=function, target=on, arguments=list(given))

        bound: Node = Comprehension(
            at=at, macro="bind", range=ListLiteral(at=at, elements=[]), variable="#unused", variable2=None,
            predicate=None, transform=None, initial=call("value", target), condition=Literal(at=at, value=False),
            step=Ident(at=at, name=variable), result=arguments[1], accumulator=variable,
        )  # fmt: skip
        made = bound if flat else call("optional.of", None, bound)
        return call("_?_:_", None, call("hasValue", target), made, call("optional.none", None))

    return expander


_MACROS: dict[tuple[str, int], Expander] = {
    ("all", 2): _quantifier("all", 1),
    ("exists", 2): _quantifier("exists", 1),
    ("exists_one", 2): _quantifier("exists_one", 1),
    ("map", 2): _transformer("map", 1, filters=False),
    ("map", 3): _transformer("map", 1, filters=True),
    ("filter", 2): _transformer("map", 1, filters=True, only_filters=True),
    ("all", 3): _quantifier("all", 2),
    ("exists", 3): _quantifier("exists", 2),
    ("exists_one", 3): _quantifier("exists_one", 2),
    ("existsOne", 3): _quantifier("exists_one", 2),
    ("transformList", 3): _transformer("map", 2, filters=False),
    ("transformList", 4): _transformer("map", 2, filters=True),
    ("transformMap", 3): _transformer("transform_map", 2, filters=False),
    ("transformMap", 4): _transformer("transform_map", 2, filters=True),
    ("transformMapEntry", 3): _transformer("transform_map_entry", 2, filters=False),
    ("transformMapEntry", 4): _transformer("transform_map_entry", 2, filters=True),
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _option(flat=False),
    ("optFlatMap", 2): _option(flat=True),
}

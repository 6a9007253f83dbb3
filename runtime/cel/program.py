"""Evaluation: a checked tree becomes closures, one a node, which add up what they cost.

Source: cel-go interpreter (planner.go, interpretable.go, runtimecost.go) and the costs that Kubernetes adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runtime.cel import values
from runtime.cel.actual_costs import call_cost
from runtime.cel.declarations import Environment, Function, Overload, accepts
from runtime.cel.errors import NO_SUCH_OVERLOAD, CostExceededError, EvaluationError, no_such_key
from runtime.cel.libraries.standard import optional_index
from runtime.cel.syntax import (
    ACCUMULATOR,
    Call,
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
from runtime.cel.values import Optional, TypeValue, Value

LIMIT = 1_000_000  # what one evaluation may cost
CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"})
LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40


class Frame:
    """One evaluation. names: variables, those of comprehensions among them; limit: the most that it may cost."""

    __slots__ = ("cost", "limit", "names")

    def __init__(self, names: dict[str, Value], limit: int) -> None:
        self.names = names
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError


Closure = Callable[[Frame], Value]


class Fields:
    """A value whose fields are made when they are read. field: raises EvaluationError."""

    __slots__ = ("field",)

    def __init__(self, field: Callable[[str], Value]) -> None:
        self.field = field


class Program:
    """A compiled expression. references: the declared variables that it reads."""

    __slots__ = ("_closure", "expression", "references")

    def __init__(self, tree: Tree, environment: Environment) -> None:
        self.expression = tree.expression
        self.references = frozenset(tree.references)
        self._closure = _Planner(environment).plan(tree.root)

    def evaluate(self, variables: Mapping[str, Value], limit: int = LIMIT) -> tuple[Value, int]:
        """The value, and what it cost. Raises EvaluationError, CostExceededError; their `cost` says what it was."""
        frame = Frame(dict(variables), limit)
        try:
            value = self._closure(frame)
        except (EvaluationError, CostExceededError) as error:
            error.cost = frame.cost
            raise
        except RecursionError:
            raise EvaluationError("expression recursion limit exceeded") from None
        return value, frame.cost


class _Planner:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._scopes: list[dict[str, str]] = []
        self._count = 0

    def plan(self, node: Node) -> Closure:
        match node:
            case Literal(value=value):
                return lambda _frame: value
            case Ident():
                return self._ident(node.name)
            case Select():
                return self._ident(node.resolved) if node.resolved is not None else self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case StructLiteral():
                return self._struct(node)
            case Comprehension():
                return self._comprehension(node)
        raise AssertionError(node)

    def _ident(self, name: str) -> Closure:
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                name = scope[name]
                break
        else:
            if name not in self._environment.variables:
                constant = TypeValue(name)
                return lambda _frame: constant

        def read(frame: Frame) -> Value:
            frame.cost += 1
            return frame.names[name]

        return read

    def _select(self, node: Select) -> Closure:
        operand, field = self.plan(node.operand), node.field
        if node.test:
            return lambda frame: _has(operand(frame), field)
        if node.optional:

            def chosen(frame: Frame) -> Value:
                frame.cost += 1
                return optional_index(operand(frame), field)

            return chosen

        def select(frame: Frame) -> Value:
            value = operand(frame)
            frame.cost += 1
            try:
                return value[field] if type(value) is dict else _selected(value, field)
            except KeyError:
                raise no_such_key(field) from None

        return select

    def _call(self, node: Call) -> Closure:
        operands = ([node.target] if node.target is not None else []) + node.arguments
        closures = [self.plan(each) for each in operands]
        match node.function:
            case "_&&_":
                return _junction(closures, decisive=False)
            case "_||_":
                return _junction(closures, decisive=True)
            case "_?_:_":
                return _conditional(*closures)
            case "or" | "orValue" if node.overloads[0].startswith("optional_"):
                return _alternative(*closures, unwrap=node.function == "orValue")
            case "@not_strictly_false":
                return _not_strictly_false(closures[0])
        function = self._environment.functions[node.function.removeprefix(".")]
        if node.function == "_[_]" and len(closures) == 2:
            return _index(*closures)
        return self._plain_call(node, function, operands, closures)

    def _plain_call(self, node: Call, function: Function, operands: list[Node], closures: list[Closure]) -> Closure:
        member = node.target is not None
        candidates = [each for each in function.overloads if each.member == member]
        known = [each for each in candidates if each.name in node.overloads]
        exact = len(known) == 1 and not any(_uncertain(each) for each in operands)
        name = function.name
        if exact:
            call = _exact_call(name, known[0], closures)
            return _converted(call) if name in CONVERSIONS and isinstance(operands[0], Literal) else call

        def dispatched(frame: Frame) -> Value:
            arguments = [each(frame) for each in closures]
            overload = _dispatch(candidates, arguments)
            result = overload.implementation(*arguments)
            frame.charge(call_cost(name, overload.name, arguments, result))
            return result

        return dispatched

    def _list(self, node: ListLiteral) -> Closure:
        closures = [self.plan(each) for each in node.elements]
        optionals = node.optionals
        if not optionals and all(isinstance(each, Literal) for each in node.elements):
            constant = [each.value for each in node.elements if isinstance(each, Literal)]
            return lambda _frame: constant

        def make(frame: Frame) -> Value:
            frame.cost += LIST_COST
            if not optionals:
                return [each(frame) for each in closures]
            made = []
            for place, each in enumerate(closures):
                value = each(frame)
                if place not in optionals:
                    made.append(value)
                elif _as_optional(value).present:
                    made.append(value.value)
            return made

        return make

    def _map(self, node: MapLiteral) -> Closure:
        if not node.entries:
            return lambda _frame: {}
        entries = [(self.plan(each.key), self.plan(each.value), each.optional) for each in node.entries]

        def make(frame: Frame) -> Value:
            frame.cost += MAP_COST
            made: dict[Value, Value] = {}
            for key_of, value_of, optional in entries:
                key, value = key_of(frame), value_of(frame)
                if type(key) not in (str, int, bool, values.Uint):
                    raise EvaluationError(f"unsupported key type: {values.type_name(key)}")
                if optional:
                    if not _as_optional(value).present:
                        continue
                    value = value.value
                if values.lookup(made, key)[0]:
                    raise EvaluationError(f"Failed with repeated key: {values.shown(key)}")
                made[key] = value
            return made

        return make

    def _struct(self, node: StructLiteral) -> Closure:
        fields = [(each.name, self.plan(each.value), each.optional) for each in node.fields]

        def make(frame: Frame) -> Value:
            frame.cost += STRUCT_COST
            made: dict[str, Value] = {}
            for name, value_of, optional in fields:
                value = value_of(frame)
                if optional:
                    if not _as_optional(value).present:
                        continue
                    value = value.value
                made[name] = value
            return made

        return make

    def _comprehension(self, node: Comprehension) -> Closure:
        if node.macro == "bind":
            return self._bind(node)
        elements = self.plan(node.range)
        first = self._named(node.variable)
        second = self._named(node.variable2) if node.variable2 is not None else None
        scope = {node.variable: first, ACCUMULATOR: ACCUMULATOR}
        if second is not None and node.variable2 is not None:
            scope[node.variable2] = second
        self._scopes.append(scope)
        predicate = self.plan(node.predicate) if node.predicate is not None else None
        transform = self.plan(node.transform) if node.transform is not None else None
        self._scopes.pop()
        match node.macro:
            case "all" | "exists":
                assert predicate is not None
                return _quantifier(elements, first, second, predicate, decisive=node.macro == "exists")
            case "exists_one":
                assert predicate is not None
                return _exactly_one(elements, first, second, predicate)
        assert transform is not None
        if node.macro == "map":
            return _mapped(elements, first, second, predicate, transform)
        return _mapped_entries(elements, first, second, predicate, transform, keyed=node.macro == "transform_map")

    def _bind(self, node: Comprehension) -> Closure:
        initial = self.plan(node.initial)
        name = self._named(node.accumulator)
        self._scopes.append({node.accumulator: name})
        result = self.plan(node.result)
        self._scopes.pop()

        def bound(frame: Frame) -> Value:
            frame.cost += LIST_COST
            frame.names[name] = initial(frame)
            return result(frame)

        return bound

    def _named(self, variable: str) -> str:
        """A name that no other variable of the expression has, as one may hide another."""
        self._count += 1
        return f"{variable}#{self._count}"


def _uncertain(node: Node) -> bool:
    """Whether the value's type is left to run time: somewhere in its type there is dyn."""
    pending = [node.type]
    while pending:
        kind = pending.pop()
        if kind.kind in ("dyn", "any", "param", "struct"):
            return True
        pending.extend(kind.params)
    return False


def _exact_call(name: str, overload: Overload, closures: list[Closure]) -> Closure:
    implementation, identity = overload.implementation, overload.name

    def exact(frame: Frame) -> Value:
        arguments = [each(frame) for each in closures]
        result = implementation(*arguments)
        frame.charge(call_cost(name, identity, arguments, result))
        return result

    return exact


def _converted(call: Closure) -> Closure:
    """A literal is converted once, and then costs nothing; one that cannot be fails at each evaluation."""
    try:
        constant = call(Frame({}, LIMIT))
    except EvaluationError:
        return call
    return lambda _frame: constant


def _dispatch(candidates: list[Overload], arguments: list[Value]) -> Overload:
    for overload in candidates:
        if len(overload.parameters) == len(arguments) and all(map(accepts, overload.parameters, arguments)):
            return overload
    raise EvaluationError(NO_SUCH_OVERLOAD)


def _as_optional(value: Value) -> Optional:
    if type(value) is not Optional:
        raise EvaluationError(f"cannot initialize optional entry from non-optional value {value}")
    return value


def _has(value: Value, field: str) -> bool:
    if type(value) is Optional:
        return value.present and _has(value.value, field)
    if type(value) is Fields:
        return True  # the checker knows its fields
    if type(value) is not dict:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return field in value


def _selected(value: Value, field: str) -> Value:
    if type(value) is Optional:
        return optional_index(value, field)
    if type(value) is Fields:
        return value.field(field)
    raise EvaluationError(NO_SUCH_OVERLOAD)


def _index(container: Closure, key: Closure) -> Closure:
    def indexed(frame: Frame) -> Value:
        held, at = container(frame), key(frame)
        frame.cost += 1
        if type(held) is Optional:
            return optional_index(held, at)
        return values.index(held, at)

    return indexed


def _junction(closures: list[Closure], *, decisive: bool) -> Closure:
    """Logical or (decisive: True) and and: one decisive operand decides, whatever is wrong with the others."""

    def junction(frame: Frame) -> Value:
        failed: EvaluationError | None = None
        for each in closures:
            try:
                value = each(frame)
            except EvaluationError as error:
                failed = failed or error
                continue
            if value is decisive:
                return decisive
            if type(value) is not bool:
                failed = failed or EvaluationError(NO_SUCH_OVERLOAD)
        if failed is not None:
            raise failed
        return not decisive

    return junction


def _conditional(condition: Closure, then: Closure, otherwise: Closure) -> Closure:
    def conditional(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise EvaluationError(NO_SUCH_OVERLOAD)

    return conditional


def _alternative(optional: Closure, otherwise: Closure, *, unwrap: bool) -> Closure:
    def alternative(frame: Frame) -> Value:
        value = optional(frame)
        if type(value) is not Optional:
            raise EvaluationError(NO_SUCH_OVERLOAD)
        if value.present:
            return value.value if unwrap else value
        return otherwise(frame)

    return alternative


def _not_strictly_false(closure: Closure) -> Closure:
    def not_false(frame: Frame) -> Value:
        try:
            return closure(frame) is not False
        except EvaluationError:
            return True

    return not_false


def _iterated(value: Value, *, pairs: bool) -> Any:
    if type(value) is dict:
        return list(value.items()) if pairs else list(value)
    if isinstance(value, list):
        return enumerate(value) if pairs else value
    if type(value) is Optional:  # as an iteration of nothing or one is no operation of the language
        raise EvaluationError(NO_SUCH_OVERLOAD)
    raise EvaluationError(f"got '{values.type_name(value)}', expected iterable type")


def _set(names: dict[str, Value], first: str, second: str | None, element: Value) -> None:
    if second is None:
        names[first] = element
    else:
        names[first], names[second] = element


def _quantifier(elements: Closure, first: str, second: str | None, predicate: Closure, *, decisive: bool) -> Closure:
    condition_cost = 3 if decisive else 2  # accumulator read and tested, for exists negated as well

    def quantified(frame: Frame) -> Value:
        names = frame.names
        failed: EvaluationError | None = None
        count = 0
        iterated = elements(frame)
        for element in _iterated(iterated, pairs=second is not None):
            count += 1
            frame.charge(condition_cost + 1)
            _set(names, first, second, element)
            try:
                value = predicate(frame)
            except EvaluationError as error:
                failed = failed or error
                continue
            if value is decisive:
                frame.cost += 1 if count == len(iterated) else condition_cost + 1
                return decisive
            if type(value) is not bool:
                failed = failed or EvaluationError(NO_SUCH_OVERLOAD)
        frame.charge(1)
        if failed is not None:
            raise failed
        return not decisive

    return quantified


def _holds(value: Value) -> bool:
    if type(value) is not bool:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return value


def _exactly_one(elements: Closure, first: str, second: str | None, predicate: Closure) -> Closure:
    def exactly_one(frame: Frame) -> Value:
        count = 0
        for element in _iterated(elements(frame), pairs=second is not None):
            frame.charge(1)
            _set(frame.names, first, second, element)
            if _holds(predicate(frame)):
                frame.cost += 1
                count += 1
        frame.charge(2)
        return count == 1

    return exactly_one


def _mapped(
    elements: Closure, first: str, second: str | None, predicate: Closure | None, transform: Closure
) -> Closure:
    def mapped(frame: Frame) -> Value:
        made = []
        for element in _iterated(elements(frame), pairs=second is not None):
            _set(frame.names, first, second, element)
            frame.charge(1)
            if predicate is None or _holds(predicate(frame)):
                frame.cost += LIST_COST + 1
                made.append(transform(frame))
        frame.charge(1)
        return made

    return mapped


def _mapped_entries(
    elements: Closure, first: str, second: str | None, predicate: Closure | None, transform: Closure, *, keyed: bool
) -> Closure:
    def mapped(frame: Frame) -> Value:
        made: dict[Value, Value] = {}
        for element in _iterated(elements(frame), pairs=True):
            _set(frame.names, first, second, element)
            frame.charge(1)
            if predicate is not None and not _holds(predicate(frame)):
                continue
            frame.cost += 2 if keyed else 1
            value = transform(frame)
            for key, each in [(frame.names[first], value)] if keyed else list(value.items()):
                if values.lookup(made, key)[0]:
                    raise EvaluationError(f"insert failed: key {values.shown(key)} already exists")
                made[key] = each
        frame.charge(1)
        return made

    return mapped

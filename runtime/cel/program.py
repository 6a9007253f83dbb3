"""Evaluation: a checked tree becomes closures, one a node, which add up what they cost.

Source: cel-go interpreter (planner.go, interpretable.go, runtimecost.go) and the costs that Kubernetes adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from protocols.late_methods import dataclass
from protocols.patterns import PatternError, compiled
from runtime.cel import effort, values
from runtime.cel.actual_costs import call_cost
from runtime.cel.attributes import Step, resolver, usable_key
from runtime.cel.declarations import Environment, Function, Overload, accepts
from runtime.cel.errors import NO_SUCH_OVERLOAD, CostExceededError, EvaluationError, ProgramError
from runtime.cel.recursion import room
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
from runtime.cel.walking import nodes

LIMIT = 1_000_000  # what one evaluation may cost
CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
SCALARS = frozenset({bool, int, values.Uint, float, str})
SEARCHES = frozenset({"matches", "find", "findAll"})
MOST_MADE = 20_000_000
GROWING = frozenset(
    {"_+_", "replace", "split", "join", "format", "substring", "lowerAscii", "upperAscii", "findAll", "bytes"}
    | {"string", "strings.quote", "lists.range", "slice", "reverse", "flatten", "distinct", "sort"}
    | {"@sortByAssociatedKeys"}
)
LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40


class Frame:
    """One evaluation. names: variables, those of comprehensions among them; limit: the most that it may cost.

    made: elements and characters that were made on the way. Upstream counts them nowhere.
    """

    __slots__ = ("cost", "limit", "made", "names")

    def __init__(self, names: dict[str, Value], limit: int) -> None:
        self.names = names
        self.cost = self.made = 0
        self.limit = limit

    def grow(self, size: int) -> None:
        self.made += size
        if self.made > MOST_MADE:
            raise CostExceededError

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError


Closure = Callable[[Frame], Value]


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A value by the way to it. charge: what it costs beside its steps, unless it is a branch or a key of another.

    A test takes back what the whole costs.
    """

    base: Closure
    steps: tuple[Step, ...]
    charge: int = 1

    @property
    def resolve(self) -> Closure:
        return resolver(self.base, list(self.steps))

    def then(self, step: Step) -> _Attribute:
        return _Attribute(self.base, (*self.steps, step), self.charge - step.tests)


class Program:
    """A compiled expression. references: the declared variables that it reads."""

    __slots__ = ("_closure", "expression", "references")

    def __init__(self, tree: Tree, environment: Environment) -> None:
        self.expression = tree.expression
        self.references = frozenset(tree.references)
        with room():
            self._closure = _Planner(environment).plan(tree.root)

    def evaluate(self, variables: Mapping[str, Value], limit: int = LIMIT) -> tuple[Value, int]:
        """The value, and what it cost. Raises EvaluationError, CostExceededError; their `cost` says what it was."""
        frame = Frame(dict(variables), limit)
        effort.begin()
        with room():
            try:
                return self._closure(frame), frame.cost
            except (EvaluationError, CostExceededError) as error:
                error.cost = frame.cost
                raise


class _Planner:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._scopes: list[dict[str, str]] = []
        self._count = 0
        self._constants: dict[Closure, Value] = {}

    def plan(self, node: Node) -> Closure:
        match node:
            case Literal(value=value):
                return self._constant(value)
            case Ident() | Select() | Call(function="_[_]" | "_[?_]" | "_?_:_"):
                attribute = self._attribute(node)
                return _charged(attribute) if isinstance(attribute, _Attribute) else attribute
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

    def _constant(self, value: Value) -> Closure:
        def constant(_frame: Frame) -> Value:
            return value

        self._constants[constant] = value
        return constant

    def _attribute(self, node: Node) -> _Attribute | Closure:
        """Of anything else than an attribute its closure."""
        match node:
            case Ident():
                return self._variable(node.name)
            case Select(resolved=str(name)):
                return self._variable(name)
            case Select():
                step = Step(node.field, optional=node.optional, tests=node.test)
                return self._extensible(node.operand).then(step)
            case Call(function="_[_]" | "_[?_]"):
                container, key = node.arguments
                return self._extensible(container).then(self._step(key, optional=node.function == "_[?_]"))
            case Call(function="_?_:_"):
                condition, then, otherwise = node.arguments
                branches = (self._resolved(then), self._resolved(otherwise))
                return _Attribute(_conditional(self.plan(condition), *branches), (), charge=0)
        return self.plan(node)

    def _extensible(self, node: Node) -> _Attribute:
        attribute = self._attribute(node)
        return attribute if isinstance(attribute, _Attribute) else _Attribute(attribute, ())

    def _resolved(self, node: Node) -> Closure:
        """Of an attribute without its charge."""
        attribute = self._attribute(node)
        return attribute.resolve if isinstance(attribute, _Attribute) else attribute

    def _step(self, key: Node, *, optional: bool) -> Step:
        computed = self._resolved(key)
        if computed not in self._constants:
            return Step(computed=computed, optional=optional)
        try:
            return Step(usable_key(self._constants[computed]), optional=optional)
        except EvaluationError as error:
            raise ProgramError(str(error)) from None

    def _variable(self, name: str) -> _Attribute | Closure:
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                name = scope[name]
                break
        else:
            if name not in self._environment.variables:
                return self._constant(TypeValue(name))
        return _Attribute(lambda frame: frame.names[name], ())

    def _call(self, node: Call) -> Closure:
        operands = ([node.target] if node.target is not None else []) + node.arguments
        closures = [self.plan(each) for each in operands]
        match node.function:
            case "_&&_":
                return _junction(closures, decisive=False)
            case "_||_":
                return _junction(closures, decisive=True)
            case "or" | "orValue" if node.overloads[0].startswith("optional_"):
                return _alternative(*closures, unwrap=node.function == "orValue")
            case "@not_strictly_false":
                return _not_strictly_false(closures[0])
            case "@in" if node.overloads == ("in_list",) and closures[1] in self._constants:
                known = self._membership(closures[0], self._constants[closures[1]])
                if known is not None:
                    return known
        function = self._environment.functions[node.function.removeprefix(".")]
        if function.name in SEARCHES and len(closures) > 1:
            self._check_pattern(closures[1])
        call = self._plain_call(node, function, operands, closures)
        return self._converted(call) if function.name in CONVERSIONS and closures[0] in self._constants else call

    def _membership(self, value: Closure, elements: list[Value]) -> Closure | None:
        """Membership in a constant list of scalars, which costs nothing; None for another list."""
        if not elements:
            return self._constant(False)
        if not all(type(each) in SCALARS for each in elements):
            return None
        known = frozenset(same for each in elements for same in _same_numbers(each))

        def contained(frame: Frame) -> Value:
            element = value(frame)
            return type(element) in SCALARS and (type(element), element) in known

        return contained

    def _check_pattern(self, pattern: Closure) -> None:
        """A constant pattern that is none is found before anything is evaluated."""
        constant = self._constants.get(pattern)
        if type(constant) is not str:
            return
        try:
            compiled(constant)
        except PatternError as error:
            raise ProgramError(str(error)) from None

    def _converted(self, call: Closure) -> Closure:
        """A constant is converted once, and then costs nothing."""
        try:
            return self._constant(call(Frame({}, LIMIT)))
        except EvaluationError as error:
            raise ProgramError(str(error)) from None

    def _plain_call(self, node: Call, function: Function, operands: list[Node], closures: list[Closure]) -> Closure:
        member = node.target is not None
        candidates = [each for each in function.overloads if each.member == member]
        known = [each for each in candidates if each.name in node.overloads]
        exact = len(known) == 1 and not any(_uncertain(each) for each in operands)
        name = function.name
        identity = known[0].name if len(known) == 1 else ""
        if exact:
            call = _exact_call(name, known[0], closures)
            return _growing(call) if name in GROWING else call

        def dispatched(frame: Frame) -> Value:
            arguments = [each(frame) for each in closures]
            overload = _dispatch(name, candidates, arguments)
            try:
                result = overload.implementation(*arguments)
            except TypeError:  # the first element of a list is of a type that another is not of
                raise EvaluationError(NO_SUCH_OVERLOAD) from None
            frame.charge(call_cost(name, identity, arguments, result))
            return result

        return _growing(dispatched) if name in GROWING else dispatched

    def _list(self, node: ListLiteral) -> Closure:
        closures = [self.plan(each) for each in node.elements]
        optionals = node.optionals
        if not optionals and all(each in self._constants for each in closures):
            return self._constant([self._constants[each] for each in closures])

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
        entries = [(self.plan(each.key), self.plan(each.value), each.optional) for each in node.entries]

        def make(frame: Frame) -> Value:
            frame.cost += MAP_COST
            made: dict[Value, Value] = {}
            for key_of, value_of, optional in entries:
                key, value = key_of(frame), value_of(frame)
                if optional:
                    if not _as_optional(value).present:
                        continue
                    value = value.value
                made[_hashable(key)] = value
            return made

        if all(key in self._constants and value in self._constants for key, value, _optional in entries):
            return self._constant(make(Frame({}, LIMIT)))
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
            constant = transform in self._constants
            return _mapped(elements, first, second, predicate, transform, constant=constant)
        return _mapped_entries(elements, first, second, predicate, transform, keyed=node.macro == "transform_map")

    def _bind(self, node: Comprehension) -> Closure:
        initial = self.plan(node.initial)
        name = self._named(node.accumulator)
        self._scopes.append({node.accumulator: name})
        result = self.plan(node.result)
        self._scopes.pop()
        if not any(isinstance(each, Ident) and each.name == node.accumulator for each in nodes(node.result)):
            return result

        def bound(frame: Frame) -> Value:
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
        if None in arguments and not all(map(accepts, overload.parameters, arguments)):  # of a nullable value
            raise EvaluationError(_mismatch(name, arguments))
        result = implementation(*arguments)
        frame.charge(call_cost(name, identity, arguments, result))
        return result

    return exact


def _growing(call: Closure) -> Closure:
    """Of a call whose result may be larger than what it costs: it ends an evaluation that makes too much."""

    def growing(frame: Frame) -> Value:
        result = call(frame)
        if isinstance(result, (str, bytes, list)):
            frame.grow(len(result))
        return result

    return growing


def _dispatch(name: str, candidates: list[Overload], arguments: list[Value]) -> Overload:
    if name in ("sort", "@sortByAssociatedKeys") and isinstance(arguments[0], list):
        return candidates[0]  # which looks at all elements
    for overload in candidates:
        if len(overload.parameters) == len(arguments) and all(map(accepts, overload.parameters, arguments)):
            return overload
    raise EvaluationError(_mismatch(name, arguments))


NUMBERS = frozenset(values.NUMBERS)
_TIMES = frozenset({values.Duration, values.Timestamp})
_ORDERED = NUMBERS | _TIMES | {bool, str, bytes}
_LISTS = frozenset({list, values.SetList, values.MapList})
OPERANDS: dict[str, frozenset[type]] = {
    "_+_": NUMBERS | _TIMES | _LISTS | {str, bytes},
    "_-_": NUMBERS | _TIMES,
    "_*_": NUMBERS,
    "_/_": NUMBERS,
    "_%_": frozenset({int, values.Uint}),
    "-_": frozenset({bool, int, float}),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ORDERED),
    **dict.fromkeys(("!_", "@in", "contains", "startsWith", "endsWith"), frozenset()),
    "size": frozenset(),
    "matches": frozenset(),
    "sort": _LISTS,
}
"""Functions that cel-go looks up by what their first operand can do, and of which types it can; others by signature."""
NAMELESS = frozenset({"!_", "@in", "contains", "startsWith", "endsWith"})
RECEIVERS = _TIMES | {str}  # which are asked themselves, whatever they can do


def _mismatch(name: str, arguments: list[Value]) -> str:
    operands = OPERANDS.get(name)
    if name in SEARCHES and type(arguments[1]) is str:
        return NO_SUCH_OVERLOAD
    if operands is None:
        return f"{NO_SUCH_OVERLOAD}: {name}({', '.join(map(values.type_name, arguments))})"
    if name in NAMELESS or type(arguments[0]) in operands | RECEIVERS:
        return NO_SUCH_OVERLOAD
    return f"{NO_SUCH_OVERLOAD}: {name}"


def _same_numbers(value: Value) -> Iterator[tuple[type, Value]]:
    """The value with its type, and equal numbers of other types."""
    yield type(value), value
    if type(value) not in values.NUMBERS:
        return
    if type(value) is not float:
        yield float, float(value)
    elif not value.is_integer():
        return
    whole = int(value)
    if values.SMALLEST <= whole <= values.LARGEST:
        yield int, whole
    if 0 <= whole <= values.LARGEST_UINT:
        yield values.Uint, values.Uint(whole)


def _charged(attribute: _Attribute) -> Closure:
    resolve, charge = attribute.resolve, attribute.charge
    if not charge:
        return resolve

    def charged(frame: Frame) -> Value:
        frame.cost += charge
        return resolve(frame)

    return charged


def _hashable(key: Value) -> Value:
    """Of a list or map as a key there is little use, and no equal one."""
    if isinstance(key, (list, dict)):
        raise EvaluationError(f"unsupported key type: {values.type_name(key)}")
    return key


def _as_optional(value: Value) -> Optional:
    if type(value) is not Optional:
        raise EvaluationError(f"cannot initialize optional entry from non-optional value {value}")
    return value


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
            return value
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
    name = values.in_go(value)
    text = f"unsupported comprehension range type: {name}" if pairs else f"got '{name}', expected iterable type"
    raise EvaluationError(text)


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
            _set(frame.names, first, second, element)
            if _holds(predicate(frame)):
                frame.charge(2)
                count += 1
        frame.charge(2)
        return count == 1

    return exactly_one


def _mapped(
    elements: Closure, first: str, second: str | None, predicate: Closure | None, transform: Closure, *, constant: bool
) -> Closure:
    """constant: the transformed value is one, and so is the list of it that is appended."""
    cost = 2 if constant else 2 + LIST_COST

    def mapped(frame: Frame) -> Value:
        made = []
        for element in _iterated(elements(frame), pairs=second is not None):
            _set(frame.names, first, second, element)
            if predicate is None or _holds(predicate(frame)):
                frame.charge(cost)
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
            if predicate is not None and not _holds(predicate(frame)):
                continue
            frame.charge(3 if keyed else 2)
            value = transform(frame)
            if not keyed and type(value) is not dict:
                raise EvaluationError(f"no such overload: cel.@mapInsert(map, {values.type_name(value)})")
            for key, each in [(frame.names[first], value)] if keyed else list(value.items()):
                if values.lookup(made, key)[0]:
                    raise EvaluationError(f"insert failed: key {values.shown(key)} already exists")
                made[key] = each
        frame.charge(1)
        return made

    return mapped

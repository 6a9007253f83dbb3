"""Evaluation: compiles a checked tree into closures, one per node, which also count their cost.

Source: cel-go interpreter (planner.go, interpretable.go, runtimecost.go) and the costs that Kubernetes adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from kcm.protocols.patterns import PatternError, compiled
from kcm.runtime.cel import effort, values
from kcm.runtime.cel.actual_costs import call_cost
from kcm.runtime.cel.attributes import Step, resolver, usable_key
from kcm.runtime.cel.declarations import Environment, Function, Overload, accepts
from kcm.runtime.cel.dispatch import SEARCHES, dispatch, mismatch
from kcm.runtime.cel.errors import NO_SUCH_OVERLOAD, CostExceededError, EvaluationError, ProgramError
from kcm.runtime.cel.folds import exactly_one, mapped, mapped_entries, quantifier
from kcm.runtime.cel.frame import LIMIT, LIST_COST, MAP_COST, STRUCT_COST, Closure, Frame
from kcm.runtime.cel.logic import alternative, conditional, junction, not_strictly_false
from kcm.runtime.cel.recursion import room
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
from kcm.runtime.cel.traversal import nodes
from kcm.runtime.cel.values import Optional, TypeValue, Value

SHALLOW = 30  # levels that are evaluated without raising the recursion limit
CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
SCALARS = frozenset({bool, int, values.Uint, float, str})
GROWING = frozenset(
    {"_+_", "replace", "split", "join", "format", "substring", "lowerAscii", "upperAscii", "findAll", "bytes"}
    | {"string", "strings.quote", "lists.range", "slice", "reverse", "flatten", "distinct", "sort"}
    | {"@sortByAssociatedKeys"}
)


class _Attribute(Struct, frozen=True):
    """Access path to a value: a base and steps from it.

    charge: cost besides that of the steps; 0 if this is a branch of a conditional or the key of another attribute.
        A test (has) is free of this charge.
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
    """Compiled expression. references: the declared variables that it reads."""

    __slots__ = ("_closure", "_is_deep", "expression", "references")

    def __init__(self, tree: Tree, environment: Environment) -> None:
        self.expression = tree.expression
        self.references = frozenset(tree.references)
        self._is_deep = tree.depth > SHALLOW
        with room():
            self._closure = _Planner(environment).plan(tree.root)

    def evaluate(self, variables: Mapping[str, Value], limit: int = LIMIT) -> tuple[Value, int]:
        """Return the value and its cost. Raises EvaluationError or CostExceededError with the cost until then."""
        frame = Frame(dict(variables), limit)
        effort.begin()
        effort.pass_time(effort.OF_EACH)
        try:
            value = self._value(frame)
            frame.pass_time()
            return value, frame.cost
        except (EvaluationError, CostExceededError) as error:
            error.cost = frame.cost
            raise

    def _value(self, frame: Frame) -> Value:
        if not self._is_deep:
            return self._closure(frame)
        with room():
            return self._closure(frame)


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
            case Ident() | Select() | CallNode(function="_[_]" | "_[?_]" | "_?_:_"):
                attribute = self._attribute(node)
                return _charged(attribute) if isinstance(attribute, _Attribute) else attribute
            case CallNode():
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
        """Return the attribute of a node, or the closure of a node that is not an attribute."""
        match node:
            case Ident():
                return self._variable(node.name)
            case Select(resolved=str(name)):
                return self._variable(name)
            case Select():
                step = Step(node.field, optional=node.optional, tests=node.test)
                return self._extensible(node.operand).then(step)
            case CallNode(function="_[_]" | "_[?_]"):
                container, key = node.arguments
                return self._extensible(container).then(self._step(key, optional=node.function == "_[?_]"))
            case CallNode(function="_?_:_"):
                condition, then, otherwise = node.arguments
                branches = (self._resolved(then), self._resolved(otherwise))
                return _Attribute(conditional(self.plan(condition), *branches), (), charge=0)
        return self.plan(node)

    def _extensible(self, node: Node) -> _Attribute:
        attribute = self._attribute(node)
        return attribute if isinstance(attribute, _Attribute) else _Attribute(attribute, ())

    def _resolved(self, node: Node) -> Closure:
        """Return the closure of a node; an attribute is resolved without its charge."""
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

    def _call(self, node: CallNode) -> Closure:
        operands = ([node.target] if node.target is not None else []) + node.arguments
        closures = [self.plan(each) for each in operands]
        match node.function:
            case "_&&_":
                return junction(closures, decisive=False)
            case "_||_":
                return junction(closures, decisive=True)
            case "or" | "orValue" if node.overloads[0].startswith("optional_"):
                return alternative(*closures, unwrap=node.function == "orValue")
            case "@not_strictly_false":
                return not_strictly_false(closures[0])
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
        """Return a closure for membership in a constant list of scalars, which has no cost; None for other lists."""
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
        """Check a constant pattern before the evaluation. Raises ProgramError if it is invalid."""
        constant = self._constants.get(pattern)
        if type(constant) is not str:
            return
        try:
            compiled(constant)
        except PatternError as error:
            raise ProgramError(str(error)) from None

    def _converted(self, call: Closure) -> Closure:
        """Return the converted value of a constant, which then has no cost. Raises ProgramError."""
        try:
            return self._constant(call(Frame({}, LIMIT)))
        except EvaluationError as error:
            raise ProgramError(str(error)) from None

    def _plain_call(self, node: CallNode, function: Function, operands: list[Node], closures: list[Closure]) -> Closure:
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
            overload = dispatch(name, candidates, arguments)
            try:
                result = overload.implementation(*arguments)
            except TypeError:  # the type of the first element of a list differs from that of another
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
                return quantifier(elements, first, second, predicate, decisive=node.macro == "exists")
            case "exists_one":
                assert predicate is not None
                return exactly_one(elements, first, second, predicate)
        assert transform is not None
        if node.macro == "map":
            constant = transform in self._constants
            return mapped(elements, first, second, predicate, transform, constant=constant)
        return mapped_entries(elements, first, second, predicate, transform, keyed=node.macro == "transform_map")

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
        """Return a unique name for a variable, because a variable may hide another variable with the same name."""
        self._count += 1
        return f"{variable}#{self._count}"


def _uncertain(node: Node) -> bool:
    """Report whether a value's type is known only at run time: whether its type contains dyn."""
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
        if None in arguments and not all(map(accepts, overload.parameters, arguments)):  # null, from a nullable field
            raise EvaluationError(mismatch(name, arguments))
        result = implementation(*arguments)
        frame.charge(call_cost(name, identity, arguments, result))
        return result

    return exact


def _growing(call: Closure) -> Closure:
    """Wrap a call to count the size of its result, which may exceed its cost. Too large a total ends the evaluation."""

    def growing(frame: Frame) -> Value:
        result = call(frame)
        if isinstance(result, (str, bytes, list)):
            frame.grow(len(result))
        return result

    return growing


def _same_numbers(value: Value) -> Iterator[tuple[type, Value]]:
    """Yield the value with its type, and equal numbers of other types with theirs."""
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
    """Return a key of a map. Raises EvaluationError for a list or map."""
    if isinstance(key, (list, dict)):
        raise EvaluationError(f"unsupported key type: {values.type_name(key)}")
    return key


def _as_optional(value: Value) -> Optional:
    if type(value) is not Optional:
        raise EvaluationError(f"cannot initialize optional entry from non-optional value {value}")
    return value

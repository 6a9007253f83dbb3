"""Type checker: determines the types of all nodes of a tree, and the overloads that its calls may use.

Source: cel-go checker/checker.go, without a container, as Kubernetes sets it.
"""

from __future__ import annotations

from kcm.runtime.cel import types
from kcm.runtime.cel.declarations import Environment, Function
from kcm.runtime.cel.effort import OF_NODE, pass_time
from kcm.runtime.cel.errors import CompileError, Issue
from kcm.runtime.cel.parser import qualified
from kcm.runtime.cel.syntax import (
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
from kcm.runtime.cel.types import BOOL, DYN, ERROR, INT, Type
from kcm.runtime.cel.values import Uint

LITERALS = {
    bool: BOOL, int: INT, Uint: types.UINT, float: types.DOUBLE, str: types.STRING, bytes: types.BYTES,
    type(None): types.NULL,
}  # fmt: skip


def check(tree: Tree, environment: Environment) -> Type:
    """Annotate the tree's nodes with types and overloads, and return the type of the expression.

    Raises CompileError.
    """
    checker = _Checker(environment)
    checker.check(tree.root)
    if not checker.issues:
        for node in checker.visited:
            node.type = types.substitute(checker.mapping, node.type, free_is_dyn=True)
        for further in environment.checks:
            checker.issues.extend(further(tree))
    if checker.issues:
        raise CompileError(tree.expression, checker.issues)
    tree.references = checker.references
    return tree.root.type


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._scopes: list[dict[str, Type]] = []
        self._free = 0
        self.mapping: types.Mapping = {}
        self.issues: list[Issue] = []
        self.visited: list[Node] = []
        self.references: set[str] = set()

    def check(self, node: Node) -> Type:
        node.type = self._type(node)
        self.visited.append(node)
        pass_time(OF_NODE)
        return node.type

    def _type(self, node: Node) -> Type:
        match node:
            case Literal():
                return LITERALS[type(node.value)]
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
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

    def _issue(self, node_at: int, text: str) -> Type:
        self.issues.append(Issue(node_at, text))
        return ERROR

    def _undeclared(self, at: int, name: str) -> Type:
        return self._issue(at, f"undeclared reference to '{name}' (in container '')")

    def _variable(self, name: str) -> Type | None:
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        kind = self._environment.variables.get(name)
        if kind is not None:
            self.references.add(name)
            return kind
        return _TYPE_NAMES.get(name) or self._declared_type(name)

    def _declared_type(self, name: str) -> Type | None:
        if name in self._environment.structs:
            return types.type_of(types.struct(name))
        return types.type_of(types.opaque(name)) if name in self._environment.type_names else None

    def _ident(self, node: Ident) -> Type:
        found = self._variable(node.name)
        return found if found is not None else self._undeclared(node.at, node.name)

    def _select(self, node: Select) -> Type:
        name = qualified(node) if not node.test else None
        if name is not None:
            found = self._variable(name)
            if found is not None:
                node.resolved = name
                return found
        result = self._field(node)
        if node.test:
            return BOOL
        return types.substitute(self.mapping, result, free_is_dyn=False)

    def _field(self, node: Select) -> Type:
        operand = types.substitute(self.mapping, self.check(node.operand), free_is_dyn=False)
        target, was_optional = types.unwrapped(operand)
        result = ERROR
        match target.kind:
            case "map":
                result = target.params[1]
            case "struct":
                fields = self._environment.structs.get(target.name)
                if fields is None:
                    self._issue(node.at, f"unexpected failed resolution of '{target.name}'")
                elif node.field in fields:
                    result = fields[node.field]
                else:
                    self._issue(node.at, f"undefined field '{node.field}'")
            case "param":
                self._assign((DYN,), (target,))
                result = DYN
            case "dyn" | "any" | "error":
                result = DYN
            case "opaque" if target.name.startswith("kubernetes."):  # structs upstream, without fields
                self._issue(node.at, f"unexpected failed resolution of '{target}'")
            case _:
                self._issue(node.at, f"type '{target}' does not support field selection")
                result = DYN
        return types.optional_of(result) if was_optional or node.optional else result

    def _call(self, node: CallNode) -> Type:
        for argument in node.arguments:
            self.check(argument)
        functions = self._environment.functions
        if node.target is None:
            function = functions.get(node.function.removeprefix("."))
            if function is None:
                return self._undeclared(node.at, node.function)
            return self._resolve(node, function)
        prefix = qualified(node.target)
        namespaced = functions.get(f"{prefix}.{node.function}") if prefix is not None else None
        if namespaced is not None:
            node.function, node.target = namespaced.name, None
            return self._resolve(node, namespaced)
        self.check(node.target)
        function = functions.get(node.function)
        return self._undeclared(node.at, node.function) if function is None else self._resolve(node, function)

    def _resolve(self, node: CallNode, function: Function) -> Type:
        operands = ([node.target] if node.target is not None else []) + node.arguments
        actual = tuple(each.type for each in operands)
        if function.name in ("_&&_", "_||_"):
            return self._logical(node, function)
        names: list[str] = []
        result: Type | None = None
        for overload in function.overloads:
            if overload.member != (node.target is not None):
                continue
            parameters, returned = overload.parameters, overload.result
            if overload.type_parameters:
                fresh = {name: self._fresh() for name in sorted(overload.type_parameters)}
                parameters = tuple(types.substitute(fresh, each, free_is_dyn=False) for each in parameters)
                returned = types.substitute(fresh, returned, free_is_dyn=False)
            if not self._assign(actual, parameters):
                continue
            names.append(overload.name)
            returned = types.substitute(self.mapping, returned, free_is_dyn=False)
            if result is None:
                result = returned
            elif result.kind not in ("dyn", "any") and returned != result:
                result = DYN
        if result is None:
            shown = [str(types.substitute(self.mapping, each, free_is_dyn=True)) for each in actual]
            signature = f"({', '.join(shown)})"
            if node.target is not None:
                signature = f"{shown[0]}.({', '.join(shown[1:])})"
            return self._issue(node.at, f"found no matching overload for '{function.name}' applied to '{signature}'")
        node.overloads = tuple(names)
        return result

    def _logical(self, node: CallNode, function: Function) -> Type:
        fine = True
        for argument in node.arguments:
            fine &= self._must_be(argument, BOOL)
        node.overloads = (function.overloads[0].name,)
        return BOOL if fine else ERROR

    def _must_be(self, node: Node, wanted: Type) -> bool:
        if self._assign((wanted,), (node.type,)):
            return True
        self._issue(node.at, f"expected type '{wanted}' but found '{node.type}'")
        return False

    def _list(self, node: ListLiteral) -> Type:
        joined: Type | None = None
        for position, element in enumerate(node.elements):
            kind = self._held(element, self.check(element), optional=position in node.optionals)
            joined = self._join(joined, kind)
        return types.list_of(joined if joined is not None else self._fresh())

    def _map(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._join(keys, self.check(entry.key))
            kind = self._held(entry.value, self.check(entry.value), optional=entry.optional)
            values = self._join(values, kind)
        if keys is None or values is None:
            return types.map_of(self._fresh(), self._fresh())
        return types.map_of(keys, values)

    def _held(self, node: Node, kind: Type, *, optional: bool) -> Type:
        """Return the type of the value in an element or entry: for an optional one, the type inside the optional."""
        if not optional:
            return kind
        inside, was_optional = types.unwrapped(kind)
        if not was_optional and kind.kind not in ("dyn", "any"):
            self._issue(node.at, f"expected type '{types.optional_of(kind)}' but found '{kind}'")
        return inside

    def _struct(self, node: StructLiteral) -> Type:
        fields = self._environment.structs.get(node.type_name.removeprefix("."))
        if fields is None:
            known = self._variable(node.type_name)
            if known is None:
                return self._undeclared(node.at, node.type_name)
            if known.kind != "type":
                return self._issue(node.at, f"'{known}' is not a type")
            return self._issue(node.at, f"'{known.params[0]}' is not a message type")
        for entry in node.fields:
            kind = self._held(entry.value, self.check(entry.value), optional=entry.optional)
            wanted = fields.get(entry.name)
            if wanted is None:
                self._issue(entry.at, f"undefined field '{entry.name}'")
            elif not self._assign((wanted,), (kind,)):
                text = f"expected type of field '{entry.name}' is '{wanted}' but provided type is '{kind}'"
                self._issue(entry.at, text)
        return types.struct(node.type_name.removeprefix("."))

    def _comprehension(self, node: Comprehension) -> Type:
        self.check(node.range)
        accumulated = self.check(node.initial)
        kind = types.substitute(self.mapping, node.range.type, free_is_dyn=False)
        self._scopes.append({node.accumulator: accumulated})
        first, second = DYN, DYN
        match kind.kind:
            case "list":
                first, second = (INT, kind.params[0]) if node.variable2 is not None else (kind.params[0], DYN)
            case "map":
                first, second = kind.params
            case "dyn" | "error" | "param" | "any":
                self._assign((DYN,), (kind,))
            case _:
                text = f"expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
                first = second = self._issue(node.range.at, text)
        scope = {node.variable: first}
        if node.variable2 is not None:
            scope[node.variable2] = second
        self._scopes.append(scope)
        self.check(node.condition)
        self._must_be(node.condition, BOOL)
        self.check(node.step)
        self._must_be_accumulated(node.step, accumulated)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return types.substitute(self.mapping, result, free_is_dyn=False)

    def _must_be_accumulated(self, step: Node, accumulated: Type) -> None:
        if not self._assign((accumulated,), (step.type,)):
            self._issue(step.at, f"expected type '{accumulated}' but found '{step.type}'")

    def _join(self, previous: Type | None, current: Type) -> Type:
        """Return the common type of an aggregate's elements so far. Other checks report elements of different types."""
        if previous is None:
            return current
        return types.most_general(previous, current) if self._assign((previous,), (current,)) else DYN

    def _fresh(self) -> Type:
        self._free += 1
        return types.param(f"_var{self._free - 1}")

    def _assign(self, targets: tuple[Type, ...], sources: tuple[Type, ...]) -> bool:
        found = types.assigned(self.mapping, targets, sources)
        if found is None:
            return False
        self.mapping = found
        return True


_TYPE_NAMES: dict[str, Type] = {
    "bool": types.type_of(BOOL),
    "bytes": types.type_of(types.BYTES),
    "double": types.type_of(types.DOUBLE),
    "int": types.type_of(INT),
    "uint": types.type_of(types.UINT),
    "string": types.type_of(types.STRING),
    "list": types.type_of(types.list_of(DYN)),
    "map": types.type_of(types.map_of(DYN, DYN)),
    "null_type": types.type_of(types.NULL),
    "type": types.type_of(types.TYPE),
    "optional_type": types.type_of(types.opaque("optional_type")),
    "google.protobuf.Duration": types.type_of(types.DURATION),
    "google.protobuf.Timestamp": types.type_of(types.TIMESTAMP),
}

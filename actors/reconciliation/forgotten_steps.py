"""Detection of statements without effect because their `yield from`, `yield` or `await` is missing.

    must(patch(WEBSITES, key, changes))            # a generator that is never started
    record(WEBSITES, website, "Normal", …)         # a Record that is never sent

The source is analysed once, because detection at run time would slow down every step. Called functions are resolved by
name: globals, methods of the reconciler, and methods of its attributes. Others, such as methods of local variables, are
not checked.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakSet

from kcm.actors.reconciliation import commands
from kcm.actors.reconciliation.outside import call as calling
from kcm.actors.reconciliation.outside import outside

WORDS = frozenset(
    {
        commands.apply,
        commands.create,
        commands.update,
        commands.patch,
        commands.delete,
        commands.get_live,
        commands.list_live,
        commands.merge_status,
        commands.record,
        outside,
    }
)
STEPS = frozenset({calling})  # functions that return a step without being generators
ATTEMPTS = 10
_MISSING = object()
_looked_at: WeakSet[type] = WeakSet()


class ForgottenStep(NamedTuple):
    """Statement without effect."""

    file: str
    line: int
    code: str
    missing: str  # "yield from" or "yield"; in a coroutine "await"


def warn_of_forgotten_steps(reconciler: object, functions: Iterable[Callable[..., Any]] = ()) -> None:
    """Issue a RuntimeWarning for each forgotten step, once for each class of reconcilers.

    functions: functions of the spec that are called with the reconciler.
    """
    if type(reconciler) in _looked_at:
        return
    _looked_at.add(type(reconciler))
    for step in forgotten_steps(reconciler, functions):
        text = f"{step.code!r} does nothing: write `{step.missing} {step.code}`"
        warnings.warn_explicit(text, RuntimeWarning, step.file, step.line)


def forgotten_steps(reconciler: object, functions: Iterable[Callable[..., Any]] = ()) -> list[ForgottenStep]:
    """Return the forgotten steps in these functions, in the reconciler's methods, and in steps that they call."""
    waiting: list[tuple[Any, object]] = [(function, reconciler) for function in functions]
    for base in type(reconciler).__mro__:
        waiting += [(value, reconciler) for value in vars(base).values()]
    seen: set[tuple[Any, type]] = set()
    found: list[ForgottenStep] = []
    while waiting:
        function, owner = waiting.pop()
        function = getattr(function, "__func__", function)  # of a static or class method, or a bound one
        if not isinstance(function, FunctionType) or (function.__code__, type(owner)) in seen:
            continue
        seen.add((function.__code__, type(owner)))
        for call, is_statement in _calls(function):
            called, its_owner = _looked_up(call.func, function, owner)
            if is_statement and called in WORDS:
                found.append(_forgotten(function, call, "yield"))
            elif is_statement and called in STEPS:
                found.append(_forgotten(function, call, "yield from"))
            elif inspect.isgeneratorfunction(called) or inspect.iscoroutinefunction(called):
                waiting.append((called, its_owner))
                if is_statement:
                    found.append(_forgotten(function, call, "yield from"))
    return sorted(found)


def _forgotten(function: FunctionType, call: ast.Call, missing: str) -> ForgottenStep:
    if inspect.iscoroutinefunction(function):
        missing = "await"
    return ForgottenStep(function.__code__.co_filename, call.lineno, ast.unparse(call), missing)


def _calls(function: FunctionType) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls in the function's source, and whether each is a statement. Nothing without a source."""
    definition = _definitions(function.__code__.co_filename).get(function.__code__.co_firstlineno)
    if definition is None:
        return
    for node in ast.walk(definition):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node.value, True
        elif isinstance(node, ast.Call):
            yield node, False


def _parsed(source: str) -> ast.AST | None:
    """Parse the source; None if it is invalid.

    Python 3.11 raises SystemError if another thread parses at the same time (gh-106905), hence the retries.
    """
    for _ in range(ATTEMPTS):
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError):
            return None
        except SystemError:
            continue
    return None


@lru_cache(maxsize=64)
def _definitions(file: str) -> Mapping[int, ast.AST]:
    """Return the function definitions of a file by first line, including decorators. Lambdas are not included."""
    tree = _parsed("".join(linecache.getlines(file)))
    if tree is None:
        return {}
    return {
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]): node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _looked_up(node: ast.expr, function: FunctionType, owner: object) -> tuple[Any, object]:
    """Return the function that this expression calls, and the object it is a method of; (None, owner) if unknown."""
    value = _value(node, function, owner)
    if value is _MISSING:
        return None, owner
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    return value, owner


def _value(node: ast.expr, function: FunctionType, owner: object) -> Any:
    """Return the value of an expression; _MISSING if it is unknown or would need to run a property."""
    code = function.__code__
    if isinstance(node, ast.Name):
        if node.id in code.co_varnames:
            return owner if code.co_argcount and node.id == code.co_varnames[0] == "self" else _MISSING
        if node.id in code.co_freevars:
            return _MISSING
        return function.__globals__.get(node.id, _MISSING)
    if not isinstance(node, ast.Attribute):
        return _MISSING
    holder = _value(node.value, function, owner)
    if holder is _MISSING:
        return _MISSING
    if isinstance(holder, ModuleType):
        return vars(holder).get(node.attr, _MISSING)
    found = inspect.getattr_static(holder, node.attr, _MISSING)
    if isinstance(found, FunctionType) and not isinstance(holder, type):
        return MethodType(found, holder)
    if isinstance(found, staticmethod | classmethod):
        return found.__func__
    if inspect.isdatadescriptor(found):
        is_slot = inspect.ismemberdescriptor(found) and not isinstance(holder, type)
        return getattr(holder, node.attr, _MISSING) if is_slot else _MISSING
    return found

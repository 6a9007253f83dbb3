"""Kubernetes 1.36's CEL environment, and compilation of expressions in it.

Source: k8s.io/apiserver/pkg/cel/environment/base.go.
"""

from __future__ import annotations

import functools

from kcm.runtime.cel.checker import check
from kcm.runtime.cel.costs import Range, SizeOf, estimated
from kcm.runtime.cel.declarations import Environment, merged
from kcm.runtime.cel.effort import OF_EACH, pass_time
from kcm.runtime.cel.libraries.authorization import AUTHORIZATION
from kcm.runtime.cel.libraries.kubernetes import JSON_PATCH, KUBERNETES
from kcm.runtime.cel.libraries.lists import LISTS
from kcm.runtime.cel.libraries.networks import NETWORKS
from kcm.runtime.cel.libraries.standard import STANDARD
from kcm.runtime.cel.libraries.strings import STRINGS
from kcm.runtime.cel.library_costs import call_estimate
from kcm.runtime.cel.parser import parse
from kcm.runtime.cel.program import Program
from kcm.runtime.cel.recursion import room
from kcm.runtime.cel.syntax import Tree
from kcm.runtime.cel.types import Type
from kcm.runtime.cel.validators import CHECKS

OPAQUE_NAMES = frozenset(
    (
        "net.IP",
        "net.CIDR",
    )
)


@functools.cache
def base_environment() -> Environment:
    """Return the environment without variables. It is created once, when the first expression is compiled."""
    functions = merged([STANDARD, STRINGS, LISTS, NETWORKS, KUBERNETES, AUTHORIZATION])
    return Environment(functions, checks=CHECKS, type_names=OPAQUE_NAMES)


@functools.cache
def mutation_environment() -> Environment:
    """Return the base environment with the functions for JSON patches."""
    base = base_environment()
    return Environment(merged([base.functions, JSON_PATCH]), checks=base.checks, type_names=base.type_names)


def checked(expression: str, environment: Environment) -> tuple[Tree, Type]:
    """Parse and check an expression. Return the tree and its type. Raises CompileError with upstream's text."""
    pass_time(OF_EACH + len(expression) // 2)  # for the lexer, and other work in proportion to the length
    with room():
        tree = parse(expression, binds=environment.binds)
        return tree, check(tree, environment)


def compiled_program(expression: str, environment: Environment) -> tuple[Program, Type]:
    tree, kind = checked(expression, environment)
    return Program(tree, environment), kind


def cost_range(tree: Tree, size_of: SizeOf) -> Range:
    with room():
        return estimated(tree, size_of, call_estimate)

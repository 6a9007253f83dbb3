"""Expressions as Kubernetes 1.36 takes them: its environment, and the way from a text to a program.

Source: k8s.io/apiserver/pkg/cel/environment/base.go.
"""

from __future__ import annotations

import functools

from runtime.cel.checker import check
from runtime.cel.costs import Range, SizeOf, estimated
from runtime.cel.declarations import Environment, merged
from runtime.cel.effort import OF_EACH, pass_time
from runtime.cel.libraries.authorization import AUTHORIZATION
from runtime.cel.libraries.kubernetes import JSON_PATCH, KUBERNETES
from runtime.cel.libraries.lists import LISTS
from runtime.cel.libraries.networks import NETWORKS
from runtime.cel.libraries.standard import STANDARD
from runtime.cel.libraries.strings import STRINGS
from runtime.cel.library_costs import call_estimate
from runtime.cel.parser import parse
from runtime.cel.program import Program
from runtime.cel.recursion import room
from runtime.cel.syntax import Tree
from runtime.cel.types import Type
from runtime.cel.validators import CHECKS

OPAQUE_NAMES = frozenset(
    (
        "net.IP",
        "net.CIDR",
    )
)


@functools.cache
def base_environment() -> Environment:
    """Without variables. Made once, when the first expression is compiled."""
    functions = merged([STANDARD, STRINGS, LISTS, NETWORKS, KUBERNETES, AUTHORIZATION])
    return Environment(functions, checks=CHECKS, type_names=OPAQUE_NAMES)


@functools.cache
def mutation_environment() -> Environment:
    """With what JSON patches need."""
    base = base_environment()
    return Environment(merged([base.functions, JSON_PATCH]), checks=base.checks, type_names=base.type_names)


def checked(expression: str, environment: Environment) -> tuple[Tree, Type]:
    """The tree and its type. Raises CompileError, whose text is upstream's."""
    pass_time(OF_EACH + len(expression) // 2)  # for the tokens, and for what else follows from its length
    with room():
        tree = parse(expression)
        return tree, check(tree, environment)


def compiled_program(expression: str, environment: Environment) -> tuple[Program, Type]:
    tree, kind = checked(expression, environment)
    return Program(tree, environment), kind


def cost_range(tree: Tree, size_of: SizeOf) -> Range:
    with room():
        return estimated(tree, size_of, call_estimate)

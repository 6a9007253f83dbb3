"""Expressions that select devices.

Source: k8s.io/dynamic-resource-allocation cel/compile.go (v1.36).
"""

from __future__ import annotations

from functools import cache

from kcm.runtime.cel import types
from kcm.runtime.cel.admission import ANY, Expression
from kcm.runtime.cel.declarations import Environment
from kcm.runtime.cel.language import base_environment
from kcm.runtime.cel.libraries.kubernetes import QUANTITY

_DEVICE = "kubernetes.DRADevice"
_FIELDS = {
    "driver": types.STRING,
    "allowMultipleAllocations": types.BOOL,
    "attributes": types.map_of(types.STRING, types.map_of(types.STRING, types.DYN)),
    "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.opaque(QUANTITY))),
}


@cache
def _environment() -> Environment:
    return base_environment().extended({"device": types.struct(_DEVICE)}, {_DEVICE: _FIELDS})


def expression_problem(text: str) -> str | None:
    """Return why the expression cannot select devices, or None. Its cost is not estimated."""
    compiled = Expression.compiled(text, _environment(), ANY)
    if compiled.problem is None and compiled.type not in (types.BOOL, types.DYN):
        return f"must evaluate to bool or the unknown type, not {compiled.type}"
    return compiled.problem

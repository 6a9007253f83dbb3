"""Expressions that select devices.

    selector = compiled_selector('device.attributes["gpu.example.com"].model == "A100"')
    selector.matches(device_variable("gpu.example.com", device))

Source: k8s.io/dynamic-resource-allocation cel/{cache,compile}.go (v1.36), with the feature gate DRAConsumableCapacity
and without DRAListTypeAttributes, as by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kcm.runtime.cel import types
from kcm.runtime.cel.admission import ANY, Expression
from kcm.runtime.cel.declarations import Environment
from kcm.runtime.cel.errors import CostExceededError, EvaluationError
from kcm.runtime.cel.language import base_environment
from kcm.runtime.cel.libraries.kubernetes import QUANTITY, parsed_quantity, parsed_version
from kcm.runtime.cel.values import DefaultMap, Value, type_name

_DEVICE = "kubernetes.DRADevice"
_FIELDS = {
    "driver": types.STRING,
    "allowMultipleAllocations": types.BOOL,
    "attributes": types.map_of(types.STRING, types.map_of(types.STRING, types.DYN)),
    "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.opaque(QUANTITY))),
}
_MOST_COST = 1_000_000  # of one evaluation; CELSelectorExpressionMaxCost of the API
_KEPT = 256  # compiled expressions; a cluster has a few


@cache
def _environment() -> Environment:
    base = replace(base_environment(), binds=True)
    return base.extended({"device": types.struct(_DEVICE)}, {_DEVICE: _FIELDS})


def _compiled(text: str) -> Expression:
    compiled = Expression.compiled(text, _environment(), ANY)
    if compiled.problem is None and compiled.type not in (types.BOOL, types.DYN):
        problem = f"must evaluate to bool or the unknown type, not {compiled.type}"
        return Expression(text=text, program=None, type=compiled.type, problem=problem)
    return compiled


def expression_problem(text: str) -> str | None:
    """Return why the expression cannot select devices, or None. Its cost is not estimated."""
    return _compiled(text).problem


class SelectorError(Exception):
    """The expression has no value for a device, or the value is not a bool."""


class Selector(Struct, frozen=True):
    """Compiled expression. problem: why it cannot select devices, or None."""

    expression: Expression

    @property
    def problem(self) -> str | None:
        return self.expression.problem

    def matches(self, device: Mapping[str, Value]) -> bool:
        """Report whether the expression selects the device, a result of device_variable. Raises SelectorError."""
        return self.evaluate(device)[0]

    def evaluate(self, device: Mapping[str, Value]) -> tuple[bool, int]:
        """Return the result for a device, and its cost. Raises SelectorError."""
        program = self.expression.program
        if program is None:
            raise SelectorError(self.expression.problem)
        try:
            value, cost = program.evaluate({"device": device}, _MOST_COST)
        except (EvaluationError, CostExceededError) as err:
            raise SelectorError(str(err)) from err
        if type(value) is not bool:
            kind = type_name(value)
            why = f"type conversion error from '{kind}' to 'bool'"
            raise SelectorError(f"CEL result of type {kind} could not be converted to bool: {why}")
        return value, cost


@lru_cache(maxsize=_KEPT)
def compiled_selector(text: str) -> Selector:
    return Selector(_compiled(text))


def device_variable(driver: str, device: Mapping[str, Any]) -> Mapping[str, Value]:
    """Return the value of the variable `device`.

    driver: name of the driver, which is the domain of names without one.
    device: a device of a ResourceSlice.

    Raises SelectorError for an attribute of an unknown type, a malformed version or a malformed quantity.
    """
    attributes: DefaultMap = DefaultMap()
    for name, attribute in (device.get("attributes") or {}).items():
        domain, id_ = _qualified(name, driver)
        try:
            attributes.setdefault(domain, {})[id_] = _attribute_value(attribute)
        except EvaluationError as err:
            raise SelectorError(f"attribute {name}: {err}") from err
    capacity: DefaultMap = DefaultMap()
    for name, amount in (device.get("capacity") or {}).items():
        domain, id_ = _qualified(name, driver)
        try:
            capacity.setdefault(domain, {})[id_] = parsed_quantity(str(amount.get("value") or "0"))
        except EvaluationError as err:
            raise SelectorError(f"capacity {name}: {err}") from err
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
        "attributes": attributes,
        "capacity": capacity,
    }


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, id_ = name.partition("/")
    return (domain, id_) if slash else (driver, name)


def _attribute_value(attribute: Mapping[str, Any]) -> Value:
    for kind in ("int", "bool", "string"):
        if attribute.get(kind) is not None:
            return attribute[kind]
    if attribute.get("version") is None:
        raise EvaluationError("unsupported attribute value")
    try:
        return parsed_version(attribute["version"])
    except EvaluationError as err:
        raise EvaluationError(f"parse semantic version: {err}") from err

"""Device selectors, compared with results of upstream's implementation.

device_expressions.json is recorded by tests/actors/hollow/devices/record_upstream.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.cel.devices import SelectorError, compiled_selector, device_variable

CASES = {case["name"]: case for case in json.loads(Path(__file__).with_name("device_expressions.json").read_bytes())}


@pytest.mark.parametrize("name", CASES)
def test_expression_has_the_result_and_the_cost_of_upstream(name: str) -> None:
    case = CASES[name]
    if case["error"]:
        with pytest.raises(SelectorError, match=re.escape(case["error"])):
            evaluated(case)
    else:
        assert evaluated(case) == (case["match"], case["cost"])


def evaluated(case: Mapping[str, Any]) -> tuple[bool, int]:
    selector = compiled_selector(case["expression"])
    assert selector.problem is None
    return selector.evaluate(device_variable(case["driver"], case["device"]))


def selected(expression: str, **device: Any) -> bool:
    return compiled_selector(expression).matches(device_variable("d.example.com", device))


def test_missing_domain_is_an_empty_map() -> None:
    assert not selected("has(device.attributes['other.example.com'].model)")
    assert not selected("'other.example.com' in device.attributes")
    assert selected("device.attributes['other.example.com'].size() == 0")
    assert selected("device.attributes.all(domain, domain == 'd.example.com')", attributes={"a": {"int": 1}})
    assert selected("device.attributes == device.attributes", attributes={"a": {"int": 1}})
    assert selected("device.capacity.size() == 1", capacity={"memory": {"value": "1Gi"}})


def test_invalid_expression_is_reported_as_a_problem() -> None:
    selector = compiled_selector("device.name == 'x'")
    assert selector.problem is not None
    assert selector.problem.startswith("compilation failed: ")
    with pytest.raises(SelectorError):
        selector.matches(device_variable("d", {}))
    assert compiled_selector("1 + 1").problem == "must evaluate to bool or the unknown type, not int"


def test_malformed_values_are_errors() -> None:
    with pytest.raises(SelectorError, match="attribute v: parse semantic version"):
        selected("true", attributes={"v": {"version": "1"}})
    with pytest.raises(SelectorError, match="attribute v: unsupported attribute value"):
        selected("true", attributes={"v": {"strings": ["a"]}})
    with pytest.raises(SelectorError, match="capacity memory: "):
        selected("true", capacity={"memory": {"value": "much"}})
    with pytest.raises(SelectorError, match="CEL result of type string could not be converted to bool"):
        selected("device.attributes['d.example.com'].a", attributes={"a": {"string": "x"}})

"""Errors of applied objects: their number, and the length of their paths, are limited."""

from __future__ import annotations

import tracemalloc
from typing import Any

from tests.runtime.apiserver.conftest import Api


def applied(containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}


def test_errors_are_reported_up_to_a_number(api: Api) -> None:
    refused = api.patch("pods", "p", applied([{"name": "c", "image": "i"}] * 5_000), form="apply")
    assert refused.status == 500
    assert refused.message.count("duplicate entries for key") == 300
    assert refused.message.endswith("\n  and more")


def test_long_key_of_a_list_is_not_repeated_for_each_field_of_its_element(api: Api) -> None:
    env = [{"name": f"E{number}", "value": "v"} for number in range(5_000)]
    tracemalloc.start()
    try:
        refused = api.patch("pods", "p", applied([{"name": "n" * 100_000, "image": "i", "env": env}]), form="apply")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.status == 422
    assert peak < 50_000_000

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.times import format_micro_time
from tests.runtime.apiserver.conftest import Api

NAME = "kube-system/kube-scheduler"


@pytest.mark.parametrize(
    ("spec", "age", "problem"),
    [
        ({}, 0.0, f"lease {NAME} has no holder"),
        ({"holderIdentity": "", "leaseDurationSeconds": 15}, 0.0, f"lease {NAME} has no holder"),
        ({"holderIdentity": "me", "leaseDurationSeconds": 15}, 15.0, ""),
        ({"holderIdentity": "me", "leaseDurationSeconds": 15}, 16.0, f"lease {NAME} has expired"),
    ],
)
def test_lease_is_held_until_it_expires(api: Api, spec: dict[str, Any], age: float, problem: str) -> None:
    assert api.server.lease_problem("kube-scheduler") == f"lease {NAME} not found"
    if spec:
        spec = {**spec, "renewTime": format_micro_time(api.clock.now())}
    body = {"metadata": {"name": "kube-scheduler"}, "spec": spec}
    assert api.create("leases", body, "kube-system").status == 201
    api.advance(age)
    assert api.server.lease_problem("kube-scheduler") == problem

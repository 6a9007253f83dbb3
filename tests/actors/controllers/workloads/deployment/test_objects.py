from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.controllers.workloads.deployment.objects import resolve_fenceposts
from kcm.actors.controllers.workloads.deployment.plans import new_replica_set_size
from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.deployment.objects import RECREATE, parsed_deployment


@pytest.mark.parametrize(
    "surge, unavailable, desired, resolved",
    [
        ("39%", "39%", 10, (4, 3)),
        (None, "39%", 10, (0, 3)),
        ("39%", None, 10, (4, 0)),
        (None, None, 10, (0, 1)),
        ("0%", "0%", 0, (0, 1)),
        (2, 0, 10, (2, 0)),
        ("1%", "25%", 2, (1, 0)),
        ("0%", "1%", 2, (0, 1)),
        ("150%", "150%", 2, (3, 3)),
    ],
)
def test_surge_is_rounded_up_and_unavailable_down_and_not_both_are_0(
    surge: int | str | None, unavailable: int | str | None, desired: int, resolved: tuple[int, ...]
) -> None:
    assert resolve_fenceposts(surge, unavailable, desired) == resolved


@pytest.mark.parametrize("surge, unavailable", [("oops", "39%"), ("39%", "oops"), ("1.5%", 0), (0, "5"), ([], 0)])
def test_value_that_is_neither_number_nor_percentage_is_rejected(surge: Any, unavailable: int | str) -> None:
    with pytest.raises(ValueError, match="IntOrString"):
        resolve_fenceposts(surge, unavailable, 10)


def test_error_names_the_deployment_and_the_field() -> None:
    with pytest.raises(ValueError, match=r"default/web: spec\.strategy\.rollingUpdate: .*oops"):
        parsed_deployment(max_surge="oops")


@pytest.mark.parametrize(
    "changes, surge, unavailable",
    [
        ({"max_unavailable": 5}, 0, 5),
        ({"max_unavailable": "50%", "max_surge": "50%"}, 5, 5),
        ({"max_unavailable": 20}, 0, 10),
        ({"replicas": 0, "max_unavailable": 5}, 0, 0),
        ({"replicas": 0, "max_surge": 2}, 2, 0),
        ({"strategy": RECREATE}, 0, 0),
        ({"strategy": {"type": "RollingUpdate"}}, 0, 1),
    ],
)
def test_limits_of_surplus_and_unavailable_pods(changes: Object, surge: int, unavailable: int) -> None:
    d = parsed_deployment(**{"replicas": 10, **changes})
    assert (d.max_surge, d.max_unavailable) == (surge, unavailable)


@pytest.mark.parametrize(
    "changes, total, size, wanted",
    [
        ({"replicas": 1, "max_unavailable": 1}, 2, 1, 1),  # at the limit: unchanged
        ({"replicas": 6, "max_surge": 2}, 9, 5, 5),  # above it: unchanged
        ({"replicas": 6, "max_surge": 2}, 4, 2, 6),  # room for 4, and no more are wished for
        ({"replicas": 6, "max_surge": 2}, 7, 1, 2),
        ({"replicas": 1, "strategy": RECREATE}, 2, 0, 1),
    ],
)
def test_new_replica_set_is_scaled_up_within_the_limit(changes: Object, total: int, size: int, wanted: int) -> None:
    assert new_replica_set_size(parsed_deployment(**changes), total=total, size=size) == wanted


@pytest.mark.parametrize("type", ["", "Canary"])
def test_unknown_strategy_is_an_error(type: str) -> None:
    with pytest.raises(ValueError, match=f"default/web: unexpected deployment strategy type: {type}"):
        new_replica_set_size(parsed_deployment(strategy={"type": type}), total=0, size=0)


@pytest.mark.parametrize(
    "spec, complaint",
    [
        ({"strategy": "fast"}, "spec.strategy is not a deployment strategy: 'fast'"),
        ({"strategy": {"type": "RollingUpdate", "rollingUpdate": 3}}, "spec.strategy is not a deployment strategy"),
        ({"replicas": "three"}, "spec.replicas is not a whole number: 'three'"),
        ({"replicas": True}, "spec.replicas is not a whole number: True"),
    ],
)
def test_error_names_the_field_of_wrong_type(spec: Object, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"default/web: {complaint}"):
        parsed_deployment(**spec)


percentages = st.integers(0, 200).map("{}%".format)


@given(st.integers(0, 50) | percentages, st.integers(0, 50) | percentages, st.integers(0, 500))
def test_limits_always_permit_progress(surge: int | str, unavailable: int | str, desired: int) -> None:
    resolved = resolve_fenceposts(surge, unavailable, desired)
    assert min(resolved) >= 0
    assert max(resolved) > 0

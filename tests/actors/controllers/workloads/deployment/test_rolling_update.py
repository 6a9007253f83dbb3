from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.controllers.workloads.deployment.plans import (
    Resize,
    growth_plan,
    shrink_plan,
    spread_plan,
    unavailable_plan,
)
from tests.actors.controllers.workloads.deployment.objects import parsed_deployment, with_available


@pytest.mark.parametrize(
    "surge, old, new, wanted",
    [(0, 10, 0, None), (2, 10, 0, 2), (2, 5, 0, 7), (2, 10, 2, None), (2, 2, 11, 10), (2, 0, 10, None)],
)
def test_new_replica_set_is_scaled_within_surge_and_desired_size(
    surge: int, old: int, new: int, wanted: int | None
) -> None:
    d = parsed_deployment(10, max_surge=surge, max_unavailable=0)
    plan = growth_plan(d, with_available("new", new, 0), [with_available("old", old, old)])
    assert plan == ([] if wanted is None else [Resize("new", wanted)])


@pytest.mark.parametrize(
    "unavailable, old, old_available, new, new_available, sizes",
    [
        (0, 10, 10, 0, 0, [9]),  # both limits are 0, so one pod may be unavailable
        (2, 10, 10, 0, 0, [8]),
        (2, 10, 8, 0, 0, [8]),  # the unavailable pods
        (2, 10, 9, 0, 0, [9, 8]),  # first the unavailable pod, then an available one
        (2, 8, 8, 2, 0, []),  # the new pods are the missing ones
        (2, 8, 8, 2, 1, [7]),
        (2, 0, 0, 10, 10, []),
    ],
)
def test_old_replica_sets_are_scaled_down_within_max_unavailable(
    unavailable: int, old: int, old_available: int, new: int, new_available: int, sizes: Sequence[int]
) -> None:
    d = parsed_deployment(10, max_surge=0, max_unavailable=unavailable)
    plan = shrink_plan(d, with_available("new", new, new_available), [with_available("old", old, old_available)])
    assert plan == [Resize("old", size) for size in sizes]


@pytest.mark.parametrize(
    "new, old, sizes",
    [
        ((2, 3), (3, 2), [2]),  # the unavailable pod; the third pod of the new ReplicaSet is being deleted
        ((2, 3), (3, 3), [2]),
        ((2, 5), (2, 2), []),
        ((4, 5), (1, 1), [0]),
    ],
)
def test_available_pods_beyond_the_size_are_not_counted(
    new: tuple[int, ...], old: tuple[int, ...], sizes: Sequence[int]
) -> None:
    """Rollback to a ReplicaSet that was just scaled down, and whose status is older."""
    d = parsed_deployment(5, max_surge=0, max_unavailable=1)
    plan = shrink_plan(d, with_available("new", *new), [with_available("old", *old)])
    assert plan == [Resize("old", size) for size in sizes]


@pytest.mark.parametrize("available, at_most, size", [(8, 1, 9), (8, 3, 8), (8, 0, None), (10, 3, None)])
def test_unavailable_pods_are_removed_up_to_a_limit(available: int, at_most: int, size: int | None) -> None:
    plan = [] if size is None else [Resize("old", size)]
    assert unavailable_plan([with_available("old", 10, available)], at_most) == (plan, True)


def test_pending_scale_down_stops_the_following_ones() -> None:
    first, lagging, last = (
        with_available("v1", 3, 1, age=3),
        with_available("v2", 2, 4, age=2),
        with_available("v3", 3, 0, age=1),
    )
    assert unavailable_plan([first, lagging, last], 9) == ([Resize("v1", 1)], False)
    d = parsed_deployment(3, max_unavailable=3)
    assert shrink_plan(d, with_available("new", 0, 0), [last, lagging, first]) == [Resize("v1", 1)]


@pytest.mark.parametrize(
    "unavailable, available, size, wanted",
    [(0, 10, 10, 9), (2, 10, 10, 8), (2, 8, 10, None), (2, 10, 0, None), (2, 1, 10, None)],
)
def test_available_pods_are_removed_only_if_enough_remain(
    unavailable: int, available: int, size: int, wanted: int | None
) -> None:
    least = 10 - max(unavailable, 1)
    assert spread_plan({"old": size}, available - least) == ([] if wanted is None else [Resize("old", wanted)])


def test_oldest_replica_sets_are_scaled_down_first() -> None:
    old = [with_available("v2", 4, 4, age=1), with_available("v1", 3, 3, age=2)]
    plan = shrink_plan(parsed_deployment(10, max_unavailable=5), with_available("new", 2, 2), old)
    assert plan == [Resize("v1", 0), Resize("v2", 3)]


pods = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda each: (max(each), min(each)))  # (size, available)


late = st.tuples(st.integers(0, 12), st.integers(0, 12))  # (size, available); pods beyond the size are being deleted


@given(late, st.lists(pods, max_size=3), st.integers(0, 12), st.integers(0, 4), st.integers(0, 4))
def test_step_respects_both_limits(
    new: tuple[int, ...], old: Sequence[tuple[int, ...]], desired: int, surge: int, unavailable: int
) -> None:
    """The new ReplicaSet stays within the surge, and no available pod is removed if too few are available."""
    d = parsed_deployment(desired, max_surge=surge, max_unavailable=unavailable)
    the_new = with_available("new", *new)
    the_old = [with_available(f"v{i}", *each, age=9 - i) for i, each in enumerate(old)]
    total = new[0] + sum(size for size, _ in old)
    grown = dict(growth_plan(d, the_new, the_old)).get("new", new[0])
    assert grown <= desired
    assert grown <= new[0] or total - new[0] + grown <= desired + d.max_surge

    shrunk = dict(shrink_plan(d, the_new, the_old))
    lost = sum(max(0, available - shrunk[f"v{i}"]) for i, (_, available) in enumerate(old) if f"v{i}" in shrunk)
    available = min(new) + sum(available for size, available in old if size > 0)
    assert lost <= max(0, available - (desired - d.max_unavailable))
